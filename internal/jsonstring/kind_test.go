package jsonstring_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// Every kind of value has a name, as jsontext tells kinds and as values begin.
func TestKindName(t *testing.T) {
	for value, want := range map[string]string{
		"null": "null", "true": "a boolean", "false": "a boolean", `""`: "a string",
		"0": "a number", "{}": "an object", "[]": "an array", "}": "",
	} {
		if got := jsonstring.KindName(value[0]); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
		if v := jsontext.Value(value); v.IsValid() {
			if got := jsonstring.KindName(byte(v.Kind())); got != want {
				t.Errorf("%s, by its kind: %q, want %q", value, got, want)
			}
		}
	}
}
