package compiler

import (
	"context"
	"iter"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
)

// sendable is a provider's model that can be sent tools, or not.
type sendable bool

func (sendable) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] { return nil }
func (c sendable) CallsTools() bool                                              { return bool(c) }

// The vendors' own addresses are sent tools when the manifest does not say, and the
// manifest in effect says so: a replay has it from there.
func TestNativeByDefault(t *testing.T) {
	provide := func(able bool) llm.Provider {
		return func(llm.Settings) (llm.Model, error) { return sendable(able), nil }
	}
	env := func() *Env {
		e := checking()
		e.Providers = map[string]llm.Provider{"openai": provide(true), "gemini": provide(true), "anthropic": provide(false), "mine": provide(true)}
		return e
	}
	for _, c := range []struct {
		name    string
		dialect string
		model   manifest.Model
		own     llm.Model
		old     bool
		want    string // tool_calls in effect
	}{
		{"a vendor", "cogency", manifest.Model{Provider: "openai", Model: "m"}, nil, false, "native"},
		{"cortex", "cortex", manifest.Model{Provider: "gemini", Model: "m"}, nil, false, "native"},
		{"an address of its own", "cogency", manifest.Model{Provider: "openai", Model: "m", BaseURL: "http://localhost:1/v1"}, nil, false, ""},
		{"another provider", "cogency", manifest.Model{Provider: "mine", Model: "m"}, nil, false, ""},
		{"one that cannot", "cogency", manifest.Model{Provider: "anthropic", Model: "m"}, nil, false, "text"},
		{"a fallback that cannot", "cogency", manifest.Model{Provider: "openai", Model: "m", Fallback: []manifest.Fallback{{Provider: "anthropic", Model: "m"}}}, nil, false, "text"},
		{"a fallback elsewhere", "cogency", manifest.Model{Provider: "openai", Model: "m", Fallback: []manifest.Fallback{{Provider: "mine", Model: "m"}}}, nil, false, ""},
		{"text", "cogency", manifest.Model{Provider: "openai", Model: "m", ToolCalls: "text"}, nil, false, "text"},
		{"native elsewhere", "cogency", manifest.Model{Provider: "mine", Model: "m", ToolCalls: "native"}, nil, false, "native"},
		{"another dialect", "plain", manifest.Model{Provider: "openai", Model: "m"}, nil, false, ""},
		{"a model in Go", "cogency", manifest.Model{Provider: "openai", Model: "m"}, scripted.New("x"), false, ""},
		{"an old turn", "cogency", manifest.Model{Provider: "openai", Model: "m"}, nil, true, ""},
	} {
		m := manifest.Default(c.dialect)
		c.model.Mode = manifest.ModeAuto
		m.Model = c.model
		e := env()
		if c.old {
			e.Rendering = 1
		}
		got, err := Compile(t.Context(), e, &Definition{Manifest: m, Model: c.own})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if in := got.Manifest.Model.ToolCalls; in != c.want || got.Actor.Native != (c.want == "native") || m.Model.ToolCalls != c.model.ToolCalls {
			t.Errorf("%s: %q in effect, native %v", c.name, in, got.Actor.Native)
		}
		e = &Env{Mode: Replay, Rendering: e.Rendering}
		again, err := Compile(t.Context(), e, &Definition{Manifest: got.Manifest, Model: c.own})
		if err != nil || again.Actor.Native != got.Actor.Native || again.Actor.Primer != got.Actor.Primer || again.Digest() != got.Digest() {
			t.Errorf("%s: a replay has it otherwise: %v", c.name, err)
		}
	}
}

// With primer: short a model that is sent functions is told less, too.
func TestNativePrimer(t *testing.T) {
	size := map[string]int{}
	for _, primer := range []string{"", manifest.PrimerFull, manifest.PrimerShort} {
		e := checking()
		e.Providers = map[string]llm.Provider{"openai": func(llm.Settings) (llm.Model, error) { return sendable(true), nil }}
		m := manifest.Default("cogency")
		m.Model, m.Primer = manifest.Model{Provider: "openai", Model: "m", Mode: manifest.ModeAuto}, primer
		got, err := Compile(t.Context(), e, &Definition{Manifest: m})
		if err != nil {
			t.Fatal(err)
		}
		size[primer] = len(got.Actor.Primer)
	}
	if size[""] != size[manifest.PrimerFull] || size[manifest.PrimerShort] >= size[""] {
		t.Errorf("bytes: %v", size)
	}
}
