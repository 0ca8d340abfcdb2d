//go:build unix

package host

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/audit"
)

// An audit log that is a pipe waits for no reader: without one each line is refused, and a host
// does not begin. With one the lines reach it.
func TestAuditIntoAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newLedger(AuditFile(path)); !errors.Is(err, syscall.ENXIO) || !strings.Contains(err.Error(), path) {
		t.Errorf("without a reader: %v", err)
	}
	// One that takes the place of a file, under a host that keeps a chain in it.
	log := audit.File{Path: path}
	for _, err := range []error{log.Check(), log.Append(func(string) ([]byte, error) { return []byte("{}"), nil })} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("in the place of a file: %v", err)
		}
	}
	if _, err := log.Head(); err == nil {
		t.Error("a pipe has a last line")
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // waits for no writer
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l, err := newLedger(AuditFile(path))
	if err == nil {
		err = l.add(AuditEntry{Action: "here"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || !strings.Contains(line, `"here"`) {
		t.Errorf("%q, %v", line, err)
	}
}
