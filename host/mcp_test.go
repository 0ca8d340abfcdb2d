package host_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/mcp"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// raw speaks the protocol without a client.
type raw struct {
	*door
	session string
	headers []string
}

func newRaw(d *door, headers ...string) *raw {
	d.t.Helper()
	r := &raw{door: d, headers: append([]string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}, headers...)}
	res := r.send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	if res.StatusCode != http.StatusOK {
		d.t.Fatal(res.Status)
	}
	r.session = res.Header.Get("Mcp-Session-Id")
	return r
}

func (r *raw) send(method, body string, headers ...string) *http.Response {
	r.t.Helper()
	if r.session != "" {
		headers = append(headers, "Mcp-Session-Id", r.session)
	}
	return r.ask(method, "/mcp", body, append(headers, r.headers...)...)
}

// said is the error of an answer.
func (r *raw) said(res *http.Response) (status, code int, id any, text string) {
	r.t.Helper()
	var m struct {
		ID    any
		Error struct {
			Code    int
			Message string
		}
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != "application/json" || json.Unmarshal(b, &m) != nil {
		r.t.Fatalf("%s %v %s %v", res.Status, res.Header, b, err)
	}
	return res.StatusCode, m.Error.Code, m.ID, m.Error.Message
}

const callTalker = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"talker","arguments":{"message":"go","session":"s"},"_meta":{"progressToken":1}}}`

// A stream that is cut behind any of its events is resumed without a gap and without a repeat,
// while the run goes on and when it has ended, also when the host still takes the cut one for
// read.
func TestToolStreamsResume(t *testing.T) {
	for cut := 1; cut <= 5; cut++ {
		goOn := make(chan struct{})
		d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two ", "three "}, goOn)))
		c := newRaw(d)
		said := func(e event) string {
			if p, ok := e.data["params"].(map[string]any); ok {
				return p["message"].(string)
			}
			return e.data["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
		}
		first := c.send("POST", callTalker)
		var texts, ids []string
		take := func(body io.Reader, n int) {
			for _, e := range events(t, body, n) {
				texts, ids = append(texts, said(e)), append(ids, e.id)
			}
		}
		step := func(body io.Reader, n int) { // the model speaks when the event in front of it is read
			for range n {
				if at := len(texts); at > 0 && at < 4 {
					goOn <- struct{}{}
				}
				take(body, 1)
			}
		}
		step(oneByOne{first.Body}, cut)
		for at := len(texts); at > 0 && at < 4 && cut%2 == 0; at++ {
			goOn <- struct{}{} // while no client reads
		}
		if cut != 3 { // at 3 the connection is there, and not read
			first.Body.Close()
		}
		again := c.send("GET", "", "Last-Event-ID", ids[len(ids)-1])
		if again.StatusCode != http.StatusOK {
			t.Fatalf("cut at %d: %s", cut, again.Status)
		}
		if cut%2 == 0 {
			take(again.Body, 9)
		} else {
			step(oneByOne{again.Body}, 5-cut)
		}
		if rest := events(t, again.Body, 9); len(rest) > 0 {
			t.Errorf("cut at %d: %v behind the end", cut, rest)
		}
		last := len(texts) - 1
		if texts[0] != "session s, run 1" || strings.Join(texts[1:last], "") != "one two three " || texts[last] != "one two three " {
			t.Errorf("cut at %d: %q", cut, texts)
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != last+1 {
			t.Errorf("cut at %d: %q", cut, ids)
		}
	}
}

// oneByOne gives no more than a byte at a time, so that a reader takes no more than it needs.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(1, len(b))]) }

// The official client resumes by itself.
func TestToolClientResumes(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two "}, goOn)))
	cut := &cutting{}
	heard := make(chan string, 9)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
		heard <- req.Params.Message
	}})
	ses, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: cut}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ses.Close() })
	got := make(chan string, 1)
	go func() {
		params := &sdk.CallToolParams{Name: "talker", Arguments: map[string]any{"message": "go", "session": "s"}}
		params.SetProgressToken("p")
		res, err := ses.CallTool(t.Context(), params)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- res.Content[0].(*sdk.TextContent).Text
	}()
	for _, want := range []string{"session s, run 1", "one ", "two "} {
		if text := <-heard; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		if want == "one " {
			cut.now()
		}
		if want != "two " {
			goOn <- struct{}{}
		}
	}
	if text := <-got; text != "one two " {
		t.Errorf("%q", text)
	}
	var h struct{ Run int64 }
	if d.call(http.StatusOK, &h, "GET", "/v1/sessions/s", ""); h.Run != 1 {
		t.Errorf("%d runs", h.Run)
	}
}

// cutting is a transport whose streams can be cut.
type cutting struct {
	mu   sync.Mutex
	open []io.Closer
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && res.Header.Get("Content-Type") == "text/event-stream" && (r.Method == "POST" || r.Header.Get("Last-Event-ID") != "") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, res.Body)
	}
	return res, err
}

func (c *cutting) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.open {
		b.Close()
	}
	c.open = nil
}

// What the SDK would answer in plain text is an error of the protocol, and a method that there is
// not is an answer to its request.
func TestToolRefusals(t *testing.T) {
	d := talkers(t)
	c := newRaw(d)
	for name, x := range map[string]struct {
		body         string
		bare         bool // without a session
		status, code int
		id           any
	}{
		"unknown":                 {`{"jsonrpc":"2.0","id":3,"method":"tools/destroy"}`, false, 200, -32601, 3.0},
		"unknown, strict":         {`{"jsonrpc":"2.0","id":"x","method":"\"<é"}`, false, 200, -32601, "x"},
		"no JSON":                 {`{"jsonrpc":`, false, 400, -32700, nil},
		"a list of calls":         {`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`, false, 400, -32600, nil},
		"nothing":                 {` `, false, 400, -32700, nil},
		"no session":              {`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, true, 400, -32600, 3.0},
		"no session, and no call": {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, true, 400, -32600, nil},
	} {
		with := *c
		if x.bare {
			with.session = ""
		}
		if status, code, id, text := with.said(with.send("POST", x.body)); status != x.status || code != x.code || id != x.id || text == "" {
			t.Errorf("%s: %d %d %v %q", name, status, code, id, text)
		}
	}
	for _, last := range []string{"nothing", "ABC_0", "ABC_-1"} {
		if status, code, _, text := c.said(c.send("GET", "", "Last-Event-ID", last)); status != 400 || code != -32600 || text == "" {
			t.Errorf("%s: %d %d %q", last, status, code, text)
		}
	}
}

// What a client is told of the tools.
func TestToolsDescribed(t *testing.T) {
	typed := agentOf("order-clerk", stile.ScriptedModel(`{"total": 3}`))
	typed.Manifest.Output.Schema = map[string]any{"type": "object", "properties": map[string]any{"total": map[string]any{"type": "integer"}}, "required": []any{"total"}}
	placed := agentOf("placed", stile.ScriptedModel(`1`))
	placed.Manifest.Output.Schema = map[string]any{"$ref": "#/$defs/n", "$defs": map[string]any{"n": map[string]any{"type": "integer"}}}
	d := serve(t, host.Config{}, typed, placed, agentOf("echo", echo))
	ses := toolClient(t, d, "", nil)
	if in := ses.InitializeResult(); !strings.Contains(in.Instructions, "session") || in.Capabilities.Tools == nil || in.Capabilities.Tools.ListChanged {
		t.Errorf("%+v", in)
	}
	list, err := ses.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		b, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range map[string][]string{"order-clerk": {`"total":{"type":"integer"}`}, "placed": {`"output":{"description"`}, "echo": {`"session"`, `"type":"array"`}}[tool.Name] {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: %s", tool.Name, b)
			}
		}
		if tool.Title == "" || tool.Annotations == nil || tool.Annotations.ReadOnlyHint || !*tool.Annotations.OpenWorldHint {
			t.Errorf("%+v", tool)
		}
	}
	if list.Tools[1].Title != "Order clerk" {
		t.Errorf("%q", list.Tools[1].Title)
	}
	for name, want := range map[string]string{"order-clerk": `{"total":3}`, "placed": "1", "echo": "null"} {
		_, a, text := callTool(t, ses, name, map[string]any{"message": "go"})
		if b, err := json.Marshal(a.Output); err != nil || string(b) != want || a.Decision != "DONE" {
			t.Errorf("%s: %s %+v %q", name, b, a, text)
		}
	}
}

// A client that sets a level hears what happens in a run.
func TestToolLog(t *testing.T) {
	d := talkers(t)
	said := make(chan string, 99)
	//lint:ignore SA1019 what the host's protocol versions have
	ses := toolClient(t, d, "", &sdk.ClientOptions{LoggingMessageHandler: func(_ context.Context, req *sdk.LoggingMessageRequest) {
		of := req.Params.Data.(map[string]any)
		said <- string(req.Params.Level) + " " + req.Params.Logger + " " + of["event"].(string)
	}})
	for _, c := range []struct {
		level string
		want  []string
	}{
		{"warning", []string{"warning stile.broken run.end"}},
		{"debug", []string{
			"info stile.echo run.begin", "debug stile.echo turn.decided", "info stile.echo run.end",
			"info stile.broken run.begin", "debug stile.broken turn.decided", "warning stile.broken run.end",
		}},
	} {
		//lint:ignore SA1019 as above
		if err := ses.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(c.level)}); err != nil {
			t.Fatal(err)
		}
		for _, agent := range []string{"echo", "broken"} {
			callTool(t, ses, agent, map[string]any{"message": "x"})
		}
		for _, want := range c.want {
			if got := <-said; got != want {
				t.Errorf("%s: %s, want %s", c.level, got, want)
			}
		}
	}
}

// An answer of a run that waits has what waits, as a value and as text. The run is waited for by
// its session and number, and so is an answer that was lost.
func TestToolApprovals(t *testing.T) {
	d := serve(t, host.Config{}, asksFirst(t, "asks", ""), agentOf("echo", echo))
	ses := toolClient(t, d, "", nil)
	res, a, text := callTool(t, ses, "asks", map[string]any{"message": "pay", "session": "s"})
	var waiting struct{ Approvals []host.ApprovalView }
	d.call(http.StatusOK, &waiting, "GET", "/v1/sessions/s/approvals", "")
	if len(waiting.Approvals) != 1 || len(a.Approvals) != 1 {
		t.Fatalf("%+v %+v", waiting, a)
	}
	w, got := waiting.Approvals[0], a.Approvals[0]
	if !res.IsError || a.Code != "ERR_APPROVAL" || a.Decision != "" || a.Run != 1 || got.ID != w.ID || got.Digest != w.Digest || got.Args != w.Args || got.Tool != "lab.pay" || got.Expires != w.Expires {
		t.Errorf("%+v, and over HTTP %+v", a, w)
	}
	for _, part := range []string{"ERR_APPROVAL", w.ID, w.Digest, `{"v":"b"}`, "session s, run 1"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
	// A further message is not taken, and says what waits.
	if _, again, _ := callTool(t, ses, "asks", map[string]any{"message": "pay", "session": "s"}); len(again.Approvals) != 1 || again.Run != 1 || again.Code != "ERR_APPROVAL" || !strings.Contains(again.Detail, "not submitted") {
		t.Errorf("%+v", again)
	}
	// So does the run, as long as it waits.
	if _, again, _ := callTool(t, ses, "asks", map[string]any{"session": "s", "run": 1}); len(again.Approvals) != 1 {
		t.Errorf("%+v", again)
	}
	d.call(http.StatusNoContent, nil, "POST", "/v1/sessions/s/approvals/"+w.ID, `{"allow": true, "digest": "`+w.Digest+`"}`)
	for range 2 {
		if res, end, text := callTool(t, ses, "asks", map[string]any{"session": "s", "run": 1}); res.IsError && (len(end.Approvals) != 1 || end.Approvals[0].ID == w.ID) || end.Run != 1 { // the next call waits
			t.Errorf("%+v %q", end, text)
		}
	}
	for name, args := range map[string]map[string]any{
		"another's":  {"session": "other", "run": 1},
		"no session": {"run": 1}, "a message too": {"session": "s", "run": 1, "message": "x"}, "negative": {"session": "s", "run": -1}, "none": {"session": "s", "run": 99},
	} {
		if res, _, text := callTool(t, ses, "asks", args); !res.IsError || !strings.Contains(text, "ERR_") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if res, _, text := callTool(t, ses, "echo", map[string]any{"session": "s", "run": 1}); !res.IsError || !strings.Contains(text, "another agent") {
		t.Errorf("%q", text)
	}
}

// A client that shows questions to its user answers calls that wait, if its token may.
func TestToolQuestions(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	keys := newTokens(t)
	may, _ := keys.make("acme", "ann", "submit", "approve", "read")
	weak, _ := keys.make("acme", "ann", "submit", "read")
	pays := func(name string) *stile.Agent {
		a := asksFirst(t, name, "")
		a.Model = stile.ScriptedModel(`<execute>[{"name":"lab.pay","args":{"v":"b\u202e"}}]</execute>`, "Over.")
		return a
	}
	goOn := make(chan struct{})
	slow, replies := pays("five"), atomic.Int64{}
	quick := slow.Model
	slow.Model = model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		if replies.Add(1) == 2 { // the call is allowed
			<-goOn
		}
		return quick.Stream(ctx, req)
	})
	d := serve(t, host.Config{Access: keys, Audit: host.AuditFile(log)}, pays("one"), pays("two"), pays("three"), pays("four"), slow)
	var mu sync.Mutex
	var asked []string
	answer := make(chan *sdk.ElicitResult, 1)
	shown := make(chan struct{}, 9)
	opts := &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		mu.Lock()
		asked = append(asked, req.Params.Message)
		mu.Unlock()
		shown <- struct{}{}
		select {
		case a := <-answer:
			return a, nil
		case <-ctx.Done():
			goOn <- struct{}{}
			return nil, ctx.Err()
		}
	}}
	ses := toolClient(t, d, may, opts)
	say := func(action, said string) {
		answer <- &sdk.ElicitResult{Action: action, Content: map[string]any{"answer": said, "reason": "too dear"}}
	}
	outcome := func(session string) (state, args string) {
		var b struct{ Approvals []host.ApprovalView }
		d.call(http.StatusOK, &b, "GET", "/v1/sessions/"+session+"/approvals", "", auth(may)...)
		if len(b.Approvals) > 0 {
			return "waits", b.Approvals[0].Digest
		}
		export, err := io.ReadAll(d.ask("GET", "/v1/sessions/"+session+"/export", "", auth(may)...).Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"approve", "deny"} {
			if strings.Contains(string(export), `"state":"`+state+`"`) && strings.Contains(string(export), `"by":"ann"`) {
				return state, string(export)
			}
		}
		return "", string(export)
	}
	say("accept", "allow")
	if res, a, text := callTool(t, ses, "one", map[string]any{"message": "pay", "session": "one"}); res.IsError || a.Decision != "DONE" || text != "Over." {
		t.Errorf("%+v %q", a, text)
	}
	if state, all := outcome("one"); state != "approve" || !strings.Contains(all, "paid b") {
		t.Errorf("%s %s", state, all)
	}
	say("accept", "deny")
	if _, a, text := callTool(t, ses, "two", map[string]any{"message": "pay", "session": "two"}); a.Decision != "DONE" {
		t.Errorf("%+v %q", a, text)
	}
	if state, all := outcome("two"); state != "deny" || !strings.Contains(all, "too dear") || strings.Contains(all, "paid b") {
		t.Errorf("%s %s", state, all)
	}
	say("decline", "")
	if _, a, _ := callTool(t, ses, "three", map[string]any{"message": "pay", "session": "three"}); len(a.Approvals) != 1 || a.Code != "ERR_APPROVAL" {
		t.Errorf("%+v", a)
	}
	mu.Lock()
	for _, text := range asked {
		if !strings.Contains(text, `lab.pay`) || !strings.Contains(text, `b\u{202e}`) || !strings.Contains(text, "Digest ") {
			t.Errorf("%q", text)
		}
	}
	if len(asked) != 3 {
		t.Errorf("asked %d times", len(asked))
	}
	asked = nil
	mu.Unlock()
	// A token that may not approve is not asked, and what it sends as an answer is refused.
	if _, a, _ := callTool(t, toolClient(t, d, weak, opts), "four", map[string]any{"message": "pay", "session": "four"}); len(a.Approvals) != 1 || len(asked) > 0 {
		t.Errorf("%+v %q", a, asked)
	}
	thief := newRaw(d, auth(weak)...)
	if status, _, _, text := thief.said(thief.send("POST", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"answer":"allow"}}}`)); status != 403 || !strings.Contains(text, "approve") {
		t.Errorf("%d %q", status, text)
	}
	// The answer of another door takes the question back.
	for len(shown) > 0 {
		<-shown
	}
	over := make(chan mcp.Answer, 1)
	go func() {
		res, err := ses.CallTool(t.Context(), &sdk.CallToolParams{Name: "five", Arguments: map[string]any{"message": "pay", "session": "five"}})
		var a mcp.Answer
		if err == nil {
			b, _ := json.Marshal(res.StructuredContent)
			err = json.Unmarshal(b, &a)
		}
		if err != nil {
			t.Error(err)
		}
		over <- a
	}()
	<-shown
	var b struct{ Approvals []host.ApprovalView }
	d.call(http.StatusOK, &b, "GET", "/v1/sessions/five/approvals", "", auth(may)...)
	d.call(http.StatusNoContent, nil, "POST", "/v1/sessions/five/approvals/"+b.Approvals[0].ID, `{"allow": true, "digest": "`+b.Approvals[0].Digest+`"}`, auth(may)...)
	if a := <-over; a.Decision != "DONE" {
		t.Errorf("%+v", a)
	}
	lines, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(string(lines)) {
		var e host.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Action == "mcp:elicitation/create" {
			said = append(said, strings.Join([]string{e.User, e.Tool, e.Session, e.Run, e.Detail, e.Code}, " "))
			if e.Approval == "" || e.Status != 200 || e.Token == "" {
				t.Errorf("%+v", e)
			}
		}
	}
	if !slices.Equal(said, []string{"ann one one 1 approve ", "ann two two 1 deny "}) {
		t.Errorf("%q", said)
	}
}

// A client without a good token is told which issuer has one, and what it must be good for.
func TestToolResource(t *testing.T) {
	jwts, err := access.NewIssuer(access.Issuer{URL: "https://id.example.com", Audience: "stile", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	keys := newTokens(t)
	weak, _ := keys.make("acme", "ann", "read")
	d := serve(t, host.Config{Access: access.First(keys, jwts), Hosts: []string{"stile.example.com"}, Origins: []string{"https://stile.example.com"}}, agentOf("echo", echo))
	local := strings.TrimPrefix(d.url, "http://")
	for name, base := range map[string]string{local: d.url, "stile.example.com": "https://stile.example.com"} {
		for _, path := range []string{"", "/mcp"} {
			where := "/.well-known/oauth-protected-resource" + path
			var m struct {
				Resource string   `json:"resource"`
				Issuers  []string `json:"authorization_servers"`
				Scopes   []string `json:"scopes_supported"`
			}
			d.call(http.StatusOK, &m, "GET", where, "", "Host", name)
			if m.Resource != base+path || !slices.Equal(m.Issuers, []string{"https://id.example.com"}) || !slices.Contains(m.Scopes, "submit") {
				t.Errorf("%s: %+v", name, m)
			}
			asked := map[string]string{"": "/v1/agents", "/mcp": "/mcp"}[path]
			for token, want := range map[string][]string{"": nil, "wrong": {`error="invalid_token"`}} {
				headers := []string{"Host", name}
				if token != "" {
					headers = append(headers, auth(token)...)
				}
				said := d.ask("GET", asked, "", headers...).Header.Get("WWW-Authenticate")
				for _, part := range append(want, `Bearer realm="stile"`, `resource_metadata="`+base+where+`"`, `scope="`) {
					if !strings.Contains(said, part) || token == "" && strings.Contains(said, "error=") {
						t.Errorf("%s %q: %s", asked, token, said)
					}
				}
			}
		}
	}
	if said := d.ask("POST", "/mcp", "{}", auth(weak)...).Header.Get("WWW-Authenticate"); !strings.Contains(said, `error="insufficient_scope", scope="submit", resource_metadata=`) {
		t.Error(said)
	}
	without := serve(t, host.Config{Access: keys}, agentOf("echo", echo))
	without.refused(http.StatusNotFound, messages.ErrNotFound, "GET", "/.well-known/oauth-protected-resource/mcp", "")
	if said := without.ask("GET", "/mcp", "").Header.Get("WWW-Authenticate"); said != `Bearer realm="stile", scope="submit"` {
		t.Error(said)
	}
}

// The client that ends its session ends the calls in it.
func TestToolSessionEnds(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two "}, goOn)))
	c := newRaw(d)
	first := c.send("POST", callTalker)
	if seen := events(t, oneByOne{first.Body}, 1); len(seen) != 1 {
		t.Fatal(seen)
	}
	goOn <- struct{}{}
	if res := c.send("DELETE", ""); res.StatusCode != 204 {
		t.Error(res.Status)
	}
	seen := events(t, d.ask("GET", "/v1/sessions/s/runs/1/events", "").Body, 100)
	if last := seen[len(seen)-1].data["body"].(map[string]any); last["reason"] != "ERR_CANCELLED" {
		t.Errorf("the run ended %v", last)
	}
	if res := c.send("GET", "", "Last-Event-ID", "x_0"); res.StatusCode != 404 {
		t.Error(res.Status)
	}
}
