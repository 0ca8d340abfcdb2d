package manifest

import (
	"reflect"

	"github.com/seed14be6753/stile/internal/clip"
)

// Bounds of model options. Providers have narrower ones and say so themselves.
const (
	maxStops      = 16
	maxStopBytes  = 256
	maxExtraBytes = 16 << 10
)

// Options say how a model answers. What is not set is the provider's to choose; what a
// provider does not have is refused when the agent is made ready.
type Options struct {
	Temperature *float64       `yaml:"temperature" min:"0" max:"2" doc:"How much chance there is in a reply; 0 is the least."`
	TopP        *float64       `yaml:"top_p" min:"0" max:"1" doc:"Share of likely words that a reply is drawn from."`
	MaxTokens   int64          `yaml:"max_output_tokens" min:"1" max:"1000000000" optional:"true" doc:"Longest reply in tokens; another way to write max_tokens of the model."`
	Stop        []string       `yaml:"stop" optional:"true" doc:"Texts that end a reply where they come up, at most 16 of 256 bytes. They are yours alone: no dialect adds one."`
	Seed        *int64         `yaml:"seed" min:"0" max:"2147483647" doc:"Number that makes chance repeatable, as far as the provider can."`
	Effort      string         `yaml:"reasoning_effort" enum:"none|minimal|low|medium|high|xhigh|max" doc:"How much the model reasons before it answers."`
	Extra       map[string]any `yaml:"extra" optional:"true" doc:"Further members of the provider's request, sent as they are, at most 16KiB. What the host writes itself is refused."`
}

// JSON is what the options say as canonical JSON with the keys of the manifest; "" when
// they say nothing, or what no manifest can.
func (o *Options) JSON() string {
	if o.empty() {
		return ""
	}
	b, err := canonical(writer{raw: true}.tree(reflect.ValueOf(o).Elem(), &field{}))
	if err != nil {
		return ""
	}
	return string(b)
}

func (o *Options) empty() bool {
	return o.Temperature == nil && o.TopP == nil && o.MaxTokens == 0 && len(o.Stop) == 0 && o.Seed == nil && o.Effort == "" && len(o.Extra) == 0
}

// options checks what one field cannot say alone. maxTokens is the key beside them.
func (c *checker) options(path string, o *Options, maxTokens int64) {
	if o.MaxTokens != 0 && maxTokens != 0 && o.MaxTokens != maxTokens {
		c.add(join(path, "max_output_tokens"), ReasonBadValue, "max_tokens says another number; leave one of them out")
	}
	if len(o.Stop) > maxStops {
		c.add(join(path, "stop"), ReasonBadValue, "has %d texts, and %d are the most", len(o.Stop), maxStops)
	}
	for i, s := range o.Stop {
		if s == "" || len(s) > maxStopBytes {
			c.add(index(join(path, "stop"), i), ReasonBadValue, "is a text of 1 to %d bytes", maxStopBytes)
		}
	}
	if len(o.Extra) == 0 {
		return
	}
	for name := range o.Extra {
		if name == "" || len(name) > maxStopBytes {
			c.add(join(path, "extra"), ReasonBadValue, "%q is no name of a member", clip.Quoted(name))
		}
	}
	switch b, err := canonical(o.Extra); {
	case err != nil:
		c.add(join(path, "extra"), ReasonBadValue, "is no JSON")
	case len(b) > maxExtraBytes:
		c.add(join(path, "extra"), ReasonBadValue, "has %d bytes, and %d are the most", len(b), maxExtraBytes)
	}
}
