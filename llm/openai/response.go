package openai

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// responseOptions are the options of Responses, which has no stop texts and no seed.
var responseOptions = wire.Named{
	Vendor: "openai (responses)",
	Fields: map[string]string{
		"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort",
	},
	Own: []string{
		"model", "input", "instructions", "stream", "store", "include", "tools", "tool_choice", "previous_response_id", "conversation", "background",
		"prompt_cache_key", "text.format", "generate", "stream_id", "temperature", "top_p", "max_output_tokens", "reasoning.effort",
	},
}

type response struct{ vendor }

// responseRequest is the body of a request, with the members that this package uses. Empty
// members are left out.
type responseRequest struct {
	Model           string         `json:"model"`
	Store           bool           `json:"store"`
	Stream          bool           `json:"stream,omitempty"`
	Instructions    string         `json:"instructions,omitempty"`
	Input           []any          `json:"input"`
	MaxOutputTokens int64          `json:"max_output_tokens,omitempty"`
	Temperature     *float64       `json:"temperature,omitempty"`
	TopP            *float64       `json:"top_p,omitempty"`
	Reasoning       *reasoning     `json:"reasoning,omitempty"`
	Text            *responseText  `json:"text,omitempty"`
	PromptCacheKey  string         `json:"prompt_cache_key,omitempty"`
	Tools           []responseTool `json:"tools,omitempty"`
	Include         []string       `json:"include,omitempty"`
}

type reasoning struct {
	Effort string `json:"effort"`
}

type responseText struct {
	Format schemaFormat `json:"format"`
}

type responseTool struct {
	Type string `json:"type"`
	function
	Strict bool `json:"strict"`
}

// The items that this package makes. Items of the provider are sent back as they came.
type (
	textItem struct {
		Role    string `json:"role"`
		Content any    `json:"content"` // string or []inputPart
	}
	inputPart struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image string `json:"image_url,omitempty"`
		Name  string `json:"filename,omitempty"`
		Data  string `json:"file_data,omitempty"`
	}
	callItem struct {
		Type      string `json:"type"` // function_call
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	resultItem struct {
		Type   string `json:"type"` // function_call_output
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}
)

// Send implements wire.Vendor.
func (v response) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	p, err := v.request(ask)
	if err != nil {
		return err
	}
	return wire.Post(ctx, client, v.base+"/responses", p)
}

func (v response) request(ask *wire.Ask) (*responseRequest, error) {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return nil, err
	}
	return v.body(ask, &turns)
}

// responseCreate is a request over a WebSocket.
type responseCreate struct {
	Type string `json:"type"` // response.create
	*responseRequest
	Previous string `json:"previous_response_id,omitempty"`
	Lane     string `json:"stream_id,omitempty"`
	Generate *bool  `json:"generate,omitempty"`
}

// Address implements wire.Talker.
func (v response) Address(string) string { return v.base + "/responses" }

// Talk implements wire.Talker. Nothing is kept: a response is found by its id.
func (v response) Talk() wire.Talk { return v }

// Heard implements wire.Talk.
func (response) Heard(string, []byte) bool { return true }

// Mark implements wire.Talk.
func (response) Mark(response string) string { return response }

// Sure implements wire.Talk.
func (response) Sure() bool { return true }

// Cancel implements wire.Talk. There is no such event: the rest of a reply is read.
func (response) Cancel(string) any { return nil }

// Next implements wire.Talk. The system text is an item of the conversation: instructions
// would have to be sent with each request.
func (v response) Next(ask *wire.Ask, sent int, parent string) ([]any, error) {
	turns, err := wire.Behind(ask, sent)
	if err != nil {
		return nil, err
	}
	p, err := v.body(ask, &turns)
	if err != nil {
		return nil, err
	}
	p.Stream = false // it is one in any case
	return []any{&responseCreate{Type: "response.create", responseRequest: p, Previous: parent}}, nil
}

// historyLane is the lane of requests for no reply. Each lane keeps its latest response, so that
// the conversation stays there while replies to what passes come on the lane without a name.
const historyLane = "history"

// TakesBack implements wire.Taker.
func (response) TakesBack() bool { return true }

// Lead implements wire.Leader.
func (v response) Lead(ask *wire.Ask, sent int, parent string) (any, string, error) {
	req := *ask.Request
	req.Messages = req.Messages[:len(req.Messages)-req.Passing]
	lasting := *ask
	lasting.Request = &req
	all, err := v.Next(&lasting, sent, parent)
	if err != nil {
		return nil, "", err
	}
	create, no := all[0].(*responseCreate), false
	create.Lane, create.Generate = historyLane, &no
	return create, historyLane, nil
}

func (v response) body(ask *wire.Ask, turns *wire.Turns) (*responseRequest, error) {
	o := ask.Options
	p := &responseRequest{
		Model: ask.Model, Stream: !ask.Whole, Instructions: turns.System,
		MaxOutputTokens: cmp.Or(o.MaxTokens, v.options.MaxTokens), Temperature: o.Temperature, TopP: o.TopP,
	}
	if o.Effort != "" {
		p.Reasoning = &reasoning{Effort: o.Effort}
	}
	if schema, strict := ask.Answer(); schema != nil {
		p.Text = &responseText{Format: schemaFormat{Type: "json_schema", Name: "answer", Schema: schema, Strict: strict}}
	}
	if ask.Session != "" {
		// The key routes requests of a session to the cache of their beginning. It is a hash,
		// because the provider need not know the session's name.
		sum := sha256.Sum256([]byte("stile/prompt-cache\n" + ask.Session))
		p.PromptCacheKey = hex.EncodeToString(sum[:16])
	}
	for i := range turns.Turns {
		p.Input = append(p.Input, responseTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return nil, err
		}
		p.Tools = append(p.Tools, responseTool{Type: "function", function: function{Name: f.Name, Description: f.Description, Parameters: parameters}})
	}
	if len(p.Tools) > 0 { // the provider stores nothing, so thoughts are sent back with their calls
		p.Include = []string{"reasoning.encrypted_content"}
	}
	return p, nil
}

// responseTurn returns a turn as items: each thought, text, call and result is an item.
func responseTurn(t *wire.Turn) (items []any) {
	for _, r := range t.Results {
		items = append(items, resultItem{Type: "function_call_output", CallID: r.ID, Output: r.Text})
	}
	for _, own := range t.Items {
		items = append(items, json.RawMessage(own))
	}
	role := "user"
	switch t.Role {
	case messages.RoleAssistant:
		role = "assistant"
	case messages.RoleSystem:
		role = "system"
	}
	text := t.Text()
	switch parts := inputFiles(t); {
	case len(parts) > 0:
		if text != "" {
			parts = append(parts, inputPart{Type: "input_text", Text: text})
		}
		items = append(items, textItem{Role: role, Content: parts})
	case text != "":
		items = append(items, textItem{Role: role, Content: text})
	}
	for _, c := range t.Calls {
		items = append(items, callItem{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: string(c.Object())})
	}
	return items
}

// TakesPart implements wire.PartsTaker.
func (response) TakesPart(mediaType string) bool {
	return wire.Picture(mediaType) || mediaType == "application/pdf"
}

func inputFiles(t *wire.Turn) (parts []inputPart) {
	for i := range t.Files {
		if f := &t.Files[i]; f.IsPicture() {
			parts = append(parts, inputPart{Type: "input_image", Image: f.DataURI()})
		} else {
			parts = append(parts, inputPart{Type: "input_file", Name: f.Titled(i), Data: f.DataURI()})
		}
	}
	return parts
}

// Events implements wire.Vendor.
func (response) Events() wire.Events { return &responseEvents{} }

type responseEvents struct {
	grows bool // the open call's arguments came in pieces
}

type responseEvent struct {
	Index    int64         `json:"output_index"`
	Item     wire.Raw      `json:"item"`
	Type     string        `json:"type"`
	Delta    wire.Raw      `json:"delta"`
	Response wholeResponse `json:"response"`
}

type wholeResponse struct {
	Status     string `json:"status"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
	Usage  *wire.Bill[responseUsage] `json:"usage"`
	Output []wire.Raw                `json:"output"`
}

type responseItem struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string   `json:"type"`
		Text    wire.Raw `json:"text"`
		Refusal wire.Raw `json:"refusal"`
	} `json:"content"`
	CallID    string   `json:"call_id"`
	Name      string   `json:"name"`
	Arguments wire.Raw `json:"arguments"`
}

type responseUsage struct {
	Input   wire.Count `json:"input_tokens"`
	Details wire.Bill[struct {
		Cached  wire.Count `json:"cached_tokens"`
		Written wire.Count `json:"cache_write_tokens"`
	}] `json:"input_tokens_details"`
	Output wire.Count `json:"output_tokens"`
}

// Event implements wire.Events.
func (s *responseEvents) Event(ev wire.Event, r *wire.Reply) error {
	var e responseEvent
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	if e.Response.Usage != nil {
		e.Response.bill(r)
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return r.Text(e.Delta)
	case "response.output_item.added", "response.output_item.done":
		return s.item(&e, r)
	case "response.function_call_arguments.delta":
		s.grows = true
		return r.CallArgs(e.Index, e.Delta)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		e.Response.finish(strings.TrimPrefix(e.Type, "response."), r)
	}
	return nil
}

// item opens or ends a part of the response: a call, or a thought that belongs to one.
func (s *responseEvents) item(e *responseEvent, r *wire.Reply) error {
	var item responseItem
	if len(e.Item) == 0 {
		return nil
	}
	if err := wire.Decode(e.Item, &item); err != nil {
		return err
	}
	done := e.Type == "response.output_item.done"
	switch {
	case item.Type == "function_call" && !done:
		s.grows = false
		r.Call(e.Index, item.CallID, item.Name)
	case item.Type == "function_call":
		r.Call(e.Index, item.CallID, item.Name)
		if !s.grows {
			if err := r.CallArgs(e.Index, item.Arguments); err != nil {
				return err
			}
		}
		s.grows = false
		r.CallEnd(e.Index)
	case item.Type == "reasoning" && done:
		keepThought(e.Item, r)
	}
	return nil
}

// keepThought keeps a thought to be sent back with its calls. Without its encrypted content it
// would be an id that the provider has not stored.
func keepThought(raw wire.Raw, r *wire.Reply) {
	var thought struct {
		Type      string          `json:"type"`
		ID        string          `json:"id,omitempty"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}
	if json.Unmarshal(raw, &thought) != nil || thought.Encrypted == "" {
		return
	}
	if len(thought.Summary) == 0 || string(thought.Summary) == "null" {
		thought.Summary = json.RawMessage("[]")
	}
	if own, err := json.Marshal(thought); err == nil {
		r.Keep(own)
	}
}

func (w *wholeResponse) bill(r *wire.Reply) {
	u := &w.Usage.Of
	r.Input(u.Input, u.Details.Of.Cached, u.Details.Of.Written)
	r.Output(u.Output)
}

// finish sets how the response ended.
func (w *wholeResponse) finish(status string, r *wire.Reply) {
	switch status {
	case "completed":
		r.Finish(messages.FinishComplete)
		r.Over()
	case "incomplete":
		switch w.Incomplete.Reason {
		case "content_filter":
			r.Withhold("content_filter")
		default: // max_output_tokens
			r.Finish(messages.FinishLength)
			r.Over()
		}
	case "failed":
		r.Fail(w.Error.Code)
	case "cancelled":
		r.Fail("cancelled_by_provider")
	}
}

// Whole implements wire.Events.
func (*responseEvents) Whole(body []byte, r *wire.Reply) error {
	var w wholeResponse
	if err := wire.Decode(body, &w); err != nil {
		return err
	}
	for i, raw := range w.Output {
		var item responseItem
		if err := wire.Decode(raw, &item); err != nil {
			return err
		}
		switch item.Type {
		case "function_call":
			r.Call(int64(i), item.CallID, item.Name)
			if err := r.CallArgs(int64(i), item.Arguments); err != nil {
				return err
			}
			r.CallEnd(int64(i))
		case "reasoning":
			keepThought(raw, r)
		case "message":
			for _, part := range item.Content {
				if err := r.Text(part.Text); err != nil {
					return err
				}
				if err := r.Text(part.Refusal); err != nil {
					return err
				}
			}
		}
	}
	if w.Usage != nil {
		w.bill(r)
	}
	w.finish(w.Status, r)
	return nil
}
