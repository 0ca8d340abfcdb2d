package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostEnv makes the test process a host that runs one command and does not end.
const hostEnv = "STILE_CONFINE_TEST_HOST"

// A command ends with its host, however that ends: also one that the host has stopped and
// not yet let go.
func TestCommandsEndWithTheirHost(t *testing.T) {
	if file := os.Getenv(hostEnv); file != "" {
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", `echo $$ >"$0.new" && mv "$0.new" "$0" && exec sleep 1000`, file)
		err := Run(cmd, &Limits{Memory: 512 << 20, CPU: time.Minute, Files: 64, FileBytes: 1 << 20}, nil)
		t.Fatalf("the command ended: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	host := exec.Command(self, "-test.run=^TestCommandsEndWithTheirHost$")
	host.Env = append(os.Environ(), hostEnv+"="+file)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	var pid string
	for pid == "" {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		pid = strings.TrimSpace(string(b))
		time.Sleep(time.Millisecond)
	}
	if stateOf(pid) == "" {
		t.Fatalf("there is no process %s", pid)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	host.Wait()
	for stateOf(pid) != "" { // the test's own limit ends a wait that has no end
		time.Sleep(time.Millisecond)
	}
}

// stateOf returns the state of a process that has not ended, "" of another.
func stateOf(pid string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	if state := rest[:1]; state != "Z" && state != "X" {
		return state
	}
	return ""
}
