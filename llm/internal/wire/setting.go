package wire

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Bad returns an ERR_CONFIG about a setting, spelled as in a manifest.
func Bad(setting, detail string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: setting, Detail: detail}
}

// CheckBaseURL returns an error for an address that cannot be a provider's. It refuses
// credentials, because the address is recorded with the manifest.
func CheckBaseURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return Bad("base_url", "is no address such as http://localhost:11434/v1")
	case u.User != nil:
		return Bad("base_url", "must hold no name or password; use secret")
	case u.RawQuery != "" || u.Fragment != "":
		return Bad("base_url", "must have no query or fragment")
	}
	return nil
}

// Maker implements the llm.Provider of a vendor. Equal settings share a model, all models share
// connections, and models with the same variables share their keys.
type Maker struct {
	// Vendor is the vendor's name in errors. Prefixes are those of the variables with its
	// keys, the usual one first. Home is the vendor's own address.
	Vendor   string
	Prefixes []string
	Home     string
	// Lookup reads the environment.
	Lookup func(string) (string, bool)
	// Base sends requests; nil is a new transport.
	Base http.RoundTripper
	// New makes a model of checked settings. BaseURL is never empty.
	New func(s llm.Settings, keys *llm.Keys, base http.RoundTripper) (llm.Model, error)

	mu     sync.Mutex
	keys   map[string]*llm.Keys // by Settings.Secret
	models map[llm.Settings]llm.Model
}

// Provide implements llm.Provider.
func (m *Maker) Provide(s llm.Settings) (llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model, ok := m.models[s]; ok {
		return model, nil
	}
	if err := CheckBaseURL(s.BaseURL); err != nil {
		return nil, err
	}
	full := s
	if full.BaseURL == "" {
		full.BaseURL = m.Home
	}
	keys, err := m.keysOf(s)
	if err != nil {
		return nil, err
	}
	if m.Base == nil {
		m.Base = NewBase()
	}
	model, err := m.New(full, keys, m.Base)
	if err != nil {
		return nil, err
	}
	if m.models == nil {
		m.models = map[llm.Settings]llm.Model{}
	}
	m.models[s] = model
	return model, nil
}

// needsKey returns the text that names the missing variable.
func (m *Maker) needsKey() string {
	name := m.Prefixes[0] + "_API_KEY"
	also := ""
	for _, p := range m.Prefixes[1:] {
		also += " or " + p + "_API_KEY"
	}
	return m.Vendor + " needs a key, and there is none in the environment variable " + name + also +
		": export " + name + "=… (several keys: the same with _1 to _20) and start again, or name another variable in the manifest, as model.secret; a server that takes no key is named by its address, as base_url"
}

// KeyRest is the environment variable with the longest time that a key is not used after a
// rate limit.
const KeyRest = "STILE_KEY_REST"

// keysOf returns the keys of settings. A server at another address than the vendor's may have
// none; the vendor itself, and a named secret, must have one.
func (m *Maker) keysOf(s llm.Settings) (*llm.Keys, error) {
	if k, ok := m.keys[s.Secret]; ok && k.Len() > 0 {
		return k, nil
	}
	names := llm.KeyNames(m.Prefixes...)
	if s.Secret != "" {
		names = llm.SecretNames(s.Secret)
	}
	found, err := llm.FindKeys(names, m.Lookup)
	if err != nil {
		return nil, err
	}
	switch {
	case len(found) > 0:
	case s.Secret != "":
		return nil, Bad("secret", "there is no key in the environment variable "+s.Secret+", nor in "+s.Secret+"_1 to _20; set it and start again")
	case s.BaseURL == "":
		return nil, Bad("provider", m.needsKey())
	}
	keys := llm.NewKeys(found...)
	if value, ok := m.Lookup(KeyRest); ok {
		rest, err := time.ParseDuration(value)
		if err != nil || rest < time.Second || rest > time.Hour {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: KeyRest, Detail: "how long a key rests after a rate limit, at most: 1s to 1h"}
		}
		keys.RestAtMost(rest)
	}
	if m.keys == nil {
		m.keys = map[string]*llm.Keys{}
	}
	m.keys[s.Secret] = keys
	return keys, nil
}
