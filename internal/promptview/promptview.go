// Package promptview is the JSON form of a prompt: what a host answers, and what the command reads and
// prints. It is written and read in one place, so that both have the same. It makes no prompt again: the
// facade does.
package promptview

import (
	"encoding/json"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// PromptView is one request to a model: what it was sent, and what came back. The name is that of its
// schema in the document of the HTTP API, which the tags doc describe.
type PromptView struct {
	Run      int64           `json:"run"`
	Turn     int64           `json:"turn"`
	Seq      int64           `json:"seq" doc:"of the record model.request"`
	At       time.Time       `json:"at"` // UTC
	Provider string          `json:"provider"`
	Model    string          `json:"model"`
	Options  json.RawMessage `json:"options,omitempty" doc:"of the model, as its provider was sent them"`
	Exact    bool            `json:"exact" doc:"the messages are what was sent, byte for byte: their digest is the recorded one"`
	Why      string          `json:"why,omitempty" doc:"what differs, where they are not exact"`
	Messages []SaidView      `json:"messages"`
	Tools    []OfferedView   `json:"tools,omitempty" doc:"tools that were offered in the provider's own form"`
	Reply    *RawReplyView   `json:"reply,omitempty" doc:"with reply=true, once there is one"`
}

// SaidView is a message of a prompt.
type SaidView struct {
	Role   string          `json:"role" enum:"system,user,assistant,tool"`
	Text   string          `json:"text"`
	Native json.RawMessage `json:"native,omitempty" doc:"what was sent in place of the text: calls and results in the provider's own form, with their ids"`
}

// OfferedView is a tool that a prompt offers.
type OfferedView struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" doc:"of the arguments"`
}

// RawReplyView is what a model replied to a prompt.
type RawReplyView struct {
	Finish string         `json:"finish"`
	Usage  messages.Usage `json:"usage"`
	Cost   int64          `json:"cost_micro_usd,omitempty"`
	Error  string         `json:"error,omitempty"`
	Text   string         `json:"text" doc:"as it came; bytes that are no UTF-8 are replaced"`
	Lost   string         `json:"lost,omitempty" doc:"why the text is not there"`
}

// Of returns the JSON form of a prompt, with its reply if that is asked for and there is one.
func Of(p *stile.Prompt, reply bool) PromptView {
	v := PromptView{
		Run: p.Run, Turn: p.Turn, Seq: p.Seq, At: p.At.UTC(), Provider: p.Request.Provider, Model: p.Request.Model,
		Options: validJSON(p.Request.Options), Exact: p.Exact, Why: p.Why, Messages: []SaidView{},
	}
	for _, m := range p.Messages {
		said := SaidView{Role: string(m.Role), Text: m.Text}
		if len(p.Tools) > 0 {
			said.Native = validJSON(m.Native)
		}
		v.Messages = append(v.Messages, said)
	}
	for _, t := range p.Tools {
		v.Tools = append(v.Tools, OfferedView{t.Name, t.Description, validJSON(t.Schema)})
	}
	if b := p.Ended; b != nil && reply {
		v.Reply = &RawReplyView{Finish: string(b.Finish), Usage: b.Usage, Cost: b.CostUSD, Error: b.Error, Text: string(p.Reply), Lost: p.Lost}
	}
	return v
}

// Text is the prompt as stile.Prompt.Text has it.
func (v *PromptView) Text() string {
	ms := make([]messages.Message, len(v.Messages))
	for i, m := range v.Messages {
		ms[i] = messages.Message{Role: messages.Role(m.Role), Text: m.Text}
		if len(m.Native) > 0 {
			ms[i].Text = string(m.Native)
		}
	}
	return (&stile.Prompt{Messages: ms}).Text()
}

// validJSON returns text, which records have as it came, where it is JSON.
func validJSON(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}
