package openai

import (
	"cmp"
	"context"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

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

// Send implements wire.Vendor.
func (v chat) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	p := sdk.ChatCompletionNewParams{Model: ask.Model}
	if !ask.Whole {
		p.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	if turns.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(turns.System))
	}
	for i := range turns.Turns {
		p.Messages = append(p.Messages, chatTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return err
		}
		own := shared.FunctionDefinitionParam{Name: f.Name, Parameters: parameters}
		if f.Description != "" {
			own.Description = sdk.String(f.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(own))
	}
	o := ask.Options
	if n := cmp.Or(o.MaxTokens, v.options.MaxTokens); n > 0 {
		if v.home {
			p.MaxCompletionTokens = sdk.Int(n)
		} else {
			p.MaxTokens = sdk.Int(n) // the name that compatible servers know
		}
	}
	if schema, strict := ask.Answer(); schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: schema, Strict: sdk.Bool(strict)},
		}
	}
	if v.home {
		p.Store = sdk.Bool(false)
	}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	if o.Seed != nil {
		p.Seed = sdk.Int(*o.Seed)
	}
	p.Stop.OfStringArray = o.Stop
	p.ReasoningEffort = sdk.ReasoningEffort(o.Effort)
	svc := sdk.NewChatCompletionService(v.with(client)...)
	return send(ctx, ask, p, svc.New, svc.NewStreaming)
}

// chatTurn returns a turn as messages: each result is a message of its own.
func chatTurn(t *wire.Turn) (ms []sdk.ChatCompletionMessageParamUnion) {
	for _, r := range t.Results {
		ms = append(ms, sdk.ToolMessage(r.Text, r.ID))
	}
	// One text each: all compatible servers accept a string, but not all a list.
	switch text := t.Text(); {
	case t.Role == messages.RoleAssistant && len(t.Calls) > 0:
		own := &sdk.ChatCompletionAssistantMessageParam{}
		if text != "" {
			own.Content.OfString = sdk.String(text)
		}
		for _, c := range t.Calls {
			own.ToolCalls = append(own.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Object())},
			}})
		}
		ms = append(ms, sdk.ChatCompletionMessageParamUnion{OfAssistant: own})
	case t.Role == messages.RoleAssistant:
		ms = append(ms, sdk.AssistantMessage(text))
	case text != "":
		ms = append(ms, sdk.UserMessage(text))
	}
	return ms
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
		said := &c.Delta
		if c.Message != nil {
			said = c.Message
		}
		if err := r.Text(said.Content); err != nil {
			return err
		}
		if err := r.Text(said.Refusal); err != nil {
			return err
		}
		if err := s.called(said, r); err != nil {
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
