package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

// workbench is a workspace with a neighbour that must not be reached.
type workbench struct {
	dir, outside string
	w            *Workspace
	ready        *confine.Ready // of its shells
}

const theirs = "the neighbour's secret"

func newWorkbench(t *testing.T, access Access) *workbench {
	t.Helper()
	base := t.TempDir()
	b := &workbench{dir: filepath.Join(base, "work"), outside: filepath.Join(base, "outside")}
	for _, d := range []string{b.dir, b.outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(b.outside, "secret.txt"), theirs)
	var err error
	if b.w, err = Open(b.dir, access); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.w.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// put makes a file of the workspace.
func (b *workbench) put(t *testing.T, name, text string) {
	t.Helper()
	p := filepath.Join(b.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, p, text)
}

func (b *workbench) get(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (b *workbench) do(t *testing.T, name, args string) string {
	t.Helper()
	return toolstest.Do(t, b.w.Tools(), name, args)
}

func TestWorkspaceResults(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "a.txt", "one\ntwo\nthree\n")
	b.put(t, "no-end.txt", "one\ntwo")
	b.put(t, "empty.txt", "")
	b.put(t, "bin", "a\x00b")
	b.put(t, "latin", "caf\xe9\n")
	b.put(t, "twice.txt", "x\nx\n")
	for _, c := range []struct{ tool, args, want string }{
		{"read", `{"file":"a.txt"}`, "Read a.txt (3 lines)|one\ntwo\nthree\n"},
		{"read", `{"file":"sandbox/a.txt","start":null}`, "Read sandbox/a.txt (3 lines)|one\ntwo\nthree\n"},
		{"read", `{"file":"a.txt","start":1}`, "Read a.txt (2 lines)|1: two\n2: three\n"},
		{"read", `{"file":"a.txt","start":1,"lines":1}`, "Read a.txt (1 lines)|1: two\n"},
		{"read", `{"file":"a.txt","lines":2}`, "Read a.txt (2 lines)|0: one\n1: two\n"},
		{"read", `{"file":"no-end.txt","start":1}`, "Read no-end.txt (1 lines)|1: two"},
		{"read", `{"file":"empty.txt"}`, "Read empty.txt (0 lines)|"},
		{"read", `{"file":"a.txt","start":3}`, "code 21: a.txt: there is no line 3; it has 3 lines"},
		{"read", `{"file":"a.txt","start":9000}`, "code 21: a.txt: there is no line 9000; it has 3 lines"},
		{"read", `{"file":"gone"}`, "code 21: gone: no such file"},
		{"read", `{"file":"."}`, "code 21: .: a directory"},
		{"read", `{"file":"bin"}`, "code 21: bin: a binary file"},
		{"read", `{"file":"latin"}`, "code 21: latin: a binary file"},
		{"read", `{}`, "code 4: argument file: missing"},
		{"read", `{"file":7,"start":-1,"lines":10001,"more":true}`, "code 4: argument more: there is no such parameter; it takes (file, start?, lines?); argument file: want string; argument start: want at least 0; argument lines: want at most 10000"},
		{"read", `{"file":"a.txt","start":true}`, "code 4: argument start: want integer"},
		{"read", `{"file":"a.txt","lines":0}`, "code 4: argument lines: want at least 1"},
		{"read", `{"file":"a.txt","lines":1.5}`, "code 4: argument lines: want integer"},

		{"write", `{"file":"new/deep/b.txt","content":"x\ny"}`, "Wrote new/deep/b.txt (+2/-0)|x\ny"},
		{"write", `{"file":"new/deep/b.txt","content":"z"}`, "code 21: new/deep/b.txt: it exists; edit it, or write it with overwrite true"},
		{"write", `{"file":"new/deep/b.txt","content":"","overwrite":true}`, "Wrote new/deep/b.txt (+0/-0)|"},
		{"write", `{"file":"new","content":"z","overwrite":true}`, "code 21: new: a directory"},
		{"write", `{"file":"a.txt/b","content":"z"}`, "code 21: a.txt/b: not a directory"},

		{"edit", `{"file":"a.txt","old":"two\n","new":"zwei\nund\n"}`, "Edited a.txt (+2/-1)|--- a.txt\n+++ a.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+zwei\n+und\n three\n"},
		{"edit", `{"file":"a.txt","old":"","new":"x"}`, "code 21: a.txt: old is empty; say what to replace"},
		{"edit", `{"file":"a.txt","old":"absent","new":"x"}`, "code 21: a.txt: old is not in it; it must match exactly, white space too"},
		{"edit", `{"file":"twice.txt","old":"x","new":"y"}`, "code 21: twice.txt: old is in it 2 times; take more of the text around it"},
		{"edit", `{"file":"bin","old":"a","new":"y"}`, "code 21: bin: a binary file"},
		{"edit", `{"file":"gone","old":"a","new":"y"}`, "code 21: gone: no such file"},

		{"find", `{}`, "code 4: want pattern or content"},
		{"find", `{"pattern":"*"}`, "code 4: argument pattern: * alone matches everything; use list, or say more"},
		{"find", `{"pattern":"[a"}`, "code 4: argument pattern: not a pattern"},
		{"find", `{"pattern":"A.T"}`, "Found 1 matches|a.txt"},
		{"find", `{"pattern":"*.TXT","path":"new"}`, "Found 1 matches|new/deep/b.txt"},
		{"find", `{"pattern":"new/**/*.txt"}`, "Found 1 matches|new/deep/b.txt"},
		{"find", `{"content":"ZWEI"}`, "Found 1 matches|a.txt:2: zwei"},
		{"find", `{"content":"x","pattern":"tw*"}`, "Found 2 matches|twice.txt:1: x\ntwice.txt:2: x"},
		{"find", `{"content":"nothing like it"}`, "Found 0 matches|"},
		{"find", `{"content":"x","path":"a.txt"}`, "code 21: a.txt: not a directory"},

		{"replace", `{"pattern":"*.txt","old":"one","new":"ONE"}`, "Replaced 2 in 2 files|a.txt: 1\nno-end.txt: 1\n\n--- a.txt\n+++ a.txt\n@@ -1,4 +1,4 @@\n-one\n+ONE\n zwei\n und\n three\n--- no-end.txt\n+++ no-end.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n\\ No newline at end of file\n"},
		{"replace", `{"pattern":"*.txt","old":"x","new":"y"}`, "code 21: twice.txt: old is in it 2 times; take more of the text around it, or exact false; nothing was changed"},
		{"replace", `{"pattern":"twice.txt","old":"^(?m:(x))$","new":"<$1>","exact":false}`, "code 21: old is in no file that matches twice.txt"},
		{"replace", `{"pattern":"twice.txt","old":"(?m)^(x)$","new":"<$1>","exact":false}`, "Replaced 2 in 1 files|twice.txt: 2\n\n--- twice.txt\n+++ twice.txt\n@@ -1,2 +1,2 @@\n-x\n-x\n+<x>\n+<x>\n"},
		{"replace", `{"pattern":"twice.txt","old":"(x)","new":"$1y","exact":false}`, "code 4: argument new: old has no group 1y; write ${1} before a letter or digit, and $$ for one $"},
		{"replace", `{"pattern":"twice.txt","old":"(x)","new":"$01","exact":false}`, "code 4: argument new: old has no group 01; write ${1} before a letter or digit, and $$ for one $"},
		{"replace", `{"pattern":"twice.txt","old":"(x)","new":"$1ř","exact":false}`, "code 4: argument new: old has no group 1ř; write ${1} before a letter or digit, and $$ for one $"},
		{"replace", `{"pattern":"twice.txt","old":"(x)","new":"costs $2","exact":false}`, "code 4: argument new: old has no group 2; write ${1} before a letter or digit, and $$ for one $"},
		{"replace", `{"pattern":"twice.txt","old":"(?P<all>x)","new":"$$2 $ ${1}y${all}","exact":false}`, "Replaced 2 in 1 files|twice.txt: 2\n\n--- twice.txt\n+++ twice.txt\n@@ -1,2 +1,2 @@\n-<x>\n-<x>\n+<$2 $ xyx>\n+<$2 $ xyx>\n"},
		{"replace", `{"pattern":"*","old":"(","new":"","exact":false}`, "code 4: argument old: missing closing ): `(`"},
		{"replace", `{"pattern":"*","old":"","new":""}`, "code 21: old is empty; say what to replace"},
	} {
		if got := b.do(t, c.tool, c.args); got != c.want {
			t.Errorf("%s %s:\n%q, want\n%q", c.tool, c.args, got, c.want)
		}
	}
}

func TestWorkspaceList(t *testing.T) {
	b := newWorkbench(t, AccessProject)
	for _, name := range []string{"z.go", "a.txt", "d/e/f/g/deep.go", "d/e/mid.go", "d/x.txt", ".git/config", "node_modules/m/i.js", "d/vendor/v.go", "docs/r.md"} {
		b.put(t, name, "x")
	}
	for args, want := range map[string]string{
		`{}`:                             "Listed 9 items (4 dirs, 5 files)|d/\n  e/\n    f/\n    mid.go\n  x.txt\ndocs/\n  r.md\na.txt\nz.go",
		`{"pattern":"*.go"}`:             "Listed 4 items (2 dirs, 2 files)|d/\n  e/\n    mid.go\nz.go",
		`{"path":"d/e"}`:                 "Listed 4 items (2 dirs, 2 files)|f/\n  g/\n    deep.go\nmid.go",
		`{"path":"d","pattern":"e/m*"}`:  "Listed 2 items (1 dirs, 1 files)|e/\n  mid.go",
		`{"path":"a.txt"}`:               "code 21: a.txt: not a directory",
		`{"path":"nowhere"}`:             "code 21: nowhere: no such file",
		`{"path":".git","pattern":"co"}`: "Listed 1 items (0 dirs, 1 files)|config",
	} {
		if got := b.do(t, "list", args); got != want {
			t.Errorf("%s:\n%q, want\n%q", args, got, want)
		}
	}
	for i := range 1100 {
		b.put(t, fmt.Sprintf("many/%04d", i), "")
	}
	got := b.do(t, "list", `{"path":"many"}`)
	if !strings.HasPrefix(got, "Listed 1000 items (0 dirs, 1000 files)|0000\n") || !strings.HasSuffix(got, "0999\n[the first 1000; list a folder of them for more]") {
		t.Errorf("%.60q … %q", got, got[len(got)-60:])
	}
	if got := b.do(t, "find", `{"pattern":"0??*"}`); !strings.HasPrefix(got, "Found 1000 matches|many/0000\n") || !strings.HasSuffix(got, "many/0099\n[100 of 1000 shown; say more]") {
		t.Errorf("%.60q … %q", got, got[len(got)-60:])
	}
}

// Results stay within their limit, and say how to go on; pages put together are the file.
func TestWorkspaceReadPages(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	var all strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&all, "line %d: ä𝄞 %s\n", i, strings.Repeat("x", i%40))
	}
	b.put(t, "long", all.String())
	var text strings.Builder
	start, pages := 0, 0
	for start >= 0 {
		got := b.do(t, "read", fmt.Sprintf(`{"file":"long","start":%d,"lines":10000}`, start))
		_, content, _ := strings.Cut(got, "|")
		if pages++; pages > 100 || len(content) > catalog.MaxResultBytes {
			t.Fatalf("page %d has %d bytes", pages, len(content))
		}
		next := -1
		for line := range strings.Lines(content) {
			if _, err := fmt.Sscanf(line, "[more lines follow; go on with start=%d]", &next); err == nil {
				break
			}
			_, rest, _ := strings.Cut(line, ": ")
			text.WriteString(rest)
		}
		start = next
	}
	if text.String() != all.String() || pages < 3 {
		t.Errorf("%d pages give %d bytes of %d", pages, text.Len(), all.Len())
	}
	got := b.do(t, "read", `{"file":"long"}`)
	if len(got) > catalog.MaxResultBytes+64 || !strings.Contains(got, "[more lines follow; go on with start=") || !strings.Contains(got, "|line 0: ä") {
		t.Errorf("%.80q of %d bytes", got, len(got))
	}
	for _, pad := range []int{0, 1, 2, 3} {
		b.put(t, "wide", strings.Repeat("x", pad)+strings.Repeat("𝄞", 100_000)+"\nnext\n")
		for args, note := range map[string]string{`{"file":"wide"}`: "wide", `{"file":"wide","lines":2}`: "wide, numbered"} {
			got := b.do(t, "read", args)
			if len(got) > catalog.MaxResultBytes+64 || !strings.HasSuffix(got, "\n[line 0 is longer; go on with start=1]") || strings.Contains(got, "\ufffd") {
				t.Errorf("%s: %.40q … %q", note, got, got[len(got)-60:])
			}
		}
	}
	if got := b.do(t, "read", `{"file":"wide","start":1}`); got != "Read wide (1 lines)|1: next\n" {
		t.Errorf("%q", got)
	}
}

// Every rule of docs/spec/cogency.md §14 about paths: an attack on it fails, and the neighbour's
// secret neither comes out nor changes.
func TestWorkspaceAttacks(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "in.txt", "inside\n")
	b.put(t, "a..b/etc/x", "legal\n")
	for link, to := range map[string]string{
		"abs": filepath.Join(b.outside, "secret.txt"), "rel": "../outside/secret.txt", "dir": "../outside", "absdir": b.outside,
		"proc": "/proc/self/root", "chain": "rel", "inner": "in.txt", "loop": "loop", "nowhere": "../outside/new.txt",
	} {
		if err := os.Symlink(to, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{
		"../outside/secret.txt", "x/../../outside/secret.txt", "a..b/../../outside/secret.txt", filepath.Join(b.outside, "secret.txt"), "/etc/passwd",
		"/proc/self/environ", "abs", "rel", "dir/secret.txt", "absdir/secret.txt", "chain", "loop", "proc/etc/passwd", "sandbox/../../outside/secret.txt",
		"sandbox//../outside/secret.txt", "./../outside/secret.txt", "in.txt/../../outside/secret.txt", "", "in\x00.txt", "pipe", "nowhere", "dir/new.txt", strings.Repeat("d/", 3000) + "x",
	}
	for _, p := range paths {
		q := toolstest.Quote(t, p)
		for tool, args := range map[string]string{
			"read":  `{"file":` + q + `}`,
			"write": `{"file":` + q + `,"content":"pwned","overwrite":true}`,
			"edit":  `{"file":` + q + `,"old":"secret","new":"pwned"}`,
			"list":  `{"path":` + q + `}`,
			"find":  `{"content":"secret","path":` + q + `}`,
		} {
			got := b.do(t, tool, args)
			if !strings.HasPrefix(got, "code ") || strings.Contains(got, "neighbour") || strings.Contains(got, b.outside) && !strings.Contains(p, b.outside) {
				t.Errorf("%s %q: %q", tool, p, got)
			}
		}
	}
	for p, want := range map[string]string{
		"../outside/secret.txt": "code 1003: path outside sandbox: ../outside/secret.txt", "/etc/passwd": "code 1003: path outside sandbox: /etc/passwd",
		"rel": "code 1003: path outside sandbox: rel", "": "code 4: invalid path", "a..b/etc/x": "Read a..b/etc/x (1 lines)|legal\n", "inner": "Read inner (1 lines)|inside\n",
		"pipe": "code 21: pipe: not a regular file",
	} {
		if got := b.do(t, "read", `{"file":`+toolstest.Quote(t, p)+`}`); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
	if got := b.do(t, "edit", `{"file":"inner","old":"inside","new":"x"}`); got != "code 21: inner: a symbolic link; name the file it leads to" {
		t.Error(got)
	}
	if got := b.do(t, "replace", `{"pattern":"**","old":"secret","new":"pwned"}`); !strings.HasPrefix(got, "code 21: old is in no file") {
		t.Error(got)
	}
	if got := b.do(t, "find", `{"content":"secret"}`); got != "Found 0 matches|" {
		t.Error(got)
	}
	got, err := os.ReadFile(filepath.Join(b.outside, "secret.txt"))
	if err != nil || string(got) != theirs {
		t.Errorf("outside: %q %v", got, err)
	}
	if all, err := os.ReadDir(b.outside); err != nil || len(all) != 1 {
		t.Errorf("outside: %v %v", all, err)
	}
}

// A folder that is a link to the outside every other moment: whatever comes between check
// and use, nothing of the outside is read or written.
func TestWorkspaceSwappedWhileOpen(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "real/secret.txt", "harmless")
	door := filepath.Join(b.dir, "door")
	swap := func(i int) error {
		to := "real"
		if i%2 == 0 {
			to = "../outside"
		}
		return errors.Join(os.Symlink(to, door+".next"), os.Rename(door+".next", door))
	}
	if err := swap(1); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if err := swap(i); err != nil {
				t.Error(err)
				return
			}
		}
	})
	read, refused := 0, 0
	for i := 0; i < 4000 && (i < 400 || read == 0 || refused == 0); i++ {
		got := b.do(t, "read", `{"file":"door/secret.txt"}`)
		if strings.Contains(got, "neighbour") {
			t.Fatal(got)
		}
		if strings.HasPrefix(got, "Read") {
			read++
		} else {
			refused++
		}
		b.do(t, "write", `{"file":"door/made.txt","content":"x","overwrite":true}`)
		b.do(t, "edit", `{"file":"door/secret.txt","old":"secret","new":"pwned"}`)
	}
	stop.Store(true)
	swapping.Wait()
	if read == 0 || refused == 0 {
		t.Errorf("read %d times, refused %d times: the race was not met", read, refused)
	}
	got, err := os.ReadFile(filepath.Join(b.outside, "secret.txt"))
	if all, dirErr := os.ReadDir(b.outside); err != nil || dirErr != nil || string(got) != theirs || len(all) != 1 {
		t.Errorf("outside: %q %v %v", got, err, all)
	}
}

// Calls of one batch that change one file lose nothing of each other; what another program
// wrote meanwhile is not overwritten; modes stay; no file is left beside.
func TestWorkspaceWritesAreWhole(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	var text strings.Builder
	for i := range 32 {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	b.put(t, "f", text.String())
	if err := os.Chmod(filepath.Join(b.dir, "f"), 0o751); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() { b.do(t, "edit", fmt.Sprintf(`{"file":"f","old":"<%d>","new":"[%d]"}`, i, i)) })
	}
	all.Wait()
	if got, want := b.get(t, "f"), strings.NewReplacer("<", "[", ">", "]").Replace(text.String()); got != want {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(filepath.Join(b.dir, "f")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	made := 0
	for range 8 {
		all.Go(func() {
			if strings.HasPrefix(b.do(t, "write", `{"file":"once","content":"x"}`), "Wrote") {
				made++ // calls are one after the other
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	_, was, err := b.w.text(context.Background(), "f")
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, "f", "another program's")
	if err := b.w.put("f", []byte("mine"), was); err == nil || !strings.Contains(b.w.failed("f", err).Error(), "changed by another program") {
		t.Errorf("%v", err)
	}
	if err := b.w.put("f", []byte("mine"), nil); err == nil || !strings.Contains(b.w.failed("f", err).Error(), "exists") {
		t.Errorf("%v", err)
	}
	if got := b.get(t, "f"); got != "another program's" {
		t.Errorf("%q", got)
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}

// replace changes all files or none: one that cannot be replaced takes back the others.
func TestWorkspaceReplaceIsAllOrNothing(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	names := []string{"a", "b", "c"}
	for _, n := range names {
		b.put(t, n, "old "+n)
	}
	sub, err := substitution("old", "new", true)
	if err != nil {
		t.Fatal(err)
	}
	every, err := newGlob("*")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := b.w.changes(t.Context(), every, sub)
	if err != nil || len(changes) != 3 {
		t.Fatalf("%v %v", changes, err)
	}
	b.put(t, "c", "changed meanwhile")
	err = b.w.apply(changes)
	if err == nil || !strings.Contains(err.Error(), "c: it was changed by another program meanwhile") || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v", err)
	}
	if b.get(t, "a") != "old a" || b.get(t, "b") != "old b" || b.get(t, "c") != "changed meanwhile" {
		t.Errorf("%q %q %q", b.get(t, "a"), b.get(t, "b"), b.get(t, "c"))
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 3 {
		t.Errorf("left: %v %v", left, err)
	}
}

// The access level system reaches everything but what is denied, links to it too.
func TestWorkspaceSystem(t *testing.T) {
	b := newWorkbench(t, AccessSystem)
	b.put(t, "in.txt", "inside")
	b.put(t, ".ssh/id", "key")
	if err := os.Symlink("/etc", filepath.Join(b.dir, "cfg")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/made-by-a-test", filepath.Join(b.dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"in.txt":                               "Read in.txt (1 lines)|inside",
		filepath.Join(b.outside, "secret.txt"): "Read " + filepath.Join(b.outside, "secret.txt") + " (1 lines)|" + theirs,
		"/etc/passwd":                          "code 1003: path outside sandbox: /etc/passwd",
		"cfg/passwd":                           "code 1003: path outside sandbox: cfg/passwd",
		"dangling":                             "code 1003: path outside sandbox: dangling",
		"/proc/self/stat":                      "code 1003: path outside sandbox: /proc/self/stat",
		".ssh/id":                              "code 1003: path outside sandbox: .ssh/id",
		"../x":                                 "code 1003: path outside sandbox: ../x",
	} {
		if got := b.do(t, "read", `{"file":`+toolstest.Quote(t, p)+`}`); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
	if got := b.do(t, "write", `{"file":"/usr/bin/made-by-a-test","content":"x"}`); !strings.HasPrefix(got, "code 1003") {
		t.Error(got)
	}
	if got := b.do(t, "write", `{"file":`+toolstest.Quote(t, filepath.Join(b.outside, "made"))+`,"content":"x"}`); !strings.HasPrefix(got, "Wrote") {
		t.Error(got)
	}
}

// What the access level system denies is not walked into from above either: not listed,
// not found, not replaced in. A replacement begins in the folder. What find names can be
// read by that name.
func TestWorkspaceSystemWalks(t *testing.T) {
	outside := newWorkbench(t, AccessSystem).outside
	denied := filepath.Join(outside, "denied")
	was := deniedRoots
	deniedRoots = append(slices.Clone(was), denied)
	defer func() { deniedRoots = was }()
	b := newWorkbench(t, AccessSystem)
	const text = "the words of TestWorkspaceSystemWalks"
	b.put(t, "sub/mine.conf", text)
	files := []string{filepath.Join(denied, "deep", "x.conf"), filepath.Join(outside, "free.conf")}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, f, text)
	}
	out := toolstest.Quote(t, outside)
	for _, c := range []struct{ tool, args, want string }{
		{"list", `{"path":` + out + `}`, "Listed 2 items (0 dirs, 2 files)|free.conf\nsecret.txt"},
		{"find", `{"pattern":"*.conf","path":` + out + `}`, "Found 1 matches|" + files[1]},
		{"find", `{"content":"words of","path":` + out + `}`, "Found 1 matches|" + files[1] + ":1: " + text},
		{"find", `{"content":"words of"}`, "Found 1 matches|sub/mine.conf:1: " + text},
		{"read", `{"file":` + toolstest.Quote(t, files[1]) + `}`, "Read " + files[1] + " (1 lines)|" + text},
		{"read", `{"file":` + toolstest.Quote(t, files[0]) + `}`, "code 1003: path outside sandbox: "},
		{"find", `{"content":"root","path":"/proc"}`, "code 1003: path outside sandbox: /proc"},
		{"replace", `{"pattern":"*.conf","old":"` + text + `","new":"others"}`, "Replaced 1 in 1 files|sub/mine.conf: 1\n"},
	} {
		if got := b.do(t, c.tool, c.args); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.tool, c.args, got, c.want)
		}
	}
	for _, f := range files {
		if got, err := os.ReadFile(f); err != nil || string(got) != text {
			t.Errorf("%s: %q %v", f, got, err)
		}
	}
}

func TestNewWorkspaceRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for _, dir := range []string{file, file + ".gone"} {
		_, err := Open(dir, AccessSandbox)
		if messages.CodeOf(err) != messages.ErrConfig || strings.Contains(err.Error(), file) {
			t.Errorf("%v", err)
		}
	}
}

// A directory that cannot be read is passed by in a walk, and is an error by itself.
func TestWalkIsBounded(t *testing.T) {
	b := newWorkbench(t, AccessProject)
	deep := strings.Repeat("d/", MaxWalkDepth+5)
	b.put(t, deep+"far.txt", "x")
	b.put(t, "d/near.txt", "x")
	if got := b.do(t, "find", `{"pattern":"*.txt"}`); got != "Found 1 matches|d/near.txt" {
		t.Error(got)
	}
	seen := 0
	ctx, cancel := context.WithCancel(t.Context())
	err := b.w.walk(ctx, ".", func(string, fs.DirEntry) error {
		if seen++; seen == 3 {
			cancel()
		}
		return nil
	})
	if err == nil || seen > 4 {
		t.Errorf("%v after %d", err, seen)
	}
}

func FuzzWorkspacePath(f *testing.F) {
	for _, s := range []string{"a", "../a", "a/../b", "/etc/passwd", "sandbox/a", "sandbox", "a//b", "a/./b", "\x00", "a..b", "..", ".", "~", "a\\..\\b"} {
		f.Add(s)
	}
	w, err := Open(f.TempDir(), AccessSandbox)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { w.Close() })
	f.Fuzz(func(t *testing.T, p string) {
		at, err := w.place(p)
		if err != nil {
			return
		}
		if !filepath.IsLocal(at) || strings.Contains("/"+at+"/", "/../") || strings.IndexByte(at, 0) >= 0 {
			t.Errorf("%q became %q", p, at)
		}
	})
}
