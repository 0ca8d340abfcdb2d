package aeiou

import "testing"

func TestComparable(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"plain\nlines":                  "plain\nlines",
		"<<<NSMAG:V3:abc.def>>>":        "",
		"a\n<<<NSMAG:V3:abc>>>\nb":      "a\nb",
		"<<<NSMAG:V3:\n<<<NSMAG:V3:x\n": "",
		" <<<NSMAG:V3:indented":         " <<<NSMAG:V3:indented",
		"beside <<<NSMAG:V3:x":          "beside <<<NSMAG:V3:x",
		"a\n<<<NSMAG:V3:x":              "a\n",
	} {
		if got := (Dialect{}).Comparable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
