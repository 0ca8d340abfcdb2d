package parse

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// TestSignature: a line where all is scalar, nothing where a schema says more.
func TestSignature(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"start":{"type":"integer"},"path":{"type":"string"}},"required":["path"]}`, "read(path: string, start?: integer)"},
		{`{"type":"object","properties":{"b":{"type":"boolean"},"a":{"type":"number"}},"required":["b","a"]}`, "read(b: boolean, a: number)"},
		{`{"type":"object","properties":{"unit":{"type":"string","enum":["C","F"]}}}`, `read(unit?: "C"|"F")`},
		{`{"type":"object"}`, "read()"},
		{`{"type":"object","properties":{"all":{"type":"array"}}}`, ""},
		{`{"type":"object","properties":{"one":{"type":["string","null"]}}}`, ""},
		{`{"type":"string"}`, ""},
		{`{`, ""},
		{``, ""},
	} {
		got, ok := Signature(&messages.ToolSpec{Name: "read", Schema: c.schema})
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.schema, got, ok, c.want)
		}
	}
}

// TestHabits: each name is a bit of its own with a lint of its own.
func TestHabits(t *testing.T) {
	seen := map[messages.Code]bool{}
	for i := range habits {
		set := HabitsOf(habits[i].name)
		if set != 1<<i || set.String() != habits[i].name || seen[set.Lint()] {
			t.Errorf("%s: bits %b, named %s, lint %s", habits[i].name, set, set, set.Lint())
		}
		seen[set.Lint()] = true
	}
	if AllHabits != 1<<len(habits)-1 || HabitsOf("all") != AllHabits || HabitsOf("none of them") != 0 {
		t.Errorf("all are %b", AllHabits)
	}
}
