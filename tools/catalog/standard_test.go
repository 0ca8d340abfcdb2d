package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

func standardRegistry(t testing.TB) *Registry {
	t.Helper()
	r, err := New(Standard()...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func apply(t testing.TB, r *Registry, p Policy) *Set {
	t.Helper()
	s, err := r.Apply(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func standardSet(t testing.TB) *Set {
	return apply(t, standardRegistry(t), Policy{Allow: AllowStandard()})
}

// run executes statement lines and gives what they emitted, joined by LF.
func run(t testing.TB, tools neuroscript.ToolSet, lines string, env neuroscript.Env) (string, neuroscript.Result) {
	t.Helper()
	p, err := neuroscript.Compile([]byte("command\n" + lines + "\nendcommand\n"))
	if err != nil {
		t.Fatalf("%s: %v", lines, err)
	}
	var out []string
	env.Tools = tools
	env.Emit = func(s string) { out = append(out, s) }
	res := p.Run(context.Background(), &env)
	return strings.Join(out, "\n"), res
}

// outcome is the emissions, "code N" or the breach's meter.
func outcome(out string, res neuroscript.Result) string {
	switch {
	case res.Breach != nil:
		return string(res.Breach.Code) + "/" + res.Breach.Meter
	case res.Err != nil:
		return fmt.Sprintf("code %d", res.Err.Code)
	}
	return out
}

func req(name, typ string) neuroscript.Param { return neuroscript.Param{Name: name, Type: typ} }

func opt(name, typ string) neuroscript.Param {
	return neuroscript.Param{Name: name, Type: typ, Optional: true}
}

func str(v neuroscript.Value) string {
	s, _ := v.AsString()
	return s
}

func userdata(t testing.TB, text string) neuroscript.Value {
	t.Helper()
	v, err := neuroscript.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every call is emitted inside a list, so that nil, "" and numbers show.
var standardCases = []struct{ call, want string }{
	{`str.Length("zażółć")`, `[6]`},
	{`str.Length("")`, `[0]`},
	{`str.Length(5)`, `code 4`},
	{`str.Length()`, `code 4`},
	{`str.Length(nil)`, `code 4`},
	{`str.Length("a", "b")`, `code 4`},
	{`STR.LENGTH("ab")`, `[2]`},
	{`str.ToUpper("aß ⱥz")`, `["Aß ȺZ"]`},
	{`str.ToUpper(true)`, `code 4`},
	{`str.ToUpper("a", "b")`, `code 4`},
	{`str.ToLower("AȺ Z")`, `["aⱥ z"]`},
	{`str.ToLower([])`, `code 4`},
	{`str.TrimSpace("  a b\n")`, `["a b"]`},
	{`str.TrimSpace(1)`, `code 4`},
	{`str.TrimPrefix("foobar", "foo")`, `["bar"]`},
	{`str.TrimPrefix("foobar", "bar")`, `["foobar"]`},
	{`str.TrimPrefix("a")`, `code 4`},
	{`str.TrimSuffix("foobar", "bar")`, `["foo"]`},
	{`str.TrimSuffix("foobar", "foo")`, `["foobar"]`},
	{`str.TrimSuffix("a", 1)`, `code 4`},
	{`str.HasPrefix("foobar", "foo")`, `[true]`},
	{`str.HasPrefix("foobar", "bar")`, `[false]`},
	{`str.HasPrefix("a", nil)`, `code 4`},
	{`str.HasSuffix("foobar", "bar")`, `[true]`},
	{`str.HasSuffix("foobar", "foo")`, `[false]`},
	{`str.HasSuffix(1, "a")`, `code 4`},
	{`str.Contains("abc", "b")`, `[true]`},
	{`str.Contains("abc", "d")`, `[false]`},
	{`str.Contains("abc", "")`, `[true]`},
	{`str.Contains("abc")`, `code 4`},
	{`str.Split("a,b,,c", ",")`, `[["a", "b", "", "c"]]`},
	{`str.Split("żab", "")`, `[["ż", "a", "b"]]`},
	{`str.Split("", ",")`, `[[""]]`},
	{`str.Split("", "")`, `[[]]`},
	{`str.Split("aaa", "aa")`, `[["", "a"]]`},
	{`str.Split("abc", "x")`, `[["abc"]]`},
	{`str.Split("a")`, `code 4`},
	{`str.SplitWords("  a  b\tc\n")`, `[["a", "b", "c"]]`},
	{`str.SplitWords(" ")`, `[[]]`},
	{`str.SplitWords(1)`, `code 4`},
	{`str.Join(["a", "b", "c"], "--")`, `["a--b--c"]`},
	{`str.Join([], ",")`, `[""]`},
	{`str.Join(["a"], ",")`, `["a"]`},
	{`str.Join(["a", 1], ",")`, `code 4`},
	{`str.Join("a", ",")`, `code 4`},
	{`str.Join(["a", nil], ",")`, `code 4`},
	{`str.Replace("aaa", "a", "bb")`, `["bbbbbb"]`},
	{`str.Replace("aaa", "a", "b", 2)`, `["bba"]`},
	{`str.Replace("aaa", "a", "b", 0)`, `["aaa"]`},
	{`str.Replace("aaa", "a", "b", -1)`, `["bbb"]`},
	{`str.Replace("aaa", "a", "b", nil)`, `["bbb"]`},
	{`str.Replace("aaa", "a", "b", "1")`, `["baa"]`},
	{`str.Replace("ab", "", "-")`, `["-a-b-"]`},
	{`str.Replace("ab", "", "-", 2)`, `["-a-b"]`},
	{`str.Replace("ab", "x", "-")`, `["ab"]`},
	{`str.Replace("aaa", "a", "b", 1.5)`, `code 4`},
	{`str.Replace("aaa", "a", "b", 1e300)`, `["bbb"]`},
	{`str.Replace("a", "a")`, `code 4`},
	{`str.Substring("żółw", 1, 2)`, `["ół"]`},
	{`str.Substring("abc", -5, 2)`, `["ab"]`},
	{`str.Substring("abc", 2, 99)`, `["c"]`},
	{`str.Substring("abc", 9, 1)`, `[""]`},
	{`str.Substring("abc", 1, -1)`, `[""]`},
	{`str.Substring("abc", "1", "1")`, `["b"]`},
	{`str.Substring("abc", 0, 1e300)`, `["abc"]`},
	{`str.Substring("abc", 0.5, 1)`, `code 4`},
	{`str.Substring("abc", 0)`, `code 4`},
	{`str.LineCount("")`, `[0]`},
	{`str.LineCount("a")`, `[1]`},
	{`str.LineCount("a\n")`, `[1]`},
	{`str.LineCount("a\nb")`, `[2]`},
	{`str.LineCount("\n\n")`, `[2]`},
	{`str.LineCount(nil)`, `code 4`},
	{`str.ToNumber(" 12.50 ")`, `[12.5]`},
	{`str.ToNumber("-3e2")`, `[-300]`},
	{`str.ToNumber("x")`, `code 41`},
	{`str.ToNumber("")`, `code 41`},
	{`str.ToNumber("0x1")`, `code 41`},
	{`str.ToNumber("1e999")`, `code 41`},
	{`str.ToNumber(5)`, `code 4`},
	{`str.ToNumber("-0")`, `[0]`},
	{`str.ToJsonString({"b": [1, 2.5, nil], "a": "q\"\n"})`, `["{\"a\":\"q\\\"\\n\",\"b\":[1,2.5,null]}"]`},
	{`str.ToJsonString({"b": [1, {}], "a": []}, true)`, `["{\n  \"a\": [],\n  \"b\": [\n    1,\n    {}\n  ]\n}"]`},
	{`str.ToJsonString("a", false)`, `["\"a\""]`},
	{`str.ToJsonString(1, "1")`, `["1"]`},
	{`str.ToJsonString(nil)`, `code 4`},
	{`str.ToJsonString(1, "x")`, `code 4`},
	{`str.ToJsonString(tool.error.New(7, "m"))`, `["{\"code\":7,\"message\":\"m\"}"]`},
	{`str.ToJsonString([1e21, 1e-7, 100000, 0.1])`, `["[1e+21,1e-7,100000,0.1]"]`},
	{`str.ParseJsonString(" {\"a\": [1, 2.50, null, true], \"b\": \"\\u017c\"} ")`, `[{"a": [1, 2.5, nil, true], "b": "ż"}]`},
	{`str.ParseJsonString('{"a":1,"a":2}')`, `[{"a": 2}]`},
	{`str.ParseJsonString("-0")`, `[0]`},
	{`str.ParseJsonString("")`, `code 41`},
	{`str.ParseJsonString("{")`, `code 41`},
	{`str.ParseJsonString("1 2")`, `code 41`},
	{`str.ParseJsonString("1e999")`, `code 41`},
	{`str.ParseJsonString("01")`, `code 41`},
	{`str.ParseJsonString('"\ud800"')`, `code 41`},
	{`str.ParseJsonString("[1,]")`, `code 41`},
	{`str.ParseJsonString(1)`, `code 4`},
	{`str.ParseJsonString("[" * 64 + "]" * 64) == nil`, `[false]`},
	{`str.ParseJsonString("[" * 65 + "]" * 65)`, `code 17`},

	{`list.Length([1, 2])`, `[2]`},
	{`list.Length("ab")`, `code 4`},
	{`list.Length()`, `code 4`},
	{`list.Append([1], [2])`, `[[1, [2]]]`},
	{`list.Append([1])`, `code 4`},
	{`list.Append([], nil)`, `code 4`},
	{`list.Append(1, 1)`, `code 4`},
	{`list.Prepend([1], 0)`, `[[0, 1]]`},
	{`list.Prepend({}, 0)`, `code 4`},
	{`list.Get([1, 2], 1)`, `[2]`},
	{`list.Get([1, 2], "0")`, `[1]`},
	{`list.Get([1], 1)`, `[nil]`},
	{`list.Get([1], -1, "d")`, `["d"]`},
	{`list.Get([1], 1e300, 0)`, `[0]`},
	{`list.Get([1], 0.5)`, `code 4`},
	{`list.Get([1])`, `code 4`},
	{`list.Get([1], 0, 1, 2)`, `code 4`},
	{`list.Slice([1, 2, 3], 1, 3)`, `[[2, 3]]`},
	{`list.Slice([1, 2, 3], -9, 1e300)`, `[[1, 2, 3]]`},
	{`list.Slice([1, 2, 3], 2, 1)`, `[[]]`},
	{`list.Slice([1], 5, 9)`, `[[]]`},
	{`list.Slice([1], 0)`, `code 4`},
	{`list.Contains([1, "a"], "a")`, `[true]`},
	{`list.Contains([5], "5")`, `[false]`},
	{`list.Contains([[1]], [1])`, `[true]`},
	{`list.Contains([{"a": 1}], {"a": 2})`, `[false]`},
	{`list.Contains([1])`, `code 4`},
	{`list.Contains("abc", "a")`, `code 4`},
	{`list.Reverse([1, 2, 3])`, `[[3, 2, 1]]`},
	{`list.Reverse([])`, `[[]]`},
	{`list.Reverse(nil)`, `code 4`},
	{`list.Sort([3, 1, 2.5])`, `[[1, 2.5, 3]]`},
	{`list.Sort(["b", "B", "ż", "a"])`, `[["B", "a", "b", "ż"]]`},
	{`list.Sort([])`, `[[]]`},
	{`list.Sort([1, "2"])`, `code 7`},
	{`list.Sort([nil])`, `code 7`},
	{`list.Sort([true, false])`, `code 7`},
	{`list.Sort("ba")`, `code 4`},
	{`list.Head([1, 2])`, `[1]`},
	{`list.Head([])`, `[nil]`},
	{`list.Head(1)`, `code 4`},
	{`list.Rest([1, 2])`, `[[2]]`},
	{`list.Rest([])`, `[[]]`},
	{`list.Rest()`, `code 4`},
	{`list.Tail([1, 2, 3], 2)`, `[[2, 3]]`},
	{`list.Tail([1], 9)`, `[[1]]`},
	{`list.Tail([1], -1)`, `[[]]`},
	{`list.Tail([1])`, `code 4`},
	{`list.IsEmpty([])`, `[true]`},
	{`list.IsEmpty([nil])`, `[false]`},
	{`list.IsEmpty("")`, `code 4`},

	{`map.keys({"b": 1, "a": 2})`, `[["a", "b"]]`},
	{`map.keys({})`, `[[]]`},
	{`map.keys([1])`, `code 4`},
	{`map.values({"b": 1, "a": 2})`, `[[2, 1]]`},
	{`map.values()`, `code 4`},
	{`map.has({"a": nil}, "a")`, `[true]`},
	{`map.has({}, "a")`, `[false]`},
	{`map.has({}, 1)`, `code 4`},
	{`map.get({"a": 1}, "a")`, `[1]`},
	{`map.get({"a": 1}, "b")`, `[nil]`},
	{`map.get({"a": nil}, "a", 5)`, `[nil]`},
	{`map.get({}, "a", 5)`, `[5]`},
	{`map.get({})`, `code 4`},
	{`map.remove({"a": 1, "b": 2}, "a")`, `[{"b": 2}]`},
	{`map.remove({"a": 1}, "z")`, `[{"a": 1}]`},
	{`map.remove("a", "a")`, `code 4`},
	{`map.merge({"a": 1, "b": 1}, {"b": 2, "c": 2})`, `[{"a": 1, "b": 2, "c": 2}]`},
	{`map.merge({"c": 1}, {"a": 2})`, `[{"a": 2, "c": 1}]`},
	{`map.merge({}, nil)`, `code 4`},

	{`math.Add(1, "2")`, `[3]`},
	{`math.Add("x", 1)`, `code 4`},
	{`math.Add(1e308, 1e308)`, `code 17`},
	{`math.Add(1)`, `code 4`},
	{`math.Add(true, 1)`, `code 4`},
	{`math.Subtract(1, 3)`, `[-2]`},
	{`math.Subtract(1, 2, 3)`, `code 4`},
	{`math.Multiply(2, 2.5)`, `[5]`},
	{`math.Multiply(1e200, 1e200)`, `code 17`},
	{`math.Multiply(nil, 1)`, `code 4`},
	{`math.Divide(10, 4)`, `[2.5]`},
	{`math.Divide(1, 0)`, `code 14`},
	{`math.Divide("a", 0)`, `code 4`},
	{`math.Modulo(-7, 3)`, `[-1]`},
	{`math.Modulo(7, -3)`, `[1]`},
	{`math.Modulo(1, 0)`, `code 14`},
	{`math.Modulo(1.5, 1)`, `code 4`},
	{`math.floor(-1.5)`, `[-2]`},
	{`math.floor([])`, `code 4`},
	{`math.ceil(-1.5)`, `[-1]`},
	{`math.ceil()`, `code 4`},
	{`math.round(2.5)`, `[3]`},
	{`math.round(-2.5)`, `[-3]`},
	{`math.round(-0.4)`, `[0]`},
	{`math.round(nil)`, `code 4`},
	{`math.abs(-3)`, `[3]`},
	{`math.abs("x")`, `code 4`},
	{`math.min(2, 1)`, `[1]`},
	{`math.min(1)`, `code 4`},
	{`math.max(2, "11")`, `[11]`},
	{`math.max(1, 2, 3)`, `code 4`},

	{`error.New(2001, "bad")`, `[error: bad]`},
	{`error.New(2001, "bad")["code"]`, `[2001]`},
	{`error.New("x", "bad")`, `code 4`},
	{`error.New(1e300, "bad")`, `code 4`},
	{`error.New(1)`, `code 4`},

	{`userdata.get("subject")`, `["s"]`},
	{`userdata.get("fields.rows.1.n")`, `[2]`},
	{`userdata.get("fields.rows.2")`, `[nil]`},
	{`userdata.get("fields.rows.01")`, `[nil]`},
	{`userdata.get("fields.none.x")`, `[nil]`},
	{`userdata.get("subject.x")`, `[nil]`},
	{`userdata.get("")`, `[nil]`},
	{`userdata.get(".")`, `[nil]`},
	{`userdata.get(1)`, `code 4`},
	{`userdata.get()`, `code 4`},
	{`userdata.get("fields.rows.-1")`, `[nil]`},
	{`userdata.get("fields.rows.99999999999999999999")`, `[nil]`},

	{`meta.listTools(1)`, `code 4`},
	{`no.such()`, `code 3`},
}

func TestStandard(t *testing.T) {
	set := standardSet(t)
	data := userdata(t, `{"subject":"s","fields":{"rows":[{"n":1},{"n":2}]}}`)
	seen := map[string]bool{}
	for _, c := range standardCases {
		out, res := run(t, set.Bind(Binding{}), "emit [tool."+c.call+"]", neuroscript.Env{Userdata: data})
		if got := outcome(out, res); got != c.want {
			t.Errorf("%s\n got %s\nwant %s (%v %v)", c.call, got, c.want, res.Err, res.Breach)
		}
		name, _, _ := strings.Cut(c.call, "(")
		seen[strings.ToLower(name)] = true
	}
	for _, name := range set.Names() {
		if !seen[strings.ToLower(name)] {
			t.Errorf("%s has no case", name)
		}
	}
}

func TestErrorsNameTheParameter(t *testing.T) {
	_, res := run(t, standardSet(t).Bind(Binding{}), `emit tool.str.Replace("a", "b", 5)`, neuroscript.Env{})
	if res.Err == nil || !strings.Contains(res.Err.Message, "new") {
		t.Fatalf("got %v", res.Err)
	}
}

func TestSpecs(t *testing.T) {
	r := standardRegistry(t)
	specs := apply(t, r, Policy{Allow: []string{"str.replace", "str.Join"}}).Specs()
	if len(specs) != 2 || specs[0].Name != "str.Join" || specs[1].Name != "str.Replace" {
		t.Fatalf("got %+v", specs)
	}
	want := messages.ToolSpec{
		Name: "str.Replace", Signature: "(s, old, new, count?)", Class: messages.Pure,
		Description: "s with old replaced by new, everywhere or count times.",
		Schema: `{"type":"object","properties":{"s":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"count":{"type":"integer"}},` +
			`"required":["s","old","new"],"additionalProperties":false}`,
	}
	if specs[1] != want {
		t.Errorf("got %+v\nwant %+v", specs[1], want)
	}
	if !strings.Contains(specs[0].Schema, `"list":{"type":"array","items":{"type":"string"}}`) {
		t.Errorf("got %s", specs[0].Schema)
	}
	if n := len(r.Specs(nil)); n != len(standardSet(t).Names()) {
		t.Errorf("%d specs", n)
	}
}
