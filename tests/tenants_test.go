package tests

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// obeys is a model that calls what its user says, and then is done.
func obeys() model {
	return func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			reply := "Done.<end>"
			if _, calls, ok := strings.Cut(prompt(req), "call: "); ok {
				reply = "<execute>" + calls + "</execute>"
			}
			yield(llm.Chunk{Text: []byte(reply), Finish: messages.FinishComplete}, nil)
		}
	}
}

// call is one of a tool.
type call struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// does has a session make calls and gives what came of each.
func does(t *testing.T, s *stile.Session, calls ...call) (all []string) {
	t.Helper()
	b, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	before := len(records(t, s))
	wantDone(t, ask(t, s, "call: "+string(b)))
	ended := map[string]string{}
	var order []string
	for _, r := range records(t, s)[before:] {
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			order = append(order, b.ID)
		case *messages.ActionEnded:
			ended[b.ID] = string(b.State) + " " + b.Reason + " " + b.Result
		}
	}
	for _, id := range order {
		all = append(all, ended[id])
	}
	if len(all) != len(calls) {
		t.Fatalf("%d calls gave %q", len(calls), all)
	}
	return all
}

// tenantAgent is an agent of a manifest whose model obeys.
func tenantAgent(t *testing.T, more string) *stile.Agent {
	t.Helper()
	a := load(t, write(t, "agent.yaml", "name: shared\ndialect: cogency\nmodel: {provider: scripted}\napproval: {default: approve, tools: {shell: approve}}\n"+more))
	a.Model = obeys()
	return a
}

type args = map[string]any

// What one user writes another one of the agent neither lists, reads nor changes, by
// whatever name, unless the manifest says that they work together.
func TestWorkspacesAreApart(t *testing.T) {
	const ann = "acme:ann:s1"
	for name, c := range map[string]struct {
		workspace string
		unshared  bool
		with      []string // sessions that work in ann's folder
		others    []string // sessions that do not
	}{
		"nothing said":       {"{}", false, []string{"acme:ann:s2"}, []string{"evil:eve:s1", "acme:bob:s1", "acme:Ann:s1", "evil:ann:s1", "local:local:s1"}},
		"session":            {"{per: session}", false, nil, []string{"acme:ann:s2", "acme:ann:S1", "evil:ann:s1", "local:local:s1"}},
		"tenant":             {"{per: tenant}", false, []string{"acme:bob:s1"}, []string{"evil:eve:s1", "ACME:ann:s1", "local:local:s1"}},
		"agent":              {"{per: agent}", false, []string{"acme:bob:s1", "evil:eve:s1", "local:local:s1"}, nil},
		"project of users":   {"{access: project, per: user}", false, []string{"acme:ann:s2"}, []string{"evil:eve:s1", "acme:bob:s1", "local:local:s1"}},
		"one that is owned":  {"{}", true, []string{"acme:ann:s2"}, []string{"evil:eve:s1", "local:local:s1"}},
		"an owned project":   {"{access: project}", true, []string{"acme:ann:s2"}, []string{"evil:eve:s1", "local:local:s1"}},
		"owned, by sessions": {"{per: session}", true, nil, []string{"acme:ann:s2", "local:local:s1", "local:local:s2"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := tenantAgent(t, "workspace: "+c.workspace+"\nimport: {tools: [read, write, edit, list, find, replace, file.*]}\n")
			rt := start(t, stile.Config{Shared: !c.unshared})
			first := open(t, rt, ann, a)
			does(t, first, call{"write", args{"file": "contract.txt", "content": "offer 1.2M"}})
			var at string
			_ = filepath.WalkDir(a.Dir, func(p string, _ fs.DirEntry, _ error) error {
				if filepath.Base(p) == "contract.txt" {
					at = p
				}
				return nil
			})
			root := filepath.Join(a.Dir, "sandbox")
			if strings.Contains(c.workspace, "project") {
				root = a.Dir
			}
			inRoot, err := filepath.Rel(root, at)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(a.Dir, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range c.others {
				var tries []call
				for _, p := range []string{"contract.txt", inRoot, strings.ToUpper(inRoot), "./" + inRoot, "../../acme/ann/contract.txt"} {
					tries = append(tries, call{"read", args{"file": p}}, call{"edit", args{"file": p, "old": "1.2M", "new": "0.2M"}},
						call{"list", args{"path": filepath.Dir(p)}}, call{"find", args{"content": "offer", "path": filepath.Dir(p)}})
				}
				tries = append(tries, call{"replace", args{"pattern": "**/*", "old": "1.2M", "new": "0.2M"}}, call{"file.read", args{"path": rel}}, call{"file.read", args{"path": strings.ToUpper(rel)}})
				s := open(t, rt, other, a)
				for i, got := range does(t, s, tries...) {
					if strings.Contains(got, "1.2M") || strings.HasPrefix(got, "ok") && strings.Contains(got, "contract") {
						t.Errorf("%s: %+v: %s", other, tries[i], got)
					}
				}
				does(t, s, call{"write", args{"file": "contract.txt", "content": "offer 0"}})
			}
			for _, other := range c.with {
				if got := does(t, open(t, rt, other, a), call{"read", args{"file": "contract.txt"}}); !strings.Contains(got[0], "1.2M") {
					t.Errorf("%s: %s", other, got)
				}
			}
			if got := does(t, first, call{"read", args{"file": "contract.txt"}}); !strings.Contains(got[0], "offer 1.2M") {
				t.Errorf("ann has %s", got)
			}
			_, err = os.Stat(filepath.Join(root, "contract.txt"))
			owned := c.unshared && !strings.Contains(c.workspace, "session") || strings.Contains(c.workspace, "agent")
			if owned != (err == nil) {
				t.Errorf("in the agent's own folder: %v", err)
			}
		})
	}
}

// One user fills the folder that the manifest bounds, by a tool and by a program; another one of
// the same agent goes on.
func TestFoldersOfUsersAreBounded(t *testing.T) {
	tool := "write"
	if confine.Probe().Err() == nil {
		tool += ", shell"
	}
	a := tenantAgent(t, "workspace: {max_bytes: 64KiB}\nimport: {tools: ["+tool+"]}\n")
	rt := start(t, stile.Config{Shared: true, Dir: filepath.Join(t.TempDir(), "data")})
	large := strings.Repeat("many words ", 4000) // 44 KB
	writes := func(name string) call { return call{"write", args{"file": name, "content": large}} }
	eve, ann := open(t, rt, "evil:eve:s", a), open(t, rt, "acme:ann:s", a)
	// One after the other: of two calls in one reply either may be the first.
	if got := does(t, eve, writes("a")); !strings.HasPrefix(got[0], "ok") {
		t.Errorf("%q", got)
	}
	if got := does(t, eve, writes("b")); !strings.Contains(got[0], "workspace.max_bytes") {
		t.Errorf("%q", got)
	}
	if got := does(t, ann, writes("a")); !strings.HasPrefix(got[0], "ok") {
		t.Errorf("another user: %q", got)
	}
	if tool != "write" {
		if got := does(t, eve, call{"shell", args{"command": "cp a b"}}); strings.HasPrefix(got[0], "ok") {
			t.Errorf("a program: %q", got)
		}
	}
	system := tenantAgent(t, "workspace: {max_bytes: 64KiB, access: system, per: agent}\nimport: {tools: [write]}\n")
	if err := stile.Check(system, stile.Config{Dir: filepath.Join(t.TempDir(), "data")}); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.max_bytes") {
		t.Errorf("access: system: %v", err)
	}
}

// An agent whose users cannot be held apart is refused where callers are told apart,
// unless its manifest says that they work together.
func TestSharingHasToBeSaid(t *testing.T) {
	for _, c := range []struct {
		more             string
		shared, unshared bool // it loads
	}{
		{"workspace: {access: project}", false, true},
		{"workspace: {access: system}", false, true},
		{"workspace: {access: system, per: user}", false, false},
		{"workspace: {access: system, per: agent}", true, true},
		{"workspace: {access: project, per: agent}", true, true},
		{"workspace: {access: project, per: session}", true, true},
		{"shell: {isolation: none}", false, true},
		{"shell: {isolation: none}\nworkspace: {per: agent}", true, true},
		{"workspace: {}", true, true},
	} {
		a := tenantAgent(t, c.more+"\nimport: {tools: [read"+map[bool]string{true: ", shell"}[strings.Contains(c.more, "shell")]+"]}\n")
		for shared, loads := range map[bool]bool{true: c.shared, false: c.unshared} {
			err := stile.Check(a, stile.Config{Shared: shared, Dir: filepath.Join(t.TempDir(), "data")})
			if loads != (err == nil) || err != nil && (messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.per")) {
				t.Errorf("%s, callers told apart: %v: %v", c.more, shared, err)
			}
		}
	}
}

// confined skips a test of programs where the kernel cannot confine them.
func confined(t *testing.T) {
	t.Helper()
	if err := confine.Probe().Err(); err != nil {
		t.Skip("this kernel cannot confine commands: ", err)
	}
}

// Programs of one user reach neither files nor caches of another one, not by what they are
// told and not by looking.
func TestProgramsAreApart(t *testing.T) {
	confined(t)
	a := tenantAgent(t, "shell: {caches: [GOCACHE]}\nimport: {tools: [shell, write]}\n")
	rt := start(t, stile.Config{Shared: true, Dir: filepath.Join(t.TempDir(), "data")})
	ann, eve := open(t, rt, "acme:ann:s", a), open(t, rt, "evil:eve:s", a)
	does(t, ann, call{"write", args{"file": "contract.txt", "content": "offer 1.2M"}})
	run := func(s *stile.Session, script string) string {
		does(t, s, call{"write", args{"file": "run.awk", "content": script, "overwrite": true}}) // calls of one batch run together
		return does(t, s, call{"shell", args{"command": "awk -f run.awk"}})[0]
	}
	const look = `BEGIN { cache = ENVIRON["GOCACHE"] "/object"; `
	if got := run(ann, look+`print "mine" > cache; close(cache); getline l < "contract.txt"; print l }`); !strings.Contains(got, "1.2M") {
		t.Fatal(got)
	}
	own := filepath.Join(a.Dir, "sandbox", ".stile-users", "user", "acme", "ann", "contract.txt")
	const cache = `(ENVIRON["GOCACHE"] "/../../../acme/ann/GOCACHE/object")`
	got := run(eve, look+`
		getline l < cache; print "own " l
		l = ""; getline l < `+cache+`; print "cache " l
		l = ""; getline l < "`+own+`"; print "file " l
		l = ""; getline l < "../../acme/ann/contract.txt"; print "above " l
	}`)
	if strings.Contains(got, "mine") || strings.Contains(got, "1.2M\n") || !strings.Contains(got, "above") {
		t.Error(got)
	}
	run(eve, `BEGIN { print "poison" > `+cache+` }`)
	if got := run(ann, look+`getline l < cache; print l }`); !strings.Contains(got, `"mine\n"`) {
		t.Errorf("ann's cache: %s", got)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err) // else nothing was tried
	}
}

// Agents whose programs would reach the folders of another one's users are refused,
// whichever is opened first.
func TestFoldersOfAgentsAreApart(t *testing.T) {
	confined(t)
	const agent = "dialect: cogency\nmodel: {provider: scripted}\n"
	for name, more := range map[string]string{
		"the folder": "workspace: {access: project, per: agent, root: work}\n",
		"read":       "workspace: {per: agent, root: other}\nshell: {read: [work/sandbox]}\n",
		"write":      "shell: {write: [work]}\n",
	} {
		dir := write(t, "a.yaml", "name: a\nimport: {tools: [read]}\nworkspace: {root: work/sandbox}\n"+agent,
			"b.yaml", "name: b\nimport: {tools: [shell]}\n"+agent+more, "other/x", "", "work/sandbox/x", "", "sandbox/x", "")
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			var agents []*stile.Agent
			for _, of := range order {
				a, err := stile.LoadAgent(filepath.Join(dir, of+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				a.Model = obeys()
				agents = append(agents, a)
			}
			for shared, loads := range map[bool]bool{true: false, false: true} {
				rt, err := stile.New(t.Context(), stile.Config{Shared: shared, InMemory: true, Agents: agents})
				if err == nil {
					rt.Close(context.Background())
				}
				if loads != (err == nil) || err != nil && (messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "workspace.per")) {
					t.Errorf("%s, %v, callers told apart: %v: %v", name, order, shared, err)
				}
			}
		}
	}
}

// Each user has a connection to an MCP server: what a server keeps for one is not there
// for another.
func TestMCPConnectionsAreApart(t *testing.T) {
	var mu sync.Mutex
	kept := map[string]string{} // by session of the protocol
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "keep", Description: "Keeps.", InputSchema: rawSchema(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		before := kept[req.Session.ID()]
		kept[req.Session.ID()] = string(req.Params.Arguments)
		return says1("before: " + before)
	})
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	for name, c := range map[string]struct {
		workspace string
		meets     []string // sessions that find what acme:ann:s1 kept
		not       []string
	}{
		"user":    {"{}", []string{"acme:ann:s2"}, []string{"acme:bob:s1", "evil:eve:s1", "local:local:s1"}},
		"session": {"{per: session}", nil, []string{"acme:ann:s2", "evil:eve:s1"}},
		"tenant":  {"{per: tenant}", []string{"acme:bob:s1"}, []string{"evil:eve:s1"}},
		"agent":   {"{per: agent}", []string{"evil:eve:s1"}, nil},
	} {
		a := tenantAgent(t, "workspace: "+c.workspace+"\nimport: {mcp: [{name: desk, url: "+srv.URL+", tools: [{name: keep, class: read_only}]}]}\n")
		rt := start(t, stile.Config{Shared: true})
		secret := func(sid string) string {
			return does(t, open(t, rt, sid, a), call{"desk.keep", args{"secret": sid}})[0]
		}
		secret("acme:ann:s1")
		for _, sid := range slices.Concat(c.meets, c.not) {
			got := secret(sid)
			if meets := slices.Contains(c.meets, sid); meets != strings.Contains(got, "acme:ann:s1") || !strings.Contains(got, "before: ") {
				t.Errorf("%s: %s got %s", name, sid, got)
			}
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A feed of the agent's folder, and documents that are searched, do not show the files of
// users below it.
func TestFeedsWithoutFilesOfUsers(t *testing.T) {
	a := tenantAgent(t, "context_feeds: [{id: docs, type: ingest, source: {params: {paths: [.], format: text}}}]\nsearch: {documents: .}\nimport: {tools: [write, search]}\n")
	own := filepath.Join(a.Dir, "sandbox", ".stile-users", "user", "acme", "ann", "contract.md")
	seen := &recorder{Model: obeys()}
	a.Model = seen
	for path, text := range map[string]string{own: "offer 1.2M", filepath.Join(a.Dir, "handbook.md"): "offer our best"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt := start(t, stile.Config{Shared: true})
	eve := open(t, rt, "evil:eve:s", a)
	if got := does(t, eve, call{"search", args{"query": "offer"}}); strings.Contains(got[0], "1.2M") || !strings.Contains(got[0], "our best") {
		t.Error(got)
	}
	var all strings.Builder
	for _, req := range seen.requests() {
		for _, m := range req.Messages {
			all.WriteString(m.Text)
		}
	}
	if strings.Contains(all.String(), "1.2M") || strings.Contains(all.String(), "contract.md") || !strings.Contains(all.String(), "handbook.md") {
		t.Errorf("the prompts have %s", all.String())
	}
}

// Whoever is erased has no files any more, nor have the person's sessions; others have theirs.
func TestErasedUsersFiles(t *testing.T) {
	for _, per := range []string{"user", "session"} {
		a := tenantAgent(t, "workspace: {per: "+per+"}\nimport: {tools: [read, write]}\n")
		rt := start(t, stile.Config{Shared: true, InMemory: true})
		ann, eve := open(t, rt, "acme:ann:s", a), open(t, rt, "acme:eve:s", a)
		for _, s := range []*stile.Session{ann, eve} {
			does(t, s, call{"write", args{"file": "contract.txt", "content": "offer 1.2M"}})
		}
		of := filepath.Join(a.Dir, "sandbox", ".stile-users", per, "acme")
		if _, err := os.Stat(filepath.Join(of, "ann")); err != nil {
			t.Fatal(err) // else nothing is erased
		}
		if names, err := rt.EraseUser(t.Context(), "acme", "ann", "test"); err != nil || len(names) != 1 {
			t.Errorf("%s: %q, %v", per, names, err)
		}
		if _, err := os.Lstat(filepath.Join(of, "ann")); !os.IsNotExist(err) {
			t.Errorf("%s: the person's files are left: %v", per, err)
		}
		if got := does(t, eve, call{"read", args{"file": "contract.txt"}})[0]; !strings.Contains(got, "1.2M") {
			t.Errorf("%s: another one's: %s", per, got)
		}
		again := open(t, rt, "acme:ann:s", a)
		does(t, again, call{"write", args{"file": "new.txt", "content": "later"}})
		if got := does(t, again, call{"read", args{"file": "new.txt"}})[0]; !strings.Contains(got, "later") {
			t.Errorf("%s: works no more: %s", per, got)
		}
	}
}
