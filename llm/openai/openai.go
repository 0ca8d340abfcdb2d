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
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
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
	Options       string    // how to answer, as llm.Settings has it
	Whole         bool      // replies in one piece
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
	v := vendor{options: o, home: base == Home, send: []option.RequestOption{
		option.WithBaseURL(base + "/"), option.WithMaxRetries(0),
	}}
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
	default:
		return nil, wire.Bad("api", "is neither "+Responses+" nor "+Chat)
	}
	var err error
	if cfg.Tuning, err = named.Tune(o.Options); err != nil {
		return nil, err
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
