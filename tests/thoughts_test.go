package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Sub-thoughts from a manifest to the records, the updates of a session, the prompt and a replay.
// Without the extension the same reply has the error and the members that it had.
func TestSubThoughts(t *testing.T) {
	const reply = `<thought label="plan">one<thought label="risk">two` +
		`<action id="a" mode="async">{"name":"read","parameters":{"file":"a.txt"}}</action></thought>three</thought>`
	for _, on := range []bool{true, false} {
		a, model := working(t, "cortex", map[string]string{"a.txt": "x\n"}, reply, "<response>done</response>")
		if on {
			a.Manifest.Extensions = []string{"sub_thoughts"}
		}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 2 {
			t.Fatalf("%+v", o)
		}
		recs := records(t, s)
		var got []string
		for _, b := range bodies[*messages.UnitText](recs) {
			if b.UnitKind == messages.ThoughtUnit {
				got = append(got, fmt.Sprintf("%s %d %d %d %s", b.Text, b.N, b.Parent, b.Depth, b.Label))
			}
		}
		want := []string{"one 1 0 1 plan", "two 2 1 2 risk", "three 1 0 1 plan"}
		if !on {
			want = []string{"one 0 0 0 ", "two 0 0 0 ", "three 0 0 0 "}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n := bodies[*messages.ActionDeclared](recs)[0].Thought; on && n != 2 || !on && n != 0 {
			t.Errorf("the action stands in thought %d", n)
		}
		faults := bodies[*messages.ParseFault](recs)
		if on && len(faults) > 0 || !on && (len(faults) != 1 || faults[0].Reason != "nested_thought") {
			t.Errorf("errors %v", faults)
		}
		primer := model.requests()[0].Messages[0].Text
		if strings.Contains(primer, `<thought label="plan">`) != on {
			t.Errorf("the primer says\n%s", primer)
		}
		replays(t, rt, a)
	}
}
