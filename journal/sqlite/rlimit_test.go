//go:build linux || darwin

package sqlite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
)

// limitEnv names the file for the test process that has a limit on the size of its files.
const limitEnv = "STILE_JOURNAL_TEST_LIMIT"

// underLimit returns the journal of a test that sets a limit, in the process of its own that it runs
// in; in the first one it waits for that and returns "".
func underLimit(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(limitEnv); path != "" {
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), limitEnv+"="+filepath.Join(t.TempDir(), FileName))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

// A limit on the size of files (RLIMIT_FSIZE) refuses commits as a full disk does. When it
// is lifted, the store goes on without a restart and nothing acknowledged is lost.
func TestFileSizeLimit(t *testing.T) {
	path := underLimit(t)
	if path == "" {
		return
	}
	s := open(t, Options{Path: path})
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(cur uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: cur, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(512 << 10)
	ses := specimen.Start(t, "local:local:a", 1)
	acked := int64(0)
	var refused error
	for refused == nil && acked < 100_000 {
		b := ses.Notes(100)
		if refused = s.Commit([]journal.Batch{b})[0]; refused == nil {
			acked += 100
		}
	}
	wantReason(t, refused, journal.ReasonIO)
	if acked == 0 {
		t.Fatal("nothing was acknowledged below the limit")
	}
	// Still under it: the store opens its file anew and says what it says.
	if err := s.Reopen(); err == nil {
		t.Logf("the store could be opened anew under the limit")
	}
	limit(was.Cur)
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	h, err := s.Head(ctx, "local:local:a")
	if err != nil || h.Seq != acked {
		t.Fatalf("%d records of %d acknowledged, %v", h.Seq, acked, err)
	}
	specimen.Must(t, s, specimen.Start(t, "local:local:b", 2).Notes(100))
}

// Where not even the file that SQLite puts beside a journal can grow, as on a full disk, the
// error says so, and with room again the journal is what it was.
func TestOpenWithoutRoom(t *testing.T) {
	path := underLimit(t)
	if path == "" {
		return
	}
	s := open(t, Options{Path: path})
	specimen.Must(t, s, specimen.Start(t, "local:local:a", 1).Notes(3))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4 << 10, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Path: path})
	if e := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); e != nil {
		t.Fatal(e)
	}
	wantReason(t, err, journal.ReasonIO)
	if !strings.Contains(err.Error(), FileName+"-shm, cannot grow; the disk may be full") {
		t.Errorf("%v", err)
	}
	s = open(t, Options{Path: path})
	if h, err := s.Head(ctx, "local:local:a"); err != nil || h.Seq != 3 {
		t.Errorf("%d records, %v", h.Seq, err)
	}
}
