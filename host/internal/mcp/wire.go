package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Codes of JSON-RPC.
const (
	codeParse   = -32700
	codeInvalid = -32600
	codeMethod  = -32601
)

// message is what a message of the protocol says of itself.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
}

// messagesOf are those of a body.
type messagesOf []message

// readMessages reads the messages of a request, and puts its body back. What is no message is
// for the SDK to refuse.
func readMessages(r *http.Request) (messagesOf, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var all messagesOf
	var one message
	if json.Unmarshal(body, &all) != nil && json.Unmarshal(body, &one) == nil {
		all = messagesOf{one}
	}
	return all, nil
}

// newProtocol is the first version whose requests begin no session; older ones, which a request
// without the header has, do.
const newProtocol = "2026-07-28"

// begin reports whether the messages may come without a session.
func (m messagesOf) begin(r *http.Request) bool {
	if r.Header.Get("Mcp-Protocol-Version") >= newProtocol {
		return true // the SDK says which versions there are
	}
	for _, one := range m {
		if one.Method == "initialize" || one.Method == "server/discover" {
			return true
		}
	}
	return len(m) == 0
}

// answers reports whether one of the messages answers a question of the host.
func (m messagesOf) answers() bool {
	for _, one := range m {
		if one.Method == "" && len(one.Result) > 0 {
			return true
		}
	}
	return false
}

// call is the id of the one request; nil where there is none, or more.
func (m messagesOf) call() json.RawMessage {
	if len(m) != 1 || m[0].Method == "" {
		return nil
	}
	return m[0].ID
}

// refuse answers in the words of the protocol.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int, text string) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	type wrong struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   wrong           `json:"error"`
	}{"2.0", id, wrong{code, text}})
	if err != nil { // of an id that is no JSON: it was read as such
		b = nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// worded is an answer in which the SDK's refusals in plain text become errors of the protocol. A
// method that there is not is an answer to the request, and no failure of the transport.
type worded struct {
	http.ResponseWriter
	sent    messagesOf
	refused bool
	text    []byte
}

// maxRefusal bounds what is kept of a refusal; the SDK quotes what it refuses.
const maxRefusal = 300

// WriteHeader implements http.ResponseWriter.
func (w *worded) WriteHeader(status int) {
	if status == http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *worded) Write(b []byte) (int, error) {
	if w.refused {
		w.text = append(w.text, b[:min(len(b), maxRefusal-len(w.text))]...)
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is below.
func (w *worded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end sends a refusal.
func (w *worded) end() {
	if !w.refused {
		return
	}
	text := strings.ToValidUTF8(strings.TrimSpace(string(w.text)), "?")
	id := w.sent.call()
	switch {
	case id != nil && strings.HasSuffix(text, strconv.Quote(w.sent[0].Method)+" unsupported"):
		refuse(w.ResponseWriter, http.StatusOK, id, codeMethod, "there is no method "+strconv.Quote(w.sent[0].Method))
	case strings.HasPrefix(text, "malformed payload"):
		refuse(w.ResponseWriter, http.StatusBadRequest, nil, codeParse, text)
	case text == "failed to replay events":
		refuse(w.ResponseWriter, http.StatusBadRequest, nil, codeInvalid, "the events behind that one are not kept any more: call the tool with the session and run of its first progress note")
	default:
		refuse(w.ResponseWriter, http.StatusBadRequest, nil, codeInvalid, text)
	}
}

// answering is a request that a stream is sent to. A client that resumes the stream takes it from
// the request that had it.
type answering struct {
	door   *Door
	w      http.ResponseWriter
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	stream string // "" for none
}

type answeringKey struct{}

func answeringOf(ctx context.Context) *answering {
	a, _ := ctx.Value(answeringKey{}).(*answering)
	return a
}

// answer begins the answer to a request.
func (d *Door) answer(ctx context.Context, w http.ResponseWriter) *answering {
	a := &answering{door: d, w: w, done: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	a.ctx = context.WithValue(ctx, answeringKey{}, a)
	return a
}

// claim has a stream sent to the request, and to no earlier one.
func (a *answering) claim(session, stream string) {
	if stream == "" {
		return
	}
	a.door.mu.Lock()
	a.stream = session + " " + stream
	before := a.door.streams[a.stream]
	a.door.streams[a.stream] = a
	a.door.mu.Unlock()
	if before == nil {
		return
	}
	before.cancel()
	select {
	case <-before.done:
	case <-a.ctx.Done():
	}
}

// begin begins the answer to a client that resumes a stream, which may have nothing to say yet:
// until there is a byte, client and proxies do not know that it is taken up.
func (a *answering) begin() {
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.Header().Set("Cache-Control", "no-cache, no-transform")
	_, _ = a.w.Write([]byte(": ok\n\n")) // a client that is gone is noticed when there is something to say
	_ = http.NewResponseController(a.w).Flush()
}

// over says that the request is answered.
func (a *answering) over() {
	a.cancel()
	a.door.mu.Lock()
	if a.door.streams[a.stream] == a {
		delete(a.door.streams, a.stream)
	}
	a.door.mu.Unlock()
	close(a.done)
}

// calls are what cancels the calls of a session.
type calls map[*struct{ _ int }]context.CancelFunc

// during makes the context of a call, which ends with the session of the protocol as well: the
// SDK waits for calls before it ends one.
func (d *Door) during(ctx context.Context, session string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	me := &struct{ _ int }{}
	d.mu.Lock()
	if d.calls[session] == nil {
		d.calls[session] = calls{}
	}
	d.calls[session][me] = cancel
	d.mu.Unlock()
	return ctx, func() {
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.calls[session], me); len(d.calls[session]) == 0 {
			delete(d.calls, session)
		}
	}
}

// hangUp cancels the calls of a session whose client ends it.
func (d *Door) hangUp(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cancel := range d.calls[session] {
		cancel()
	}
}
