package llm

import "time"

// Settings are what a manifest says about one model: its own, or a fallback. They
// hold no secret: Secret is the name of one. The zero value takes the provider's
// defaults.
type Settings struct {
	BaseURL   string        // where the provider is; "" is the vendor's own address
	Secret    string        // environment variable that holds the key; "" are the provider's names
	API       string        // which of its interfaces to speak, where a provider has several
	MaxTokens int64         // longest reply; 0 leaves it to the provider
	FirstByte time.Duration // how long an answer may take to begin; 0 is the provider's default
	Price     Price         // zero: the cost of replies is unknown
	// Options are how the model answers, as a JSON object: temperature, top_p,
	// max_output_tokens (which goes before MaxTokens), stop, seed, reasoning_effort and
	// extra, as a manifest's model.options has them. "" says nothing. One that the
	// provider does not have is ERR_CONFIG when the model is made.
	Options string
	// Whole asks for replies in one piece instead of a stream.
	Whole bool
}

// Provider makes the model that an agent asks. Errors are *messages.Error with
// ERR_CONFIG, whose Field names the setting as the manifest spells it, such as
// base_url; they say what is missing and hold no secret. Calls with equal settings
// may share one model. Safe for concurrent use.
type Provider func(Settings) (Model, error)
