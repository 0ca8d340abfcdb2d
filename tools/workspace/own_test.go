package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

// hosting is a workbench whose folder holds what a host has: a data directory, a manifest,
// an entrypoint, and a settings file that is not there yet.
func hosting(t *testing.T, access Access) *workbench {
	t.Helper()
	b := newWorkbench(t, access)
	b.put(t, "stile-data/keys.json", "the private key")
	b.put(t, "stile-data/tokens.json", "tokens")
	b.put(t, "stile-data/deep/more.json", "the private part")
	b.put(t, "agent.yaml", "the private manifest")
	b.put(t, "count.sh", "#!/bin/sh\n# the private program\n")
	b.put(t, "free.txt", "mine\n")
	for name, to := range map[string]string{"link.json": "stile-data/keys.json", "folder": "stile-data", "deeper": "stile-data/deep", "program": "count.sh"} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(b.dir, "stile-data", "keys.json"), filepath.Join(b.dir, "hard.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(b.dir, "count.sh"), filepath.Join(b.dir, "hard.sh")); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *workbench) hosts() []string {
	var all []string
	for _, name := range []string{"stile-data", "agent.yaml", "count.sh", "stile.yaml"} {
		all = append(all, filepath.Join(b.dir, name))
	}
	return all
}

// What an attacker did with file tools in a folder that holds the host's own files: read
// keys, write tokens, change a program that runs unconfined. Each try succeeds where
// nothing is denied.
func TestHostsFilesAreOutOfReach(t *testing.T) {
	tries := [][2]string{
		{"read", `{"file":"stile-data/keys.json"}`},
		{"read", `{"file":"link.json"}`},
		{"read", `{"file":"hard.json"}`},
		{"read", `{"file":"folder/keys.json"}`},
		{"read", `{"file":"deeper/more.json"}`},
		{"read", `{"file":"agent.yaml"}`},
		{"read", `{"file":"count.sh"}`},
		{"read", `{"file":"program"}`},
		{"list", `{"path":"stile-data"}`},
		{"list", `{"path":"folder"}`},
		{"list", `{"path":"deeper"}`},
		{"find", `{"content":"private","path":"stile-data"}`},
		{"write", `{"file":"stile-data/tokens.json","content":"[]","overwrite":true}`},
		{"write", `{"file":"folder/tokens.json","content":"[]","overwrite":true}`},
		{"write", `{"file":"stile-data/new.json","content":"[]"}`},
		{"write", `{"file":"stile-data/new/folder/x","content":"[]"}`},
		{"write", `{"file":"deeper/x","content":"[]"}`},
		{"write", `{"file":"count.sh","content":"#!/bin/sh\nid","overwrite":true}`},
		{"write", `{"file":"hard.sh","content":"#!/bin/sh\nid","overwrite":true}`},
		{"write", `{"file":"stile.yaml","content":"auth: none"}`},
		{"edit", `{"file":"agent.yaml","old":"private","new":"public"}`},
		{"edit", `{"file":"hard.json","old":"private","new":"public"}`},
	}
	for _, access := range []Access{AccessProject, AccessSystem} {
		for _, held := range []bool{true, false} {
			for _, try := range tries {
				b := hosting(t, access)
				if held {
					b.w.Deny(b.hosts()...)
				}
				got := toolstest.Do(t, b.w.Tools(), try[0], try[1])
				if denied := strings.HasPrefix(got, "code 1003: ") && strings.HasSuffix(got, "it belongs to the host"); denied != held {
					t.Errorf("%s, denied %t: %s %s: %q", access, held, try[0], try[1], got)
				}
				if held && b.get(t, "stile-data/tokens.json")+b.get(t, "count.sh")+b.get(t, "agent.yaml") != "tokens#!/bin/sh\n# the private program\nthe private manifest" {
					t.Errorf("%s: %s %s changed the host's files", access, try[0], try[1])
				}
			}
		}
	}
}

// Files whose paths begin as one of the host's are denied under all their names, those that
// are made later too, and so are new ones; others in their folder are not.
func TestHostsFilesByTheirBeginning(t *testing.T) {
	for _, held := range []bool{true, false} {
		b := newWorkbench(t, AccessProject)
		b.put(t, "audit.jsonl.000001", "old lines\n")
		if held {
			b.w.Deny(filepath.Join(b.dir, "audit.jsonl.*"))
		}
		b.put(t, "audit.jsonl.000002", "later lines\n")
		b.put(t, "audit.json", "mine\n")
		if err := os.Link(filepath.Join(b.dir, "audit.jsonl.000002"), filepath.Join(b.dir, "hard.txt")); err != nil {
			t.Fatal(err)
		}
		for _, try := range [][2]string{
			{"read", `{"file":"audit.jsonl.000001"}`},
			{"read", `{"file":"audit.jsonl.000002"}`},
			{"read", `{"file":"hard.txt"}`},
			{"edit", `{"file":"hard.txt","old":"later","new":"other"}`},
			{"write", `{"file":"audit.jsonl.000001","content":"","overwrite":true}`},
			{"write", `{"file":"audit.jsonl.000003","content":"made up"}`},
		} {
			got := toolstest.Do(t, b.w.Tools(), try[0], try[1])
			if denied := strings.HasPrefix(got, "code 1003: ") && strings.HasSuffix(got, "it belongs to the host"); denied != held {
				t.Errorf("denied %t: %s %s: %q", held, try[0], try[1], got)
			}
		}
		if got := toolstest.Do(t, b.w.Tools(), "read", `{"file":"audit.json"}`); !strings.Contains(got, "mine") {
			t.Errorf("%q", got)
		}
		if holds := b.w.Holds(b.dir) != ""; holds != held {
			t.Errorf("the folder holds files of the host: %t", holds)
		}
	}
}

// What walks through the folder passes the host's files by, and the rest is there.
func TestHostsFilesArePassedBy(t *testing.T) {
	b := hosting(t, AccessProject)
	b.w.Deny(b.hosts()...)
	for name, args := range map[string]string{"find": `{"content":"private"}`, "list": `{}`} {
		if got := toolstest.Do(t, b.w.Tools(), name, args); strings.Contains(got, "the private") || strings.Contains(got, "keys.json") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := toolstest.Do(t, b.w.Tools(), "replace", `{"pattern":"**","old":"private","new":"public","exact":false}`); !strings.HasPrefix(got, "code 21: old is in no file") {
		t.Errorf("%q", got)
	}
	for _, try := range [][2]string{{"read", `{"file":"free.txt"}`}, {"edit", `{"file":"free.txt","old":"mine","new":"ours"}`}, {"write", `{"file":"sub/folder/new.txt","content":"x"}`}} {
		if got := toolstest.Do(t, b.w.Tools(), try[0], try[1]); strings.HasPrefix(got, "code") {
			t.Errorf("%s: %q", try[1], got)
		}
	}
	// A rename takes nothing out of reach: it is known by what it is.
	if err := os.Rename(filepath.Join(b.dir, "stile-data", "deep"), filepath.Join(b.dir, "stile-data", "moved")); err != nil {
		t.Fatal(err)
	}
	if got := toolstest.Do(t, b.w.Tools(), "read", `{"file":"stile-data/moved/more.json"}`); !strings.HasPrefix(got, "code 1003") {
		t.Errorf("%q", got)
	}
}

// The tools file.* see no more of it.
func TestHostsFilesInFiles(t *testing.T) {
	b := hosting(t, AccessProject)
	for _, held := range []bool{true, false} {
		f, err := NewFiles(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if held {
			f.Deny(b.hosts()...)
		}
		call := func(name, path string) bool {
			all := f.Tools()
			i := 0
			for all[i].Name != name {
				i++
			}
			_, err := all[i].Run(t.Context(), argument(path))
			return err == nil
		}
		for _, path := range []string{"stile-data/keys.json", "link.json", "hard.json", "deeper/more.json", "agent.yaml", "program"} {
			for _, name := range []string{"file.read", "file.stat"} {
				if call(name, path) == held {
					t.Errorf("%s of %s: denied %t", name, path, held)
				}
			}
		}
		for _, path := range []string{"stile-data", "folder", "deeper"} {
			if call("file.list", path) == held || call("file.stat", path) == held {
				t.Errorf("%s: denied %t", path, held)
			}
		}
		if !call("file.read", "free.txt") || !call("file.list", ".") || !call("file.stat", "free.txt") {
			t.Error("the rest is out of reach")
		}
	}
}

// What other programs act on is read and not changed, unless the manifest says so.
func TestFoldersOfOtherProgramsAreReadOnly(t *testing.T) {
	for name, file := range map[string]string{".git": ".git/config", ".vscode": "sub/.vscode/tasks.json", ".env": ".env.local", ".idea": ".idea/a/b/c.xml"} {
		for _, asked := range []bool{false, true} {
			b := newWorkbench(t, AccessProject)
			b.put(t, file, "old\n")
			if asked {
				b.w.Editable(name)
			}
			all := b.w.Tools()
			if got := toolstest.Do(t, all, "read", `{"file":"`+file+`"}`); !strings.HasSuffix(got, "old\n") {
				t.Errorf("%s cannot be read: %q", file, got)
			}
			for _, try := range [][2]string{
				{"edit", `{"file":"` + file + `","old":"old","new":"new"}`},
				{"write", `{"file":"` + file + `","content":"x","overwrite":true}`},
				{"write", `{"file":"` + name + `/new","content":"x"}`},
			} {
				if name == ".env" && strings.Contains(try[1], "/new") {
					continue
				}
				if got := toolstest.Do(t, all, try[0], try[1]); strings.Contains(got, "workspace.editable") == asked {
					t.Errorf("%s, asked %t: %s: %q", name, asked, try[1], got)
				}
			}
		}
	}
	b := newWorkbench(t, AccessProject)
	b.put(t, ".git/hooks/x", "old\n")
	if err := os.Symlink(".git", filepath.Join(b.dir, "way")); err != nil {
		t.Fatal(err)
	}
	if got := toolstest.Do(t, b.w.Tools(), "write", `{"file":"way/hooks/pre-commit","content":"x"}`); !strings.Contains(got, "workspace.editable") {
		t.Errorf("through a link: %q", got)
	}
}

// A folder for programs holds none of the host's files, by whatever path that is named.
func TestHolds(t *testing.T) {
	b := hosting(t, AccessProject)
	if err := os.Symlink(filepath.Join(b.dir, "stile-data"), filepath.Join(b.outside, "data")); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		filepath.Join(b.dir, "stile-data"): true, filepath.Join(b.dir, "not", "there", "yet"): true, filepath.Join(b.outside, "data"): true, b.dir: true,
		filepath.Join(b.outside, "secret.txt"): false, filepath.Dir(b.dir): false,
	} {
		w := &Workspace{}
		w.Deny(p)
		if got := w.Holds(b.dir); (got != "") != want {
			t.Errorf("%s: %q", p, got)
		}
	}
}

func argument(path string) *tools.Call {
	return &tools.Call{Args: []neuroscript.Value{neuroscript.String(path)}}
}
