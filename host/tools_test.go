package host_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/internal/mcp"
)

// bearing adds a token to requests.
type bearing struct{ token string }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func toolClient(t *testing.T, d *door, token string, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	ses, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearing{token}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ses.Close() })
	return ses
}

func callTool(t *testing.T, ses *sdk.ClientSession, name string, args map[string]any) (*sdk.CallToolResult, mcp.Answer, string) {
	t.Helper()
	res, err := ses.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	var a mcp.Answer
	b, err := json.Marshal(res.StructuredContent)
	if err == nil && res.StructuredContent != nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	text := ""
	for _, c := range res.Content {
		text += c.(*sdk.TextContent).Text
	}
	return res, a, text
}

// Agents are tools: a call is a run, a session goes on with a conversation, a HALT is an
// error result.
func TestAgentsAsTools(t *testing.T) {
	d := talkers(t)
	ses := toolClient(t, d, "", nil)
	list, err := ses.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"broken", "echo", "kitsu"}) {
		t.Errorf("%q", names)
	}
	_, first, text := callTool(t, ses, "echo", map[string]any{"message": "hello"})
	if text != "[user: hello]" || first.Text != text || first.Decision != "DONE" || first.Run != 1 || !strings.HasPrefix(first.Session, "mcp-") {
		t.Errorf("%q %+v", text, first)
	}
	_, second, text := callTool(t, ses, "echo", map[string]any{"message": "again", "session": first.Session})
	if text != "[user: hello][assistant: [user: hello]][user: again]" || second.Run != 2 || second.Session != first.Session {
		t.Errorf("%q %+v", text, second)
	}
	if _, a, text := callTool(t, ses, "kitsu", map[string]any{"message": "weather?"}); text != "It will rain." {
		t.Errorf("%q %+v", text, a)
	}
	for name, c := range map[string]struct {
		tool string
		args map[string]any
		want string
	}{
		"halt":            {"broken", map[string]any{"message": "x"}, "ERR_MODEL"},
		"another's agent": {"broken", map[string]any{"message": "x", "session": first.Session}, "another agent"},
		"hostile session": {"echo", map[string]any{"message": "x", "session": "a:b"}, "ERR_INVALID"},
		"no message":      {"echo", map[string]any{}, "message"},
		"a large message": {"echo", map[string]any{"message": strings.Repeat("x", 600<<10)}, "512 KiB"},
	} {
		if res, _, text := callTool(t, ses, c.tool, c.args); !res.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %q", name, res.IsError, text)
		}
	}
}

// Text is told while it grows, and a cancel reaches the run.
func TestToolProgressAndCancel(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two ", "three"}, goOn)))
	var mu sync.Mutex
	var said []string
	var bytes []float64
	heard := make(chan struct{}, 10)
	ses := toolClient(t, d, "", &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		said, bytes = append(said, req.Params.Message), append(bytes, req.Params.Progress)
		mu.Unlock()
		heard <- struct{}{}
	}})
	call := func(ctx context.Context, session string) (chan error, chan *sdk.CallToolResult) {
		failed, got := make(chan error, 1), make(chan *sdk.CallToolResult, 1)
		go func() {
			params := &sdk.CallToolParams{Name: "talker", Arguments: map[string]any{"message": "go", "session": session}}
			params.SetProgressToken("p-" + session)
			res, err := ses.CallTool(ctx, params)
			failed <- err
			got <- res
		}()
		return failed, got
	}
	failed, got := call(t.Context(), "s")
	<-heard
	for range 3 {
		goOn <- struct{}{}
		<-heard
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if text := (<-got).Content[0].(*sdk.TextContent).Text; text != "one two three" {
		t.Errorf("%q", text)
	}
	mu.Lock()
	if strings.Join(said, "|") != "session s, run 1|one |two |three" || !slices.Equal(bytes, []float64{0, 4, 8, 13}) {
		t.Errorf("progress %q %v", said, bytes)
	}
	mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	failed, _ = call(ctx, "c")
	<-heard
	goOn <- struct{}{}
	<-heard
	cancel()
	if err := <-failed; err == nil {
		t.Error("a cancelled call gave an answer")
	}
	seen := events(t, d.ask("GET", "/v1/sessions/c/runs/1/events", "").Body, 100)
	if last := seen[len(seen)-1].data["body"].(map[string]any); last["reason"] != "ERR_CANCELLED" {
		t.Errorf("the run ended %v", last)
	}
}

// A session of the protocol belongs to the caller who began it, and so do the agents'
// sessions behind it.
func TestToolTenants(t *testing.T) {
	keys := newTokens(t)
	ann, _ := keys.make("acme", "ann", "submit", "read")
	bob, _ := keys.make("bolt", "bob", "submit", "read")
	weak, _ := keys.make("acme", "ann", "read")
	d := serve(t, host.Config{Access: keys}, agentOf("echo", echo))
	of := map[string]*sdk.ClientSession{"ann": toolClient(t, d, ann, nil), "bob": toolClient(t, d, bob, nil)}
	for who, ses := range of {
		if _, _, text := callTool(t, ses, "echo", map[string]any{"message": "hello", "session": "same"}); text != "[user: hello]" {
			t.Errorf("%s sees %q", who, text)
		}
	}
	ask := func(token string) int {
		return d.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, "Authorization", "Bearer "+token,
			"Accept", "application/json, text/event-stream", "Mcp-Session-Id", of["ann"].ID()).StatusCode
	}
	if got := ask(ann); got != 200 {
		t.Errorf("the caller's own session: %d", got)
	}
	if got := ask(bob); got != 404 {
		t.Errorf("another's session: %d", got)
	}
	// Somebody else's session of the protocol, and one with a seal that is none, answer as
	// one that never was.
	for _, method := range []string{"GET", "POST", "DELETE"} {
		said := func(id string) (int, string) {
			res := d.ask(method, "/mcp", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, "Authorization", "Bearer "+bob, "Accept", "application/json, text/event-stream", "Mcp-Session-Id", id)
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(b)
		}
		status, text := said("XYZ")
		for _, id := range []string{of["ann"].ID(), of["bob"].ID() + "0", "none", "-"} {
			if got, body := said(id); status != 404 || got != status || body != text {
				t.Errorf("%s %s: %d %q, of one that never was %d %q", method, id, got, body, status, text)
			}
		}
	}
	if got := ask(weak); got != 403 {
		t.Errorf("without the scope: %d", got)
	}
	if got := ask("wrong"); got != 401 {
		t.Errorf("without a token: %d", got)
	}
}

// The official client for Node, unchanged.
func TestToolsFromNode(t *testing.T) {
	node, packages, ok := installed(t, "@modelcontextprotocol/sdk")
	if !ok {
		return
	}
	d := talkers(t)
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "--test-timeout=20000", "testdata/mcp.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, nodePackages+"="+packages)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
