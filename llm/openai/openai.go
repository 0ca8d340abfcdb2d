// Package openai is a client of OpenAI's APIs, and of the many servers that are compatible with
// them: Ollama, vLLM, llama.cpp, LM Studio.
//
// It supports three APIs. Responses is OpenAI's own and the default there; Chat Completions is
// the one that compatible servers share, and the default at any other address; Realtime is for
// models that are asked over WebSockets alone. This package
// makes the requests, and a test compares them with those of the official SDK, which would add
// 20 MB to a binary (docs/decisions/024-a-small-binary.md). llm/internal/wire reads the streams.
//
// Invariants:
//   - requests store nothing at the provider (store: false; Realtime stores nothing);
//   - a refusal that the model writes is text, as any reply. A reply that the provider
//     withholds is a failure;
//   - reasoning is not text.
//
// It runs no tools: calls of functions become a part of the reply's text. It sends no images.
package openai

import (
	"net/http"
	"strings"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
)

// Home is the address of OpenAI's API.
const Home = "https://api.openai.com/v1"

// The APIs: Settings.API.
const (
	Responses = "responses"
	Chat      = "chat"
	Realtime  = "realtime" // replies as text
)

// Options configure a model. The zero value is OpenAI's API without a key.
type Options struct {
	BaseURL       string    // with the version, such as http://localhost:11434/v1; "" is Home
	API           string    // Responses, Chat or Realtime; "" is Responses at Home and Chat elsewhere
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
		Vendor: "openai", Prefixes: []string{"OPENAI"}, Home: Home, Lookup: lookup,
		New: func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error) {
			return newModel(Options{BaseURL: s.BaseURL, API: s.API, Keys: keys, MaxTokens: s.MaxTokens, Options: s.Options, Whole: s.Whole, Base: base}, s)
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
	v := vendor{options: o, home: base == Home, base: base}
	cfg := wire.Config{
		Keys: o.Keys, Header: "Authorization", Scheme: "Bearer ",
		Prices: o.Prices, Price: s.Price, Whole: o.Whole, FirstByte: s.FirstByte, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
	}
	var named wire.Named
	switch o.API {
	case Chat:
		cfg.Vendor, named = chat{v}, chatOptions(v.home)
	case Responses:
		cfg.Vendor, named = response{v}, responseOptions
	case Realtime:
		if o.Whole {
			return nil, wire.Bad("stream", "Realtime has no replies in one piece; leave it out")
		}
		cfg.Vendor, named = realtime{v}, realtimeOptions
	default:
		return nil, wire.Bad("api", "is neither "+Responses+" nor "+Chat)
	}
	var err error
	if cfg.Tuning, err = named.Tune(o.Options); err != nil {
		return nil, err
	}
	switch cfg.Vendor.(type) {
	case realtime:
		return wire.NewCalling(cfg), nil
	case wire.Talker:
		if !o.Whole {
			return wire.NewTalking(cfg), nil
		}
	}
	return wire.New(cfg), nil
}

// vendor is the part that both APIs share.
type vendor struct {
	options Options
	home    bool
	base    string // without the last slash
}
