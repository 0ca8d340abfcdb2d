package compiler

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
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
