package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

// ownUser is a user that owns nothing.
var ownUser = &confine.User{UID: 60_123, GID: 60_124}

// asUser is a shell whose programs have a user of their own. The test is skipped where the host
// cannot do that.
func asUser(t *testing.T, b *workbench) func(*Shell) {
	t.Helper()
	for dir := b.dir; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) { // those of t.TempDir are the test's alone
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
				t.Skip("the folder of the test cannot be entered by others: ", err)
			}
		}
	}
	set := func(s *Shell) { s.User, s.Mounts = ownUser, true }
	if box := confine.Probe(); os.Geteuid() != 0 || box.Err() != nil || !box.Mounts {
		t.Skipf("this host is not root with the right to mount: uid %d, %s", os.Geteuid(), box.Layers())
	}
	s := Shell{Workspace: b.w, Sandbox: confine.Probe()}
	set(&s)
	if _, err := NewShell(s); err != nil {
		t.Skip("a file system without mapped mounts: ", err)
	}
	return set
}

// A program has a user of its own and no right of the host's, also where it can make mistakes
// that Landlock does not see; the host's processes are another user's.
func TestProgramsOfTheirOwnUser(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	set := asUser(t, b)
	b.script(t, "who.sh", "#!/bin/sh\nid -u; id -g; id -G\ngrep -E 'Cap(Prm|Eff|Bnd)' status 2>/dev/null\nkill -0 $1 2>/dev/null && echo signal\nrenice -n 5 -p $1 >/dev/null 2>&1 && echo priority\nls -ln mine.txt | cut -d' ' -f3-4\n")
	b.put(t, "mine.txt", "x")
	all := newShell(t, b, set)
	want := fmt.Sprintf("Success|%d\n%d\n%d\n%d %d\n", ownUser.UID, ownUser.GID, ownUser.GID, ownUser.UID, ownUser.GID)
	if got := sh(t, all, fmt.Sprintf("./who.sh %d", os.Getpid())); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// The bound on processes holds for it, which it does not for root.
	b.script(t, "fork.sh", "#!/bin/sh\ni=0\nwhile [ $i -lt 4000 ]; do sleep 30 & i=$((i+1)); done\necho all of them\n")
	few := newShell(t, b, func(s *Shell) { set(s); s.Processes = 8 })
	if got := sh(t, few, "./fork.sh"); strings.Contains(got, "all of them") {
		t.Errorf("processes are not bounded: %.200q", got)
	}
}

// Tools of files and programs work on each other's files: what a program makes is the host's
// user's on the disc, and what the host makes the program may change.
func TestProgramsShareTheirFolder(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	set := asUser(t, b)
	b.put(t, "old/by-host.txt", "one two")
	if err := os.Chmod(filepath.Join(b.dir, "old/by-host.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.put(t, ".git/config", "theirs")
	cache := t.TempDir()
	if err := os.Chmod(filepath.Dir(cache), 0o711); err != nil {
		t.Fatal(err)
	}
	b.script(t, "work.sh", "#!/bin/sh\nset -e\nmkdir -m 700 made; umask 077; echo 'by program' > made/f.txt\nsed -i s/two/2/ old/by-host.txt; echo t > \"$TMPDIR/t\"; echo c > \"$CACHE/c\"; chmod 640 made/f.txt; touch -d 2001-01-01 made/f.txt\necho pwned > .git/config || echo guarded\n")
	shell := newShell(t, b, func(s *Shell) {
		set(s)
		s.Caches, s.Cache = []string{"CACHE"}, func(string) (string, error) { return cache, nil }
	})
	if got := sh(t, shell, "./work.sh"); !strings.HasPrefix(got, "Success|guarded\n") {
		t.Fatal(got)
	}
	all := append(b.w.Tools(), shell...)
	for _, step := range []struct{ tool, args, want string }{
		{"edit", `{"file":"made/f.txt","old":"by program","new":"by both"}`, "Success"},
		{"read", `{"file":"old/by-host.txt"}`, "one 2"},
		{"write", `{"file":"made/by-host.txt","content":"new"}`, "Success"},
		{"shell", `{"command":"grep -r both made"}`, "by both"},
		{"shell", `{"command":"rm made/by-host.txt"}`, "Success"},
	} {
		if got := toolstest.Do(t, all, step.tool, step.args); strings.HasPrefix(got, "code") || !strings.Contains(got, step.want) && step.want != "Success" {
			t.Errorf("%s %s: %q", step.tool, step.args, got)
		}
	}
	for _, p := range []string{"made", "made/f.txt", "old/by-host.txt"} {
		info, err := os.Stat(filepath.Join(b.dir, p))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid() {
			t.Errorf("%s is %d:%d's", p, st.Uid, st.Gid)
		}
	}
}

// Where it cannot be had it is refused, with what to do.
func TestProgramsUserIsRefused(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	box := confine.Sandbox{ABI: 7, Filter: true}
	for name, s := range map[string]Shell{
		"without mounts": {Workspace: b.w, Sandbox: box, User: ownUser},
		"unconfined":     {Workspace: b.w, Sandbox: box, User: ownUser, Unconfined: true},
	} {
		var e *messages.Error
		if _, err := NewShell(s); !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != "program_user" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if real := confine.Probe(); real.Mounts && os.Geteuid() == 0 {
		closed := filepath.Join(b.dir, "closed")
		if err := os.MkdirAll(filepath.Join(closed, "in"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(closed, 0o700); err != nil {
			t.Fatal(err)
		}
		w, err := Open(filepath.Join(closed, "in"), AccessSandbox)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		var e *messages.Error
		if _, err := NewShell(Shell{Workspace: w, Sandbox: real, User: ownUser}); !errors.As(err, &e) || e.Field != "program_user" || !strings.Contains(e.Detail, "0711") {
			t.Error(err)
		}
	}
	for name, ok := range map[string]bool{"root": false, "0": false, "nosuchuser-of-stile": false, "60123": true, "-1": false, "": false, "99999999999": false} {
		if u, err := confine.FindUser(name); (err == nil) != ok || ok && u.UID != ownUser.UID {
			t.Errorf("%q: %v %v", name, u, err)
		}
	}
}
