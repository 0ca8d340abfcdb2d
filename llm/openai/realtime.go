package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// realtimeOptions are the options of Realtime, which has no temperature.
var realtimeOptions = wire.Named{
	Vendor: "openai (realtime)",
	Fields: map[string]string{"max_output_tokens": "response.max_output_tokens", "reasoning_effort": "response.reasoning.effort"},
	Own: []string{
		"type", "event_id", "response.conversation", "response.input", "response.instructions", "response.tools", "response.tool_choice",
		"response.output_modalities", "response.max_output_tokens", "response.reasoning.effort", "response.prompt", "response.audio",
	},
}

// realtime is a client of Realtime, for replies as text.
type realtime struct{ vendor }

// The events that this package sends.
type (
	sessionUpdate struct {
		Type    string          `json:"type"` // session.update
		Event   string          `json:"event_id"`
		Session realtimeSession `json:"session"`
	}
	realtimeSession struct {
		Type         string   `json:"type"` // realtime
		Instructions string   `json:"instructions"`
		Modalities   []string `json:"output_modalities"`
		Truncation   string   `json:"truncation"`
	}
	itemCreate struct {
		Type  string `json:"type"` // conversation.item.create
		Event string `json:"event_id"`
		Item  any    `json:"item"`
	}
	itemDelete struct {
		Type  string `json:"type"` // conversation.item.delete
		Event string `json:"event_id"`
		Item  string `json:"item_id"`
	}
	realtimeCreate struct {
		Type     string          `json:"type"` // response.create
		Event    string          `json:"event_id"`
		Response realtimeRequest `json:"response"`
	}
	realtimeRequest struct {
		Modalities []string       `json:"output_modalities"`
		MaxTokens  int64          `json:"max_output_tokens,omitempty"`
		Reasoning  *reasoning     `json:"reasoning,omitempty"`
		Tools      []realtimeTool `json:"tools,omitempty"`
	}
	realtimeTool struct {
		Type string `json:"type"` // function
		function
	}
	responseCancel struct {
		Type     string `json:"type"` // response.cancel
		Event    string `json:"event_id"`
		Response string `json:"response_id"`
	}
)

// The items that this package makes, with the ids by which they are deleted.
type (
	realtimeText struct {
		ID      string         `json:"id"`
		Type    string         `json:"type"` // message
		Role    string         `json:"role"`
		Content []realtimePart `json:"content"`
	}
	realtimePart struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image string `json:"image_url,omitempty"`
	}
	realtimeCall struct {
		ID string `json:"id"`
		callItem
	}
	realtimeResult struct {
		ID string `json:"id"`
		resultItem
	}
)

// text asks for replies as text: audio is the default.
var text = []string{"text"}

// Send implements wire.Vendor. There are no requests but those over a WebSocket.
func (realtime) Send(context.Context, *http.Client, *wire.Ask) error {
	return errors.New("the API realtime has no requests without a connection")
}

// Address implements wire.Talker.
func (v realtime) Address(model string) string {
	return v.base + "/realtime?model=" + url.QueryEscape(model)
}

// Talk implements wire.Talker.
func (v realtime) Talk() wire.Talk {
	return &realtimeTalk{v: v, pending: map[string]bool{}, known: map[string]bool{}}
}

// realtimeTalk is what a connection's conversation has. It is one list of items, which the
// provider appends to: an earlier place is reached by deleting what stands behind it.
type realtimeTalk struct {
	v       realtime
	asked   int             // requests
	made    int             // items
	items   []string        // ids of what the conversation has, in order
	known   map[string]bool // those in items
	pending map[string]bool // those that the provider has not acknowledged
	place   int             // items in front of those that pass with the last request
	passing []string        // ids of these
	unsure  bool            // a part of a request was refused
}

// Next implements wire.Talk. The system text in front is the session's instructions, which would
// otherwise be the provider's own. Nothing may be cut from the conversation without a word, so
// truncation is off.
func (t *realtimeTalk) Next(ask *wire.Ask, sent int, from string) ([]any, error) {
	req := *ask.Request
	req.Messages = req.Messages[:len(req.Messages)-req.Passing]
	lasting := *ask
	lasting.Request = &req
	turns, err := wire.Behind(&lasting, sent)
	if err != nil {
		return nil, err
	}
	var passing wire.Turns
	if ask.Passing > 0 {
		if passing, err = wire.Behind(ask, len(req.Messages)); err != nil {
			return nil, err
		}
	}
	o := ask.Options
	create := realtimeRequest{Modalities: text, MaxTokens: cmp.Or(o.MaxTokens, t.v.options.MaxTokens)}
	if o.Effort != "" {
		create.Reasoning = &reasoning{Effort: o.Effort}
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return nil, err
		}
		create.Tools = append(create.Tools, realtimeTool{"function", function{Name: f.Name, Description: f.Description, Parameters: parameters}})
	}
	has := 0
	if from != "" {
		if has, err = strconv.Atoi(from); err != nil || has > len(t.items)-len(t.passing) {
			return nil, fmt.Errorf("the conversation has no place %q", from)
		}
	}
	t.asked++
	n := 0
	event := func() string {
		n++
		return fmt.Sprintf("r%d.%d", t.asked, n)
	}
	var all []any
	if sent == 0 {
		set := realtimeSession{Type: "realtime", Modalities: text, Truncation: "disabled"}
		if len(turns.Turns) > 0 && turns.Turns[0].Role == messages.RoleSystem {
			set.Instructions = turns.Turns[0].Text()
			turns.Turns = turns.Turns[1:]
		}
		all = append(all, sessionUpdate{"session.update", event(), set})
	}
	for _, id := range t.takeBack(has) {
		all = append(all, itemDelete{"conversation.item.delete", event(), id})
	}
	add := func(turns []wire.Turn) {
		for i := range turns {
			for _, item := range t.turn(&turns[i]) {
				all = append(all, itemCreate{"conversation.item.create", event(), item})
			}
		}
	}
	add(turns.Turns)
	t.place = len(t.items)
	add(passing.Turns)
	t.passing = slices.Clone(t.items[t.place:])
	return append(all, realtimeCreate{"response.create", event(), create}), nil
}

// takeBack has the conversation be its first has items without those that passed, and returns
// the ids of the others.
func (t *realtimeTalk) takeBack(has int) (gone []string) {
	gone, t.passing = t.passing, nil
	t.items = slices.DeleteFunc(t.items, func(id string) bool { return slices.Contains(gone, id) })
	gone = append(gone, t.items[has:]...)
	t.items = t.items[:has]
	for _, id := range gone {
		delete(t.known, id)
		delete(t.pending, id)
	}
	return gone
}

// TakesBack implements wire.Taker.
func (realtime) TakesBack() bool { return true }

// Place implements wire.Placer.
func (t *realtimeTalk) Place() string { return strconv.Itoa(t.place) }

// turn returns a turn as items, and notes their ids. The provider's own items are not sent back.
func (t *realtimeTalk) turn(turn *wire.Turn) (items []any) {
	id := func() string {
		t.made++
		id := fmt.Sprintf("stile_%d", t.made)
		t.has(id)
		t.pending[id] = true
		return id
	}
	for _, r := range turn.Results {
		items = append(items, realtimeResult{id(), resultItem{Type: "function_call_output", CallID: r.ID, Output: r.Text}})
	}
	var content []realtimePart
	for i := range turn.Files { // pictures, by TakesPart
		content = append(content, realtimePart{Type: "input_image", Image: turn.Files[i].DataURI()})
	}
	if text := turn.Text(); text != "" || len(content) > 0 {
		role, kind := "user", "input_text"
		switch turn.Role {
		case messages.RoleAssistant:
			role, kind = "assistant", "output_text"
		case messages.RoleSystem:
			role = "system"
		}
		if text != "" {
			content = append(content, realtimePart{Type: kind, Text: text})
		}
		items = append(items, realtimeText{id(), "message", role, content})
	}
	for _, c := range turn.Calls {
		items = append(items, realtimeCall{id(), callItem{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: string(c.Object())}})
	}
	return items
}

// TakesPart implements wire.PartsTaker: a message of Realtime has texts, sounds, and pictures of two
// types.
func (realtime) TakesPart(mediaType string) bool {
	return mediaType == "image/png" || mediaType == "image/jpeg"
}

// has notes that the conversation has an item behind all others.
func (t *realtimeTalk) has(id string) {
	if id != "" && !t.known[id] {
		t.known[id] = true
		t.items = append(t.items, id)
	}
}

// Heard implements wire.Talk. It notes the items that the provider has, and which request an
// error is about: that of a cancellation which came too late is none.
func (t *realtimeTalk) Heard(name string, event []byte) bool {
	switch name {
	case "error":
		var e struct {
			Error struct {
				Event string `json:"event_id"`
			} `json:"error"`
		}
		if wire.Decode(event, &e) == nil && e.Error.Event != "" && !strings.HasPrefix(e.Error.Event, fmt.Sprintf("r%d.", t.asked)) {
			return false
		}
		t.unsure = true
	case "conversation.item.added", "conversation.item.created", "response.output_item.added", "response.done":
		type item struct {
			ID string `json:"id"`
		}
		var e struct {
			Item     item `json:"item"`
			Response struct {
				Output []item `json:"output"`
			} `json:"response"`
		}
		if wire.Decode(event, &e) != nil {
			t.unsure = true
			return true
		}
		delete(t.pending, e.Item.ID)
		for _, i := range append([]item{e.Item}, e.Response.Output...) {
			t.has(i.ID)
		}
	}
	return true
}

// Mark implements wire.Talk: the number of items, without those that pass.
func (t *realtimeTalk) Mark(string) string {
	if t.unsure || len(t.pending) > 0 {
		return ""
	}
	return strconv.Itoa(len(t.items) - len(t.passing))
}

// Sure implements wire.Talk.
func (t *realtimeTalk) Sure() bool { return !t.unsure }

// Cancel implements wire.Talk.
func (t *realtimeTalk) Cancel(response string) any {
	return responseCancel{"response.cancel", fmt.Sprintf("c%d", t.asked), response}
}

// Events implements wire.Vendor.
func (realtime) Events() wire.Events { return &realtimeEvents{} }

// realtimeEvents reads the events of a reply, which are those of Responses but for the last.
type realtimeEvents struct{ responseEvents }

type realtimeUsage struct {
	Input   wire.Count `json:"input_tokens"`
	Details wire.Bill[struct {
		Cached wire.Count `json:"cached_tokens"`
	}] `json:"input_token_details"`
	Output wire.Count `json:"output_tokens"`
}

// Event implements wire.Events.
func (s *realtimeEvents) Event(ev wire.Event, r *wire.Reply) error {
	if !slices.Contains([]string{"response.created", "response.done"}, ev.Name) {
		return s.responseEvents.Event(ev, r)
	}
	var e struct {
		Response struct {
			Status  string `json:"status"`
			Details struct {
				Reason string `json:"reason"`
				Error  struct {
					Code string `json:"code"`
				} `json:"error"`
			} `json:"status_details"`
			Usage *wire.Bill[realtimeUsage] `json:"usage"`
		} `json:"response"`
	}
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	if u := e.Response.Usage; u != nil {
		r.Input(u.Of.Input, u.Of.Details.Of.Cached, wire.Count{})
		r.Output(u.Of.Output)
	}
	if ev.Name == "response.done" {
		w := wholeResponse{}
		w.Incomplete.Reason, w.Error.Code = e.Response.Details.Reason, e.Response.Details.Error.Code
		w.finish(e.Response.Status, r)
	}
	return nil
}
