package catalog

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A reply names a tool as it is written; a program does so in any case.
func TestTarget(t *testing.T) {
	set := standardSet(t)
	targets := NewTargets(set, neuroscript.Limits{})
	for name, want := range map[string]bool{
		"str.ToUpper": true, "str.toupper": false, "STR.TOUPPER": false, "tool.str.ToUpper": false, " str.ToUpper": false, "str": false, "": false,
	} {
		if _, found := targets.Find(messages.TypeTool, name); found != want {
			t.Errorf("%q is found: %v", name, found)
		}
	}
	if out, res := run(t, set.Bind(Binding{}), `emit tool.STR.toupper("a")`, neuroscript.Env{}); out != "A" {
		t.Errorf("a program gets %q, %v", out, res.Err)
	}
}

// A call of a reply is told all that is wrong with the names of its arguments.
func TestInvokeTellsAllMistakes(t *testing.T) {
	tool, err := standardSet(t).Lookup("str.Replace")
	if err != nil {
		t.Fatal(err)
	}
	args, err := neuroscript.FromJSON([]byte(`{"s":"a","old":null,"x":1,"y":2}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "argument x: str.Replace has no such parameter; it takes (s, old, new, count?); " +
		"argument y: str.Replace has no such parameter; it takes (s, old, new, count?); argument old: missing; argument new: missing"
	if _, err := Invoke(context.Background(), tool, &tools.Call{}, args, neuroscript.Limits{}); err == nil || err.Error() != "code 4: "+want {
		t.Errorf("%v", err)
	}
}
