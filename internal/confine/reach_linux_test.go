package confine

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// house is a folder of an agent with the host's files in it, as serving in it makes them.
func house(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	return dir
}

func fill(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"agent/data/keys.json": "secret", "agent/agent.yaml": "manifest", "agent/mine.txt": "mine", "agent/below/old.txt": "old",
		"agent/logs/audit-1.jsonl": "secret", "agent/logs/other.txt": "other", "made/agent.yaml": "manifest", "store/tokens.json": "secret", "links/old.txt": "old", "out/old.txt": "old",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	// The host's folder by a link in a folder of others.
	if err := errors.Join(os.Symlink("../links/to", filepath.Join(dir, "agent", "tokens")), os.Symlink("../store", filepath.Join(dir, "links", "to")), os.Link(filepath.Join(dir, "agent/data/keys.json"), filepath.Join(dir, "agent/hard"))); err != nil {
		t.Fatal(err)
	}
}

// within runs a line of a shell within a reach, and gives its output.
func within(t *testing.T, r *Reach, dir, line string) (string, error) {
	t.Helper()
	j, env, clean, err := r.Jail()
	if err != nil {
		t.Fatal(err)
	}
	defer clean()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", line)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + Path}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = Run(cmd, &Limits{Memory: 1 << 30, CPU: time.Minute, Files: 64, FileBytes: 1 << 20}, j)
	return strings.TrimSpace(out.String()), err
}

func TestReach(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is this test's, not another's
	box := Probe()
	if box.Missing() != "" {
		t.Skip(box.Missing())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	dir := house(t)
	at := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(dir, n))
		}
		return all
	}
	apart, kept := at("agent/data", "agent/stile.yaml", "agent/logs/audit-*", "agent/tokens/tokens.json"), at("agent/agent.yaml", "made/agent.yaml")
	guard := &Reach{Sandbox: box, Guard: true, Apart: apart, Kept: kept}
	locked := &Reach{Sandbox: box, Read: at("agent"), Write: at("agent/below", "out", "links"), Apart: apart, Kept: kept}
	wide := &Reach{Sandbox: box, Write: at("."), Apart: apart, Kept: kept}
	dial := "exec 3<>/dev/tcp/127.0.0.1/" + strconv.Itoa(port)
	for _, c := range []struct {
		reaches []*Reach
		line    string
		ok      bool
	}{
		{[]*Reach{guard, locked, wide}, "cat data/keys.json", false},
		{[]*Reach{guard, locked, wide}, "cat hard", false},
		{[]*Reach{guard, locked, wide}, "cat tokens/tokens.json", false},
		{[]*Reach{guard, locked, wide}, "cat ../store/tokens.json", false},
		{[]*Reach{guard, locked, wide}, "cat logs/audit-1.jsonl", false},
		{[]*Reach{guard, locked, wide}, "echo >> data/keys.json", false},
		{[]*Reach{guard, locked, wide}, "echo > data/new", false},
		{[]*Reach{guard, locked, wide}, "echo > stile.yaml", false},
		{[]*Reach{guard, locked, wide}, "echo > logs/audit-2.jsonl", false},
		{[]*Reach{guard, locked, wide}, "mv data below/data", false},
		{[]*Reach{guard, locked, wide}, "rm tokens", false},
		{[]*Reach{guard, locked, wide}, "ln -sfn ../out ../links/to", false},
		{[]*Reach{guard, locked, wide}, "chmod 777 data", false},
		{[]*Reach{guard, locked, wide}, "chmod 777 data/keys.json", false},
		{[]*Reach{guard, locked, wide}, "chmod 000 .", false},
		{[]*Reach{guard, locked, wide}, "echo >> agent.yaml", false},
		{[]*Reach{guard, locked, wide}, "rm agent.yaml", false},
		{[]*Reach{guard, locked, wide}, "touch agent.yaml", false},
		{[]*Reach{guard, locked, wide}, "cat /proc/1/environ", false},
		{[]*Reach{guard, locked, wide}, "cat agent.yaml", true},
		{[]*Reach{guard, locked, wide}, "ls . below", true},
		{[]*Reach{guard, locked, wide}, "cat mine.txt below/old.txt logs/other.txt", true},
		{[]*Reach{guard, locked, wide}, "echo > below/new && mkdir below/folder && mv below/new below/folder && chmod 600 below/folder/new && rm -r below/folder", true},
		{[]*Reach{guard, locked, wide}, "echo >> ../out/old.txt && rm -f ../out/new && echo > ../out/new", true},
		{[]*Reach{guard, wide}, "echo >> mine.txt && cat ../made/agent.yaml && touch mine.txt", true},
		{[]*Reach{locked}, "echo >> mine.txt", false},
		{[]*Reach{guard, wide}, "echo > new", false}, // the folder holds files of the host
		{[]*Reach{guard}, "ls / /proc /etc && cat /etc/passwd /proc/meminfo && echo > /dev/null && ls /tmp", true},
		{[]*Reach{locked, wide}, "cat /etc/passwd", false},
		{[]*Reach{locked, wide}, "cat /proc/meminfo", false},
		{[]*Reach{guard}, dial, true},
		{[]*Reach{locked, wide}, dial, false},
		{[]*Reach{locked, wide}, `echo > "$TMPDIR/x" && echo > "$HOME/y" && [ "$HOME" != "` + os.TempDir() + `" ]`, true},
	} {
		for i, r := range c.reaches {
			if out, err := within(t, r, filepath.Join(dir, "agent"), c.line); (err == nil) != c.ok {
				t.Errorf("%q, reach %d: %v: %s", c.line, i, err, out)
			}
		}
	}
	for name, text := range map[string]string{"agent/data/keys.json": "secret\n", "agent/agent.yaml": "manifest\n", "store/tokens.json": "secret\n", "agent/logs/audit-1.jsonl": "secret\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
			t.Errorf("%s is %q: %v", name, b, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "stile-program-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// A program that nothing could keep from the host's files is refused, and so is one that lies
// among them.
func TestReachIsRefused(t *testing.T) {
	dir := house(t)
	has := Sandbox{ABI: MinLandlockABI, Filter: true}
	for _, c := range []struct {
		r       *Reach
		program string
		field   string
	}{
		{nil, "", ""},
		{&Reach{Sandbox: has, Guard: true}, "/bin/sh", ""},
		{&Reach{Sandbox: Sandbox{ABI: 2, Filter: true}, Guard: true}, "", "isolation"},
		{&Reach{Sandbox: Sandbox{ABI: 7}, Guard: true}, "", "isolation"},
		{&Reach{Sandbox: Sandbox{Why: "gone"}}, "", "isolation"},
		{&Reach{Sandbox: has, Network: true}, "", "network"},
		{&Reach{Sandbox: has, Network: true, Loopback: true}, "", ""},
		{&Reach{Sandbox: has, Guard: true, Apart: []string{filepath.Join(dir, "agent/data")}}, filepath.Join(dir, "agent/data/keys.json"), "entrypoint"},
		{&Reach{Sandbox: has, Guard: true, Apart: []string{filepath.Join(dir, "store")}}, filepath.Join(dir, "agent/tokens/tokens.json"), "entrypoint"},
	} {
		err := c.r.Check(c.program)
		var e *messages.Error
		if (err == nil) != (c.field == "") || errors.As(err, &e) && e.Field != c.field {
			t.Errorf("%+v: %v, want %q", c.r, err, c.field)
		}
	}
}

// Folders with many entries are not opened one by one.
func TestReachIsBounded(t *testing.T) {
	box := Probe()
	if box.Missing() != "" {
		t.Skip(box.Missing())
	}
	dir := house(t)
	g := granter{rules: -1, parts: newParts(&Jail{Apart: []string{filepath.Join(dir, "agent/data")}}), made: maxRules}
	if err := g.grantEntries(filepath.Join(dir, "agent"), readRights); err == nil {
		t.Error("they were")
	}
}
