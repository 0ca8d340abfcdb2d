package host_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// To a tenant that may not use an agent every door answers as if there were none, and
// its sessions of before are gone from every route.
func TestAgentsOfTenants(t *testing.T) {
	k := newTokens(t)
	token := map[string]string{}
	for _, tenant := range []string{"acme", "evil", "other", "none"} {
		token[tenant], _ = k.make(tenant, "u", "read", "submit", "approve", "admin")
	}
	dir := t.TempDir()
	serveIt := func(use map[string][]string) *door {
		agents := []*stile.Agent{agentOf("clerk", speaks([]string{"hello"}, always())), agentOf("public", speaks([]string{"hi"}, always()))}
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Shared: true, Agents: agents})
		if err != nil {
			t.Fatal(err)
		}
		l, err := host.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return serveRuntime(t, l, rt, host.Config{Access: k, MayUse: use}, agents...)
	}
	d := serveIt(nil)
	for _, id := range []string{"old", "same"} {
		d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "`+id+`"}`, auth(token["evil"])...)
		d.call(200, nil, "POST", "/v1/sessions/"+id+"/runs?stream=none&wait=30s", `{"input": "hello"}`, auth(token["evil"])...)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = serveIt(map[string][]string{"acme": {"*"}, "none": {}, "*": {"public"}})
	for tenant, want := range map[string]string{"acme": "clerk public", "evil": "public", "other": "public", "none": ""} {
		var agents struct{ Agents []struct{ Name string } }
		d.call(200, &agents, "GET", "/v1/agents", "", auth(token[tenant])...)
		var models struct{ Data []struct{ ID string } }
		d.call(200, &models, "GET", "/v1/models", "", auth(token[tenant])...)
		tools, err := toolClient(t, d, token[tenant], nil).ListTools(t.Context(), &sdk.ListToolsParams{})
		if err != nil && want != "" {
			t.Fatal(err)
		}
		var all [3][]string
		for _, a := range agents.Agents {
			all[0] = append(all[0], a.Name)
		}
		for _, m := range models.Data {
			all[1] = append(all[1], m.ID)
		}
		if tools != nil {
			for _, tool := range tools.Tools {
				all[2] = append(all[2], tool.Name)
			}
		}
		for i, names := range all {
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s, list %d: %q", tenant, i, got)
			}
		}
	}
	// What is asked of an agent, or of a session of it, and of one that there is none of.
	text := func(method, path, body string) string {
		res := d.ask(method, path, body, auth(token["evil"])...)
		if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") { // it would go on for ever
			return fmt.Sprint(res.StatusCode, " a stream")
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(res.StatusCode, " ", string(b))
	}
	for _, r := range []request{
		{method: "POST", path: "/v1/sessions", body: `{"agent": "clerk", "id": "new"}`},
		{method: "GET", path: "/v1/models/clerk"},
		{method: "POST", path: "/v1/chat/completions", body: `{"model": "clerk", "messages": [{"role": "user", "content": "x"}]}`},
	} {
		missing := text(r.method, strings.ReplaceAll(r.path, "clerk", "nobody"), strings.ReplaceAll(r.body, "clerk", "nobody"))
		if got := text(r.method, r.path, r.body); got != missing || !strings.HasPrefix(got, "404") {
			t.Errorf("%s %s: %s, and of none %s", r.method, r.path, got, missing)
		}
	}
	for _, r := range requests(t, d, "old", "abc") {
		if !r.ofSession {
			continue
		}
		got := text(r.method, r.path, r.body)
		missing := text(r.method, strings.ReplaceAll(r.path, "/old", "/bad"), r.body)
		if got != strings.ReplaceAll(missing, "u:bad", "u:old") {
			t.Errorf("%s %s: %s, and of none %s", r.method, r.path, got, missing)
		}
	}
	var list struct{ Sessions []struct{ ID string } }
	if d.call(200, &list, "GET", "/v1/sessions", "", auth(token["evil"])...); len(list.Sessions) != 0 {
		t.Errorf("%+v", list)
	}
	tool := toolClient(t, d, token["evil"], nil)
	if res, err := tool.CallTool(t.Context(), &sdk.CallToolParams{Name: "clerk", Arguments: map[string]any{"message": "x"}}); err == nil && !res.IsError {
		t.Errorf("%+v", res)
	}
	if _, _, said := callTool(t, tool, "public", map[string]any{"message": "x", "session": "old"}); !strings.Contains(said, "another agent") {
		t.Errorf("%q", said)
	}
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "public", "id": "mine"}`, auth(token["evil"])...)
	d.call(200, nil, "POST", "/v1/sessions/mine/runs?stream=none&wait=30s", `{"input": "hello"}`, auth(token["evil"])...)
	d.call(201, nil, "POST", "/v1/sessions/mine/fork", `{"id": "fork"}`, auth(token["evil"])...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "clerk", "id": "mine"}`, auth(token["acme"])...)
	if d.call(200, &list, "GET", "/v1/sessions", "", auth(token["evil"])...); len(list.Sessions) != 2 {
		t.Errorf("%+v", list)
	}
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions", `{"agent": "public"}`, auth(token["none"])...)
}

// A misspelt agent is refused: it would keep out others than are meant.
func TestAgentsThatAreNotThere(t *testing.T) {
	agent := agentOf("clerk", speaks(nil, always()))
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	_, err = host.New(host.Config{Runtime: rt, Agents: []*stile.Agent{agent}, MayUse: map[string][]string{"acme": {"clrek"}}})
	if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "may_use.acme") || !strings.Contains(err.Error(), "clrek") {
		t.Error(err)
	}
}
