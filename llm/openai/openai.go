// Package openai asks OpenAI, and the many servers that speak its protocol: Ollama,
// vLLM, llama.cpp, LM Studio.
//
// It speaks two interfaces. Responses is OpenAI's own and the default there; Chat
// Completions is what the others have in common and the default at any other address.
// Requests are the official SDK's, streams are read by llm/wire.
//
// Invariants:
//   - requests store nothing at the provider (store: false);
//   - a refusal that the model writes is text: it is what the model said. A reply that
//     the provider withholds is a failure;
//   - reasoning is not text.
//
// It calls no tools and sends no images: dialects speak in text.
package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Home is where OpenAI is.
const Home = "https://api.openai.com/v1"

// The interfaces: Settings.API.
const (
	Responses = "responses"
	Chat      = "chat"
)

// Options say how to ask. The zero value asks OpenAI without a key.
type Options struct {
	BaseURL       string    // with the version, such as http://localhost:11434/v1; "" is Home
	API           string    // Responses or Chat; "" is Responses at Home and Chat elsewhere
	Keys          *llm.Keys // nil asks without
	MaxTokens     int64     // longest reply; 0 leaves it to the model
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
		Vendor: "openai", Prefixes: []string{"OPENAI"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, API: s.API, Keys: keys, MaxTokens: s.MaxTokens, Base: base}, s)
		},
	}
	return m.Provide
}

func newModel(o Options, s llm.Settings) (llm.Model, error) {
	if o.BaseURL == "" {
		o.BaseURL = Home
	}
	if err := wire.CheckBaseURL(o.BaseURL); err != nil {
		return nil, err
	}
	base := strings.TrimRight(o.BaseURL, "/")
	if o.API == "" {
		o.API = Chat
		if base == Home {
			o.API = Responses
		}
	}
	v := vendor{options: o, home: base == Home, send: []option.RequestOption{
		option.WithBaseURL(base + "/"), option.WithMaxRetries(0),
	}}
	cfg := wire.Config{
		Keys: o.Keys, Header: "Authorization", Scheme: "Bearer ",
		Prices: o.Prices, Price: s.Price, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}
	switch o.API {
	case Chat:
		cfg.Vendor = chat{v}
	case Responses:
		cfg.Vendor = response{v}
	default:
		return nil, wire.Bad("api", "is neither "+Responses+" nor "+Chat)
	}
	return wire.New(cfg), nil
}

// vendor is what both interfaces share.
type vendor struct {
	options Options
	home    bool
	send    []option.RequestOption
}

func (v *vendor) with(client *http.Client) []option.RequestOption {
	return append(v.send[:len(v.send):len(v.send)], option.WithHTTPClient(client))
}

// chat speaks Chat Completions.
type chat struct{ vendor }

// Send implements wire.Vendor.
func (v chat) Send(ctx context.Context, client *http.Client, req *llm.Request) error {
	turns, err := wire.Conversation(req.Messages)
	if err != nil {
		return err
	}
	p := sdk.ChatCompletionNewParams{Model: req.Model, StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}}
	if turns.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(turns.System))
	}
	for _, t := range turns.Turns {
		// One text each: compatible servers take a string everywhere, a list not.
		text := strings.Join(t.Texts, "\n\n")
		if t.Role == messages.RoleAssistant {
			p.Messages = append(p.Messages, sdk.AssistantMessage(text))
		} else {
			p.Messages = append(p.Messages, sdk.UserMessage(text))
		}
	}
	if n := v.options.MaxTokens; n > 0 {
		if v.home {
			p.MaxCompletionTokens = sdk.Int(n)
		} else {
			p.MaxTokens = sdk.Int(n) // the name that compatible servers know
		}
	}
	if v.home {
		p.Store = sdk.Bool(false)
	}
	svc := sdk.NewChatCompletionService(v.with(client)...)
	s := svc.NewStreaming(ctx, p)
	s.Next() // the Transport kept the stream: this ends at once
	return s.Err()
}

// Events implements wire.Vendor.
func (chat) Events() wire.Events { return &chatEvents{} }

type chatEvents struct{}

type chatEvent struct {
	Choices []struct {
		Index int64 `json:"index"`
		Delta struct {
			Content wire.Raw `json:"content"`
			Refusal wire.Raw `json:"refusal"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *wire.Bill[chatUsage] `json:"usage"`
}

type chatUsage struct {
	Prompt     wire.Count `json:"prompt_tokens"`
	Completion wire.Count `json:"completion_tokens"`
	Details    wire.Bill[struct {
		Cached wire.Count `json:"cached_tokens"`
	}] `json:"prompt_tokens_details"`
}

// Event implements wire.Events.
func (*chatEvents) Event(ev wire.Event, r *wire.Reply) error {
	var e chatEvent
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	for i := range e.Choices {
		c := &e.Choices[i]
		if c.Index != 0 {
			continue
		}
		if err := r.Text(c.Delta.Content); err != nil {
			return err
		}
		if err := r.Text(c.Delta.Refusal); err != nil {
			return err
		}
		switch c.FinishReason {
		case "":
		case "length":
			r.Finish(messages.FinishLength)
		case "content_filter":
			r.Withhold(c.FinishReason)
			r.Billed()
		case "tool_calls", "function_call":
			r.Called(c.FinishReason)
			r.Billed()
		default: // stop, and words of compatible servers
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

// response speaks Responses.
type response struct{ vendor }

// Send implements wire.Vendor.
func (v response) Send(ctx context.Context, client *http.Client, req *llm.Request) error {
	turns, err := wire.Conversation(req.Messages)
	if err != nil {
		return err
	}
	p := responses.ResponseNewParams{Model: req.Model, Store: sdk.Bool(false)}
	if turns.System != "" {
		p.Instructions = sdk.String(turns.System)
	}
	if n := v.options.MaxTokens; n > 0 {
		p.MaxOutputTokens = sdk.Int(n)
	}
	if req.Session != "" {
		// Requests of one session go where its beginning is cached. The name itself is
		// not the provider's business.
		sum := sha256.Sum256([]byte("stile/prompt-cache\n" + req.Session))
		p.PromptCacheKey = sdk.String(hex.EncodeToString(sum[:16]))
	}
	var input responses.ResponseInputParam
	for _, t := range turns.Turns {
		role := responses.EasyInputMessageRoleUser
		if t.Role == messages.RoleAssistant {
			role = responses.EasyInputMessageRoleAssistant
		}
		input = append(input, responses.ResponseInputItemParamOfMessage(strings.Join(t.Texts, "\n\n"), role))
	}
	p.Input.OfInputItemList = input
	svc := responses.NewResponseService(v.with(client)...)
	s := svc.NewStreaming(ctx, p)
	s.Next() // the Transport kept the stream: this ends at once
	return s.Err()
}

// Events implements wire.Vendor.
func (response) Events() wire.Events { return &responseEvents{} }

type responseEvents struct{}

type responseEvent struct {
	Type     string   `json:"type"`
	Delta    wire.Raw `json:"delta"`
	Response struct {
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
		Usage *wire.Bill[responseUsage] `json:"usage"`
	} `json:"response"`
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
func (*responseEvents) Event(ev wire.Event, r *wire.Reply) error {
	var e responseEvent
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	if e.Response.Usage != nil {
		u := &e.Response.Usage.Of
		r.Input(u.Input, u.Details.Of.Cached, u.Details.Of.Written)
		r.Output(u.Output)
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return r.Text(e.Delta)
	case "response.completed":
		r.Finish(messages.FinishComplete)
		r.Over()
	case "response.incomplete":
		switch e.Response.Incomplete.Reason {
		case "content_filter":
			r.Withhold("content_filter")
		default: // max_output_tokens
			r.Finish(messages.FinishLength)
			r.Over()
		}
	case "response.failed":
		r.Fail(e.Response.Error.Code)
	case "response.cancelled":
		r.Fail("cancelled_by_provider")
	}
	return nil
}
