package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// No two parts of a SID give one folder, on no file system, and none leads elsewhere.
func TestPart(t *testing.T) {
	long := strings.Repeat("a", 120)
	seen := map[string]string{}
	for _, part := range []string{
		"ann", "Ann", "ANN", "aNn", "a.b", "a_b", "a-b", ".", "..", "...", "_", "__", "_2e", "_2E", "-", "a", "A", "h-x", "H-x", ".git", ".stile-users",
		long, long + "b", strings.ToUpper(long), "_x" + strings.Repeat("0", 64), strings.Repeat("A", 40), strings.Repeat("a", 100), strings.Repeat("a", 101), "",
	} {
		got := strings.ToLower(Part(part))
		if before, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", before, part, got)
		}
		seen[got] = part
		if got != Part(part) || got == "" || len(got) > maxPart || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("%q is %q", part, got)
		}
	}
}

func FuzzPart(f *testing.F) {
	f.Add("Ann", "ann")
	f.Add("_41nn", "Ann")
	f.Add(strings.Repeat("x", 101), "_x")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && strings.EqualFold(Part(a), Part(b)) {
			t.Errorf("%q and %q are both %q", a, b, Part(a))
		}
	})
}

// A folder of a user is opened inside its own and nowhere else, also when something is in
// its place, and tools of the one above do not enter it.
func TestBelow(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	w, err := Open(dir, AccessProject)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.Deny(filepath.Join(dir, UsersDir, "user", "acme", "ann", "denied"))
	ann, err := w.Below(UsersDir, "user", "acme", "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer ann.Close()
	at := filepath.Join(dir, UsersDir, "user", "acme", "ann")
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 || !ann.Stays() {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(at, "x"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := ann.place("x"); err != nil || p != "x" {
		t.Errorf("%q, %v", p, err)
	}
	if _, err := ann.parent("denied"); err == nil {
		t.Error("what is denied above is not denied below")
	}
	for _, p := range []string{UsersDir, UsersDir + "/user/acme/ann/x", "./" + UsersDir + "/user", "a/.Stile-Users/b", ".STILE-USERS", ".\u017ftile-user\u017f/x", ".stile\u200c-users", UsersDir + "/"} {
		if _, err := w.place(p); err == nil {
			t.Errorf("%q is reached", p)
		}
	}
	if err := os.RemoveAll(at); err != nil || ann.Stays() {
		t.Errorf("a folder that was removed stays: %v", err)
	}
	for name, put := range map[string]func(string) error{
		"link": func(p string) error { return os.Symlink(outside, p) },
		"file": func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		for _, at := range []string{"a", "a/b"} {
			p := filepath.Join(dir, name, filepath.FromSlash(at))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := put(p); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Below(name, "a", "b"); messages.CodeOf(err) != messages.ErrConfig {
				t.Errorf("%s at %s: %v", name, at, err)
			}
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A folder is removed with all that is in it, and nothing that links lead to, in it or in the
// place of a folder on the way.
func TestForget(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	dir, elsewhere := b.w.Dir(), t.TempDir()
	kept := filepath.Join(elsewhere, "acme", "ann", "kept.txt")
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o700), os.WriteFile(kept, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, UsersDir, "user", "acme", "ann")
	locked := filepath.Join(at, "deep", "locked")
	if err := errors.Join(os.MkdirAll(filepath.Join(locked, "in"), 0o700), os.Symlink(filepath.Dir(kept), filepath.Join(at, "link")), os.Chmod(locked, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is none
		if err := Forget(dir, UsersDir, "user", "acme", "ann"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	for _, place := range []string{filepath.Join(dir, UsersDir, "user", "acme"), filepath.Join(dir, UsersDir, "user")} {
		to := elsewhere
		if filepath.Base(place) == "acme" {
			to = filepath.Join(elsewhere, "acme")
		}
		if err := errors.Join(os.RemoveAll(place), os.Symlink(to, place)); err != nil {
			t.Fatal(err)
		}
		if err := Forget(dir, UsersDir, "user", "acme", "ann"); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", place, err)
		}
	}
	if err := Forget(filepath.Join(dir, "missing"), UsersDir, "user", "acme", "ann"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what a link leads to is gone: %v", err)
	}
}
