package scan

import (
	"encoding/json"
	"strings"
	"testing"
)

// slips are what a text slipped in.
type slips string

const (
	comma   slips = "comma"
	control slips = "control"
	both    slips = "both"
)

// forgiving reads a text with all slips forgiven, in pieces of n bytes; see write.
func forgiving(s string, n int) (normal string, taken int, valid bool, slipped slips, closed bool) {
	j := JSON{Commas: true, Controls: true, Closer: "</action"}
	taken = write(&j, s, n)
	if valid = j.End() && taken == len(s); valid {
		normal = string(j.Bytes())
	}
	if commas, controls := j.Slipped(); commas && controls {
		slipped = both
	} else if commas {
		slipped = comma
	} else if controls {
		slipped = control
	}
	return normal, taken, valid, slipped, j.Closed()
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		in, want string
		slipped  slips
	}{
		{`{"a":1}`, `{"a":1}`, ""},
		{`{"a":1,}`, `{"a":1}`, comma},
		{"{\"b\":[1,2, ],\"a\":{\"c\":[],\n},\n}", `{"a":{"c":[]},"b":[1,2]}`, comma},
		{`[[],]`, `[[]]`, comma},
		{`{"a":",]",}`, `{"a":",]"}`, comma},
		{"[\"one\ntwo\"]", `["one\ntwo"]`, control},
		{"[\"\tx\r\ny\",\"z\"]", `["\tx\r\ny","z"]`, control},
		{"{\"a\":\"\n\\\"q\\\\\\u00e9\n\",\"b\":\"plain and long enough for words\"}", `{"a":"\n\"q\\é\n","b":"plain and long enough for words"}`, control},
		{"[\"a\n</actions> </actio\",]", `["a\n</actions> </actio"]`, both},
		{"[\"</action> a\nb\"]", `["</action> a\nb"]`, control}, // in front of the line end the string protects
		{"[\"a\n<\\/action>\"]", `["a\n</action>"]`, control},
	} {
		for n := range 9 {
			if got, _, ok, slipped, _ := forgiving(c.in, n); !ok || got != c.want || slipped != c.slipped {
				t.Errorf("%q by %d: %q %v %s, want %q %s", c.in, n, got, ok, slipped, c.want, c.slipped)
			}
		}
		if c.slipped != "" && json.Valid([]byte(c.in)) {
			t.Errorf("%q is no slip", c.in)
		}
		if _, _, ok := read(t, c.in); ok != (c.slipped == "") {
			t.Errorf("%q is taken by those who forgive nothing", c.in)
		}
	}
}

// What is not forgiven, and where it ends.
func TestNoSlips(t *testing.T) {
	for _, c := range []struct {
		in    string
		taken int
	}{
		{`[,]`, 1},
		{`{,}`, 1},
		{`[1,,]`, 3},
		{`{"a":1,,}`, 7},
		{`{"a":1,]`, 7},
		{`[1,}`, 3},
		{`,`, 0},
		{`{"a":,}`, 5},
		{"{\"a\n\":1}", 3},
		{"[\"\x00\"]", 2},
		{"[\"\n\x01\"]", 3},
	} {
		for n := range 9 {
			if _, taken, ok, _, _ := forgiving(c.in, n); ok || taken != c.taken {
				t.Errorf("%q by %d: %d taken, %v", c.in, n, taken, ok)
			}
		}
	}
}

// A string whose end is missing gives back the tag that it would swallow.
func TestStringRunsIntoCloser(t *testing.T) {
	for _, c := range []struct {
		in    string
		taken int
	}{
		{"{\"a\":\"x}\n</action>\n", 17},
		{"{\"a\":\"x}\n<</action\t>", 18},
		{"[\"\n</action</action>\"]", 19},
		{"[\"a\n" + strings.Repeat("\n", 300) + "</action>\"]", 312},
	} {
		for n := range 9 {
			if _, taken, _, _, closed := forgiving(c.in, n); !closed || taken != c.taken {
				t.Errorf("%q by %d: %d taken, %v", c.in, n, taken, closed)
			}
		}
	}
}

// Raw line ends grow as they are read: the memory for them is made in time.
func TestSlipsGrow(t *testing.T) {
	for _, size := range []int{200, 255, 500, 513, 4000} {
		in := "[\"" + strings.Repeat("\n", size) + "\",\"" + strings.Repeat("plain words ", 30) + "\"]"
		want, _ := json.Marshal([]string{strings.Repeat("\n", size), strings.Repeat("plain words ", 30)})
		for _, n := range []int{0, 1, 7, 100, len(in)} {
			if got, _, ok, _, _ := forgiving(in, n); !ok || got != string(want) {
				t.Errorf("%d line ends by %d: %v, %d bytes", size, n, ok, len(got))
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	for in, want := range map[string]string{
		`{'a':1}`:               "single quote",
		`{"a": 'b'}`:            "single quote",
		`{"a":1 // one`:         "comment",
		`{"a":1, # one`:         "comment",
		"[\"a\nb\"]":            `write \n`,
		"[\"a\tb\"]":            `write \t`,
		"[\"a\x02b\"]":          `\u0002`,
		`["C:\dir"]`:            "no such escape",
		`["\u00zz"]`:            "four hexadecimal",
		`[nul]`:                 "no such word",
		`[1.]`:                  "breaks off",
		`[None]`:                "true, false or null",
		`{"a": True}`:           "true, false or null",
		`{"a": undefined}`:      "true, false or null",
		`{"a": yes}`:            "without quotes",
		`{a: 1}`:                "key without quotes",
		`{"a":1,}`:              "comma behind the last",
		`[1,]`:                  "comma behind the last",
		`{"a":}`:                "value is missing",
		`{"a" 1}`:               "colon",
		`{"a":1 "b":2}`:         "comma is missing",
		`{"a":"b" + "c"}`:       "no operators",
		`{"a":[1}`:              "another kind",
		`{} {}`:                 "second value",
		`{}}`:                   "closing bracket too much",
		`{} and so on`:          "text follows",
		"```json":               "code fence",
		`<![CDATA[`:             "markup",
		`{“a”:1}`:               "straight double quotes",
		`+1`:                    "digit or a minus",
		strings.Repeat("[", 65): "more than 64 deep",
		`{,`:                    "key in double quotes",
		`[:`:                    "value must stand here",
	} {
		var j JSON
		n := j.Write([]byte(in))
		if n == len(in) {
			t.Errorf("%q is taken", in)
			continue
		}
		if got := j.Refusal(in[n]); !strings.Contains(got, want) {
			t.Errorf("%q at %d: %q, want %q", in, n, got, want)
		}
	}
	for in, want := range map[string]string{
		`{"a":"b`:    "inside a string",
		`{"a":[1,{`:  "}]} is missing",
		`["\ud800"]`: "surrogate",
		``:           "empty",
		`-`:          "breaks off",
		`{"a":"x\`:   "inside a string",
	} {
		var j JSON
		if n := j.Write([]byte(in)); n < len(in) || j.End() {
			t.Errorf("%q is no beginning", in)
		}
		if got := j.Unfinished(); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	j := JSON{Controls: true, Closer: "</x"}
	if n := j.Write([]byte("[\"a\n</x>")); !j.Closed() || !strings.Contains(j.Refusal('>'), "not closed") {
		t.Errorf("%d: %q", n, j.Refusal('>'))
	}
	j = JSON{}
	j.Write([]byte(`{"name": "` + strings.Repeat("é", 30)))
	if got := j.Tail(); got != strings.Repeat("é", 12) {
		t.Errorf("%q", got)
	}
}
