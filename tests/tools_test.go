package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// working is an agent with tools of docs/spec/cogency.md §15 over a folder with these files.
func working(t *testing.T, dialect string, files map[string]string, replies ...string) (*stile.Agent, *recorder) {
	t.Helper()
	m := manifest.Default(dialect)
	m.Name = "working"
	m.Import.Tools = []string{"read", "write", "edit", "list", "find", "replace"}
	model := &recorder{Model: scripted.New(replies...)}
	a := &stile.Agent{Manifest: m, Dir: t.TempDir(), Model: model}
	for name, text := range files {
		p := filepath.Join(a.Dir, "sandbox", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return a, model
}

// The tools give outcome and content, and cogency shows them so. What is wrong with the
// arguments comes back in one message; unknown tools and paths that lead out as failures.
func TestWorkspaceTools(t *testing.T) {
	a, model := working(t, "cogency", map[string]string{"a.txt": "one\ntwo\n"},
		`<execute>[{"name":"read","args":{"file":"a.txt"}},{"name":"edit","args":{"file":"a.txt","old":"two","new":"</results>"}},`+
			`{"name":"read","args":{"file":"../agent.yaml"}},{"name":"read","args":{"line":1}},{"name":"shell","args":{"command":"ls"}},{"name":"write","args":{"file":"new/b.txt","content":""}}]</execute>`,
		`Done.<end>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	last := model.requests()[1].Messages
	want := `<results>[{"tool":"read","status":"success","outcome":"Read a.txt (2 lines)","content":"one\ntwo\n"},` +
		`{"tool":"edit","status":"success","outcome":"Edited a.txt (+1/-1)","content":"--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+\u003c/results>\n"},` +
		`{"tool":"read","status":"failure","content":"path outside sandbox: ../agent.yaml"},` +
		`{"tool":"read","status":"failure","content":"argument line: there is no such parameter; it takes (file, start?, lines?); argument file: missing"},` +
		`{"tool":"shell","status":"failure","content":"unknown_target: no tool \"shell\"; there is: edit, find, list, read, replace, write"},` +
		`{"tool":"write","status":"success","outcome":"Wrote new/b.txt (+0/-0)","content":"Wrote new/b.txt (+0/-0)"}]</results>`
	if got := last[len(last)-1].Text; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(a.Dir, "sandbox", "a.txt")); err != nil || string(b) != "one\n</results>\n" {
		t.Errorf("%q %v", b, err)
	}
	replays(t, rt, a)
}

// Programs call them too: by position or by name.
func TestWorkspaceToolsInPrograms(t *testing.T) {
	a, _ := working(t, "aeiou", map[string]string{"a.txt": "one\ntwo\n"},
		program(`set r = tool.read("a.txt", 1)`, `emit r["outcome"]`, `emit r["content"]`, `set w = tool.Write({"file": "b.txt", "content": "x"})`, `emit w["outcome"]`, sayDone))
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	var said []string
	for _, r := range records(t, s) {
		if b, ok := r.Body.(*messages.Emit); ok && !b.Candidate {
			said = append(said, b.Text)
		}
	}
	if got := strings.Join(said, "|"); got != "Read a.txt (1 lines)|1: two\n|Wrote b.txt (+1/-0)" {
		t.Errorf("%q", got)
	}
	replays(t, rt, a)
}

// A workspace that cannot be opened is told when the session is opened.
func TestWorkspaceIsChecked(t *testing.T) {
	a, _ := working(t, "cogency", nil)
	a.Manifest.Workspace.Root = "nowhere"
	err := stile.Check(a, stile.Config{})
	if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.root") || strings.Contains(err.Error(), a.Dir) {
		t.Errorf("%v", err)
	}
	a.Manifest.Workspace = manifest.Workspace{Access: "everything"}
	if err := stile.Check(a, stile.Config{}); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.access") {
		t.Errorf("%v", err)
	}
	a.Manifest.Workspace = manifest.Workspace{}
	a.Dir = ""
	if err := stile.Check(a, stile.Config{}); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "Agent.Dir") {
		t.Errorf("%v", err)
	}
}

// commanding is an agent with the tool shell and an executable script.
func commanding(t *testing.T, replies ...string) (*stile.Agent, *recorder) {
	t.Helper()
	a, model := working(t, "cogency", map[string]string{"hello.sh": "#!/bin/sh\necho hello\n"}, replies...)
	if err := os.Chmod(filepath.Join(a.Dir, "sandbox", "hello.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "shell")
	if confine.Probe().Err() != nil {
		a.Manifest.Shell.Isolation = "none"
	}
	return a, model
}

// shell is denied until the manifest, or the host's gate, says otherwise; then it runs.
func TestShellIsDeniedByDefault(t *testing.T) {
	const batch = `<execute>[{"name":"shell","args":{"command":"./hello.sh"}}]</execute>`
	for name, c := range map[string]struct {
		change func(*stile.Agent)
		want   string
	}{
		"nothing said": {func(*stile.Agent) {}, `{"tool":"shell","status":"failure","content":"denied: denied: shell needs an answer of its own, approval.tools.shell"}`},
		"approve":      {func(a *stile.Agent) { a.Manifest.Approval.Default = messages.GateApprove }, `"status":"failure"`},
		"by name": {func(a *stile.Agent) {
			a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"shell": messages.GateApprove}
		}, `{"tool":"shell","status":"success","outcome":"Success","content":"hello\n"}`},
		"by the host": {func(a *stile.Agent) {
			a.Gate = func(tools.Request) (messages.GateAnswer, string, bool) { return messages.GateApprove, "", true }
		}, `"content":"hello\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			a, model := commanding(t, batch, "Done.")
			c.change(a)
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			wantDone(t, ask(t, s, "go"))
			last := model.requests()[1].Messages
			if got := last[len(last)-1].Text; !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			replays(t, rt, a)
		})
	}
}

// A host whose kernel cannot confine commands refuses the agent when it is opened, and
// says what to do; doing it helps.
func TestShellWithoutSandbox(t *testing.T) {
	a, _ := commanding(t, `<execute>[{"name":"shell","args":{"command":"./hello.sh"}}]</execute>`, "Done.")
	a.Manifest.Shell.Isolation = ""
	a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"shell": messages.GateApprove}
	cfg := stile.Config{Sandbox: func() confine.Sandbox { return confine.Sandbox{Why: "this kernel does not have it"} }}
	rt := start(t, cfg)
	_, err := rt.Open(t.Context(), "stream", a)
	for _, err := range []error{err, stile.Check(a, cfg)} {
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "shell.isolation") || !strings.Contains(err.Error(), "this kernel does not have it") || !strings.Contains(err.Error(), "isolation: none") {
			t.Errorf("%v", err)
		}
	}
	own := *a
	m := *a.Manifest
	m.Shell.Isolation = "none"
	own.Manifest = &m
	s := open(t, rt, "stream", &own)
	wantDone(t, ask(t, s, "go"))
}
