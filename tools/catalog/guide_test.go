package catalog

import (
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// TestGuide: what a program is told of tools that it missed.
func TestGuide(t *testing.T) {
	set := standardSet(t)
	p := set.Bind(Binding{Turn: []*neuroscript.Tool{{Name: "aeiou.magic", Params: []neuroscript.Param{{Name: "kind", Type: "string"}}}}})
	if got := p.Near("str.upper_to"); !slices.Contains(got, "tool.str.ToUpper(s: string)") || len(got) > maxNear {
		t.Errorf("near str.upper_to: %q", got)
	}
	if got := p.Near("zzzzz"); len(got) != 0 {
		t.Errorf("near zzzzz: %q", got)
	}
	for name, want := range map[string]string{
		"str.replace": "tool.str.Replace(s: string, old: string, new: string, count?: int)", "aeiou.magic": "tool.aeiou.magic(kind: string)", "no.such": "",
	} {
		if got := p.Signature(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
