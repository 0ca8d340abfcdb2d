package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// waitingIn returns the jails that wait, once those that are under way have been made.
func waitingIn(r *Ready) (all []*readyJail) {
	r.ended.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, is := range r.jails {
		all = append(all, is)
	}
	return all
}

// readyFolder returns a reach of a folder with jails that wait.
func readyFolder(t *testing.T) (r *Reach, dir string) {
	t.Helper()
	box := Probe()
	if box.Missing() != "" {
		t.Skip(box.Missing())
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work", "read", "other"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ready := &Ready{}
	t.Cleanup(func() { _ = ready.Close() })
	return &Reach{Sandbox: box, Read: []string{filepath.Join(dir, "read")}, Write: []string{filepath.Join(dir, "work")}, Ready: ready}, dir
}

// temps are the temporary folders of programs that there are.
func temps(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(os.TempDir(), "stile-program-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The next program finds a jail that waits: the same folders, a temporary one of its own, its
// limits, its group, and nothing of the program before.
func TestReady(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, dir := readyFolder(t)
	line := `pwd; echo $HOME; ls -A $HOME; echo x >$HOME/left; cat ` + dir + `/read/file ` + dir + `/work/file; echo y >>` + dir + `/work/new; cat ` + dir + `/other/file; ulimit -n; echo $(($(ps -o pgid= -p $$ 2>/dev/null || echo $$) == $$))`
	seats, homes := map[*seat]bool{}, map[string]bool{}
	var first string
	for i := range 4 {
		for _, is := range waitingIn(r.Ready) {
			seats[is.seat] = true
		}
		out, err := within(t, r, dir+"/work", line)
		if err != nil {
			t.Fatalf("%d: %v\n%s", i, err, out)
		}
		lines := strings.SplitN(out, "\n", 3)
		homes[lines[1]] = true
		if i == 0 {
			first = lines[2]
		} else if lines[2] != first {
			t.Errorf("%d: %q, and at first %q", i, lines[2], first)
		}
	}
	if len(seats) != 3 || len(homes) != 4 {
		t.Errorf("%d threads waited for 3 programs; %d temporary folders of 4", len(seats), len(homes))
	}
	if !strings.Contains(first, "readwork") || !strings.Contains(first, "ermission denied") {
		t.Errorf("%q", first)
	}
	if n := len(waitingIn(r.Ready)); n != 1 || len(temps(t)) != 1 {
		t.Errorf("%d wait, temporary folders %q", n, temps(t))
	}
	_ = r.Ready.Close()
	if n := len(waitingIn(r.Ready)); n != 0 || len(temps(t)) != 0 || waiting.Load() != 0 {
		t.Errorf("closed: %d wait, %d are counted, temporary folders %q", n, waiting.Load(), temps(t))
	}
	if out, err := within(t, r, dir+"/work", "cat file"); err != nil || out != "work" || len(waitingIn(r.Ready)) != 0 {
		t.Errorf("closed: %q, %v", out, err)
	}
}

// A jail that waits is not used once what its rules rest on has changed: the program has the
// folders that there are now, and no right to those of before.
func TestReadyJailsThatDoNotHold(t *testing.T) {
	for name, change := range map[string]func(r *Reach, dir string) error{
		"the folder is another": func(_ *Reach, dir string) error {
			return errors.Join(os.Rename(dir+"/work", dir+"/before"), os.Rename(dir+"/other", dir+"/work"), os.Rename(dir+"/before", dir+"/other"))
		},
		"a link in its place": func(_ *Reach, dir string) error {
			return errors.Join(os.Rename(dir+"/work", dir+"/before"), os.Symlink("other", dir+"/work"))
		},
		"the folder to read is another": func(_ *Reach, dir string) error {
			return errors.Join(os.Rename(dir+"/read", dir+"/before"), os.Rename(dir+"/other", dir+"/read"), os.Rename(dir+"/before", dir+"/other"))
		},
		"its temporary folder is gone": func(r *Reach, _ string) error { return os.Remove(waitingIn(r.Ready)[0].temp) },
		"a part becomes the host's": func(r *Reach, dir string) error {
			return errors.Join(os.Remove(dir+"/later"), os.Symlink("work/file", dir+"/later"))
		},
		"another's folder": func(_ *Reach, dir string) error {
			if os.Geteuid() != 0 {
				return errSkip
			}
			return os.Chown(dir+"/work", 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := readyFolder(t)
			if err := os.Symlink("nowhere", dir+"/later"); err != nil {
				t.Fatal(err)
			}
			r.Apart = []string{dir + "/later"}
			if out, err := within(t, r, dir, "cat work/file read/file"); err != nil || out != "workread" {
				t.Fatalf("%q, %v", out, err)
			}
			all := waitingIn(r.Ready)
			if len(all) != 1 {
				t.Fatalf("%d wait", len(all))
			}
			if err := change(r, dir); errors.Is(err, errSkip) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			j, _, clean, err := r.Jail()
			if err != nil {
				t.Fatal(err)
			}
			if j.seat != nil {
				t.Error("the jail is used")
			}
			clean()
			want := map[string]string{"the folder is another": "otherread", "a link in its place": "otherread", "the folder to read is another": "workother", "a part becomes the host's": "read"}[name]
			if want == "" {
				want = "workread"
			}
			for range 2 {
				out, _ := within(t, r, dir, "cat work/file read/file 2>/dev/null")
				if out != want {
					t.Errorf("%q, want %q", out, want)
				}
				if out, err := within(t, r, dir, "cat other/file"); err == nil && name != "a link in its place" {
					t.Errorf("what is not its own: %q", out)
				}
				waitingIn(r.Ready)
			}
		})
	}
}

// A program that needs a mount namespace does not begin on a thread that waited without one.
func TestReadyWithoutMounts(t *testing.T) {
	r, dir := readyFolder(t)
	if !r.Sandbox.Mounts {
		t.Skip("this host makes no mount namespaces")
	}
	if out, err := within(t, r, dir, "cat work/file"); err != nil {
		t.Fatalf("%q, %v", out, err)
	}
	if len(waitingIn(r.Ready)) != 1 {
		t.Fatal("none waits")
	}
	j, _, clean, err := r.Jail()
	if err != nil || j.seat == nil {
		t.Fatal("none is used: ", err)
	}
	j.Hidden = []string{dir + "/work/file"}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/bin/cat", dir+"/work/file")
	cmd.Stdout = &out
	if err := Run(cmd, &roomy, j); err != nil || out.Len() != 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
	clean()
	if n := len(waitingIn(r.Ready)); n != 0 {
		t.Errorf("%d wait for a program that would not take them", n)
	}
}

// The jails that wait are bounded, for an agent and for the process; the oldest goes. Programs
// that come together have a jail each, and one that waits is left after a while.
func TestReadyIsBounded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, dir := readyFolder(t)
	reach := func(i int) *Reach {
		own := *r
		own.Write = []string{filepath.Join(dir, fmt.Sprint("folder-", i))}
		if err := os.MkdirAll(own.Write[0], 0o755); err != nil {
			t.Fatal(err)
		}
		return &own
	}
	var all []*readyJail
	for i := range maxReady + 2 {
		if out, err := within(t, reach(i), dir, "echo x >"+fmt.Sprint("folder-", i)+"/x"); err != nil {
			t.Fatalf("%q, %v", out, err)
		}
		all = waitingIn(r.Ready)
	}
	if len(all) != maxReady || len(temps(t)) != maxReady || waiting.Load() != maxReady {
		t.Errorf("%d wait, %d are counted, temporary folders %q", len(all), waiting.Load(), temps(t))
	}
	if slices.ContainsFunc(all, func(is *readyJail) bool { return slices.Contains(is.jail.Write, dir+"/folder-0") }) {
		t.Error("the oldest was not the one that went")
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if out, err := within(t, r, dir, "cat work/file"); err != nil || out != "work" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	group.Wait()
	if n := len(waitingIn(r.Ready)); n != maxReady {
		t.Errorf("%d wait", n)
	}
	r.Ready.mu.Lock()
	left := map[string]*readyJail{}
	for key, is := range r.Ready.jails {
		left[key] = is
	}
	r.Ready.mu.Unlock()
	for key, is := range left {
		r.Ready.forget(key, is) // as its timer does
	}
	if n := len(waitingIn(r.Ready)); n != 0 || len(temps(t)) != 0 || waiting.Load() != 0 {
		t.Errorf("%d wait, %d are counted, temporary folders %q", n, waiting.Load(), temps(t))
	}
	waiting.Add(maxWaiting) // others' of this process
	defer waiting.Add(-maxWaiting)
	if out, err := within(t, r, dir, "cat work/file"); err != nil || out != "work" || len(waitingIn(r.Ready)) != 0 {
		t.Errorf("%q, %v", out, err)
	}
}
