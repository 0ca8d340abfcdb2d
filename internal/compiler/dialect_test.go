package compiler

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/plain"
)

type named struct {
	plain.Dialect
	name string
}

func (d named) Name() string { return d.name }

func TestDialects(t *testing.T) {
	env := &Env{Dialects: []parse.Dialect{named{name: "own"}}}
	for name, known := range map[string]bool{"aeiou": true, "own": true, "klingon": false} {
		m := manifest.Default("plain")
		m.Dialect = name
		d, err := env.dialect(m)
		if known && (err != nil || d.Name() != name) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if !known && (messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), `"klingon"; known: aeiou, cogency, cortex, kitsu, own, plain, profile`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, further := range map[string][]parse.Dialect{
		"of the product": {plain.Dialect{}}, "twice": {named{name: "a"}, named{name: "a"}}, "nil": {nil}, "nameless": {named{}},
	} {
		if _, err := Dialects(further); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExtensionsOfDecoders: a decoder reads the extensions that the manifest names, and none
// without them.
func TestExtensionsOfDecoders(t *testing.T) {
	for _, words := range [][]string{nil, {"if"}, {"foreach", "parallel", "rollback", "stream", "sub_thoughts", "templates"}, {"feed_transform"}} {
		m := manifest.Default("cortex")
		m.Extensions = words
		d, err := (&Env{}).dialect(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := d.(cortex.Dialect).Extensions, cortex.ExtensionsOf(words); got != want {
			t.Errorf("%v: %b, want %b", words, got, want)
		}
	}
}
