package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func openFiles(t *testing.T, dir string) *Files {
	t.Helper()
	f, err := NewFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestFiles(t *testing.T) {
	base := t.TempDir()
	dir, secret := filepath.Join(base, "jail"), filepath.Join(base, "secret")
	for _, d := range []string{dir, filepath.Join(dir, "sub"), filepath.Join(dir, "empty")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, secret, "secret")
	write(t, filepath.Join(dir, "a.txt"), "one\r\ntwo\nżółw")
	write(t, filepath.Join(dir, "sub", "b.txt"), "b\n")
	write(t, filepath.Join(dir, "bytes"), "a\xff")
	write(t, filepath.Join(dir, "void"), "")
	write(t, filepath.Join(dir, "full"), strings.Repeat("x", MaxFileReadBytes))
	write(t, filepath.Join(dir, "over"), strings.Repeat("123456789\n", MaxFileReadBytes/10+1))
	for link, to := range map[string]string{
		"out": secret, "up": "../secret", "proc": "/proc/self/environ", "procdir": "/proc", "in": "sub/b.txt", "null": "/dev/null", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := openFiles(t, dir).Tools()
	s := neuroscript.String
	n := func(f float64) neuroscript.Value { return neuroscript.Number(f) }

	for _, c := range []struct {
		tool string
		args []neuroscript.Value
		want string // a prefix
	}{
		{"file.read", []neuroscript.Value{s("a.txt")}, `["one\r\ntwo\nżółw"]`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(2)}, `["two\nżółw"]`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(2), n(1)}, `["two\n"]`},
		{"file.read", []neuroscript.Value{s("a.txt"), {}, n(1)}, `["one\r\n"]`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(9), n(1)}, `[""]`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(1), n(1 << 53)}, `["one\r\ntwo\nżółw"]`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(0)}, `code 4: argument from_line`},
		{"file.read", []neuroscript.Value{s("a.txt"), n(1), n(0)}, `code 4: argument max_lines`},
		{"file.read", []neuroscript.Value{s("void")}, `[""]`},
		{"file.read", []neuroscript.Value{s("./sub/../sub/b.txt")}, `["b\n"]`},
		{"file.read", []neuroscript.Value{s("in")}, `["b\n"]`},
		{"file.read", []neuroscript.Value{s("bytes")}, `code 41: bytes is not UTF-8`},
		{"file.read", []neuroscript.Value{s("full")}, `["xxx`},
		{"file.read", []neuroscript.Value{s("over")}, `code 21: over: more than 1 MiB`},
		{"file.read", []neuroscript.Value{s("over"), n(100000), n(1)}, `["123456789\n"]`},
		{"file.read", []neuroscript.Value{s("none")}, `code 21: none: no such file`},
		{"file.read", []neuroscript.Value{s("sub")}, `code 21: sub: a directory`},
		{"file.read", []neuroscript.Value{s(".")}, `code 21: .: a directory`},
		{"file.read", []neuroscript.Value{s("a.txt/b")}, `code 21: a.txt/b: not a directory`},
		{"file.read", []neuroscript.Value{s("pipe")}, `code 21: pipe: not a regular file`},
		{"file.read", []neuroscript.Value{s("")}, `code 4: argument path`},
		{"file.read", []neuroscript.Value{s("a\x00b")}, `code 4: argument path`},
		{"file.read", []neuroscript.Value{n(1)}, `code 4: argument path`},
		{"file.read", nil, `code 4: argument path`},
		{"file.read", []neuroscript.Value{s("../secret")}, `code 1003: ../secret: outside`},
		{"file.read", []neuroscript.Value{s("sub/../../secret")}, `code 1003`},
		{"file.read", []neuroscript.Value{s(secret)}, `code 1003`},
		{"file.read", []neuroscript.Value{s("/etc/passwd")}, `code 1003`},
		{"file.read", []neuroscript.Value{s("/proc/self/environ")}, `code 1003`},
		{"file.read", []neuroscript.Value{s("out")}, `code 1003: out: outside`},
		{"file.read", []neuroscript.Value{s("up")}, `code 1003: up: outside`},
		{"file.read", []neuroscript.Value{s("proc")}, `code 1003`},
		{"file.read", []neuroscript.Value{s("procdir/self/environ")}, `code 1003`},
		{"file.read", []neuroscript.Value{s("null")}, `code 1003`},
		{"file.read", []neuroscript.Value{s("loop")}, `code 21: loop: too many levels`},

		{"file.list", nil, `[["a.txt", "bytes", "empty/", "full", "in", "loop", "null", "out", "over", "pipe", "proc", "procdir", "sub/", "up", "void"]]`},
		{"file.list", []neuroscript.Value{s("sub")}, `[["b.txt"]]`},
		{"file.list", []neuroscript.Value{s("empty")}, `[[]]`},
		{"file.list", []neuroscript.Value{s("a.txt")}, `code 21: a.txt: not a directory`},
		{"file.list", []neuroscript.Value{s("none")}, `code 21: none: no such file`},
		{"file.list", []neuroscript.Value{s("pipe")}, `code 21: pipe: not a directory`},
		{"file.list", []neuroscript.Value{s("..")}, `code 1003`},
		{"file.list", []neuroscript.Value{s("/")}, `code 1003`},
		{"file.list", []neuroscript.Value{s("procdir")}, `code 1003`},

		{"file.stat", []neuroscript.Value{s("sub/b.txt")}, `[{"modified": "`},
		{"file.stat", []neuroscript.Value{s("none")}, `[nil]`},
		{"file.stat", []neuroscript.Value{s("out")}, `code 1003`},
		{"file.stat", []neuroscript.Value{s("../secret")}, `code 1003`},
		{"file.stat", nil, `code 4`},
	} {
		got := toolstest.Perform(t, all, c.tool, &tools.Call{Args: c.args})
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %v\n got %.200s\nwant %s", c.tool, c.args, got, c.want)
		}
		if strings.Contains(got, base) && !strings.Contains(c.want, "code 1003") {
			t.Errorf("%s tells the host's path: %s", c.tool, got)
		}
	}
	for path, want := range map[string]string{"sub/b.txt": `"size": 2, "type": "file"`, "sub": `"type": "directory"`, "pipe": `"type": "other"`} {
		if got := toolstest.Perform(t, all, "file.stat", &tools.Call{Args: []neuroscript.Value{s(path)}}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestFileToolsHonourTheContext(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tool := range openFiles(t, dir).Tools()[:2] {
		c := &tools.Call{Args: []neuroscript.Value{neuroscript.String("a")}}
		if tool.Name == "file.list" {
			c.Args = nil
		}
		if _, err := tool.Run(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", tool.Name, err)
		}
	}
}

func TestScanIsBounded(t *testing.T) {
	in := &scanned{r: strings.NewReader(strings.Repeat("\n", 100)), left: 50, ctx: context.Background()}
	if _, err := readLines(in, 60, 1); !errors.Is(err, errTooFar) {
		t.Errorf("got %v", err)
	}
	in = &scanned{r: strings.NewReader(strings.Repeat("\n", 100)), left: 50, ctx: context.Background()}
	if text, err := readLines(in, 2, 3); err != nil || string(text) != "\n\n\n" {
		t.Errorf("got %q %v", text, err)
	}
}

func TestListIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxFileEntries + 1 {
		if err := os.Symlink("x", filepath.Join(dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := toolstest.Perform(t, openFiles(t, dir).Tools(), "file.list", &tools.Call{}); got != "code 21: .: more than 10000 entries" {
		t.Errorf("got %.100s", got)
	}
}

func TestDevicesAreRefused(t *testing.T) {
	for _, name := range []string{"null", "zero"} {
		got := toolstest.Perform(t, openFiles(t, "/dev").Tools(), "file.read", &tools.Call{Args: []neuroscript.Value{neuroscript.String(name)}})
		if got != "code 21: "+name+": not a regular file" {
			t.Errorf("got %.100s", got)
		}
	}
}

func TestClosedFiles(t *testing.T) {
	f, err := NewFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := toolstest.Perform(t, f.Tools(), "file.list", &tools.Call{}); got != "code 21: .: the directory has been closed" {
		t.Errorf("got %s", got)
	}
}

func TestNewFilesRefuses(t *testing.T) {
	_, err := NewFiles(filepath.Join(t.TempDir(), "none"))
	if messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("got %v", err)
	}
}
