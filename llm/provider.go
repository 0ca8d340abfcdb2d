package llm

import "time"

// Settings are the settings of one model in a manifest: the agent's, or a fallback. They hold
// no secret: Secret is the name of a variable. The zero value takes the provider's defaults.
type Settings struct {
	BaseURL   string        // address of the provider; "" is the vendor's own
	Secret    string        // environment variable with the key; "" is the provider's names
	API       string        // which API to use, if a provider has several
	MaxTokens int64         // longest reply; 0 leaves it to the provider
	FirstByte time.Duration // how long an answer may take to begin; 0 is the provider's default
	Price     Price         // zero: the cost of replies is unknown
	// Options are the options of requests as a JSON object: temperature, top_p,
	// max_output_tokens (which takes precedence over MaxTokens), stop, seed,
	// reasoning_effort and extra, as in model.options of a manifest. "" is none. An option
	// that the provider does not support is ERR_CONFIG when the model is made.
	Options string
	// Whole asks for replies in one piece instead of a stream.
	Whole bool
}

// Provider makes the models of agents. Errors are *messages.Error with ERR_CONFIG, whose Field
// is the setting as a manifest spells it, such as base_url; they describe what is missing and
// hold no secret. Calls with equal settings may return the same model. A Provider must be safe
// for concurrent use.
type Provider func(Settings) (Model, error)
