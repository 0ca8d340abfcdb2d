package catalog

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// shell is a command whose program is a named shell.
func shell(t *testing.T, dir, script string, change func(*Command)) tools.Tool {
	t.Helper()
	d := Command{Name: "own.cmd", Dir: dir, Entrypoint: []string{"/bin/sh", "-c", script}, Params: Parameters{{Name: "o", Type: "integer"}, {Name: "s", Type: "string", Required: true}}}
	if change != nil {
		change(&d)
	}
	tool, err := NewCommand(d)
	if err != nil {
		t.Fatal(err)
	}
	if detail := tool.Validate(); detail != nil {
		t.Fatal(detail)
	}
	return tool
}

func call(args ...neuroscript.Value) *tools.Call {
	return &tools.Call{SID: "a:b:c", Key: "key", Attempt: 2, Epoch: 3, Args: args}
}

func TestCommand(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	const hostile = `$(touch pwned) ${s} '; touch pwned; "`
	for _, c := range []struct {
		name, script string
		change       func(*Command)
		want         string
	}{
		{"arguments", "cat", nil, `{"o":7,"s":"$(touch pwned) ${s} '; touch pwned; \""}`},
		{"arguments in hand", "stat -L -c %s /dev/stdin", nil, "52"}, // and not in a pipe that a host fills while it lives
		{"no result", "exit 0", nil, "null"},
		{"environment", `env | sort | grep -v ^_= | grep -v ^PWD= | tr '\n' ' ' | sed 's/.*/"&"/'`, nil, `"LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin STILE_ATTEMPT=2 STILE_EPOCH=3 STILE_KEY=key STILE_SESSION=a:b:c "`},
		{
			"limits", `echo "[$(ulimit -v),$(ulimit -t),$(ulimit -n),$(ulimit -f),$(ulimit -c)]"`,
			func(d *Command) { d.Memory, d.CPU, d.Files = 64<<20, 1500*time.Millisecond, 20 }, "[65536,2,20,131072,0]",
		},
		{"default limits", `echo "[$(ulimit -v),$(ulimit -t),$(ulimit -n),$(ulimit -f),$(ulimit -c)]"`, nil, "[1048576,60,64,131072,0]"},
		{"a program in Go", "HOME=/tmp GOTOOLCHAIN=local exec " + goTool + " env -json GOOS", nil, `{"GOOS":"linux"}`},
		{"a program in Go without room", "HOME=/tmp " + goTool + ` env 2>&1 | grep -o "failed to reserve page summary memory" >&2; exit 2`, func(d *Command) { d.Memory = 512 << 20 }, "error: exit status 2: failed to reserve page summary memory; it may have 536870912 bytes of address space"},
		{"no memory, in its words", "echo MemoryError >&2; exit 1", nil, "error: exit status 1: MemoryError; it may have 1073741824 bytes of address space: resources.memory of the tool sets that"},
		{"own group", `[ "$(cut -d' ' -f5 /proc/$$/stat)" = $$ ] && echo true`, nil, "true"},
		{"status", "echo oh  no >&2; echo 1; exit 3", nil, "error: exit status 3: oh no"},
		{"no JSON", "echo hello", nil, "error: the result is no JSON"},
		{"too much", "yes", func(d *Command) { d.Output = 100 }, "error: the result is over its limit of 100 bytes"},
		{"just enough", "echo 12345", func(d *Command) { d.Output = 6 }, "12345"},
		{"many errors", "head -c 100000 /dev/zero | tr '\\0' x >&2; echo 1", nil, "1"},
		{"processor", "while :; do :; done", func(d *Command) { d.CPU = time.Second }, "error: signal: killed"},
		{"does not read", "exec 0<&-; echo 1", nil, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			tool := shell(t, dir, c.script, c.change)
			v, err := tool.Run(t.Context(), call(neuroscript.String(hostile), neuroscript.Number(7)))
			raw, _ := neuroscript.AppendJSON(nil, v)
			got := string(raw)
			if err != nil {
				_, got = Failure(err)
				got = "error: " + got
			}
			if got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
				t.Errorf("in the folder: %v %v", all, err)
			}
		})
	}
	for _, args := range [][]neuroscript.Value{{{}}, {neuroscript.Number(1)}} {
		tool := shell(t, t.TempDir(), "cat", nil)
		if _, err := tool.Run(t.Context(), call(args...)); err == nil {
			t.Errorf("arguments %v", args)
		}
	}
}

// Nothing of the group outlives the command, whether it ends or is stopped: who still
// held the pipe would keep its reader from the end.
func TestCommandGroup(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"ends", "sleep 1000 3>pipe & exec 3>pipe; echo 1", ""},
		{"cancelled", "sleep 1000 3>pipe & exec 3>pipe; echo >&3; sleep 1000", "stop"},
		{"deaf", "trap '' TERM INT HUP; sleep 1000 3>pipe & exec 3>pipe; echo >&3; while :; do sleep 1000; done", "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				tool := shell(t, dir, c.script, nil)
				_, err := tool.Run(ctx, call(neuroscript.String("x")))
				ended <- err
			}()
			pipe, err := os.Open(filepath.Join(dir, "pipe"))
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			if c.want != "" {
				if _, err := pipe.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				cancel(errors.New(c.want))
			}
			if err := <-ended; (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("ended with %v", err)
			}
			if _, err := io.ReadAll(pipe); err != nil {
				t.Error(err)
			}
			cancel(nil)
		})
	}
	// Many at once, each with the limits of its own.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			tool := shell(t, t.TempDir(), "ulimit -n", func(d *Command) { d.Files = int64(20 + i) })
			v, err := tool.Run(t.Context(), call(neuroscript.String("x")))
			if n, _ := v.AsInt(); err != nil || n != int64(20+i) {
				t.Errorf("%d: %v %v", i, v, err)
			}
		})
	}
	all.Wait()
}

// A command that is refused something tells its author by which rule.
func TestCommandReach(t *testing.T) {
	box := confine.Probe()
	if box.Missing() != "" {
		t.Skip(box.Missing())
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keys.json"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	apart := []string{filepath.Join(dir, "keys.json")}
	for _, c := range []struct {
		reach  *confine.Reach
		script string
		want   string
	}{
		{nil, "cat keys.json >&2; echo 1", "1"},
		{&confine.Reach{Sandbox: box, Guard: true, Apart: apart}, "cat keys.json", "error: exit status 1: cat: keys.json: Permission denied; the host's own files are out of its reach, and folders in which they lie, such as the agent's, take no new files: a folder below takes them; implementation.confine of the tool changes that"},
		{&confine.Reach{Sandbox: box, Read: []string{dir}, Apart: apart}, "cat keys.json", "error: exit status 1: cat: keys.json: Permission denied; it reaches the agent's folder to read, a temporary folder, and what the manifest names; implementation.confine of the tool changes that"},
		{&confine.Reach{Sandbox: box, Read: []string{dir}, Apart: apart}, `echo 2 > "$TMPDIR/x" && cat "$HOME/x"`, "2"},
	} {
		tool := shell(t, dir, c.script, func(d *Command) { d.Reach = c.reach })
		v, err := tool.Run(t.Context(), call(neuroscript.String("x")))
		raw, _ := neuroscript.AppendJSON(nil, v)
		got := string(raw)
		if err != nil {
			_, got = Failure(err)
			got = "error: " + got
		}
		if got != c.want {
			t.Errorf("%q gives %s, want %s", c.script, got, c.want)
		}
	}
}

func TestCommandProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o700, "text": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \"[$#,\\\"$1\\\"]\"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{"", "text", "out", "../x", "gone", ".", "sh", "/", "/gone"} {
		if _, err := NewCommand(Command{Name: "a.b", Dir: dir, Entrypoint: []string{entry}}); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%q: %v", entry, err)
		}
		if _, err := NewCommand(Command{Name: "a.b", Dir: dir, Entrypoint: []string{entry}, Absent: true}); err != nil {
			t.Errorf("%q in a replay: %v", entry, err)
		}
	}
	tool, err := NewCommand(Command{Name: "a.b", Dir: dir, Entrypoint: []string{"run", "${s} $(id) *"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tool.Run(t.Context(), call())
	if raw, _ := neuroscript.AppendJSON(nil, v); err != nil || string(raw) != `[1,"${s} $(id) *"]` {
		t.Errorf("%s %v", raw, err)
	}
}
