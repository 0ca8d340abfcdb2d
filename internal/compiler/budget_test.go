package compiler

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// TestPrimerBytes holds the prompt of an agent with one tool of two scalars, whose
// default set is all of NeuroScript's, to its budget.
func TestPrimerBytes(t *testing.T) {
	find := tools.Tool{
		Name: "notes.find", Description: "Finds notes that hold a word.", Class: messages.ReadOnly,
		Params: []neuroscript.Param{{Name: "word", Type: "string"}, {Name: "most", Type: "int", Optional: true}},
		Run:    func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.Value{}, nil },
	}
	for primer, most := range map[string]int{"": 6 << 10, manifest.PrimerShort: 3 << 10} {
		m := manifest.Default("aeiou")
		m.Primer, m.Import.Tools = primer, []string{"notes.find"}
		a, err := Compile(context.Background(), &Env{Mode: Check}, &Definition{Manifest: m, Model: scripted.New("x"), Tools: []tools.Tool{find}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(a.Actor.Primer); n > most {
			t.Errorf("primer %q: %d bytes, at most %d\n%s", primer, n, most, a.Actor.Primer)
		} else {
			t.Logf("primer %q: %d bytes", primer, n)
		}
	}
}
