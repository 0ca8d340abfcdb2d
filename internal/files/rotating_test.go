package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestRotating(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r := Rotating{Path: path, Max: 20, Keep: 2}
	for i := range 9 {
		if _, err := fmt.Fprintf(r, "line %d\n", i); err != nil { // two fit
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"": "line 8\n", ".1": "line 6\nline 7\n", ".2": "line 4\nline 5\n"} {
		if b, err := os.ReadFile(path + name); err != nil || string(b) != want {
			t.Errorf("log%s: %q, %v", name, b, err)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("a third file is kept")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// Nothing is put aside for one line that is larger than a file.
	if _, err := r.Write([]byte(strings.Repeat("x", 30) + "\n")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); len(b) != 31 {
		t.Errorf("%q", b)
	}
}

// Lines of several writers are whole, and none is lost while files are put aside.
func TestRotatingWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const writers, lines = 4, 40
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range lines {
				if _, err := fmt.Fprintf(Rotating{Path: path, Max: 200, Keep: 100}, "writer %d line %d.\n", w, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 200 {
			t.Errorf("%s has %d bytes", filepath.Base(f), len(b))
		}
		for line := range strings.Lines(string(b)) {
			seen[line]++
		}
	}
	for w := range writers {
		for i := range lines {
			if n := seen[fmt.Sprintf("writer %d line %d.\n", w, i)]; n != 1 {
				t.Errorf("line %d of writer %d is there %d times", i, w, n)
			}
		}
	}
}

func TestRotatingErrorsNameNoPath(t *testing.T) {
	dir := t.TempDir()
	if _, err := (Rotating{Path: filepath.Join(dir, "none", "log")}).Write([]byte("x")); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}
