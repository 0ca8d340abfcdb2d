package parse_test

import (
	"testing"

	"github.com/seed14be6753/stile/parse"
)

func TestOneLine(t *testing.T) {
	for s, want := range map[string]string{
		"": "", " \n": "", "a": "a", " a\n\tb \r\nc\xff ": "a b c\ufffd", "a\u2028b\u0085c\u00a0d": "a b c d",
	} {
		if got := parse.OneLine(s); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", s, got, want)
		}
	}
}
