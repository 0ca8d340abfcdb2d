package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// isolations are those of this host that have a mount namespace. A test is skipped where there
// are none.
func isolations(t *testing.T) map[string]func(*Shell) {
	t.Helper()
	all := map[string]func(*Shell){}
	if box := confine.Probe(); box.Err() == nil && box.Mounts {
		all["namespace"] = func(s *Shell) { s.Mounts = true }
	} else {
		t.Logf("not tried: this host cannot give programs a mount namespace: %s", box.Layers())
	}
	if _, err := confine.Bubblewrap(); err == nil {
		all["bubblewrap"] = func(s *Shell) { s.Bubblewrap, s.Sandbox = true, confine.Sandbox{} }
	} else {
		t.Logf("not tried: %v", err)
	}
	if len(all) == 0 {
		t.Skip("this host has neither")
	}
	return all
}

// treasure fills a workspace with what programs must leave alone, and returns what it is.
func treasure(t *testing.T, b *workbench) (state func() string) {
	t.Helper()
	for name, text := range map[string]string{
		".git/config": "theirs", ".git/hooks/pre-commit": "theirs", ".env": "theirs", ".env.local": "theirs", "sub/.vscode/tasks.json": "theirs",
		"data/keys.json": "secret", "data/deep/x": "secret", "agent.yaml": "secret", "mine.txt": "mine", "victim": "pwned",
	} {
		b.put(t, name, text)
	}
	return func() string {
		var all strings.Builder
		for _, top := range []string{".git", ".env", ".env.local", "sub", "data", "agent.yaml"} {
			err := filepath.WalkDir(filepath.Join(b.dir, top), func(p string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				text := ""
				if info.Mode().IsRegular() {
					was, _ := os.ReadFile(p)
					text = info.ModTime().String() + string(was)
				}
				if info.IsDir() && d.Name() != "sub" {
					text = info.ModTime().String()
				}
				all.WriteString(strings.Join([]string{p, info.Mode().String(), text}, " ") + "\n")
				return nil
			})
			if err != nil {
				all.WriteString(err.Error() + "\n")
			}
		}
		return all.String()
	}
}

// Programs of the shell neither change what other programs act on, nor find the host's files,
// although both lie in their folder. Each attack succeeds without the namespace.
func TestShellGuards(t *testing.T) {
	attacks := []string{
		"echo pwned > .git/config", "echo pwned >> .env", ": > .env.local", "rm .env", "rm -r .git", "mv .git old", "mv .env old", "mv victim .env", "mv victim .git/config",
		"mkdir .git/refs", "touch .git/x", "ln .env hard; echo pwned > hard", "ln .git/config hard; echo pwned > hard", "ln -s .git g; echo pwned > g/config", "chmod 777 .git/config", "chmod 600 $PWD/.git/config", "ln -s $PWD/.git/config l; chmod 600 l",
		"touch -d 2001-01-01 .git/config", "touch -d 2001-01-01 $PWD/.env", "cd .git; echo pwned > config", "cd .git/hooks; cd ..; echo pwned > config", "mv sub moved; echo pwned > moved/.vscode/tasks.json", "rm -r sub/.vscode", "echo pwned > sub/.vscode/new",
		"grep secret data/keys.json", "grep -r secret data/deep", "grep secret agent.yaml", "cd data; grep secret keys.json", "cd sub; grep secret ../data/keys.json", "ln data/keys.json hard; grep secret hard",
		"echo pwned > agent.yaml", "echo pwned > data/tokens.json", "mv data data2", "rm -r data", "mv victim agent.yaml", "chmod 777 data", "chmod 644 $PWD/data/keys.json", "cp agent.yaml copy; grep secret copy", "test -n \"$(ls data)\"",
	}
	b := newWorkbench(t, AccessSandbox)
	state := treasure(t, b)
	b.w.Deny(filepath.Join(b.dir, "data"), filepath.Join(b.dir, "agent.yaml"))
	for i, a := range attacks {
		b.script(t, fmt.Sprintf("attack%d.sh", i), "#!/bin/sh\nset -e\n"+a+"\n")
	}
	b.script(t, "attack.sh", fmt.Sprintf("#!/bin/sh\ni=0\nwhile [ $i -lt %d ]; do ./attack$i.sh && echo attack $i succeeded; i=$((i+1)); test -d sub || mv moved sub; done\ntrue", len(attacks)))
	was := state()
	for how, set := range isolations(t) {
		got := sh(t, newShell(t, b, set), "./attack.sh")
		if !strings.HasPrefix(got, "Success|") || strings.Contains(got, "succeeded") || state() != was {
			t.Errorf("%s: %q; before:\n%safter:\n%s", how, got, was, state())
		}
	}
	for _, a := range attacks {
		free := newWorkbench(t, AccessSandbox)
		treasure(t, free)
		cmd := exec.Command("sh", "-ec", a)
		cmd.Dir = free.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("without a jail %s is no attack: %v %s", a, err, out)
		}
	}
}

// The rest of the folder is the program's, and what the manifest opens.
func TestShellGuardsLeaveTheRest(t *testing.T) {
	for how, set := range isolations(t) {
		t.Run(how, func(t *testing.T) { leaveTheRest(t, set) })
	}
}

func leaveTheRest(t *testing.T, set func(*Shell)) {
	b := newWorkbench(t, AccessSandbox)
	treasure(t, b)
	b.w.Editable(".git")
	b.script(t, "work.sh", "#!/bin/sh\nset -e\necho new > mine.txt\nmkdir made; mv made sub/made\ncat .env sub/.vscode/tasks.json\necho ours > .git/config; chmod 600 .git/config\ntouch -d 2001-01-01 mine.txt\n")
	all := newShell(t, b, set)
	if got := sh(t, all, "./work.sh"); got != "Success|theirstheirs" {
		t.Fatal(got)
	}
	if got, _ := os.ReadFile(filepath.Join(b.dir, ".git/config")); string(got) != "ours\n" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "mine.txt")); err != nil || info.ModTime().Year() > 2001 {
		t.Error(info, err)
	}
	if got := sh(t, all, "cat tasks.json", "sub/.vscode"); got != "Success|theirs" {
		t.Error(got)
	}
}

// What a program makes under a guarded name has another one after it, with a word about that.
// Nothing is lost, and nothing older is touched.
func TestShellSetsAsideWhatProgramsMake(t *testing.T) {
	for how, set := range isolations(t) {
		t.Run(how, func(t *testing.T) { setsAside(t, set) })
	}
}

func setsAside(t *testing.T, set func(*Shell)) {
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "sub/.git/config", "theirs")
	b.put(t, "aside.env", "older")
	if err := os.Symlink("sub", filepath.Join(b.dir, ".idea")); err != nil {
		t.Fatal(err)
	}
	b.script(t, "make.sh", "#!/bin/sh\nset -e\nmkdir .git; echo '[core] fsmonitor=./pwn' > .git/config\necho x > .env; mkdir -p a/b/.vscode\nmv sub moved\nrm .idea; mkdir .idea\necho made\n")
	all := newShell(t, b, set)
	got := sh(t, all, "./make.sh")
	for _, want := range []string{"Success|made\n", ".git is read-only here: what the program made is now aside.git\n", "what the program made is now aside-2.env\n", "a/b/.vscode is read-only here: what the program made is now a/b/aside.vscode\n", ".idea is read-only here: what the program made is now aside.idea\n", ".idea is read-only here: it is again the link that it was\n", "workspace.editable"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	for name, want := range map[string]string{"aside.git/config": "[core] fsmonitor=./pwn\n", "aside-2.env": "x\n", "aside.env": "older", "moved/.git/config": "theirs"} {
		if is, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(is) != want {
			t.Errorf("%s: %q %v", name, is, err)
		}
	}
	for _, gone := range []string{".git", ".env", "a/b/.vscode"} {
		if _, err := os.Lstat(filepath.Join(b.dir, gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(b.dir, ".idea")); err != nil || to != "sub" {
		t.Error(to, err)
	}
	if got := sh(t, all, "true"); got != "Success|" {
		t.Errorf("the next call: %q", got)
	}
	// In the place of a file that the host would read, such as its settings.
	b.w.Deny(filepath.Join(b.dir, "stile.yaml"))
	b.script(t, "settings.sh", "#!/bin/sh\necho 'agents: [evil.yaml]' > stile.yaml\n")
	if got := sh(t, newShell(t, b, set), "./settings.sh"); !strings.Contains(got, "stile.yaml belongs to the host: what the program made is now asidestile.yaml\n") {
		t.Error(got)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, "stile.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// In a tree with more folders than are searched, nothing that may be older is renamed.
func TestGuardsOfALargeTree(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	const most = 8
	for i := range most + 4 {
		if err := os.Mkdir(filepath.Join(b.dir, fmt.Sprint("d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g, err := b.w.guards(most)
	if err != nil {
		t.Fatal(err)
	}
	defer g.root.Close()
	if g.whole || len(g.looked) != most {
		t.Fatal(g.whole, len(g.looked))
	}
	var unseen string
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !g.looked[e.Name()] {
			unseen = e.Name()
		}
	}
	b.put(t, unseen+"/.env", "older, as far as this call knows")
	b.put(t, ".env", "made")
	if notes := b.w.settle(g); len(notes) != 1 || !strings.HasPrefix(notes[0], ".env is read-only here") {
		t.Errorf("%q", notes)
	}
	if _, err := os.Stat(filepath.Join(b.dir, unseen, ".env")); err != nil {
		t.Error(err)
	}
}

// What no mount can hide is refused before anything is run, and so is a host that makes no
// namespaces, if the manifest asks for one.
func TestShellNeedsWhatItAsksFor(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "real.yaml", "x")
	if err := os.Symlink("real.yaml", filepath.Join(b.dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	box := confine.Sandbox{ABI: 7, Filter: true}
	refused := func(s Shell, field string) {
		t.Helper()
		var e *messages.Error
		if _, err := NewShell(s); !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != field {
			t.Errorf("%v, want %s", err, field)
		}
	}
	refused(Shell{Workspace: b.w, Sandbox: box, Mounts: true}, "shell.isolation")
	box.Mounts = true
	for _, p := range []string{"link.yaml", "."} {
		w, err := Open(b.dir, AccessSandbox)
		if err != nil {
			t.Fatal(err)
		}
		w.Deny(filepath.Join(b.dir, p))
		refused(Shell{Workspace: w, Sandbox: box}, "workspace.root")
		if w.Bare(b.dir) == "" {
			t.Errorf("%s can be hidden", p)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewShell(Shell{Workspace: b.w, Sandbox: box, Mounts: true}); err != nil {
		t.Error(err)
	}
}
