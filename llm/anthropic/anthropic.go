// Package anthropic asks Anthropic's Messages interface.
//
// Requests are the official SDK's, streams are read by llm/wire.
//
// Invariants:
//   - what a session says again with every turn is marked for the provider's cache: the
//     system text always, the conversation where the next request begins with it;
//   - a reply that the provider withholds (stop_reason refusal) is a failure;
//   - thinking is not text.
//
// It calls no tools and sends no images: dialects speak in text.
package anthropic

import (
	"context"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Home is where Anthropic is.
const Home = "https://api.anthropic.com"

// DefaultMaxTokens is the longest reply when nothing is said: the interface wants a
// number, and every model it serves today allows this one.
const DefaultMaxTokens = 8192

// Options say how to ask. The zero value asks Anthropic without a key.
type Options struct {
	BaseURL       string    // without the version; "" is Home
	Keys          *llm.Keys // nil asks without
	MaxTokens     int64     // longest reply; 0 is DefaultMaxTokens
	Prices        map[string]llm.Price
	MaxEventBytes int               // 0 is 4 MiB
	Base          http.RoundTripper // nil is a transport of its own
}

// New makes a model. Errors are ERR_CONFIG, naming the field as a manifest spells it.
func New(o Options) (llm.Model, error) {
	return newModel(o, llm.Settings{})
}

// Provider makes models for manifests; lookup reads the environment.
func Provider(lookup func(string) (string, bool)) llm.Provider {
	m := &wire.Maker{
		Vendor: "anthropic", Prefixes: []string{"ANTHROPIC"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, Keys: keys, MaxTokens: s.MaxTokens, Base: base}, s)
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
	v := vendor{maxTokens: o.MaxTokens, send: []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(o.BaseURL, "/") + "/"), option.WithMaxRetries(0),
	}}
	return wire.New(wire.Config{
		Vendor: v, Keys: o.Keys, Header: "X-Api-Key",
		Prices: o.Prices, Price: s.Price, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}), nil
}

type vendor struct {
	maxTokens int64
	send      []option.RequestOption
}

// Send implements wire.Vendor.
func (v vendor) Send(ctx context.Context, client *http.Client, req *llm.Request) error {
	turns, err := wire.Conversation(req.Messages)
	if err != nil {
		return err
	}
	p := sdk.MessageNewParams{Model: req.Model, MaxTokens: v.maxTokens}
	cached := sdk.NewCacheControlEphemeralParam()
	if turns.System != "" {
		p.System = []sdk.TextBlockParam{{Text: turns.System, CacheControl: cached}}
	}
	for i, t := range turns.Turns {
		m := sdk.MessageParam{Role: sdk.MessageParamRoleUser}
		if t.Role == messages.RoleAssistant {
			m.Role = sdk.MessageParamRoleAssistant
		}
		for j, text := range t.Texts {
			b := sdk.TextBlockParam{Text: text}
			if req.Grows && i == len(turns.Turns)-1 && j == len(t.Texts)-1 {
				b.CacheControl = cached
			}
			m.Content = append(m.Content, sdk.ContentBlockParamUnion{OfText: &b})
		}
		p.Messages = append(p.Messages, m)
	}
	svc := sdk.NewMessageService(append(v.send[:len(v.send):len(v.send)], option.WithHTTPClient(client))...)
	s := svc.NewStreaming(ctx, p)
	s.Next() // the Transport kept the stream: this ends at once
	return s.Err()
}

// Events implements wire.Vendor.
func (vendor) Events() wire.Events { return &events{} }

// events reads a Messages stream. Counts of the prompt come at the beginning and may
// come again; those of the reply are totals.
type events struct{ in, read, written wire.Count }

type usage struct {
	Input   wire.Count `json:"input_tokens"`
	Read    wire.Count `json:"cache_read_input_tokens"`
	Written wire.Count `json:"cache_creation_input_tokens"`
	Output  wire.Count `json:"output_tokens"`
}

type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage *wire.Bill[usage] `json:"usage"`
	} `json:"message"`
	Block struct {
		Type string   `json:"type"`
		Text wire.Raw `json:"text"`
	} `json:"content_block"`
	Delta struct {
		Type       string   `json:"type"`
		Text       wire.Raw `json:"text"`
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
		if e.Block.Type == "text" {
			return r.Text(e.Block.Text)
		}
	case "content_block_delta":
		if e.Delta.Type == "text_delta" {
			return r.Text(e.Delta.Text)
		}
	case "message_delta":
		if e.Usage != nil {
			s.prompt(&e.Usage.Of, r)
			r.Output(e.Usage.Of.Output)
		}
		switch e.Delta.StopReason {
		case "":
		case "stop_sequence":
			r.Finish(messages.FinishStop)
		case "max_tokens", "model_context_window_exceeded":
			r.Finish(messages.FinishLength)
		case "refusal":
			r.Withhold(e.Delta.StopReason)
		case "tool_use":
			r.Called(e.Delta.StopReason)
		default: // end_turn, and what has no meaning without tools
			r.Finish(messages.FinishComplete)
		}
	case "message_stop":
		r.Over()
	}
	return nil
}

// prompt counts the prompt: input_tokens leaves out what the cache had or took.
func (s *events) prompt(u *usage, r *wire.Reply) {
	for _, c := range []struct {
		to   *wire.Count
		from wire.Count
	}{{&s.in, u.Input}, {&s.read, u.Read}, {&s.written, u.Written}} {
		if c.from.Said {
			*c.to = c.from
		}
	}
	r.Input(s.in.Plus(s.read).Plus(s.written), s.read, s.written)
}
