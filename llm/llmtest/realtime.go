package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/messages"
)

// realtime is one connection that speaks OpenAI's Realtime, with replies as text. The provider
// has one conversation for it, and goes on with a reply while it takes events.
type realtime struct {
	s     *Provider
	conn  int
	key   string
	model string
	write func(frame string) bool
	drop  func()

	mu     sync.Mutex
	set    bool // the session was updated
	system string
	items  []keptItem
	fresh  []Item // since the last response
	body   []byte // of all events since then
	events int    // that were sent
	id     string // of the response under way
	cancel context.CancelFunc
	work   sync.WaitGroup
}

type keptItem struct {
	id string
	Item
}

type realtimeEvent struct {
	Type    string
	Event   string `json:"event_id"`
	ItemID  string `json:"item_id"`
	Session struct {
		Type, Instructions, Truncation string
		Modalities                     []string `json:"output_modalities"`
		Tracing                        any
	}
	Item struct {
		ID string
		wireItem
	}
	Response struct {
		Modalities []string `json:"output_modalities"`
	}
	ResponseID string `json:"response_id"`
}

func (s *Provider) realtime(w http.ResponseWriter, req *http.Request, n int) {
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	c.SetReadLimit(64 << 20)
	s.mu.Lock()
	s.open[n] = c
	s.mu.Unlock()
	t := &realtime{
		s: s, conn: n, key: bearer(req.Header), model: req.URL.Query().Get("model"),
		write: func(frame string) bool { return c.Write(s.ctx, websocket.MessageText, []byte(frame)) == nil },
		drop:  func() { _ = c.CloseNow() },
	}
	defer func() {
		t.drop()
		t.mu.Lock()
		if t.cancel != nil {
			t.cancel()
		}
		t.mu.Unlock()
		t.work.Wait()
		s.mu.Lock()
		delete(s.open, n)
		s.mu.Unlock()
	}()
	if t.model == "" {
		s.t.Errorf("a connection without a model: %s", req.URL)
	}
	t.out(`{"type":"session.created","session":{"type":"realtime","object":"realtime.session","id":"sess_%d","model":%s,"output_modalities":["audio"],"instructions":"Be lively."}}`, n, jsonString(t.model))
	for {
		kind, body, err := c.Read(s.ctx)
		if err != nil || kind != websocket.MessageText || !t.take(body) {
			return
		}
	}
}

func (t *realtime) out(format string, args ...any) bool {
	t.mu.Lock()
	t.events++
	n := t.events
	t.mu.Unlock()
	return t.write(strings.Replace(fmt.Sprintf(format, args...), "{", fmt.Sprintf(`{"event_id":"event_%d",`, n), 1))
}

func (t *realtime) refuse(event, code string) bool {
	return t.out(`{"type":"error","error":{"type":"invalid_request_error","code":%s,"message":"SECRET no","param":null,"event_id":%s}}`, jsonString(code), jsonString(event))
}

// take takes an event of the client, and reports whether the connection goes on.
func (t *realtime) take(body []byte) bool {
	var e realtimeEvent
	if err := json.Unmarshal(body, &e); err != nil {
		t.s.t.Errorf("an event that is no JSON: %v: %s", err, body)
		return false
	}
	t.s.mu.Lock()
	t.s.sent += int64(len(body))
	t.s.mu.Unlock()
	t.mu.Lock()
	t.body = append(append(t.body, body...), '\n')
	t.mu.Unlock()
	switch e.Type {
	case "session.update":
		if e.Session.Type != "realtime" || !slices.Equal(e.Session.Modalities, []string{"text"}) || e.Session.Truncation != "disabled" || e.Session.Tracing != nil {
			t.s.t.Errorf("a session that the provider does not take: %s", body)
		}
		t.mu.Lock()
		t.set, t.system = true, e.Session.Instructions
		if t.system != "" {
			t.fresh = append(t.fresh, Item{Role: "system", Text: t.system})
		}
		t.mu.Unlock()
		return t.out(`{"type":"session.updated","session":{"type":"realtime","object":"realtime.session","id":"sess_%d","model":%s,"output_modalities":["text"],"instructions":%s}}`, t.conn, jsonString(t.model), jsonString(e.Session.Instructions))
	case "conversation.item.create":
		return t.create(&e, body)
	case "conversation.item.delete":
		t.mu.Lock()
		at := slices.IndexFunc(t.items, func(i keptItem) bool { return i.id == e.ItemID })
		if at >= 0 {
			t.items = slices.Delete(t.items, at, at+1)
		}
		t.mu.Unlock()
		if at < 0 {
			return t.refuse(e.Event, "item_delete_invalid_item_id")
		}
		return t.out(`{"type":"conversation.item.deleted","item_id":%s}`, jsonString(e.ItemID))
	case "response.cancel":
		t.mu.Lock()
		active := t.cancel != nil && t.id == e.ResponseID
		if active {
			t.cancel()
		}
		t.mu.Unlock()
		if !active {
			return t.refuse(e.Event, "response_cancel_not_active")
		}
		return true
	case "response.create":
		return t.respond(&e, body)
	}
	t.s.t.Errorf("an event that the provider does not know: %s", body)
	return false
}

func (t *realtime) create(e *realtimeEvent, body []byte) bool {
	i := e.Item.wireItem.item()
	kind := map[string]string{"user": "input_text", "system": "input_text", "assistant": "output_text"}[e.Item.Role]
	parts, _ := e.Item.Content.([]any)
	for _, part := range parts {
		part, _ := part.(map[string]any)
		text, _ := part["text"].(string)
		picture, _ := part["image_url"].(string)
		shown := e.Item.Role == "user" && part["type"] == "input_image" && text == "" &&
			(strings.HasPrefix(picture, "data:image/png;base64,") || strings.HasPrefix(picture, "data:image/jpeg;base64,"))
		if !shown && (part["type"] != kind || text == "" || picture != "") {
			t.s.t.Errorf("content that the provider does not take: %s", body)
		}
	}
	if e.Item.ID == "" || e.Item.Type == "" || e.Item.Type == "message" && (kind == "" || i.Text == "") {
		t.s.t.Errorf("an item that the provider does not take: %s", body)
	}
	t.mu.Lock()
	twice := slices.ContainsFunc(t.items, func(k keptItem) bool { return k.id == e.Item.ID })
	previous := "null"
	if len(t.items) > 0 {
		previous = jsonString(t.items[len(t.items)-1].id)
	}
	t.items = append(t.items, keptItem{e.Item.ID, i})
	t.fresh = append(t.fresh, i)
	t.mu.Unlock()
	if twice {
		t.s.t.Errorf("two items have one id: %s", body)
	}
	return t.out(`{"type":"conversation.item.added","previous_item_id":%s,"item":{"id":%s,"object":"realtime.item","type":%s,"status":"completed"}}`, previous, jsonString(e.Item.ID), jsonString(e.Item.Type)) &&
		t.out(`{"type":"conversation.item.done","previous_item_id":%s,"item":{"id":%s,"object":"realtime.item","type":%s,"status":"completed"}}`, previous, jsonString(e.Item.ID), jsonString(e.Item.Type))
}

// respond begins a response.
func (t *realtime) respond(e *realtimeEvent, body []byte) bool {
	t.mu.Lock()
	if t.cancel != nil {
		t.mu.Unlock()
		return t.refuse(e.Event, "conversation_already_has_active_response")
	}
	c := &Request{Conn: t.conn, Key: t.key, Body: t.body, New: t.fresh}
	if !t.set || !slices.Equal(e.Response.Modalities, []string{"text"}) {
		t.s.t.Errorf("a response that the provider does not take: %s", body)
	}
	if t.system != "" {
		c.All = append(c.All, Item{Role: "system", Text: t.system})
	}
	for _, i := range t.items {
		c.All = append(c.All, i.Item)
	}
	t.fresh, t.body = nil, nil
	t.s.mu.Lock()
	t.s.seen = append(t.s.seen, c)
	c.N = len(t.s.seen)
	t.s.mu.Unlock()
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(t.s.ctx)
	t.id = fmt.Sprintf("resp_%d", c.N)
	t.mu.Unlock()
	t.work.Go(func() {
		r := t.s.answer(c)
		if !t.say(ctx, e.Event, c, &r) {
			t.drop()
		}
		t.over()
	})
	return true
}

// over ends the response under way.
func (t *realtime) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
		t.cancel = nil
	}
}

// adds notes an item of a response.
func (t *realtime) adds(id string, i Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items = append(t.items, keptItem{id, i})
}

// say sends a response, and reports whether the connection goes on.
func (t *realtime) say(ctx context.Context, event string, c *Request, r *Response) bool {
	id := fmt.Sprintf("resp_%d", c.N)
	for _, f := range r.Before {
		if !t.write(f) {
			return false
		}
	}
	if len(r.Text) == 0 && (r.Error != "" || r.Drop) {
		return !r.Drop && t.refuse(event, r.Error)
	}
	t.out(`{"type":"response.created","response":{"id":%q,"object":"realtime.response","status":"in_progress","status_details":null,"output":[],"usage":null}}`, id)
	text, said := strings.Join(r.Text, ""), ""
	index := 0
	var output []string
	cancelled := false
	if text != "" || len(r.Calls) == 0 {
		item := fmt.Sprintf("item_%d", c.N)
		output = append(output, fmt.Sprintf(`{"id":%q,"object":"realtime.item","type":"message","role":"assistant"}`, item))
		t.out(`{"type":"response.output_item.added","response_id":%q,"output_index":0,"item":{"id":%q,"object":"realtime.item","type":"message","status":"in_progress","role":"assistant","content":[]}}`, id, item)
		t.out(`{"type":"conversation.item.added","previous_item_id":null,"item":{"id":%q,"object":"realtime.item","type":"message","status":"in_progress","role":"assistant","content":[]}}`, item)
		t.out(`{"type":"response.content_part.added","response_id":%q,"item_id":%q,"output_index":0,"content_index":0,"part":{"type":"text","text":""}}`, id, item)
		for i, delta := range r.Text {
			if r.Step != nil && i >= r.Free {
				select {
				case <-r.Step:
				case <-ctx.Done():
				}
			}
			if cancelled = ctx.Err() != nil; cancelled {
				break
			}
			if i == len(r.Text)-1 {
				for _, f := range r.In {
					t.write(f)
				}
			}
			said += delta
			if !t.out(`{"type":"response.output_text.delta","response_id":%q,"item_id":%q,"output_index":0,"content_index":0,"delta":%s}`, id, item, jsonString(delta)) {
				return false
			}
		}
		t.adds(item, Item{Type: "message", Role: "assistant", Text: said})
		switch {
		case r.Hang: // also when it is cancelled
			<-t.s.ctx.Done()
			return false
		case cancelled:
		case r.Error != "":
			return t.refuse(event, r.Error)
		case r.Drop:
			return false
		}
		t.out(`{"type":"response.output_text.done","response_id":%q,"item_id":%q,"output_index":0,"content_index":0,"text":%s}`, id, item, jsonString(said))
		t.out(`{"type":"response.output_item.done","response_id":%q,"output_index":0,"item":{"id":%q,"object":"realtime.item","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":%s}]}}`, id, item, jsonString(said))
		index++
	}
	for i, call := range r.Calls {
		if cancelled {
			break
		}
		item := fmt.Sprintf("item_%d_%d", c.N, i)
		half := len(call.Args) / 2
		output = append(output, fmt.Sprintf(`{"id":%q,"object":"realtime.item","type":"function_call","call_id":%s,"name":%s,"arguments":%s}`, item, jsonString(call.ID), jsonString(call.Name), jsonString(call.Args)))
		t.adds(item, Item{Type: "function_call", Text: call.Name + call.Args, Call: call.ID})
		t.out(`{"type":"response.output_item.added","response_id":%q,"output_index":%d,"item":{"id":%q,"object":"realtime.item","type":"function_call","status":"in_progress","call_id":%s,"name":%s,"arguments":""}}`, id, index+i, item, jsonString(call.ID), jsonString(call.Name))
		for _, piece := range []string{call.Args[:half], call.Args[half:]} {
			t.out(`{"type":"response.function_call_arguments.delta","response_id":%q,"item_id":%q,"output_index":%d,"call_id":%s,"delta":%s}`, id, item, index+i, jsonString(call.ID), jsonString(piece))
		}
		t.out(`{"type":"response.function_call_arguments.done","response_id":%q,"item_id":%q,"output_index":%d,"call_id":%s,"name":%s,"arguments":%s}`, id, item, index+i, jsonString(call.ID), jsonString(call.Name), jsonString(call.Args))
		t.out(`{"type":"response.output_item.done","response_id":%q,"output_index":%d,"item":{"id":%q,"object":"realtime.item","type":"function_call","status":"completed","call_id":%s,"name":%s,"arguments":%s}}`, id, index+i, item, jsonString(call.ID), jsonString(call.Name), jsonString(call.Args))
	}
	status, details := "completed", "null"
	switch {
	case cancelled:
		status, details = "cancelled", `{"type":"cancelled","reason":"client_cancelled"}`
	case r.Finish == "response.incomplete":
		status, details = "incomplete", `{"type":"incomplete","reason":"max_output_tokens"}`
	case r.Finish == "response.failed":
		status, details = "failed", `{"type":"failed","error":{"type":"server_error","code":"server_error"}}`
	case r.Finish == "response.cancelled":
		status, details = "cancelled", `{"type":"cancelled","reason":"turn_detected"}`
	}
	u := r.Usage
	if u == (messages.Usage{}) {
		for _, i := range c.All {
			u.Input += int64(len(i.Text)+3) / 4
		}
		u.Output = int64(len(said)+3) / 4
	}
	t.over() // before the client knows, who may ask at once
	t.out(`{"type":"response.done","response":{"id":%q,"object":"realtime.response","status":%q,"status_details":%s,"output":[%s],"usage":{"total_tokens":%d,"input_tokens":%d,"output_tokens":%d,"input_token_details":{"text_tokens":%d,"audio_tokens":0,"cached_tokens":%d},"output_token_details":{"text_tokens":%d,"audio_tokens":0}}}}`,
		id, status, details, strings.Join(output, ","), u.Input+u.Output, u.Input, u.Output, u.Input, u.CacheRead, u.Output)
	for _, f := range r.Behind {
		t.write(f)
	}
	return true
}
