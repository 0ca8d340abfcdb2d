// Package gemini asks Google's Gemini interface (streamGenerateContent).
//
// Requests are the official SDK's, streams are read by llm/wire.
//
// Invariants:
//   - a reply that the provider withholds, or a prompt that it blocks, is a failure;
//   - a reply has ended when the provider gave a finish reason; the end of the stream
//     without one is none;
//   - thoughts are not text.
//
// It calls no tools and sends no images: dialects speak in text. Vertex AI is not asked.
package gemini

import (
	"context"
	"net/http"
	"strings"
	"sync"

	sdk "google.golang.org/genai"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Home is where Gemini is.
const Home = "https://generativelanguage.googleapis.com"

// version of the interface.
const version = "v1beta"

// Options say how to ask. The zero value asks Gemini without a key.
type Options struct {
	BaseURL       string    // without the version; "" is Home
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
		Vendor: "gemini", Prefixes: []string{"GEMINI", "GOOGLE"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, Keys: keys, MaxTokens: s.MaxTokens, Base: base}, s)
		},
	}
	return m.Provide
}

func newModel(o Options, s llm.Settings) (llm.Model, error) {
	if s.API != "" {
		return nil, wire.Bad("api", "gemini has one interface; leave it out")
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
	return wire.New(wire.Config{
		Vendor: &vendor{base: strings.TrimRight(o.BaseURL, "/"), maxTokens: int32(o.MaxTokens)},
		Keys:   o.Keys, Header: "X-Goog-Api-Key",
		Prices: o.Prices, Price: s.Price, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}), nil
}

const maxOutputTokens = 1<<31 - 1

type vendor struct {
	base      string
	maxTokens int32

	once sync.Once
	sdk  *sdk.Client
	err  error
}

// client makes the SDK's client, once: it looks through the environment each time. The
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
func (v *vendor) Send(ctx context.Context, client *http.Client, req *llm.Request) error {
	turns, err := wire.Conversation(req.Messages)
	if err != nil {
		return err
	}
	var contents []*sdk.Content
	for _, t := range turns.Turns {
		role := sdk.RoleUser
		if t.Role == messages.RoleAssistant {
			role = sdk.RoleModel
		}
		c := &sdk.Content{Role: role}
		for _, text := range t.Texts {
			c.Parts = append(c.Parts, &sdk.Part{Text: text})
		}
		contents = append(contents, c)
	}
	cfg := &sdk.GenerateContentConfig{MaxOutputTokens: v.maxTokens}
	if turns.System != "" {
		cfg.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: turns.System}}}
	}
	c, err := v.client(ctx, client)
	if err != nil {
		return err
	}
	for _, err := range c.Models.GenerateContentStream(ctx, req.Model, contents, cfg) {
		if err != nil { // the Transport kept the stream: there is nothing else
			return err
		}
	}
	return nil
}

// Events implements wire.Vendor.
func (*vendor) Events() wire.Events { return events{} }

type events struct{}

type event struct {
	Candidates []struct {
		Index   int64 `json:"index"`
		Content struct {
			Parts []struct {
				Text    wire.Raw `json:"text"`
				Thought bool     `json:"thought"`
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
func (events) Event(ev wire.Event, r *wire.Reply) error {
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
			if p := &c.Content.Parts[j]; !p.Thought {
				if err := r.Text(p.Text); err != nil {
					return err
				}
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
		default: // the model broke, for example inside a call that nobody offered
			r.Fail(c.FinishReason)
		}
	}
	return nil
}
