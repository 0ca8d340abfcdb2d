package openai

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

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
		"prompt_cache_key", "text.format", "temperature", "top_p", "max_output_tokens", "reasoning.effort",
	},
}

// response is a client of Responses.
type response struct{ vendor }

// Send implements wire.Vendor.
func (v response) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	p := responses.ResponseNewParams{Model: ask.Model, Store: sdk.Bool(false)}
	if turns.System != "" {
		p.Instructions = sdk.String(turns.System)
	}
	o := ask.Options
	if n := cmp.Or(o.MaxTokens, v.options.MaxTokens); n > 0 {
		p.MaxOutputTokens = sdk.Int(n)
	}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	p.Reasoning.Effort = sdk.ReasoningEffort(o.Effort)
	if schema, strict := ask.Answer(); schema != nil {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: schema, Strict: sdk.Bool(strict)}
	}
	if ask.Session != "" {
		// The key routes requests of a session to the cache of their beginning. It is a hash,
		// because the provider need not know the session's name.
		sum := sha256.Sum256([]byte("stile/prompt-cache\n" + ask.Session))
		p.PromptCacheKey = sdk.String(hex.EncodeToString(sum[:16]))
	}
	var input responses.ResponseInputParam
	for i := range turns.Turns {
		input = append(input, responseTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return err
		}
		tool := responses.ToolParamOfFunction(f.Name, parameters, false)
		if f.Description != "" {
			tool.OfFunction.Description = sdk.String(f.Description)
		}
		p.Tools = append(p.Tools, tool)
	}
	if len(p.Tools) > 0 { // the provider stores nothing, so thoughts are sent back with their calls
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	p.Input.OfInputItemList = input
	svc := responses.NewResponseService(v.with(client)...)
	return send(ctx, ask, p, svc.New, svc.NewStreaming)
}

// responseTurn returns a turn as items: each thought, text, call and result is an item.
func responseTurn(t *wire.Turn) (items []responses.ResponseInputItemUnionParam) {
	for _, r := range t.Results {
		item := responses.ResponseInputItemParamOfFunctionCallOutput(r.Text)
		item.OfFunctionCallOutput.CallID = sdk.String(r.ID)
		items = append(items, item)
	}
	for _, own := range t.Items {
		items = append(items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(own)))
	}
	role := responses.EasyInputMessageRoleUser
	if t.Role == messages.RoleAssistant {
		role = responses.EasyInputMessageRoleAssistant
	}
	if text := t.Text(); text != "" {
		items = append(items, responses.ResponseInputItemParamOfMessage(text, role))
	}
	for _, c := range t.Calls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(c.Object()), c.ID, c.Name))
	}
	return items
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

// responseItem is a part of a response.
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

// bill sets the usage of the response.
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
