// Package gemini is a client of Google's Gemini API: streamGenerateContent, and Live for models
// that are asked over WebSockets alone.
//
// The official SDK makes the requests; llm/internal/wire reads the streams.
//
// Invariants:
//   - a reply that the provider withholds, or a prompt that it blocks, is a failure;
//   - a reply has ended when the provider gave a finish reason; a stream that ends without
//     one is a failure;
//   - thoughts are not text.
//
// It runs no tools: calls of functions become a part of the reply's text. It does not support Vertex
// AI.
package gemini

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"

	sdk "google.golang.org/genai"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Home is the address of the Gemini API.
const Home = "https://generativelanguage.googleapis.com"

// Live is a Settings.API: replies as text over WebSockets. The default, "", is
// streamGenerateContent.
const Live = "live"

// version of the API.
const version = "v1beta"

// Options configure a model. The zero value is the Gemini API without a key.
type Options struct {
	BaseURL       string    // without the version; "" is Home
	API           string    // "" or Live
	Keys          *llm.Keys // nil is no key
	MaxTokens     int64     // longest reply; 0 leaves it to the model
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
		Vendor: "gemini", Prefixes: []string{"GEMINI", "GOOGLE"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, API: s.API, Keys: keys, MaxTokens: s.MaxTokens, Options: s.Options, Whole: s.Whole, Base: base}, s)
		},
	}
	return m.Provide
}

func newModel(o Options, s llm.Settings) (llm.Model, error) {
	named := options
	switch {
	case o.API == Live && o.Whole:
		return nil, wire.Bad("stream", "Live has no replies in one piece; leave it out")
	case o.API == Live:
		named = liveOptions
	case o.API != "":
		return nil, wire.Bad("api", "is none of gemini's; leave it out")
	}
	if o.BaseURL == "" {
		o.BaseURL = Home
	}
	if err := wire.CheckBaseURL(o.BaseURL); err != nil {
		return nil, err
	}
	if o.MaxTokens > maxOutputTokens {
		return nil, wire.Bad("max_tokens", "is over what the interface can carry, 2147483647")
	}
	tuning, err := named.Tune(o.Options)
	if err != nil {
		return nil, err
	}
	base := strings.TrimRight(o.BaseURL, "/")
	cfg := wire.Config{
		Keys: o.Keys, Header: "X-Goog-Api-Key",
		Prices: o.Prices, Price: s.Price, Tuning: tuning, Whole: o.Whole, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}
	if o.API == Live {
		cfg.Vendor = &live{base: base, maxTokens: int32(o.MaxTokens)}
		return wire.NewCalling(cfg), nil
	}
	cfg.Vendor = &vendor{base: base, maxTokens: int32(o.MaxTokens)}
	return wire.New(cfg), nil
}

const maxOutputTokens = 1<<31 - 1

// options are those of generateContent.
var options = wire.Named{
	Vendor: "gemini",
	Fields: map[string]string{
		"temperature": "generationConfig.temperature", "top_p": "generationConfig.topP", "max_output_tokens": "generationConfig.maxOutputTokens",
		"stop": "generationConfig.stopSequences", "seed": "generationConfig.seed", "reasoning_effort": "generationConfig.thinkingConfig.thinkingLevel",
	},
	Efforts: []string{"minimal", "low", "medium", "high"},
	Own: []string{
		"contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config", "generation_config",
		"generationConfig.temperature", "generationConfig.topP", "generationConfig.maxOutputTokens", "generationConfig.stopSequences", "generationConfig.seed",
		"generationConfig.candidateCount", "generationConfig.responseMimeType", "generationConfig.responseSchema", "generationConfig.responseJsonSchema",
		"generationConfig.thinkingConfig.thinkingLevel",
	},
}

type vendor struct {
	base      string
	maxTokens int32

	once sync.Once
	sdk  *sdk.Client
	err  error
}

// client returns the SDK's client, which is made once because that reads the environment. The
// context is not kept.
func (v *vendor) client(ctx context.Context, client *http.Client) (*sdk.Client, error) {
	v.once.Do(func() {
		v.sdk, v.err = sdk.NewClient(context.WithoutCancel(ctx), &sdk.ClientConfig{
			Backend:     sdk.BackendGeminiAPI,
			APIKey:      "set by the transport",
			HTTPClient:  client,
			HTTPOptions: sdk.HTTPOptions{BaseURL: v.base, APIVersion: version},
		})
	})
	return v.sdk, v.err
}

// Send implements wire.Vendor.
func (v *vendor) Send(ctx context.Context, client *http.Client, ask *wire.Ask) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	var contents []*sdk.Content
	for i := range turns.Turns {
		c, err := content(&turns.Turns[i])
		if err != nil {
			return err
		}
		contents = append(contents, c)
	}
	cfg := v.config(ask.Options)
	if schema, _ := ask.Answer(); schema != nil && len(turns.Tools) == 0 { // most models refuse both at once
		cfg.ResponseMIMEType, cfg.ResponseJsonSchema = "application/json", schema
	}
	if cfg.Tools, err = tools(&turns); err != nil {
		return err
	}
	if turns.System != "" {
		cfg.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: turns.System}}}
	}
	c, err := v.client(ctx, client)
	if err != nil {
		return err
	}
	if ask.Whole {
		_, err := c.Models.GenerateContent(ctx, ask.Model, contents, cfg)
		return err
	}
	for _, err := range c.Models.GenerateContentStream(ctx, ask.Model, contents, cfg) {
		if err != nil { // the Transport kept the stream: this only ends
			return err
		}
	}
	return nil
}

// tools returns the functions that the model may call.
func tools(turns *wire.Turns) ([]*sdk.Tool, error) {
	if len(turns.Tools) == 0 {
		return nil, nil
	}
	all := &sdk.Tool{}
	for _, f := range turns.Tools {
		schema, err := wire.Object(f.Schema)
		if err != nil {
			return nil, err
		}
		all.FunctionDeclarations = append(all.FunctionDeclarations, &sdk.FunctionDeclaration{
			Name: f.Name, Description: f.Description, ParametersJsonSchema: schema,
		})
	}
	return []*sdk.Tool{all}, nil
}

// content returns a turn as the API's content.
func content(t *wire.Turn) (*sdk.Content, error) {
	c := &sdk.Content{Role: sdk.RoleUser}
	if t.Role == messages.RoleAssistant {
		c.Role = sdk.RoleModel
	}
	for _, r := range t.Results {
		c.Parts = append(c.Parts, &sdk.Part{FunctionResponse: &sdk.FunctionResponse{ID: given(r.ID), Name: r.Name, Response: map[string]any{"output": r.Text}}})
	}
	for i := range t.Files {
		f := &t.Files[i]
		c.Parts = append(c.Parts, &sdk.Part{InlineData: &sdk.Blob{MIMEType: f.Type, Data: f.Data}})
	}
	for _, text := range t.Texts {
		c.Parts = append(c.Parts, &sdk.Part{Text: text})
	}
	for i := range t.Calls {
		call := &t.Calls[i]
		args, err := wire.Object(string(call.Object()))
		if err != nil {
			return nil, err
		}
		p := &sdk.Part{FunctionCall: &sdk.FunctionCall{ID: given(call.ID), Name: call.Name, Args: args}}
		if sig, err := base64.StdEncoding.DecodeString(call.Sig); err == nil {
			p.ThoughtSignature = sig
		}
		c.Parts = append(c.Parts, p)
	}
	return c, nil
}

// given returns an id that came from a provider, or "": here most calls have none, and their
// results follow in their order.
func given(id string) string {
	if strings.HasPrefix(id, wire.MadeID) {
		return ""
	}
	return id
}

// config returns the options of a request.
func (v *vendor) config(o *wire.Options) *sdk.GenerateContentConfig {
	cfg := &sdk.GenerateContentConfig{MaxOutputTokens: v.maxTokens, StopSequences: o.Stop}
	if o.MaxTokens > 0 {
		cfg.MaxOutputTokens = int32(min(o.MaxTokens, maxOutputTokens))
	}
	if o.Temperature != nil {
		cfg.Temperature = sdk.Ptr(float32(*o.Temperature))
	}
	if o.TopP != nil {
		cfg.TopP = sdk.Ptr(float32(*o.TopP))
	}
	if o.Seed != nil {
		cfg.Seed = sdk.Ptr(int32(*o.Seed))
	}
	if o.Effort != "" {
		cfg.ThinkingConfig = &sdk.ThinkingConfig{ThinkingLevel: sdk.ThinkingLevel(strings.ToUpper(o.Effort))}
	}
	return cfg
}

// TakesPart implements wire.PartsTaker. The API has no GIF.
func (*vendor) TakesPart(mediaType string) bool {
	return wire.Picture(mediaType) && mediaType != "image/gif" || mediaType == "application/pdf" || mediaType == "text/plain"
}

// Events implements wire.Vendor.
func (*vendor) Events() wire.Events { return &events{} }

type events struct {
	calls int64 // so far
}

type event struct {
	Candidates []struct {
		Index   int64 `json:"index"`
		Content struct {
			Parts []struct {
				Text      wire.Raw `json:"text"`
				Thought   bool     `json:"thought"`
				Signature string   `json:"thoughtSignature"`
				Call      *struct {
					ID   string   `json:"id"`
					Name string   `json:"name"`
					Args wire.Raw `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *wire.Bill[usage] `json:"usageMetadata"`
}

type usage struct {
	Prompt   wire.Count `json:"promptTokenCount"`
	Cached   wire.Count `json:"cachedContentTokenCount"`
	Reply    wire.Count `json:"candidatesTokenCount"`
	Thoughts wire.Count `json:"thoughtsTokenCount"`
}

// Event implements wire.Events.
func (s *events) Event(ev wire.Event, r *wire.Reply) error {
	var e event
	if err := wire.Decode(ev.Data, &e); err != nil {
		return err
	}
	if e.Usage != nil {
		u := &e.Usage.Of
		r.Input(u.Prompt, u.Cached, wire.Count{})
		r.Running(u.Reply.Plus(u.Thoughts))
	}
	if why := e.Feedback.BlockReason; why != "" {
		r.Withhold(why)
	}
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Index != 0 {
			continue
		}
		for j := range c.Content.Parts {
			p := &c.Content.Parts[j]
			if p.Thought {
				continue
			}
			if err := r.Text(p.Text); err != nil {
				return err
			}
			if p.Call != nil { // calls come in one piece
				r.Call(s.calls, p.Call.ID, p.Call.Name)
				r.CallObject(s.calls, p.Call.Args)
				r.CallSign(s.calls, p.Signature)
				r.CallEnd(s.calls)
				s.calls++
			}
		}
		switch c.FinishReason {
		case "", "FINISH_REASON_UNSPECIFIED":
		case "STOP":
			r.Finish(messages.FinishComplete)
		case "MAX_TOKENS":
			r.Finish(messages.FinishLength)
		case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
			r.Withhold(c.FinishReason)
		default: // the model failed, for example inside a call of a function that was not offered
			r.Fail(c.FinishReason)
		}
	}
	return nil
}

// Whole implements wire.Events: a reply is one event.
func (s *events) Whole(body []byte, r *wire.Reply) error {
	return s.Event(wire.Event{Data: body}, r)
}
