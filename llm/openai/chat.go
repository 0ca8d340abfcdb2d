package openai

import (
	"cmp"
	"context"
	"net/http"

	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// chatOptions returns the options of Chat Completions. home reports whether the server is
// OpenAI's own.
func chatOptions(home bool) wire.Named {
	length := "max_tokens"
	if home {
		length = "max_completion_tokens"
	}
	return wire.Named{
		Vendor: "openai (chat)",
		Fields: map[string]string{
			"temperature": "temperature", "top_p": "top_p", "max_output_tokens": length,
			"stop": "stop", "seed": "seed", "reasoning_effort": "reasoning_effort",
		},
		Own: []string{
			"model", "messages", "stream", "stream_options", "store", "n", "tools", "tool_choice", "functions", "function_call", "response_format",
			"temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "reasoning_effort",
		},
	}
}

// chat is a client of Chat Completions.
type chat struct{ vendor }

// chatRequest is the body of a request, with the members that this package uses. Empty
// members are left out.
type chatRequest struct {
	Model           string        `json:"model"`
	Messages        []chatText    `json:"messages"`
	Stream          bool          `json:"stream,omitempty"`
	StreamOptions   *streamOption `json:"stream_options,omitempty"`
	Tools           []chatTool    `json:"tools,omitempty"`
	MaxTokens       int64         `json:"max_tokens,omitempty"` // the name that compatible servers know
	MaxCompletion   int64         `json:"max_completion_tokens,omitempty"`
	ResponseFormat  *chatFormat   `json:"response_format,omitempty"`
	Store           *bool         `json:"store,omitempty"`
	Temperature     *float64      `json:"temperature,omitempty"`
	TopP            *float64      `json:"top_p,omitempty"`
	Seed            *int64        `json:"seed,omitempty"`
	Stop            []string      `json:"stop,omitempty"`
	ReasoningEffort string        `json:"reasoning_effort,omitempty"`
}

type streamOption struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatFormat struct {
	Type       string       `json:"type"`
	JSONSchema schemaFormat `json:"json_schema"`
}

type chatTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// chatText is a message. Content is one text, because all compatible servers accept a string,
// but not all a list; a list where there are pictures or files.
type chatText struct {
	Role    string     `json:"role"`
	Content any        `json:"content,omitempty"` // *string or []chatPart
	CallID  string     `json:"tool_call_id,omitempty"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
}

type chatPart struct {
	Type  string     `json:"type"`
	Text  string     `json:"text,omitempty"`
	Image *chatImage `json:"image_url,omitempty"`
	File  *chatFile  `json:"file,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatFile struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// TakesPart implements wire.PartsTaker. Files are OpenAI's own: few compatible servers know them.
func (v chat) TakesPart(mediaType string) bool {
	return wire.Picture(mediaType) || v.home && mediaType == "application/pdf"
}

func chatFiles(t *wire.Turn) (parts []chatPart) {
	for i := range t.Files {
		if f := &t.Files[i]; f.IsPicture() {
			parts = append(parts, chatPart{Type: "image_url", Image: &chatImage{f.DataURI()}})
		} else {
			parts = append(parts, chatPart{Type: "file", File: &chatFile{f.Titled(i), f.DataURI()}})
		}
	}
	return parts
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Send implements wire.Vendor.
func (v chat) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	p, err := v.request(ask)
	if err != nil {
		return err
	}
	return wire.Post(ctx, client, v.base+"/chat/completions", p)
}

func (v chat) request(ask *wire.Ask) (*chatRequest, error) {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return nil, err
	}
	o := ask.Options
	p := &chatRequest{
		Model: ask.Model, Stream: !ask.Whole,
		Temperature: o.Temperature, TopP: o.TopP, Seed: o.Seed, Stop: o.Stop, ReasoningEffort: o.Effort,
	}
	if p.Stream {
		p.StreamOptions = &streamOption{IncludeUsage: true}
	}
	if turns.System != "" {
		p.Messages = append(p.Messages, chatText{Role: "system", Content: &turns.System})
	}
	for i := range turns.Turns {
		p.Messages = append(p.Messages, chatTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return nil, err
		}
		p.Tools = append(p.Tools, chatTool{Type: "function", Function: function{Name: f.Name, Description: f.Description, Parameters: parameters}})
	}
	n := cmp.Or(o.MaxTokens, v.options.MaxTokens)
	if p.MaxTokens = n; v.home {
		p.MaxTokens, p.MaxCompletion, p.Store = 0, n, no
	}
	if schema, strict := ask.Answer(); schema != nil {
		p.ResponseFormat = &chatFormat{Type: "json_schema", JSONSchema: schemaFormat{Name: "answer", Schema: schema, Strict: strict}}
	}
	return p, nil
}

// chatTurn returns a turn as messages: each result is a message of its own.
func chatTurn(t *wire.Turn) (ms []chatText) {
	for _, r := range t.Results {
		ms = append(ms, chatText{Role: "tool", Content: &r.Text, CallID: r.ID})
	}
	text := t.Text()
	parts := chatFiles(t)
	if text == "" && len(parts) == 0 && len(t.Calls) == 0 && t.Role != messages.RoleAssistant {
		return ms
	}
	own := chatText{Role: "user"}
	if t.Role == messages.RoleAssistant {
		own.Role = "assistant"
	}
	switch {
	case len(parts) > 0 && text != "":
		own.Content = append(parts, chatPart{Type: "text", Text: text})
	case len(parts) > 0:
		own.Content = parts
	case text != "" || len(t.Calls) == 0:
		own.Content = &text
	}
	for _, c := range t.Calls {
		call := chatCall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, string(c.Object())
		own.Calls = append(own.Calls, call)
	}
	return append(ms, own)
}

// Events implements wire.Vendor.
func (chat) Events() wire.Events { return &chatEvents{} }

type chatEvents struct {
	calls int64 // calls so far of a server that sends no index
}

type chatEvent struct {
	Choices []struct {
		Index        int64        `json:"index"`
		Delta        chatMessage  `json:"delta"`
		Message      *chatMessage `json:"message"` // of a reply in one piece
		FinishReason string       `json:"finish_reason"`
	} `json:"choices"`
	Usage *wire.Bill[chatUsage] `json:"usage"`
}

type chatMessage struct {
	Content wire.Raw `json:"content"`
	Refusal wire.Raw `json:"refusal"`
	Calls   []struct {
		Index    *int64 `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string   `json:"name"`
			Arguments wire.Raw `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type chatUsage struct {
	Prompt     wire.Count `json:"prompt_tokens"`
	Completion wire.Count `json:"completion_tokens"`
	Details    wire.Bill[struct {
		Cached wire.Count `json:"cached_tokens"`
	}] `json:"prompt_tokens_details"`
}

// Event implements wire.Events.
func (s *chatEvents) Event(ev wire.Event, r *wire.Reply) error {
	var e chatEvent
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	for i := range e.Choices {
		c := &e.Choices[i]
		if c.Index != 0 {
			continue
		}
		message := &c.Delta
		if c.Message != nil {
			message = c.Message
		}
		if err := r.Text(message.Content); err != nil {
			return err
		}
		if err := r.Text(message.Refusal); err != nil {
			return err
		}
		if err := s.called(message, r); err != nil {
			return err
		}
		switch c.FinishReason {
		case "":
			if c.Message != nil { // some servers leave it out
				r.Finish(messages.FinishComplete)
			}
		case "length":
			r.Finish(messages.FinishLength)
		case "content_filter":
			r.Withhold(c.FinishReason)
			r.Billed()
		case "tool_calls", "function_call":
			r.Called(c.FinishReason)
			r.Billed()
		default: // stop, and codes of compatible servers
			r.Finish(messages.FinishComplete)
		}
	}
	if e.Usage != nil {
		u := &e.Usage.Of
		r.Input(u.Prompt, u.Details.Of.Cached, wire.Count{})
		r.Output(u.Completion)
	}
	return nil
}

// called reads the calls of a message or of a part of it. Some servers send a call in one
// piece and without an index.
func (s *chatEvents) called(m *chatMessage, r *wire.Reply) error {
	for i := range m.Calls {
		c := &m.Calls[i]
		index := max(s.calls-1, 0)
		switch {
		case c.Index != nil:
			index = *c.Index
		case c.Function.Name != "":
			index = s.calls
			s.calls++
		}
		r.Call(index, c.ID, c.Function.Name)
		if len(c.Function.Arguments) > 0 && c.Function.Arguments.Kind() == '{' { // as some servers write them
			r.CallObject(index, c.Function.Arguments)
			continue
		}
		if err := r.CallArgs(index, c.Function.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// Whole implements wire.Events: a reply is one event, with a message instead of a delta.
func (s *chatEvents) Whole(body []byte, r *wire.Reply) error {
	return s.Event(wire.Event{Data: body}, r)
}
