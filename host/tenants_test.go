package host_test

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// One tenant's contract, and another tenant that lists, reads and changes it on the same
// agent: over HTTP, with a journal on disk.
func TestTenantsFiles(t *testing.T) {
	k := newTokens(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte("name: clerk\ndialect: cogency\nmodel: {provider: scripted}\napproval: {default: approve}\nimport: {tools: [read, write, edit, list, file.*]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clerk, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// It calls what its user says and answers with what came of it.
	clerk.Model = model(func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			last := req.Messages[len(req.Messages)-1].Text
			reply := "nothing<end>"
			if _, calls, ok := strings.Cut(last, "call: "); ok {
				reply = "<execute>[" + calls + "]</execute>"
			} else if strings.Contains(last, "1.2M") || strings.Contains(last, "contract.txt\\n") {
				reply = "leaked<end>"
			}
			yield(llm.Chunk{Text: []byte(reply), Finish: messages.FinishComplete}, nil)
		}
	})
	rt, err := stile.New(t.Context(), stile.Config{Dir: filepath.Join(t.TempDir(), "data"), Shared: true, Agents: []*stile.Agent{clerk}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := serveRuntime(t, l, rt, host.Config{Access: k}, clerk)
	says := func(secret, calls string) string {
		t.Helper()
		body, err := json.Marshal(map[string]string{"input": "call: " + calls})
		if err != nil {
			t.Fatal(err)
		}
		var run struct{ Decision, Text string }
		d.call(200, &run, "POST", "/v1/sessions/s/runs?stream=none&wait=60s", string(body), auth(secret)...)
		if run.Decision != "DONE" {
			t.Fatalf("%+v", run)
		}
		return run.Text
	}
	of := map[string]string{}
	for who, name := range map[string][2]string{"ann": {"acme", "ann"}, "eve": {"evil", "eve"}, "bob": {"acme", "bob"}, "owner": {"local", "local"}} {
		of[who], _ = k.make(name[0], name[1], "read", "submit")
		d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "s"}`, auth(of[who])...)
	}
	says(of["ann"], `{"name": "write", "args": {"file": "contract.txt", "content": "offer 1.2M"}}`)
	if got := says(of["ann"], `{"name": "read", "args": {"file": "contract.txt"}}`); got != "leaked" {
		t.Fatalf("ann reads %q", got) // or nothing below could tell
	}
	for _, who := range []string{"eve", "bob", "owner"} {
		for _, calls := range []string{
			`{"name": "list", "args": {}}, {"name": "list", "args": {"path": ".stile-users/user/acme/ann"}}`,
			`{"name": "read", "args": {"file": "contract.txt"}}, {"name": "read", "args": {"file": ".stile-users/user/acme/ann/contract.txt"}}`,
			`{"name": "edit", "args": {"file": "contract.txt", "old": "1.2M", "new": "0.2M"}}`,
			`{"name": "file.read", "args": {"path": "sandbox/.stile-users/user/acme/ann/contract.txt"}}, {"name": "file.list", "args": {"path": "sandbox/.stile-users/user/acme/ann"}}`,
		} {
			if got := says(of[who], calls); got != "nothing" {
				t.Errorf("%s, %s: %q", who, calls, got)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sandbox", ".stile-users", "user", "acme", "ann", "contract.txt")); err != nil || string(b) != "offer 1.2M" {
		t.Errorf("%s, %v", b, err)
	}
}

// A door that tells callers apart has a runtime that knows of it.
func TestAccessNeedsSharedRuntime(t *testing.T) {
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	if _, err := host.New(host.Config{Runtime: rt, Access: newTokens(t)}); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "Config.Shared") {
		t.Error(err)
	}
}
