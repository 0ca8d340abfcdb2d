package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// What is there stays under Create and Copy, and is replaced whole by Replace; all is for
// the owner's eyes alone, and nothing temporary stays behind.
func TestWholeFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := files.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a")
	for _, step := range []struct {
		name string
		do   func() error
		want error
		has  string
	}{
		{"create", func() error { return files.Create(path, []byte("one")) }, nil, "one"},
		{"create again", func() error { return files.Create(path, []byte("two")) }, fs.ErrExist, "one"},
		{"replace", func() error { return files.Replace(path, []byte("three")) }, nil, "three"},
		{"copy over it", func() error { return files.Copy(path, path) }, fs.ErrExist, "three"},
		{"copy", func() error { return files.Copy(path, filepath.Join(dir, "b")) }, nil, "three"},
		{"copy of nothing", func() error { return files.Copy(filepath.Join(dir, "none"), filepath.Join(dir, "c")) }, fs.ErrNotExist, "three"},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != step.has {
			t.Errorf("%s: the file has %q, %v", step.name, b, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

// No error names a path of the host.
func TestErrorsNameNoPath(t *testing.T) {
	dir := t.TempDir()
	_, err := os.Open(filepath.Join(dir, "none"))
	if got := files.Cause(err); !errors.Is(got, fs.ErrNotExist) || strings.Contains(got.Error(), dir) {
		t.Errorf("%v", got)
	}
	var e *messages.Error
	if err := files.Create(filepath.Join(dir, "no", "a"), nil); !errors.As(err, &e) || e.Code != messages.ErrConfig || e.File != "a" {
		t.Errorf("%v", err)
	}
}

// A lock that is held is waited for, and not for ever.
func TestLockWithin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := files.LockWithin(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.LockWithin(path, time.Millisecond); !errors.Is(err, files.ErrHeld) {
		t.Errorf("%v", err)
	}
	unlock()
	if unlock, err = files.LockWithin(path, 0); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A file that is not there is told from one that cannot be looked for.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Find(dir, "a", "journal"); err != nil {
		t.Error(err)
	}
	for in, want := range map[string]string{
		dir:                         "there is no journal in this directory: no such file or directory",
		filepath.Join(dir, "none"):  "there is no journal in this directory: no such file or directory",
		file:                        "the journal in this directory cannot be looked for: not a directory",
		filepath.Join(file, "deep"): "the journal in this directory cannot be looked for: not a directory",
	} {
		err := files.Find(in, "b", "journal")
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != "dir" || e.File != in || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
