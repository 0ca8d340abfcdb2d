package prompt

import (
	"errors"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "one", "b_2": "${A}", "E": "", Given: "given"}
	for text, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"${A} and ${b_2}":           "one and ${A}", // what was put in is not read again
		"$$ $$$ $5 $x $":            "$ $$ $5 $x $",
		"$${A}":                     "${A}",
		"${E:-nothing}${A:-other}":  "nothingone",
		"${E:-}":                    "",
		"${} ${a.b} ${a b} ${1} ${": "${} ${a.b} ${a b} ${1} ${",
		"${builtin.instructions}":   "given",
	} {
		got, err := Expand(text, func(name string) (string, error) {
			v, ok := values[name]
			if !ok {
				t.Errorf("%q asks for %q", text, name)
			}
			return v, nil
		})
		if got != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := Expand("${A}", func(string) (string, error) { return "", errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
}
