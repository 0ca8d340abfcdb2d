package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// served is a manifest in a folder that holds the data directory too, as `cd agent` and
// `stile serve agent.yaml` make it.
func served(t *testing.T, more, script string) (manifest, data string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.yaml":   "kind: Agent\nname: served\ndialect: cogency\nmodel: {provider: scripted, script: script.jsonl}\n" + more,
		"script.jsonl": script, "count.sh": "#!/bin/sh\necho 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "stile-data")
}

// The theft of the host's keys by a tool of files, its tokens replaced, and the program of
// a command replaced: an agent whose folder holds them loads, and reaches none of them.
func TestHostsOwnFiles(t *testing.T) {
	const reply = `{"chunks": [{"text": "<execute>[` +
		`{\"name\":\"read\",\"args\":{\"file\":\"stile-data/keys.json\"}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"stile-data/tokens.json\",\"content\":\"[]\"}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"count.sh\",\"content\":\"#!/bin/sh\",\"overwrite\":true}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"agent.yaml\",\"content\":\"x\",\"overwrite\":true}},` +
		`{\"name\":\"file.read\",\"args\":{\"path\":\"stile-data/keys.json\"}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"tls.pem\",\"content\":\"x\"}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"mine.txt\",\"content\":\"x\"}}]</execute>"}]}` + "\n" + `{"chunks": [{"text": "Done.<end>"}]}` + "\n"
	path, data := served(t, `workspace: {access: project}
approval: {default: approve}
import: {tools: [read, write, file.*, count]}
define:
  tools:
    - {name: count, class: read_only, implementation: {type: command, entrypoint: [./count.sh]}}
`, reply)
	a, err := stile.LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Dir: data, Protect: []string{filepath.Join(filepath.Dir(path), "tls.pem")}})
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "go"))
	denied, done := 0, 0
	for _, r := range records(t, s) {
		if b, ok := r.Body.(*messages.ActionEnded); ok {
			denied += strings.Count(b.Reason+b.Result, "belongs to the host")
			done++
		}
	}
	if denied != 6 {
		t.Errorf("%d of %d actions denied", denied, done)
	}
	for name, want := range map[string]bool{"tls.pem": false, "mine.txt": true, "stile-data/tokens.json": false} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where programs get no mount namespace, a shell whose folder holds the host's files is refused
// when the agent is opened, with the cure; where they lie elsewhere it is not.
func TestShellApartFromTheHost(t *testing.T) {
	if confine.Probe().Err() != nil {
		t.Skip("this kernel cannot confine commands, so there is nothing to hold apart: ", confine.Probe().Err())
	}
	const tools = "import: {tools: [shell]}\n"
	for name, c := range map[string]struct {
		more, field string
		elsewhere   bool // the data directory
	}{
		"data":     {"workspace: {access: project}\n", "workspace.root", false},
		"manifest": {"workspace: {access: project}\n", "workspace.root", true},
		"write":    {"shell: {write: [.]}\n", "shell.write", true},
		"read":     {"shell: {read: [.]}\n", "shell.read", false},
		"may read": {"shell: {read: [.]}\n", "", true}, // its own manifest
		"sandbox":  {"", "", false},
	} {
		path, data := served(t, tools+c.more, `{"chunks": [{"text": "x"}]}`)
		if c.elsewhere {
			data = filepath.Join(t.TempDir(), "data")
		}
		a, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		err = stile.Check(a, stile.Config{Dir: data, Sandbox: func() confine.Sandbox {
			box := confine.Probe()
			box.Mounts = false
			return box
		}})
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), "--dir") || !strings.Contains(err.Error(), "workspace.root") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command or the program of an MCP server that nothing could keep from the host's files is
// refused when its agent is loaded, unless the operator trusts it with them, and so is a program
// that lies among them. What they reach: tests/attacks.
func TestProgramsApartFromTheHost(t *testing.T) {
	if !confine.Supported {
		t.Skip("there are no programs on this system")
	}
	bare := func() confine.Sandbox { return confine.Sandbox{Why: "this kernel does not have it"} }
	kernel := func() confine.Sandbox { return confine.Sandbox{ABI: confine.MinLandlockABI, Filter: true} }
	command := "import: {tools: [count]}\ndefine: {tools: [{name: count, implementation: {type: command, entrypoint: [%s], confine: %s}}]}\n"
	server := "import: {mcp: [{name: s, command: [%s], confine: %s, tools: [{name: a, schema: '{\"type\":\"object\"}'}]}]}\n"
	for _, c := range []struct {
		text, program, reach string
		sandbox              func() confine.Sandbox
		field                string
	}{
		{command, "./count.sh", "{}", bare, "define.tools[0].implementation.confine.isolation"},
		{command, "./count.sh", "{read: [.]}", bare, "define.tools[0].implementation.confine.isolation"},
		{command, "./count.sh", "{isolation: none}", bare, ""},
		{command, "./count.sh", "{}", kernel, ""},
		{command, "./count.sh", "{isolation: landlock}", kernel, ""},
		{command, "./count.sh", "{network: true}", kernel, "define.tools[0].implementation.confine.network"},
		{command, "./count.sh", "{network: {loopback: true}}", kernel, ""},
		{command, "./count.sh", "{write: [gone]}", kernel, "define.tools[0].implementation.confine.write[0]"},
		{command, "./stile-data/count.sh", "{}", kernel, "define.tools[0].implementation.confine.entrypoint"},
		{server, "./count.sh", "{}", bare, "import.mcp[0].confine.isolation"},
		{server, "./count.sh", "{isolation: none}", bare, ""},
		{server, "./count.sh", "{}", kernel, ""},
		{server, "./stile-data/count.sh", "{}", kernel, "import.mcp[0].confine.entrypoint"},
	} {
		path, data := served(t, fmt.Sprintf(c.text, c.program, c.reach), `{"chunks": [{"text": "x"}]}`)
		if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "count.sh"), []byte("#!/bin/sh\n"), 0o700)); err != nil {
			t.Fatal(err)
		}
		a, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		err = stile.Check(a, stile.Config{Dir: data, Sandbox: c.sandbox})
		var e *messages.Error
		if (err == nil) != (c.field == "") || err != nil && (!errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != c.field) {
			t.Errorf("%s %s: %v, want %q", c.program, c.reach, err, c.field)
		}
		if strings.HasSuffix(c.field, "isolation") && !strings.Contains(err.Error(), "isolation: none") {
			t.Errorf("no cure: %v", err)
		}
	}
}

// Where programs get a mount namespace, the same agents load, and a program finds nothing of
// the host: neither keys and tokens, nor the manifest and what it names. What a mount cannot
// hide is refused.
func TestShellHidesTheHost(t *testing.T) {
	if box := confine.Probe(); box.Err() != nil || !box.Mounts {
		t.Skip("this host cannot give programs a mount namespace: ", box.Layers())
	}
	const reply = `{"chunks": [{"text": "<execute>[{\"name\":\"shell\",\"args\":{\"command\":\"./steal.sh\"}}]</execute>"}]}` + "\n" + `{"chunks": [{"text": "Done.<end>"}]}` + "\n"
	path, data := served(t, `workspace: {access: project}
approval: {default: approve, tools: {shell: approve}}
import: {tools: [shell, count]}
shell: {read: [.]}
define: {tools: [{name: count, class: read_only, implementation: {type: command, entrypoint: [./count.sh]}}]}
`, reply)
	dir := filepath.Dir(path)
	steal := "#!/bin/sh\ncat stile-data/keys.json && echo STOLEN keys\ncd stile-data && echo [] > tokens.json && echo STOLEN tokens\ncd " + dir + "\n" +
		"echo x > agent.yaml && echo STOLEN manifest\nmv count.sh c && echo STOLEN command\ngrep -q served agent.yaml && echo STOLEN text\nls -A stile-data\necho end > mine.txt\n"
	if err := os.WriteFile(filepath.Join(dir, "steal.sh"), []byte(steal), 0o755); err != nil {
		t.Fatal(err)
	}
	a, err := stile.LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Dir: data})
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "go"))
	ended := bodies[*messages.ActionEnded](records(t, s))
	if len(ended) != 1 || strings.Contains(ended[0].Reason+ended[0].Result, "STOLEN") || strings.Contains(ended[0].Reason+ended[0].Result, "journal.db") {
		t.Errorf("%+v", ended)
	}
	if end, err := os.ReadFile(filepath.Join(dir, "mine.txt")); err != nil || string(end) != "end\n" {
		t.Errorf("%q %v", end, err)
	}
	if is, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(is), "kind: Agent") {
		t.Errorf("%q %v", is, err)
	}
	for field, more := range map[string]string{"shell.caches": "shell: {caches: [GOCACHE]}\n", "link": ""} {
		path, data := served(t, "import: {tools: [shell]}\nworkspace: {access: project}\n"+more, `{"chunks": [{"text": "x"}]}`)
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		cfg := stile.Config{Dir: data}
		if field == "link" {
			link := filepath.Join(filepath.Dir(path), "settings.yaml")
			if err := os.Symlink("agent.yaml", link); err != nil {
				t.Fatal(err)
			}
			cfg.Protect = []string{link}
		}
		a, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := start(t, cfg).Open(t.Context(), "s", a); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.root") || !strings.Contains(err.Error(), "--dir") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// An agent's tools leave the manifests and programs of the host's other agents alone, also
// where its folder holds them.
func TestNeighboursFiles(t *testing.T) {
	const reply = `{"chunks": [{"text": "<execute>[` +
		`{\"name\":\"write\",\"args\":{\"file\":\"other/agent.yaml\",\"content\":\"x\",\"overwrite\":true}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"other/count.sh\",\"content\":\"x\",\"overwrite\":true}},` +
		`{\"name\":\"write\",\"args\":{\"file\":\"other/notes.txt\",\"content\":\"x\"}}]</execute>"}]}` + "\n" + `{"chunks": [{"text": "Done.<end>"}]}` + "\n"
	path, _ := served(t, "workspace: {access: project}\napproval: {default: approve}\nimport: {tools: [write]}\n", reply)
	other := filepath.Join(filepath.Dir(path), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"agent.yaml": "kind: Agent\nname: other\ndialect: cortex\nimport: {tools: [count]}\ndefine: {tools: [{name: count, class: read_only, implementation: {type: command, entrypoint: [./count.sh]}}]}\n",
		"count.sh":   "#!/bin/sh\necho 1\n",
	} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	neighbour, err := stile.LoadAgent(filepath.Join(other, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	neighbour.Model = stile.ScriptedModel("Done.")
	a, err := stile.LoadAgent(path)
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Dir: t.TempDir(), Agents: []*stile.Agent{neighbour}})
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "go"))
	said := ""
	for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
		said += b.Reason + b.Result + "\n"
	}
	if n := strings.Count(said, "belongs to the host"); n != 2 {
		t.Errorf("%d denied: %s", n, said)
	}
	if _, err := os.Stat(filepath.Join(other, "notes.txt")); err != nil {
		t.Error(err)
	}
}

// A database of the manifest must not be a file of the host: neither its journal nor a link
// to it.
func TestHostsJournalIsNoDatabase(t *testing.T) {
	for _, file := range []string{"stile-data/journal.db", "door.db"} {
		dir := write(t, "agent.yaml", "name: spy\ndialect: cortex\nmodel: {provider: scripted, script: main.jsonl}\nimport: {relics: [spy]}\n"+
			"define: {relics: [{name: spy, service_type: sql, connection: {driver: sqlite, path: "+file+"}, interface: {endpoints: [{name: all, query: SELECT count(*) AS n FROM sqlite_master, class: read_only}]}}]}\n",
			"main.jsonl", line(put("x", "sync", "spy", `{"operation":"all"}`))+line(`<response final="true">$x</response>`))
		if err := os.Symlink("stile-data/journal.db", filepath.Join(dir, "door.db")); err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{Dir: filepath.Join(dir, "stile-data")})
		s := open(t, rt, "s", load(t, dir))
		wantDone(t, ask(t, s, "go"))
		ended := bodies[*messages.ActionEnded](records(t, s))
		if len(ended) != 1 || !strings.Contains(ended[0].Reason+ended[0].Result, "belongs to the host") {
			t.Errorf("%s: %+v", file, ended)
		}
	}
}
