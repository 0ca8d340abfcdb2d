package catalog

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestParametersBind(t *testing.T) {
	ps := Parameters{
		{Name: "s", Type: "string", Required: true},
		{Name: "i", Type: "integer", Default: "7"},
		{Name: "n", Type: "number"},
		{Name: "b", Type: "boolean"},
		{Name: "o", Type: "object"},
		{Name: "a", Type: "array"},
		{Name: "e", Enum: []string{`1`, `{"k":[1,"x"]}`}},
	}
	for _, c := range []struct{ args, want string }{
		{`{"s":"x"}`, `{"i":7,"s":"x"}`},
		{`{"s":"x","i":null,"n":1.50,"b":false,"o":{},"a":[],"e":{"k":[1.0,"\u0078"]}}`, `{"a":[],"b":false,"e":{"k":[1.0,"x"]},"i":7,"n":1.50,"o":{},"s":"x"}`},
		{`{"s":"x","i":9007199254740993}`, `{"i":9007199254740993,"s":"x"}`},
		{`{"s":"x","i":1e3}`, `{"i":1e3,"s":"x"}`},
		{`{}`, "argument s: missing"},
		{`{"s":null}`, "argument s: missing"},
		{`{"s":1}`, "argument s: want string"},
		{`{"s":"x","i":1.5}`, "argument i: want integer"},
		{`{"s":"x","i":1e-7}`, "argument i: want integer"},
		{`{"s":"x","i":"1"}`, "argument i: want integer"},
		{`{"s":"x","n":"1"}`, "argument n: want number"},
		{`{"s":"x","b":0}`, "argument b: want boolean"},
		{`{"s":"x","o":[]}`, "argument o: want object"},
		{`{"s":"x","a":{}}`, "argument a: want array"},
		{`{"s":"x","e":2}`, `argument e: want one of 1, {"k":[1,"x"]}`},
		{`{"s":"x","z":2}`, "argument z: there is no such parameter; it takes (s, i?, n?, b?, o?, a?, e?)"},
		{`[]`, "the arguments must be an object"},
		{`null`, "the arguments must be an object"},
		{`{"s":"x","s":"y"}`, "the arguments must be an object"},
	} {
		got, err := ps.Bind(c.args)
		text := ""
		if err != nil {
			_, text = Failure(err)
		} else if b, err := json.Marshal(got, json.Deterministic(true)); err == nil {
			text = string(b)
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.args, text, c.want)
		}
	}
	want := `{"additionalProperties":false,"properties":{"i":{"default":7,"type":"integer"},"s":{"description":"text","enum":["x"]}},"required":["s"],"type":"object"}`
	if got := (Parameters{{Name: "s", Required: true, Description: "text", Enum: []string{`"x"`}}, ps[1]}).Schema(); got != want {
		t.Errorf("schema %s", got)
	}
	if got := (Parameters{{Name: "s"}}).Schema(); got != "" {
		t.Errorf("schema %s of a name", got)
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct{ template, args, want string }{
		{"Hi ${who.name}, $n of $n: $o", `{"who":{"name":"\"A\" $n"},"n":1.50,"o":{"b":1,"a":2}}`, `Hi "A" $n, 1.5 of 1.5: {"a":2,"b":1}`},
		{"$n", `{"n":"a\nb"}`, "a\nb"},
		{"$n", `{"n":[1]}`, "[1]"},
		{"costs $5, $$n", `{}`, "costs $5, $n"},
	} {
		given, err := members(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fill(c.template, given); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.template, got, err)
		}
	}
	big := `{"n":"` + strings.Repeat("x", 1<<19) + `"}`
	given, err := members(big)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fill("$n, $n, $n", given); err == nil {
		t.Error("a prompt without bound")
	}
}
