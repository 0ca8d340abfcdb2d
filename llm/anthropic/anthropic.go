// Package anthropic is a client of Anthropic's Messages API.
//
// The official SDK makes the requests; llm/internal/wire reads the streams.
//
// Invariants:
//   - what a session repeats with every turn is marked for the provider's cache: the system
//     text always, the conversation if the next request begins with it;
//   - a reply that the provider withholds (stop_reason refusal) is a failure;
//   - thinking is not text.
//
// It runs no tools: calls of functions become a part of the reply's text. It sends no images.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Home is the address of Anthropic's API.
const Home = "https://api.anthropic.com"

// DefaultMaxTokens is the default bound of a reply: the API requires one, and every model of
// today allows this number.
const DefaultMaxTokens = 8192

// Options configure a model. The zero value is Anthropic's API without a key.
type Options struct {
	BaseURL       string    // without the version; "" is Home
	Keys          *llm.Keys // nil is no key
	MaxTokens     int64     // longest reply; 0 is DefaultMaxTokens
	Options       string    // see llm.Settings.Options
	Whole         bool      // replies in one piece
	Prices        map[string]llm.Price
	MaxEventBytes int               // 0 is 4 MiB
	Base          http.RoundTripper // nil is a transport of its own
}

// New returns a model. Errors are ERR_CONFIG with the field as a manifest spells it.
func New(o Options) (llm.Model, error) {
	return newModel(o, llm.Settings{})
}

// Provider returns an llm.Provider for manifests; lookup reads the environment.
func Provider(lookup func(string) (string, bool)) llm.Provider {
	m := &wire.Maker{
		Vendor: "anthropic", Prefixes: []string{"ANTHROPIC"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, Keys: keys, MaxTokens: s.MaxTokens, Options: s.Options, Whole: s.Whole, Base: base}, s)
		},
	}
	return m.Provide
}

func newModel(o Options, s llm.Settings) (llm.Model, error) {
	if s.API != "" {
		return nil, wire.Bad("api", "anthropic has one interface; leave it out")
	}
	if o.BaseURL == "" {
		o.BaseURL = Home
	}
	if err := wire.CheckBaseURL(o.BaseURL); err != nil {
		return nil, err
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = DefaultMaxTokens
	}
	tuning, err := options.Tune(o.Options)
	if err != nil {
		return nil, err
	}
	v := vendor{maxTokens: o.MaxTokens, send: []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(o.BaseURL, "/") + "/"), option.WithMaxRetries(0),
	}}
	return wire.New(wire.Config{
		Vendor: v, Keys: o.Keys, Header: "X-Api-Key",
		Prices: o.Prices, Price: s.Price, Tuning: tuning, Whole: o.Whole, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}), nil
}

// options are those of the Messages API, which has no seed.
var options = wire.Named{
	Vendor: "anthropic",
	Fields: map[string]string{
		"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens",
		"stop": "stop_sequences", "reasoning_effort": "output_config.effort",
	},
	Efforts:            []string{"low", "medium", "high", "xhigh", "max"},
	HottestTemperature: 1,
	Own: []string{
		"model", "messages", "system", "stream", "tools", "tool_choice", "output_config.format",
		"temperature", "top_p", "max_tokens", "stop_sequences", "output_config.effort",
	},
}

type vendor struct {
	maxTokens int64
	send      []option.RequestOption
}

// Send implements wire.Vendor.
func (v vendor) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	o := ask.Options
	p := sdk.MessageNewParams{Model: ask.Model, MaxTokens: cmp.Or(o.MaxTokens, v.maxTokens), StopSequences: o.Stop}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	if schema, strict := ask.Answer(); strict { // the API takes no other schemas
		p.OutputConfig.Format.Schema = schema
	}
	p.OutputConfig.Effort = sdk.OutputConfigEffort(o.Effort)
	cached := sdk.NewCacheControlEphemeralParam()
	if turns.System != "" {
		p.System = []sdk.TextBlockParam{{Text: turns.System, CacheControl: cached}}
	}
	for i := range turns.Turns {
		p.Messages = append(p.Messages, message(&turns.Turns[i]))
	}
	if ask.Grows {
		last := p.Messages[len(p.Messages)-1].Content
		if ask.Passing > 0 && len(last) > 1 { // the user's message that passes is its last block
			last = last[:len(last)-1]
		}
		if cache := last[len(last)-1].GetCacheControl(); cache != nil {
			*cache = cached
		}
	}
	for _, f := range turns.Tools {
		schema, err := wire.Object(f.Schema)
		if err != nil {
			return err
		}
		tool := &sdk.ToolParam{Name: f.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if f.Description != "" {
			tool.Description = sdk.String(f.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	svc := sdk.NewMessageService(append(v.send[:len(v.send):len(v.send)], option.WithHTTPClient(client))...)
	var more []option.RequestOption
	if ask.Whole {
		// The SDK's own requests without a stream have a timeout, which refuses long replies
		// and ends with the head of the answer.
		more = append(more, option.WithMiddleware(unstreamed))
	}
	s := svc.NewStreaming(ctx, p, more...)
	s.Next() // the Transport kept the stream: this ends at once
	return s.Err()
}

// unstreamed makes a request ask for its reply in one piece.
func unstreamed(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	if err := wire.AddMembers(req, map[string]any{"stream": false}); err != nil {
		return nil, err
	}
	return next(req)
}

// message returns a turn as a message: results before texts, thoughts and texts before calls.
func message(t *wire.Turn) sdk.MessageParam {
	m := sdk.MessageParam{Role: sdk.MessageParamRoleUser}
	if t.Role == messages.RoleAssistant {
		m.Role = sdk.MessageParamRoleAssistant
	}
	for _, r := range t.Results {
		m.Content = append(m.Content, sdk.NewToolResultBlock(r.ID, r.Text, false))
	}
	for _, own := range t.Items {
		m.Content = append(m.Content, param.Override[sdk.ContentBlockParamUnion](json.RawMessage(own)))
	}
	for i := range t.Files {
		switch f := &t.Files[i]; {
		case f.IsPicture():
			m.Content = append(m.Content, sdk.NewImageBlockBase64(f.Type, f.Base64()))
		case f.Type == "application/pdf":
			m.Content = append(m.Content, sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: f.Base64()}))
		default:
			m.Content = append(m.Content, sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: string(f.Data)}))
		}
	}
	for _, text := range t.Texts {
		m.Content = append(m.Content, sdk.NewTextBlock(text))
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		m.Content = append(m.Content, sdk.NewToolUseBlock(c.ID, json.RawMessage(c.Object()), c.Name))
	}
	return m
}

// TakesPart implements wire.PartsTaker.
func (vendor) TakesPart(mediaType string) bool {
	return wire.Picture(mediaType) || mediaType == "application/pdf" || mediaType == "text/plain"
}

// Events implements wire.Vendor.
func (vendor) Events() wire.Events { return &events{} }

// events reads a Messages stream. Counts of the prompt come at the beginning and may
// come again; those of the reply are totals.
type events struct {
	in, read, written wire.Count
	thought           *thought // the open thought
	call              bool     // a call is open
}

// thought is a block that is sent back with the calls after it.
type thought struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type usage struct {
	Input   wire.Count `json:"input_tokens"`
	Read    wire.Count `json:"cache_read_input_tokens"`
	Written wire.Count `json:"cache_creation_input_tokens"`
	Output  wire.Count `json:"output_tokens"`
}

type block struct {
	Type  string   `json:"type"`
	Text  wire.Raw `json:"text"`
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Input wire.Raw `json:"input"`
}

type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage *wire.Bill[usage] `json:"usage"`
	} `json:"message"`
	Index int64    `json:"index"`
	Block wire.Raw `json:"content_block"`
	Delta struct {
		Type       string   `json:"type"`
		Text       wire.Raw `json:"text"`
		Input      wire.Raw `json:"partial_json"`
		Thinking   string   `json:"thinking"`
		Signature  string   `json:"signature"`
		StopReason string   `json:"stop_reason"`
	} `json:"delta"`
	Usage *wire.Bill[usage] `json:"usage"`
}

// Event implements wire.Events.
func (s *events) Event(ev wire.Event, r *wire.Reply) error {
	var e event
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	switch e.Type {
	case "message_start":
		if e.Message.Usage != nil {
			s.prompt(&e.Message.Usage.Of, r)
		}
	case "content_block_start":
		return s.begin(&e, r)
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			return r.Text(e.Delta.Text)
		case "input_json_delta":
			return r.CallArgs(e.Index, e.Delta.Input)
		case "thinking_delta", "signature_delta":
			if s.thought != nil {
				s.thought.Thinking += e.Delta.Thinking
				s.thought.Signature += e.Delta.Signature
			}
		}
	case "content_block_stop":
		s.stop(e.Index, r)
	case "message_delta":
		if e.Usage != nil {
			s.prompt(&e.Usage.Of, r)
			r.Output(e.Usage.Of.Output)
		}
		finish(e.Delta.StopReason, r)
	case "message_stop":
		r.Over()
	}
	return nil
}

// begin opens a block.
func (s *events) begin(e *event, r *wire.Reply) error {
	s.thought, s.call = nil, false
	if len(e.Block) == 0 {
		return nil
	}
	var b block
	if err := wire.Decode(e.Block, &b); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		return r.Text(b.Text)
	case "tool_use":
		s.call = true
		r.Call(e.Index, b.ID, b.Name)
	case "thinking":
		s.thought = &thought{}
		return wire.Decode(e.Block, s.thought)
	case "redacted_thinking":
		r.Keep(e.Block)
	}
	return nil
}

// stop ends the open block.
func (s *events) stop(index int64, r *wire.Reply) {
	if s.call {
		r.CallEnd(index)
	}
	if s.thought != nil && s.thought.Signature != "" {
		if own, err := json.Marshal(s.thought); err == nil {
			r.Keep(own)
		}
	}
	s.thought, s.call = nil, false
}

// finish records why the model stopped; "" is no reason.
func finish(reason string, r *wire.Reply) {
	switch reason {
	case "":
	case "stop_sequence":
		r.Finish(messages.FinishStop)
	case "max_tokens", "model_context_window_exceeded":
		r.Finish(messages.FinishLength)
	case "refusal":
		r.Withhold(reason)
	case "tool_use":
		r.Called(reason)
	default: // end_turn, and reasons without a meaning here
		r.Finish(messages.FinishComplete)
	}
}

// Whole implements wire.Events.
func (s *events) Whole(body []byte, r *wire.Reply) error {
	var m struct {
		Content    []wire.Raw        `json:"content"`
		StopReason string            `json:"stop_reason"`
		Usage      *wire.Bill[usage] `json:"usage"`
	}
	if err := wire.Decode(body, &m); err != nil {
		return err
	}
	for i, raw := range m.Content {
		var b block
		if err := wire.Decode(raw, &b); err != nil {
			return err
		}
		switch b.Type {
		case "text":
			if err := r.Text(b.Text); err != nil {
				return err
			}
		case "tool_use":
			r.Call(int64(i), b.ID, b.Name)
			r.CallObject(int64(i), b.Input)
			r.CallEnd(int64(i))
		case "thinking", "redacted_thinking":
			r.Keep(raw)
		}
	}
	if m.Usage != nil {
		s.prompt(&m.Usage.Of, r)
		r.Output(m.Usage.Of.Output)
	}
	finish(m.StopReason, r)
	return nil
}

// prompt counts the prompt: input_tokens leaves out the tokens read from and written to the
// cache.
func (s *events) prompt(u *usage, r *wire.Reply) {
	for _, c := range []struct {
		to   *wire.Count
		from wire.Count
	}{{&s.in, u.Input}, {&s.read, u.Read}, {&s.written, u.Written}} {
		if c.from.Known {
			*c.to = c.from
		}
	}
	r.Input(s.in.Plus(s.read).Plus(s.written), s.read, s.written)
}
