package workspace

import (
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
