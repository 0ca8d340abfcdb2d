package parse_test

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/plain"
)

func TestCapabilities(t *testing.T) {
	if _, ok := any(aeiou.Dialect{}).(parse.InputChecker); !ok {
		t.Error("aeiou must check input")
	}
	if _, ok := any(plain.Dialect{}).(parse.InputChecker); ok {
		t.Error("plain takes any text")
	}
}

func TestAppendNormal(t *testing.T) {
	drop := func(l []byte) bool { return strings.HasPrefix(string(l), "!") }
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"\n\n", "\n"},
		{"\r\n", ""},
		{"\r", ""},
		{"a", "a"},
		{"a\n", "a"},
		{"a\r\nb\rc\n", "a\nb\nc"},
		{"a\r\r\n", "a\n"},
		{"a\n\r\n", "a\n"},
		{"a \t\nb\t", "a\nb"},
		{"a\u00a0 ", "a\u00a0"},
		{"!x\na", "a"},
		{"a\n!x", "a"},
		{"!x\n!y\n", ""},
		{"!x\n\n", ""},
		{"a\n!x\r\n\nb", "a\n\nb"},
		{"a\r!x\rb", "a\nb"},
		{" !x", " !x"},
		{" \n ", "\n"},
		{"a\v \n", "a\v"},
	} {
		if got := string(parse.AppendNormal(nil, []byte(c.in), drop)); got != c.want {
			t.Errorf("norm(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := string(parse.AppendNormal([]byte("x"), []byte("!a"), nil)); got != "x!a" {
		t.Errorf("without a filter: %q", got)
	}
	for range parse.NormalLines([]byte("a\rb\nc"), nil) {
		break // an early stop must not be answered with another line
	}
}

func TestDigest(t *testing.T) {
	f := messages.Facts{
		Units: []messages.Unit{
			{Kind: messages.ThoughtUnit, Text: "hmm"}, {Kind: messages.ResponseUnit, Text: "hi \r\nyou\n"}, {Kind: messages.TextUnit, Text: "between"},
		},
		Calls: []messages.Call{
			{Name: "read", Args: `{"a":1}`, State: messages.ActionOK, Value: `"x"`},
			{Name: "write", Args: `{}`, State: messages.ActionFailed, Value: ``, Reason: "no"},
		},
	}
	out, scr := parse.Digest(f)
	if string(out) != "hi\nyou\nread {\"a\":1}\nwrite {}" || string(scr) != "ok \"x\"\nfailed " {
		t.Errorf("Digest = %q, %q", out, scr)
	}
	if out, scr := parse.Digest(messages.Facts{}); len(out)+len(scr) != 0 {
		t.Errorf("nothing digests to %q, %q", out, scr)
	}
}
