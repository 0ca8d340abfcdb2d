package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/messages"
)

const livePath = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

// live is one connection that speaks Gemini's Live, with replies as text. What is said over it
// stays said: new content interrupts a reply, which is history as far as it came.
type live struct {
	s    *Provider
	conn int
	key  string
	c    *websocket.Conn

	mu      sync.Mutex
	system  string
	calls   []string // ids that wait for their results
	items   []Item
	fresh   []Item // since the last response
	body    []byte // of all messages since then
	resumes bool   // handles are told
	cancel  context.CancelFunc
	work    sync.WaitGroup
}

// liveKept is what a handle names.
type liveKept struct {
	model, system string
	items         []Item
}

type livePart struct {
	Text         string
	InlineData   *struct{ MimeType, Data string }
	FunctionCall *struct {
		ID, Name string
		Args     json.RawMessage
	}
	FunctionResponse *struct {
		ID, Name string
		Response struct{ Output, Message string }
	}
}

type liveContent struct {
	Role  string
	Parts []livePart
}

type liveMessage struct {
	Setup *struct {
		Model            string
		GenerationConfig struct {
			ResponseModalities []string
			MaxOutputTokens    int64
		}
		SystemInstruction *liveContent
		SessionResumption *struct{ Handle string }
		Tools             []any
	}
	ClientContent *struct {
		Turns        []liveContent
		TurnComplete bool
	}
	ToolResponse *struct {
		FunctionResponses []struct {
			ID, Name string
			Response struct{ Output, Message string }
		}
	}
}

func (s *Provider) live(w http.ResponseWriter, req *http.Request, n int) {
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	c.SetReadLimit(64 << 20)
	s.mu.Lock()
	s.open[n] = c
	s.mu.Unlock()
	t := &live{s: s, conn: n, key: req.Header.Get("X-Goog-Api-Key"), c: c}
	defer func() {
		_ = c.CloseNow()
		t.interrupt()
		t.work.Wait()
		s.mu.Lock()
		delete(s.open, n)
		s.mu.Unlock()
	}()
	for first := true; ; first = false {
		_, body, err := c.Read(s.ctx)
		if err != nil || !t.take(body, first) {
			return
		}
	}
}

// out sends a message, as the provider does: JSON in a binary frame.
func (t *live) out(format string, args ...any) bool {
	return t.c.Write(t.s.ctx, websocket.MessageBinary, fmt.Appendf(nil, format, args...)) == nil
}

// refuse closes the connection, "CODE REASON" says how; a JSON object is sent instead.
func (t *live) refuse(why string) bool {
	if strings.HasPrefix(why, "{") {
		t.out("%s", why)
	} else {
		code, reason, _ := strings.Cut(why, " ")
		n, err := strconv.Atoi(code)
		if err != nil {
			t.s.t.Errorf("no code to close with: %s", why)
		}
		_ = t.c.Close(websocket.StatusCode(n), reason)
	}
	return false
}

// take takes a message of the client, and reports whether the connection goes on.
func (t *live) take(body []byte, first bool) bool {
	var m liveMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.s.t.Errorf("a message that is no JSON: %v: %s", err, body)
		return false
	}
	t.s.mu.Lock()
	t.s.sent += int64(len(body))
	t.s.mu.Unlock()
	t.mu.Lock()
	t.body = append(append(t.body, body...), '\n')
	t.mu.Unlock()
	if first != (m.Setup != nil) {
		t.s.t.Errorf("the first message alone sets up: %s", body)
		return false
	}
	switch {
	case m.Setup != nil:
		return t.set(&m, body)
	case m.ClientContent != nil:
		t.interrupt()
		t.work.Wait()
		t.mu.Lock()
		for _, c := range m.ClientContent.Turns {
			t.adds(&c, body)
		}
		t.calls = nil
		t.mu.Unlock()
		return !m.ClientContent.TurnComplete || t.respond()
	case m.ToolResponse != nil:
		t.mu.Lock()
		for _, r := range m.ToolResponse.FunctionResponses {
			at := slices.Index(t.calls, r.ID)
			if at < 0 {
				t.s.t.Errorf("a result without a call: %s", body)
			} else {
				t.calls = slices.Delete(t.calls, at, at+1)
			}
			t.fresh = append(t.fresh, Item{Type: "function_call_output", Call: r.ID, Text: r.Response.Output + r.Response.Message})
		}
		wait := len(t.calls) > 0
		t.mu.Unlock()
		return wait || t.respond()
	}
	t.s.t.Errorf("a message that the provider does not know: %s", body)
	return false
}

// adds adds a content to the conversation. t.mu is held.
func (t *live) adds(c *liveContent, body []byte) {
	role := map[string]string{"user": "user", "model": "assistant"}[c.Role]
	if role == "" || len(c.Parts) == 0 {
		t.s.t.Errorf("content that the provider does not take: %s", body)
	}
	shown := ""
	for _, p := range c.Parts {
		switch {
		case p.InlineData != nil:
			if c.Role != "user" || p.InlineData.MimeType != "image/png" && p.InlineData.MimeType != "image/jpeg" || p.InlineData.Data == "" {
				t.s.t.Errorf("data that the provider does not take: %s", body)
			}
			shown += "[" + p.InlineData.MimeType + "]"
		case p.FunctionCall != nil:
			t.fresh = append(t.fresh, Item{Type: "function_call", Call: p.FunctionCall.ID, Text: p.FunctionCall.Name + string(p.FunctionCall.Args)})
		case p.FunctionResponse != nil:
			t.fresh = append(t.fresh, Item{Type: "function_call_output", Call: p.FunctionResponse.ID, Text: p.FunctionResponse.Response.Output})
		default:
			t.fresh = append(t.fresh, Item{Role: role, Text: shown + p.Text})
			shown = ""
		}
	}
	if shown != "" {
		t.fresh = append(t.fresh, Item{Role: role, Text: shown})
	}
}

func (t *live) set(m *liveMessage, body []byte) bool {
	set := m.Setup
	if !strings.HasPrefix(set.Model, "models/") || !slices.Equal(set.GenerationConfig.ResponseModalities, []string{"TEXT"}) {
		t.s.t.Errorf("a setup that the provider does not take: %s", body)
	}
	if t.s.Setup != nil {
		if why := t.s.Setup(t.conn); why != "" {
			return t.refuse(why)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if set.SystemInstruction != nil {
		for _, p := range set.SystemInstruction.Parts {
			t.system += p.Text
		}
	}
	if r := set.SessionResumption; r != nil {
		t.resumes = true
		if r.Handle != "" {
			t.s.mu.Lock()
			kept, ok := t.s.handles[r.Handle]
			t.s.mu.Unlock()
			if !ok || kept.model != set.Model || kept.system != t.system {
				return t.refuse("1007 SECRET: the session cannot be resumed")
			}
			t.items = append([]Item(nil), kept.items...)
		} else if t.system != "" {
			t.fresh = append(t.fresh, Item{Role: "system", Text: t.system})
		}
	}
	t.s.mu.Lock()
	t.s.models[t.conn] = set.Model
	t.s.mu.Unlock()
	return t.out(`{"setupComplete":{}}`)
}

// interrupt stops the response under way.
func (t *live) interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
}

// respond begins a response.
func (t *live) respond() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &Request{Conn: t.conn, Key: t.key, Body: t.body, New: t.fresh}
	if t.items = append(t.items, t.fresh...); len(t.fresh) > 0 && t.fresh[0].Role == "system" {
		t.items = t.items[1:] // it stands in front of them
	}
	if t.system != "" {
		c.All = append(c.All, Item{Role: "system", Text: t.system})
	}
	c.All = append(c.All, t.items...)
	t.fresh, t.body = nil, nil
	t.s.mu.Lock()
	t.s.seen = append(t.s.seen, c)
	c.N = len(t.s.seen)
	t.s.mu.Unlock()
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(t.s.ctx)
	t.work.Go(func() {
		r := t.s.answer(c)
		if !t.say(ctx, c, &r) {
			_ = t.c.CloseNow()
		}
	})
	return true
}

// say sends a response, and reports whether the connection goes on.
func (t *live) say(ctx context.Context, c *Request, r *Response) bool {
	for _, f := range r.Before {
		if !t.out("%s", f) {
			return false
		}
	}
	if len(r.Text) == 0 && (r.Error != "" || r.Drop) {
		return !r.Drop && t.refuse(r.Error)
	}
	if t.resumes {
		t.out(`{"sessionResumptionUpdate":{}}`)
	}
	said := ""
	for i, delta := range r.Text {
		if r.Step != nil && i >= r.Free {
			select {
			case <-r.Step:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			break
		}
		if i == len(r.Text)-1 {
			for _, f := range r.In {
				t.out("%s", f)
			}
		}
		said += delta
		if !t.out(`{"serverContent":{"modelTurn":{"role":"model","parts":[{"text":%s}]}}}`, jsonString(delta)) {
			return false
		}
	}
	u := r.Usage
	if u == (messages.Usage{}) {
		for _, i := range c.All {
			u.Input += int64(len(i.Text)+3) / 4
		}
		u.Output = int64(len(said)+3) / 4
	}
	usage := fmt.Sprintf(`"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"responseTokenCount":%d,"totalTokenCount":%d}`, u.Input, u.CacheRead, u.Output, u.Input+u.Output)
	t.mu.Lock()
	if said != "" {
		t.items = append(t.items, Item{Role: "assistant", Text: said})
	}
	for _, call := range r.Calls {
		t.items = append(t.items, Item{Type: "function_call", Text: call.Name + call.Args, Call: call.ID})
		t.calls = append(t.calls, call.ID)
	}
	items := append([]Item(nil), t.items...)
	t.mu.Unlock()
	switch {
	case r.Hang:
		<-t.s.ctx.Done()
		return false
	case r.Error != "":
		return t.refuse(r.Error)
	case r.Drop:
		return false
	case ctx.Err() != nil:
		return t.out(`{"serverContent":{"interrupted":true}}`) && t.out(`{"serverContent":{"turnComplete":true},%s}`, usage)
	case len(r.Calls) > 0:
		var calls []string
		for _, call := range r.Calls {
			calls = append(calls, fmt.Sprintf(`{"id":%s,"name":%s,"args":%s}`, jsonString(call.ID), jsonString(call.Name), call.Args))
		}
		t.out(`{"toolCall":{"functionCalls":[%s]},%s}`, strings.Join(calls, ","), usage)
	default:
		if r.Finish != "" {
			t.out(`{"serverContent":{"turnComplete":true,"turnCompleteReason":%s}}`, jsonString(r.Finish))
			break
		}
		t.out(`{"serverContent":{"generationComplete":true}}`)
		t.out(`{"serverContent":{"turnComplete":true},%s}`, usage)
	}
	if t.resumes && len(r.Calls) == 0 {
		handle := fmt.Sprintf("handle_%d_%d", t.conn, c.N)
		t.s.mu.Lock()
		t.s.handles[handle] = liveKept{t.s.models[t.conn], t.system, items}
		t.s.mu.Unlock()
		t.out(`{"sessionResumptionUpdate":{"newHandle":%s,"resumable":true}}`, jsonString(handle))
	}
	for _, f := range r.Behind {
		t.out("%s", f)
	}
	return true
}

// GoAway returns the frame with which a provider of Live says that it will end the connection.
func GoAway(left time.Duration) string {
	return fmt.Sprintf(`{"goAway":{"timeLeft":"%ds"}}`, int(left.Seconds()))
}

// Forget makes the provider refuse the handles of Live that it gave out.
func (s *Provider) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.handles)
}
