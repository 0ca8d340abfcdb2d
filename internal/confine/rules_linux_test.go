package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The rules of a guard are kept for the next program, and made anew once anything has changed
// that they rest on: what became the host's meanwhile is out of reach, what is new is in it.
func TestKeptRules(t *testing.T) {
	box := Probe()
	if box.Missing() != "" {
		t.Skip(box.Missing())
	}
	was := settled
	settled = 50 * time.Millisecond // of file systems that keep more than whole seconds
	t.Cleanup(func() { settled = was })
	for name, c := range map[string]struct {
		change       func(at func(string) string) error
		denied, open string // files, after the change
	}{
		"nothing":                     {func(func(string) string) error { return nil }, "data/keys.json", "mine.txt"},
		"a new file":                  {func(at func(string) string) error { return os.WriteFile(at("new.txt"), nil, 0o600) }, "data/keys.json", "new.txt"},
		"a file becomes the host's":   {func(at func(string) string) error { return os.Rename(at("mine.txt"), at("stile.yaml")) }, "stile.yaml", "below/old.txt"},
		"by a pattern":                {func(at func(string) string) error { return os.Rename(at("logs/other.txt"), at("logs/audit-9.jsonl")) }, "logs/audit-9.jsonl", "mine.txt"},
		"a folder becomes the host's": {func(at func(string) string) error { return os.Rename(at("below"), at("later")) }, "later/old.txt", "mine.txt"},
		"by another name of a file":   {func(at func(string) string) error { return os.Link(at("mine.txt"), at("data/other.json")) }, "mine.txt", "below/old.txt"},
		"by a link": {func(at func(string) string) error {
			return errors.Join(os.Remove(at("../links/to")), os.Symlink("../out", at("../links/to")))
		}, "../out/tokens.json", "mine.txt"},
		"a mount": {func(at func(string) string) error {
			err := unix.Mount("none", at("below"), "tmpfs", 0, "")
			if err != nil {
				return errors.Join(errSkip, err)
			}
			return os.WriteFile(at("below/mounted.txt"), nil, 0o644)
		}, "data/keys.json", "below/mounted.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			// Not in a temporary folder: others change the one above all the time.
			dir, err := os.MkdirTemp(".", ".kept-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = unix.Unmount(filepath.Join(dir, "agent/below"), unix.MNT_DETACH) // of the row with a mount
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			if dir, err = filepath.Abs(dir); err != nil {
				t.Fatal(err)
			}
			fill(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "out/tokens.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			at := func(name string) string { return filepath.Join(dir, "agent", name) }
			ready := &Ready{}
			defer ready.Close()
			r := &Reach{
				Ready: ready, Sandbox: box, Guard: true, Kept: []string{at("agent.yaml")},
				Apart: []string{at("data"), at("stile.yaml"), at("logs/audit-*"), at("later"), at("tokens/tokens.json")},
			}
			before := keptOnce(t, r)
			if out, err := within(t, r, at(""), "cat mine.txt below/old.txt logs/other.txt ../out/tokens.json"); err != nil {
				t.Fatalf("before: %s", out)
			}
			if now := keptOnce(t, r); name == "nothing" && now != before {
				t.Error("the rules were made anew for nothing")
			}
			for len(waitingIn(ready)) == 0 { // a jail that the change is to meet
				keptOnce(t, r)
				if out, err := within(t, r, at(""), "true"); err != nil {
					t.Fatalf("before: %s", out)
				}
			}
			if err := c.change(at); errors.Is(err, errSkip) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			for range 2 { // with rules of before and of after
				if out, err := within(t, r, at(""), "cat "+c.denied); err == nil {
					t.Errorf("%s can be read: %s", c.denied, out)
				}
				if out, err := within(t, r, at(""), "cat "+c.open); err != nil {
					t.Errorf("%s cannot be read: %s", c.open, out)
				}
				keptOnce(t, r)
			}
		})
	}
}

var errSkip = errors.New("this machine does not let the test do it")

// keptOnce makes rules until they are kept, and returns them.
func keptOnce(t *testing.T, r *Reach) *keptRules {
	t.Helper()
	for {
		j, _, clean, err := r.Jail()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := j.ruleset()
		if err != nil {
			t.Fatal(err)
		}
		clean()
		_ = unix.Close(fd)
		guards.Lock()
		k := guards.sets[j.guardKey()]
		guards.Unlock()
		if k != nil {
			return k
		}
		for dir := filepath.Dir(j.Apart[0]); ; dir = filepath.Dir(dir) {
			if !local(dir) {
				t.Skip("rules are not kept for a folder of another machine: ", dir)
			}
			if dir == "/" {
				break
			}
		}
		time.Sleep(settled / 2) // until the folder has been left alone for long enough
	}
}
