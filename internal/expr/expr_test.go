package expr

import (
	"slices"
	"strings"
	"testing"
)

// world is an Env of JSON texts; an id's state stands under "id!".
type world map[string]string

func (w world) Value(ref Ref) (string, bool) { v, ok := w[ref.Name]; return v, ok }

func (w world) Status(id string) (string, bool) { v, ok := w[id+"!"]; return v, ok }

var values = world{
	"t": "true", "f": "false", "n": "3", "s": `"ok"`, "u": "null", "l": `[1,"b",[2]]`, "o": `{"a":1,"0":"zero","x y&":2}`,
	"deep": strings.Repeat("[", 99) + strings.Repeat("]", 99), "a!": "ok", "x.y!": "failed",
}

// result is true, false, or why and where there is none.
func result(text string) string {
	e, err := Parse(text)
	if err != nil {
		return err.Why + " " + err.Error()
	}
	is, err := e.Eval(values)
	if err != nil {
		return err.Why + " " + err.Error()
	}
	if is {
		return "true"
	}
	return "false"
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{" \t\r\n$t\n", "true"},
		{"$n&lt;=3&amp;&amp;!($n&gt;3)", "true"},
		{"${o.x y&amp;} == 2", "true"},
		{"${o.x y&} == 2", "true"},
		{`'it\'s' == "it's"`, "true"},
		{`'"' == "\""`, "true"},
		{`"\'" == "'"`, "true"},
		{`"\u00e9" == 'é'`, "true"},
		{`status('x.y') == "failed"`, "true"},
		{"exists( ${o.a} ) && !exists($l.3)", "true"},
		{`{"a":[1,{}],"a":2} == {"a":2.0}`, "true"},
		{"[] != {} || true", "type at byte 3: [] != {}: array and object"},
		{"null == []", "false"},
		{"$u != {}", "true"},
		{`"é" > "z"`, "true"},
		{"length('x')", "syntax at byte 7: a reference must stand here"},
		{"$f && $s", "false"},
		{"$t || $s", "true"},
		{"$f || $s", `type at byte 3: a condition is true or false, and this is "ok" (string): compare it, as in $s != ""`},
		{"$l", `type at byte 0: a condition is true or false, and this is [1,"b",[2]] (array): compare it, as in length($l) > 0`},
		{"!$n", "type at byte 0: a condition is true or false, and this is 3 (number): compare it, as in $n > 0"},
		{"$u", "type at byte 0: a condition is true or false, and this is null (null): compare it, as in $u != null"},
		{"3 < \"x\"", `type at byte 2: 3 < "x": number and string`},
		{"$t < $f", "type at byte 3: true < false: boolean and boolean"},
		{"empty($n)", "type at byte 0: empty takes a string, an array or an object, and no number"},
		{"length($u) == 0", "type at byte 0: length takes a string, an array or an object, and no null"},
		{"length($l.9) == 0", "unknown at byte 7: ${l.9} is unknown"},
		{"status('b') == 'ok'", `unknown at byte 0: no action or block has the id "b"`},
		{"$deep == 1", "limit at byte 0: $deep is nested too deeply"},
		{"", "syntax at byte 0: the expression ends where a reference, a literal, a call or ( must stand"},
		{"  ", "syntax at byte 2: the expression ends where a reference, a literal, a call or ( must stand"},
		{"$", "syntax at byte 0: a name must follow the $"},
		{"$5", "syntax at byte 0: a name must follow the $"},
		{"${}", "syntax at byte 0: a name must follow the $"},
		{"${o.}", "syntax at byte 0: ${ is not closed by } behind a name and a path"},
		{"${o.a\"}", "syntax at byte 0: ${ is not closed by } behind a name and a path"},
		{"${ o}", "syntax at byte 0: a name must follow the $"},
		{"$o.-", "syntax at byte 2: nothing begins with this byte"},
		{"1.", "syntax at byte 0: this is no number of JSON"},
		{"1.5.2 == 1", "syntax at byte 0: this is no number of JSON"},
		{"-", "syntax at byte 0: this is no number of JSON"},
		{"1e == 1", "syntax at byte 0: this is no number of JSON"},
		{"-01 == 1", "syntax at byte 0: this is no number of JSON"},
		{"$t & $f", "syntax at byte 3: write && and || twice"},
		{"$t &amp; $f", "syntax at byte 3: write && and || twice"},
		{"$n = 3", "syntax at byte 3: = is no operator: write =="},
		{"!= 3", "syntax at byte 0: a reference, a literal, a call or ( must stand here"},
		{"$n < = 3", "syntax at byte 5: = is no operator: write =="},
		{"'x\\q'", "syntax at byte 0: the string has an escape or a character that JSON does not allow"},
		{"'x\\", "syntax at byte 0: the string is not closed"},
		{"($t", "syntax at byte 3: the expression ends where an operator or ) must stand"},
		{"[1 2]", "syntax at byte 3: , or ] must stand here"},
		{"{'a' 1}", "syntax at byte 5: : must stand here"},
		{"{'a':$n}", "syntax at byte 5: a literal must stand here"},
		{"true.x", "syntax at byte 4: nothing begins with this byte"},
		{"not $t", "syntax at byte 0: a reference, a literal, a call or ( must stand here"},
		{strings.Repeat("!", 17) + "$t", "limit at byte 16: nested more than 16 deep"},
		{strings.Repeat("!", 16) + "$t", "true"},
		{strings.Repeat("[", 16) + strings.Repeat("]", 16) + " == 1", "type at byte 33: " + strings.Repeat("[", 16) + strings.Repeat("]", 16) + " == 1: array and number"},
		{strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == 1", "limit at byte 16: nested more than 16 deep"},
		{"$t" + strings.Repeat(" && $t", 32), "limit at byte 192: more than 64 parts: do part of it in an action"},
		{"[" + strings.Repeat("1,", 62) + "1] == []", "limit at byte 128: more than 64 parts: do part of it in an action"},
		{strings.Repeat(" ", 1021) + "$t ", "true"},
		{strings.Repeat(" ", 1022) + "$t ", "limit at byte 1024: more than 1024 bytes: do part of it in an action"},
	} {
		if got := result(c.text); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	e, err := Parse(`$b.x == 1 || exists($b) && exists($z) && empty(${a.q}) || status("k 1") == "ok" || status("b") == "ok"`)
	if err != nil {
		t.Fatal(err)
	}
	if needs := e.Needs(); !slices.Equal(needs, []string{"a", "b"}) {
		t.Errorf("needs %q", needs)
	}
	if awaits := e.Awaits(); !slices.Equal(awaits, []string{"k 1", "z"}) {
		t.Errorf("awaits %q", awaits)
	}
}

func TestParseRef(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"$list", "$list"},
		{" ${a.b.0} \n", "${a.b.0}"},
		{"$a.b.0", "${a.b.0}"},
		{"$a.b.", ""},
		{"$a b", ""},
		{"a", ""},
		{"", ""},
		{"[1]", ""},
		{"$a $b", ""},
		{"$", ""},
		{"$a[0]", ""},
	} {
		r, ok := ParseRef(c.text)
		if ok != (c.want != "") || ok && r.String() != c.want {
			t.Errorf("%q: %v %v", c.text, r, ok)
		}
	}
}

// Every text gives a result or an error at one of its bytes, and the same one again.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		`$t && !($n == 3.0 || ${o.x y&} < 2)`, `status("a") == 'ok' || exists($l.2.0)`, `{"a": [1, null]} == $o`,
		`empty($l) || length($s) >= 1e2`, "$n &lt; 4 &amp;&amp; true", "((((", "'\\u12", "$a..b", "1e99999 > 1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ParseRef(text)
		e, err := Parse(text)
		if err == nil {
			_, err = e.Eval(values)
			for _, n := range e.Needs() {
				if !strings.Contains(text, n) {
					t.Fatalf("%q needs %q", text, n)
				}
			}
		}
		if err != nil && (err.At < 0 || err.At > len(text) || err.Detail == "") {
			t.Fatalf("%q: %+v", text, err)
		}
		if a, b := result(text), result(text); a != b {
			t.Fatalf("%q: %s and then %s", text, a, b)
		}
	})
}
