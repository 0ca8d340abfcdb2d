package confine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

var roomy = Limits{Memory: 4 << 30, Files: 64, FileBytes: 1 << 20, CPU: time.Minute}

// script runs a line of the shell under limits and gives what it writes.
func script(ctx context.Context, line string, l Limits) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := Run(cmd, &l, nil)
	return strings.TrimSpace(out.String()), err
}

// The limits hold for the program and for what it starts.
func TestLimitsAreInherited(t *testing.T) {
	l := Limits{Memory: 3 << 30, Files: 17, FileBytes: 1 << 20, CPU: 1500 * time.Millisecond}
	out, err := script(t.Context(), "/bin/sh -c 'ulimit -v; ulimit -n; ulimit -f; ulimit -t; ulimit -c'", l)
	if want := "3145728\n17\n2048\n2\n0"; err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

// What a program leaves behind in its group ends with it: the pipe that it holds open is
// closed before Run returns.
func TestNothingOfTheGroupStays(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 1000 >&3 & echo started")
	cmd.ExtraFiles = []*os.File{w}
	err = Run(cmd, &roomy, nil)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestContextEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "echo up; sleep 1000")
	cmd.Stdout = w
	ended := make(chan error, 1)
	go func() { ended <- Run(cmd, &roomy, nil) }()
	if _, err := r.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o700, "text": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"run": filepath.Join(dir, "run"), "/bin/sh": "/bin/sh"} {
		if got, err := Program(dir, name); err != nil || got != want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "text", "out", "../run", "gone", ".", "/", "/gone"} {
		got, err := Program(dir, name)
		if err == nil {
			t.Errorf("%q: got %s", name, got)
		} else if strings.Contains(err.Error(), dir) {
			t.Errorf("%q: the error names the folder: %v", name, err)
		}
	}
	if _, err := Program("", "run"); err == nil {
		t.Error("a program of no folder is found")
	}
}

func TestServer(t *testing.T) {
	p, err := Server{Entrypoint: []string{"sh", "-c", "echo $PATH; read x; echo bad >&2; exit 3"}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len(Path)+1)
	if _, err := p.Stdout.Read(line); err != nil || string(line) != Path+"\n" {
		t.Errorf("got %q, %v", line, err)
	}
	if got := p.Ended(); got != "it runs" {
		t.Errorf("it says %q", got)
	}
	p.Stop(time.Minute) // it ends by itself, once its input is closed
	if got := p.Ended() + ": " + p.Output(); got != "exit status 3: bad" {
		t.Errorf("it says %q", got)
	}
	for _, entry := range [][]string{nil, {""}, {"no-such-program-here"}} {
		if _, err := (Server{Entrypoint: entry}).Start(); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
