package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/messages"
)

// Request is a request for a response, as it came to a Provider.
type Request struct {
	Led    *Request // of Responses: the request for no reply that led to it; nil for none
	Conn   int      // number of the connection, from 1; 0 is a request without a WebSocket
	N      int      // number of the request, over all connections, from 1
	Key    string   // of the client
	Body   []byte   // one JSON text a line
	Parent string   // of Responses: the response that it goes on from
	New    []Item   // the request's own
	All    []Item   // the conversation as the provider has it now
}

// Item is an item of a conversation.
type Item struct {
	Type, Role, Text string // Text is what it says, calls or returns
	Call             string // id of the call
}

// String returns the item as one line. A picture or a file is its type, in brackets.
func (i Item) String() string {
	if i.Type != "" && i.Type != "message" {
		return i.Type + " " + i.Call + ": " + i.Text
	}
	return i.Role + ": " + i.Text
}

// Response is what a Provider does with a request.
type Response struct {
	Text  []string        // deltas
	Calls []messages.Call // behind the text: ID, Name and Args
	// Step, if set, is received from before each delta behind the first Free ones.
	Step <-chan struct{}
	Free int
	// Before are frames in front of the response, In those before its last delta, Behind those
	// after its end.
	Before, In, Behind []string
	// Error is the code of an error in place of a response, with its status; in the middle
	// with Text. With Live it is the code with which the connection is closed, and why, or a
	// message of its own.
	Error  string
	Status int
	// Finish is the type of the last event; "" is response.completed. With Live it is the
	// reason of the turn's end.
	Finish string
	// Hang sends nothing behind the text, and Drop breaks the connection there.
	Hang, Drop bool
	// Usage are the tokens; the zero value counts bytes/4.
	Usage messages.Usage
}

// Provider is a provider on the loopback address that keeps conversations, as providers do for
// model.mode: resume. It speaks OpenAI's Responses (over WebSockets and, without conversations, as
// streams of HTTP), OpenAI's Realtime and Gemini's Live; the path of a request says which. It fails
// the test for what the provider itself does not take.
type Provider struct {
	// URL is the address for clients: Options.BaseURL of llm/gemini, and with /v1 of llm/openai.
	URL string
	// Keep is how many conversations of a connection can be gone on from; 0 is 2. A lane with a
	// name keeps its latest.
	Keep int
	// Lead is what Responses does with a request for no reply that leads to another one: "" takes
	// it, "refuse" knows no such request, "answer" passes over that, "forget" keeps nothing of it,
	// "lose" forgets it when it has replied to the request that was led to, "hang" says nothing, and
	// any other text is the code of an error.
	Lead string
	// Refuse answers a handshake with a status; 0 accepts it. It may be nil.
	Refuse func(conn int) (status int, body string)
	// Setup refuses to set a connection of Live up, as Response.Error does; "" accepts it. It
	// may be nil.
	Setup func(conn int) string
	// Cut breaks each connection after so many bytes of its server; 0 never.
	Cut atomic.Int64

	// Base, if it is not nil, is how clients reach the provider: Options.Base of their model.
	Base http.RoundTripper

	srv    *httptest.Server
	t      testing.TB
	answer func(*Request) Response
	ctx    context.Context
	hangUp context.CancelFunc

	mu    sync.Mutex
	conns int
	seen  []*Request
	open  map[int]*websocket.Conn
	sent  int64 // bytes of requests
	leads int   // requests for no reply
	// Of Live: what handles name, and the models of connections.
	handles map[string]liveKept
	models  map[int]string
}

// NewProvider starts a provider that lives as long as the test. answer is called for each request,
// from many goroutines.
func NewProvider(t testing.TB, answer func(*Request) Response) *Provider {
	s := newProvider(t, answer)
	s.srv.Listener = &cutting{s.srv.Listener, s}
	s.srv.Start()
	s.URL = s.srv.URL
	return s
}

// NewPipedProvider is NewProvider without a network, for bubbles of testing/synctest: Base alone
// reaches the provider.
func NewPipedProvider(t testing.TB, answer func(*Request) Response) *Provider {
	s := newProvider(t, answer)
	_ = s.srv.Listener.Close()
	pipes := &pipes{come: make(chan net.Conn), done: s.ctx.Done()}
	s.srv.Listener = &cutting{pipes, s}
	s.srv.Start()
	s.URL = "http://provider.test"
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case pipes.come <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, net.ErrClosed
		}
	}}
	s.Base = base
	t.Cleanup(base.CloseIdleConnections)
	return s
}

func newProvider(t testing.TB, answer func(*Request) Response) *Provider {
	s := &Provider{t: t, answer: answer, open: map[int]*websocket.Conn{}, handles: map[string]liveKept{}, models: map[int]string{}}
	s.ctx, s.hangUp = context.WithCancel(context.Background())
	s.srv = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// pipes is a listener without a network.
type pipes struct {
	come chan net.Conn
	done <-chan struct{}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (*pipes) Close() error { return nil }

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Close breaks all connections.
func (s *Provider) Close() {
	s.hangUp()
	s.srv.CloseClientConnections()
	s.srv.Close()
}

// HangUp breaks the open connections, and lets others come.
func (s *Provider) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.CloseNow()
	}
}

// Seen returns the requests so far.
func (s *Provider) Seen() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.seen...)
}

// Open returns how many connections there are.
func (s *Provider) Open() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.open) }

// Conns returns how many connections there were.
func (s *Provider) Conns() int { s.mu.Lock(); defer s.mu.Unlock(); return s.conns }

// Leads returns how many requests for no reply there were.
func (s *Provider) Leads() int { s.mu.Lock(); defer s.mu.Unlock(); return s.leads }

// Sent returns how many bytes the requests had.
func (s *Provider) Sent() int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.sent }

// serve answers a request of HTTP.
func (s *Provider) serve(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	if req.Method == http.MethodGet {
		s.conns++
	}
	n := s.conns
	s.mu.Unlock()
	if s.Refuse != nil && req.Method == http.MethodGet {
		if status, body := s.Refuse(n); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return
		}
	}
	if req.URL.Path == "/v1/realtime" && req.Method == http.MethodGet {
		s.realtime(w, req, n)
		return
	}
	if req.URL.Path == livePath {
		s.live(w, req, n)
		return
	}
	if req.URL.Path != "/v1/responses" {
		http.NotFound(w, req)
		return
	}
	if req.Method == http.MethodPost { // without a conversation: the same events, as a stream
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		t := &talk{s: s, key: bearer(req.Header), write: func(frame string) bool {
			_, err := io.WriteString(w, "data: "+frame+"\n\n")
			return http.NewResponseController(w).Flush() == nil && err == nil
		}}
		t.take(body)
		return
	}
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	c.SetReadLimit(64 << 20)
	s.mu.Lock()
	s.open[n] = c
	s.mu.Unlock()
	defer func() {
		_ = c.CloseNow()
		s.mu.Lock()
		delete(s.open, n)
		s.mu.Unlock()
	}()
	t := &talk{s: s, conn: n, key: bearer(req.Header), write: func(frame string) bool {
		return c.Write(s.ctx, websocket.MessageText, []byte(frame)) == nil
	}}
	for {
		kind, body, err := c.Read(s.ctx)
		if err != nil || kind != websocket.MessageText || !t.take(body) {
			return
		}
	}
}

// talk is one connection.
type talk struct {
	s     *Provider
	conn  int // 0 is a request over HTTP
	key   string
	write func(frame string) bool
	kept  []kept
	led   *Request // that no request has followed
}

type kept struct {
	id    string
	items []Item
	lane  string
}

// wireItem is an item as it is sent.
type wireItem struct {
	Type, Role, Name, Arguments, Output string
	Content                             any
	CallID                              string `json:"call_id"`
}

func (i *wireItem) item() Item {
	text, _ := i.Content.(string)
	parts, _ := i.Content.([]any) // of a message with pictures or files: their types, and its text
	for _, p := range parts {
		if p, ok := p.(map[string]any); ok && p["text"] != nil {
			text += fmt.Sprint(p["text"])
		} else if ok {
			text += fmt.Sprintf("[%v]", p["type"])
		}
	}
	switch i.Type {
	case "function_call":
		text = i.Name + i.Arguments
	case "function_call_output":
		text = i.Output
	}
	return Item{Type: i.Type, Role: i.Role, Text: text, Call: i.CallID}
}

func (t *talk) refuse(status int, code string) bool {
	return t.write(fmt.Sprintf(`{"type":"error","status":%d,"error":{"type":"invalid_request_error","code":%s,"message":"SECRET no","param":null}}`, status, jsonString(code)))
}

// take answers a request, and reports whether the connection goes on.
func (t *talk) take(body []byte) bool {
	var b struct {
		Type, Model string
		Store       *bool
		Stream      *bool
		Background  *bool
		Parent      string `json:"previous_response_id"`
		Lane        string `json:"stream_id"`
		Generate    *bool
		Input       []wireItem
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.s.t.Errorf("a request that is no JSON: %v: %s", err, body)
		return false
	}
	if (b.Type == "response.create") != (t.conn > 0) || (b.Stream == nil) != (t.conn > 0) || b.Store == nil || *b.Store || b.Background != nil || b.Model == "" {
		t.s.t.Errorf("a request that the provider does not take: %s", body)
	}
	c := &Request{Conn: t.conn, Key: t.key, Body: body, Parent: b.Parent}
	for i := range b.Input {
		c.New = append(c.New, b.Input[i].item())
	}
	found := b.Parent == ""
	for _, k := range t.kept {
		if k.id == b.Parent {
			c.All, found = append(c.All, k.items...), true
		}
	}
	c.All = append(c.All, c.New...)
	if (b.Lane != "") != (b.Generate != nil) || b.Generate != nil && (*b.Generate || t.conn == 0) {
		t.s.t.Errorf("a request that leads to none, or on a lane of its own: %s", body)
	}
	if b.Generate != nil && t.s.Lead != "answer" {
		return t.lead(c, b.Lane, found)
	}
	c.Led, t.led = t.led, nil
	t.s.mu.Lock()
	t.s.sent += int64(len(body))
	t.s.seen = append(t.s.seen, c)
	c.N = len(t.s.seen)
	t.s.mu.Unlock()
	if !found {
		return t.refuse(400, "previous_response_not_found")
	}
	return t.say(c, t.s.answer(c))
}

// lead takes a request for no reply.
func (t *talk) lead(c *Request, lane string, found bool) bool {
	t.s.mu.Lock()
	t.s.sent += int64(len(c.Body))
	t.s.leads++
	id := fmt.Sprintf("lead_%d", t.s.leads)
	t.s.mu.Unlock()
	switch {
	case t.s.Lead == "refuse":
		return t.refuse(400, "unknown_parameter")
	case t.s.Lead == "hang":
		return true
	case t.s.Lead != "" && t.s.Lead != "forget" && t.s.Lead != "lose":
		return t.refuse(map[bool]int{true: 429, false: 500}[strings.HasPrefix(t.s.Lead, "rate_limit")], t.s.Lead)
	case !found:
		return t.refuse(400, "previous_response_not_found")
	}
	t.led = c
	if t.s.Lead != "forget" {
		t.keep(kept{id, c.All, lane})
	}
	for i, state := range []string{"created", "in_progress", "completed"} {
		tokens := int64(0)
		for _, item := range c.All {
			tokens += int64(len(item.Text)+3) / 4
		}
		status := state
		if state == "created" {
			status = "in_progress"
		}
		if !t.write(fmt.Sprintf(`{"sequence_number":%d,"type":"response.%s","stream_id":%q,"response":{"id":%q,"object":"response","status":%q,"error":null,"output":[],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"total_tokens":%[6]d}}}`, i, state, lane, id, status, tokens)) {
			return false
		}
	}
	return true
}

// keep keeps a conversation, and of a lane the latest that it may.
func (t *talk) keep(k kept) {
	most := 1
	if k.lane == "" {
		if most = t.s.Keep; most == 0 {
			most = 2
		}
	}
	t.kept = append(t.kept, k)
	n := 0
	for i := len(t.kept) - 1; i >= 0; i-- {
		if t.kept[i].lane != k.lane {
			continue
		}
		if n++; n > most {
			t.kept = append(t.kept[:i:i], t.kept[i+1:]...)
			return
		}
	}
}

func (t *talk) say(c *Request, r Response) bool {
	id := fmt.Sprintf("resp_%d", c.N)
	seq := 0
	out := func(format string, args ...any) bool {
		seq++
		return t.write(strings.Replace(fmt.Sprintf(format, args...), "{", fmt.Sprintf(`{"sequence_number":%d,`, seq), 1))
	}
	for _, f := range r.Before {
		if !t.write(f) {
			return false
		}
	}
	if r.Error != "" && len(r.Text) == 0 {
		t.evict(c.Parent)
		return t.refuse(r.Status, r.Error)
	}
	if r.Drop && len(r.Text) == 0 {
		return false
	}
	out(`{"type":"response.created","response":{"id":%q,"object":"response","status":"in_progress","error":null,"usage":null,"output":[]}}`, id)
	out(`{"type":"response.in_progress","response":{"id":%q,"object":"response","status":"in_progress","error":null,"usage":null,"output":[]}}`, id)
	text := strings.Join(r.Text, "")
	index := 0
	if text != "" || len(r.Calls) == 0 {
		out(`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_%d","type":"message","status":"in_progress","role":"assistant","content":[]}}`, c.N)
		out(`{"type":"response.content_part.added","item_id":"msg_%d","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`, c.N)
		for i, delta := range r.Text {
			if r.Step != nil && i >= r.Free {
				select {
				case <-r.Step:
				case <-t.s.ctx.Done():
					return false
				}
			}
			if i == len(r.Text)-1 {
				for _, f := range r.In {
					t.write(f)
				}
			}
			if !out(`{"type":"response.output_text.delta","item_id":"msg_%d","output_index":0,"content_index":0,"delta":%s}`, c.N, jsonString(delta)) {
				return false
			}
		}
		switch {
		case r.Error != "":
			t.evict(c.Parent)
			return t.refuse(r.Status, r.Error)
		case r.Hang:
			return true
		case r.Drop:
			return false
		}
		out(`{"type":"response.output_text.done","item_id":"msg_%d","output_index":0,"content_index":0,"text":%s}`, c.N, jsonString(text))
		out(`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_%d","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]}}`, c.N, jsonString(text))
		index++
	}
	items := append([]Item(nil), c.All...)
	if text != "" {
		items = append(items, Item{Type: "message", Role: "assistant", Text: text})
	}
	for i, call := range r.Calls {
		half := len(call.Args) / 2
		out(`{"type":"response.output_item.added","output_index":%d,"item":{"id":"fc_%d","type":"function_call","status":"in_progress","call_id":%s,"name":%s,"arguments":""}}`, index+i, i, jsonString(call.ID), jsonString(call.Name))
		for _, piece := range []string{call.Args[:half], call.Args[half:]} {
			out(`{"type":"response.function_call_arguments.delta","item_id":"fc_%d","output_index":%d,"delta":%s}`, i, index+i, jsonString(piece))
		}
		out(`{"type":"response.output_item.done","output_index":%d,"item":{"id":"fc_%d","type":"function_call","status":"completed","call_id":%s,"name":%s,"arguments":%s}}`, index+i, i, jsonString(call.ID), jsonString(call.Name), jsonString(call.Args))
		items = append(items, Item{Type: "function_call", Text: call.Name + call.Args, Call: call.ID})
	}
	u := r.Usage
	if u == (messages.Usage{}) {
		for _, i := range c.All {
			u.Input += int64(len(i.Text)+3) / 4
		}
		u.Output = int64(len(text)+3) / 4
	}
	if r.Finish == "" {
		if t.keep(kept{id: id, items: items}); t.s.Lead == "lose" && c.Led != nil {
			t.kept = t.kept[len(t.kept)-1:]
		}
		r.Finish = "response.completed"
	}
	out(`{"type":%q,"response":{"id":%q,"object":"response","status":%q,"error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"total_tokens":%d}}}`,
		r.Finish, id, strings.TrimPrefix(r.Finish, "response."), u.Input, u.CacheRead, u.Output, u.Input+u.Output)
	for _, f := range r.Behind {
		t.write(f)
	}
	return true
}

// evict forgets a conversation, as the provider does after an error.
func (t *talk) evict(id string) {
	for i := range t.kept {
		if t.kept[i].id == id {
			t.kept = append(t.kept[:i:i], t.kept[i+1:]...)
			return
		}
	}
}

// cutting breaks connections after Provider.Cut bytes.
type cutting struct {
	net.Listener
	s *Provider
}

// Accept implements net.Listener.
func (l *cutting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: c, left: l.s.Cut.Load()}, nil
}

// cutConn is a connection that breaks after left bytes; 0 never.
type cutConn struct {
	net.Conn
	left int64
}

// Write implements net.Conn. One goroutine at a time writes.
func (c *cutConn) Write(p []byte) (int, error) {
	switch {
	case c.left == 0:
		return c.Conn.Write(p)
	case c.left < 0:
		return 0, net.ErrClosed
	}
	n := min(c.left, int64(len(p)))
	_, err := c.Conn.Write(p[:n])
	if c.left -= n; c.left == 0 {
		_ = c.Conn.Close()
		c.left = -1
		return int(n), net.ErrClosed
	}
	return int(n), err
}

// bearer returns the key of a request.
func bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

// jsonString returns a text as JSON.
func jsonString(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string has a form
	return strings.TrimSuffix(b.String(), "\n")
}
