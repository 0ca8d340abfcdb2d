package transform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// outcome is the value, or the error, of steps over an input.
func outcome(steps, input string) string {
	c, wrong := Load(steps)
	if wrong != nil {
		return wrong.Error()
	}
	v, failed := c.Apply(input)
	if failed != nil {
		return failed.Error()
	}
	return v
}

func TestSteps(t *testing.T) {
	for _, c := range []struct{ steps, input, want string }{
		{`[]`, `"x"`, `"x"`},
		{`[{"op":"head","lines":1}]`, `"a\r\nb\r\n"`, `"a"`},
		{`[{"op":"tail","lines":1}]`, `"a\r\nb\r"`, `"b\r"`},
		{`[{"op":"tail","chars":2}]`, `"né🦊x"`, `"🦊x"`},
		{`[{"op":"tail","chars":9}]`, `"né"`, `"né"`},
		{`[{"op":"head","lines":2}]`, `""`, `""`},
		{`[{"op":"head","items":2.0}]`, `[1,2,3]`, `[1,2]`},
		{`[{"op":"head","lines":1}]`, `7`, `transform[0] head: type: head takes a text for lines and chars, and an array for items, and the value is of type number`},
		{`[{"op":"match","re2":"a(b)?","group":1}]`, `"ab a ab"`, `"b\n\nb"`},
		{`[{"op":"match","re2":"\\w","max":2}]`, `"abc"`, `"a\nb"`},
		{`[{"op":"match","re2":"1"}]`, `[1,"a1",{"k":1},"b"]`, `[1,"a1",{"k":1}]`},
		{`[{"op":"drop","re2":"b$"}]`, `"ab\r\nc\nb"`, `"c"`},
		{`[{"op":"replace","re2":"^","with":"> "}]`, `"a\nb"`, `"> a\n> b"`},
		{`[{"op":"replace","re2":"a","with":"$1$${x}"}]`, `"a"`, `"$1$${x}"`},
		{`[{"op":"replace","re2":"(a)(b)?","with":"<\\2\\1>"}]`, `"a ab"`, `"<a> <ba>"`},
		{`[{"op":"replace","re2":"1","with":"2"}]`, `11`, `11`},
		{`[{"op":"redact","re2":"secret|^42$"}]`, `{"secret_key":1,"k":[42,421,null,"a secret"],"e":{"secret":2}}`, `{"e":{},"k":["[redacted]",421,null,"a [redacted]"]}`},
		{`[{"op":"redact","re2":"x"}]`, `[]`, `[]`},
		{`[{"op":"redact","re2":"12"}]`, `12`, `"[redacted]"`},
		{`[{"op":"sort"}]`, `["b","é","a"]`, `["a","b","é"]`},
		{`[{"op":"sort"}]`, `[1e2,99,9007199254740993,9007199254740992]`, `[99,1e2,9007199254740992,9007199254740993]`},
		{`[{"op":"sort"}]`, `[]`, `[]`},
		{`[{"op":"sort"}]`, `[true,false]`, `transform[0] sort: type: the items to sort must be all texts or all numbers`},
		{`[{"op":"sort"}]`, `{}`, `transform[0] sort: type: sort takes a text or an array, and the value is of type object`},
		{`[{"op":"unique"}]`, `[1,1.0,"1",{"a":1,"b":2},{"b":2.0,"a":1}]`, `[1,"1",{"a":1,"b":2}]`},
		{`[{"op":"json"}]`, `" [1, 1.0] "`, `[1,1.0]`},
		{`[{"op":"json"}]`, `""`, `transform[0] json: not_json: the text is no JSON, or nests too deeply`},
		{`[{"op":"text"}]`, `["a",1,{"b":2,"a":[null]}]`, `"a\n1\n{\"a\":[null],\"b\":2}"`},
		{`[{"op":"text"}]`, `null`, `"null"`},
		{`[{"op":"markdown"}]`, `[]`, `""`},
		{`[{"op":"markdown"}]`, `{"a\nb":"x\r\ny","n":{"k":1}}`, `"- **a b**: x y\n- **n**: {\"k\":1}"`},
		{`[{"op":"markdown"}]`, `[{"a":1},{}]`, `"- {\"a\":1}\n- {}"`},
		{`[{"op":"markdown"}]`, `[{"a|b":"x\ny"}]`, `"| a\\|b |\n| --- |\n| x y |"`},
		{`[{"op":"yaml"}]`, `[{"k":[1],"a":{}},[],"No",-1.0,"a-b c/d"]`, `"- a: {}\n  k:\n    - 1\n- []\n- \"No\"\n- -1\n- a-b c/d"`},
		{`[{"op":"yaml"}]`, `"x "`, `"\"x \""`},
		{`[{"op":"template","text":"%{value} 5% %%{value} %"}]`, `{"a":1}`, `"{\"a\":1} 5% %{value} %"`},
		{`[{"op":"template","text":"%{value.0.x}"}]`, `[{"x":"y"}]`, `"y"`},
		{`[{"op":"select","path":"a"},{"op":"select","path":"b"}]`, `{"a":1}`, `transform[1] select: type: select takes an array or an object, and the value is of type number`},
		{`[{"op":"select","path":"items"}]`, `{"item":1}`, `transform[0] select: not_found: no member "items"`},
		{`[{"op":"select","path":"00"}]`, `[1]`, `transform[0] select: not_found: no item "00"`},

		{`{}`, `1`, `transform[0]: must be a list of steps, such as [{op: head, lines: 20}]`},
		{`["head"]`, `1`, `transform[0]: a step is an object with the member op`},
		{`[{"path":"a"}]`, `1`, `transform[0].op: a step names its operation: op is one of drop, head, json, markdown, match, redact, replace, select, sort, tail, template, text, unique, yaml`},
		{`[{"op":"select","path":"a..b"}]`, `1`, `transform[0].path: a path is names and indices with points between, such as items.0.name`},
		{`[{"op":"select"}]`, `1`, `transform[0].path: must be a text`},
		{`[{"op":"head","lines":0}]`, `1`, `transform[0].lines: must be an integer of at least 1`},
		{`[{"op":"head","lines":"2"}]`, `1`, `transform[0].lines: must be an integer of at least 1`},
		{`[{"op":"tail"}]`, `1`, `transform[0].op: tail takes exactly one of lines, items and chars`},
		{`[{"op":"match","re2":"a","max":1.5}]`, `1`, `transform[0].max: must be an integer of at least 1`},
		{`[{"op":"match","re2":"a","group":-1}]`, `1`, `transform[0].group: must be an integer of at least 0`},
		{`[{"op":"drop"}]`, `1`, `transform[0].re2: must be a text`},
		{`[{"op":"drop","re2":"("}]`, `1`, "transform[0].re2: this is no regular expression of RE2: error parsing regexp: missing closing ): `(`"},
		{`[{"op":"replace","re2":"a"}]`, `1`, `transform[0].with: must be a text`},
		{`[{"op":"replace","re2":"a","with":"x\\"}]`, `1`, `transform[0].with: \ stands in front of the digit of a group, 0 to 9, or of another \`},
		{`[{"op":"replace","re2":"a","with":"\\n"}]`, `1`, `transform[0].with: \ stands in front of the digit of a group, 0 to 9, or of another \`},
		{`[{"op":"text"},{"op":"template","text":"%{value.}"}]`, `1`, `transform[1].text: a placeholder is %{value} or %{value.path}; a percent sign in front of { is written %%`},
		{`[{"op":"template","text":"%{value"}]`, `1`, `transform[0].text: a placeholder is %{value} or %{value.path}; a percent sign in front of { is written %%`},
		{`[{"op":"sort","by":1}]`, `1`, `transform[0].by: unknown member of sort, which has none beside op`},
		{`[{"op":"match","re2":"` + strings.Repeat("()", 65) + `"}]`, `1`, `transform[0].re2: a regular expression has at most 64 groups`},
		{`[{"op":"drop","re2":"` + strings.Repeat("a", 1025) + `"}]`, `1`, `transform[0].re2: a regular expression has at most 1024 bytes`},
	} {
		if got := outcome(c.steps, c.input); got != c.want {
			t.Errorf("%s of %s\ngot  %s\nwant %s", c.steps, c.input, got, c.want)
		}
	}
}

// What would grow beyond the bound is refused before it is there.
func TestTooLarge(t *testing.T) {
	half := jsonvalue.Quote(strings.Repeat("x", MaxBytes/2))
	for _, c := range []struct{ steps, input string }{
		{`[{"op":"text"}]`, jsonvalue.Quote(strings.Repeat("x", MaxBytes+1))},
		{`[{"op":"replace","re2":"x","with":"` + strings.Repeat("long ", 500) + `"}]`, half},
		{`[{"op":"replace","re2":"x+","with":"` + strings.Repeat(`\\0`, 2000) + `"}]`, half},
		{`[{"op":"replace","re2":"","with":"abc"}]`, half},
		{`[{"op":"redact","re2":""}]`, half},
		{`[{"op":"redact","re2":"x"}]`, "[" + half + "]"},
		{`[{"op":"template","text":"` + strings.Repeat("%{value}", 3) + `"}]`, half},
		{`[{"op":"markdown"}]`, wide(2000)},
	} {
		if got := outcome(c.steps, c.input); !strings.Contains(got, "too_large: the value has more than 4194304 bytes") {
			t.Errorf("%.60s: %.100s", c.steps, got)
		}
	}
	whole := jsonvalue.Quote(strings.Repeat("\n", MaxBytes))
	if got := outcome(`[{"op":"replace","re2":"y","with":"z"}]`, whole); got != whole {
		t.Errorf("a text of %d bytes gives %.100s", MaxBytes, got)
	}
}

// wide is an array of objects that share no column.
func wide(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(map[bool]string{true: "[", false: ","}[i == 0] + `{"` + strings.Repeat("k", i+1) + `":1}`)
	}
	return b.String() + "]"
}

func TestUses(t *testing.T) {
	c, _ := Load(`[{"op":"text"},{"op":"redact","re2":"x"}]`)
	if !c.Uses(OpRedact) || c.Uses(OpSort) {
		t.Error("the operations of a chain are not known")
	}
}

// A chain that loads gives a value within the bound, the same one again, or an error that
// names one of its steps.
func FuzzTransform(f *testing.F) {
	for _, s := range []string{
		`[{"op":"select","path":"a.0"},{"op":"text"}]`, `[{"op":"head","lines":2},{"op":"tail","chars":3}]`,
		`[{"op":"match","re2":"(a)|b","group":1},{"op":"sort"},{"op":"unique"}]`, `[{"op":"replace","re2":"a*","with":"\\0x"}]`,
		`[{"op":"redact","re2":"1"},{"op":"yaml"}]`, `[{"op":"markdown"}]`, `[{"op":"template","text":"%{value.a}%%"}]`, `[{"op":"json"},{"op":"drop","re2":"^b"}]`,
	} {
		f.Add(s, `{"a":[1,"b\nc"],"b":{"a":null}}`)
		f.Add(s, `"a\nb\r\n{\"a\":1}"`)
		f.Add(s, `["a",{"b":1},"ab"]`)
	}
	f.Fuzz(func(t *testing.T, steps, input string) {
		c, wrong := Load(steps)
		if wrong != nil {
			if wrong.Step < 0 || wrong.Step > MaxSteps || wrong.Detail == "" {
				t.Fatalf("%s: %+v", steps, wrong)
			}
			return
		}
		v, failed := c.Apply(input)
		switch {
		case failed != nil && (failed.Step >= len(c.steps) || failed.Op != c.steps[failed.Step].op || failed.Why == "" || v != ""):
			t.Fatalf("%s of %s: %q, %+v", steps, input, v, failed)
		case failed == nil && len(c.steps) > 0:
			if normal, ok := jsonvalue.Normal(v); !ok || normal != v || !json.Valid([]byte(v)) {
				t.Fatalf("%s of %s gives %q", steps, input, v)
			}
		}
		if again := outcome(steps, input); failed == nil && again != v || failed != nil && again != failed.Error() {
			t.Fatalf("%s of %s: %q and then %q", steps, input, v, again)
		}
	})
}
