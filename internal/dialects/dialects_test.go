package dialects

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/plain"
)

type nameless struct{ plain.Dialect }

func (nameless) Name() string { return "" }

func TestRegistry(t *testing.T) {
	r, err := New(plain.Dialect{}, aeiou.Dialect{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Names(); !slices.Equal(got, []string{"aeiou", "plain"}) {
		t.Errorf("Names() = %v", got)
	}
	r.Names()[0] = "changed"
	if r.Names()[0] != "aeiou" {
		t.Error("Names() hands out its own slice")
	}
	if d, err := r.Lookup("aeiou"); err != nil || d.Name() != "aeiou" {
		t.Errorf("Lookup(aeiou) = %v, %v", d, err)
	}
	d, err := r.Lookup("klingon")
	if d != nil || messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), `"klingon"; known: aeiou, plain`) {
		t.Errorf("Lookup(klingon) = %v, %v", d, err)
	}
	empty, _ := New()
	if _, err := empty.Lookup("plain"); err == nil || !strings.Contains(err.Error(), "known: none") {
		t.Errorf("an empty registry says %v", err)
	}
	for name, ds := range map[string][]parse.Dialect{
		"twice": {plain.Dialect{}, plain.Dialect{}}, "nil": {nil}, "nameless": {nameless{}},
	} {
		if _, err := New(ds...); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: New gives %v", name, err)
		}
	}
}
