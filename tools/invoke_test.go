package tools

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/neuroscript"
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
