package manifest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

const withOptions = `dialect: plain
model:
  provider: openai
  stream: false
  options: {temperature: 0, top_p: 0.5, max_output_tokens: 9, stop: ["a$b", "\n\n"], seed: 0, reasoning_effort: low, extra: {top_k: 4, "deep.er": {a: [1, 0.5, true, "${X}"]}}}
  fallback:
    - {provider: gemini, stream: true, options: {temperature: 2}}
environment: {variables: {X: "1"}}
`

func TestOptions(t *testing.T) {
	m, err := Parse("a.yaml", []byte(withOptions))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"extra":{"deep.er":{"a":[1,0.5,true,"1"]},"top_k":4},"max_output_tokens":9,"reasoning_effort":"low","seed":0,"stop":["a$b","\n\n"],"temperature":0,"top_p":0.5}`
	all := m.Models()
	if got := all[0].Options.JSON(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := all[1].Options.JSON(); got != `{"temperature":2}` || !*all[1].Stream || *all[0].Stream {
		t.Errorf("%s", got)
	}
	again, err := Parse("b.yaml", m.Canonical())
	if err != nil || again.Digest() != m.Digest() {
		t.Errorf("it is not read back: %v: %s", err, m.Canonical())
	}
	plain, err := Parse("a.yaml", []byte("dialect: plain\nmodel: {options: {stop: [], extra: {}}}\n"))
	if err != nil || plain.Digest() != Default("plain").Digest() || plain.Model.Options.JSON() != "" {
		t.Errorf("options that say nothing count: %v", err)
	}
}

func TestOptionMistakes(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{"temperature: 2.1", "model.options.temperature BAD_VALUE"},
		{"temperature: -1", "model.options.temperature BAD_VALUE"},
		{"temperature: .nan", "model.options.temperature BAD_VALUE"},
		{"temperature: warm", "model.options.temperature WRONG_TYPE"},
		{"top_p: 1.01", "model.options.top_p BAD_VALUE"},
		{"max_output_tokens: 0", "model.options.max_output_tokens BAD_VALUE"},
		{"max_output_tokens: 8", "model.options.max_output_tokens BAD_VALUE"},
		{"stop: end", "model.options.stop WRONG_TYPE"},
		{`stop: ["a", ""]`, "model.options.stop[1] BAD_VALUE"},
		{"stop: [" + strings.Repeat("s", 257) + "]", "model.options.stop[0] BAD_VALUE"},
		{`stop: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]`, "model.options.stop BAD_VALUE"},
		{"seed: -1", "model.options.seed BAD_VALUE"},
		{"seed: 1.5", "model.options.seed BAD_VALUE"},
		{"reasoning_effort: hard", "model.options.reasoning_effort BAD_VALUE"},
		{"extra: [1]", "model.options.extra WRONG_TYPE"},
		{`extra: {"": 1}`, "model.options.extra BAD_VALUE"},
		{"extra: {a: " + strings.Repeat("x", maxExtraBytes) + "}", "model.options.extra BAD_VALUE"},
		{"temprature: 1", "model.options.temprature UNKNOWN_KEY"},
	} {
		_, err := Parse("a.yaml", []byte("dialect: plain\nmodel: {provider: openai, max_tokens: 9, options: {"+c.options+"}}\n"))
		got := reasons(err)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%.60s: %v, want %s", c.options, got, c.want)
		}
	}
	_, err := Parse("a.yaml", []byte("dialect: plain\nmodel: {script: a, stream: false, options: {seed: 1}, fallback: [{provider: openai, options: {seed: -1}}]}\n"))
	if got := reasons(err); !slices.Equal(got, []string{"model.stream BAD_VALUE", "model.options BAD_VALUE", "model.fallback[0].options.seed BAD_VALUE"}) {
		t.Errorf("%v", got)
	}
	made := Default("plain")
	made.Model.Provider, made.Model.Options.Extra = "openai", map[string]any{"f": func() {}}
	if got := reasons(made.Validate()); !slices.Equal(got, []string{"model.options.extra BAD_VALUE"}) {
		t.Errorf("%v", got)
	}
	nan := math.NaN()
	made.Model.Options = Options{Temperature: &nan}
	if got := reasons(made.Validate()); !slices.Equal(got, []string{"model.options.temperature BAD_VALUE"}) || made.Model.Options.JSON() != "" {
		t.Errorf("%v", got)
	}
}

// reasons lists the mistakes of an error as field and reason.
func reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var all []string
	for _, e := range joined.Unwrap() {
		if m, ok := errors.AsType[*messages.Error](e); ok {
			all = append(all, m.Field+" "+m.Reason)
		}
	}
	return all
}
