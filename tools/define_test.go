package tools_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

type line struct {
	Item  string   `json:"item"`
	Count int      `json:"count"`
	Tags  []string `json:"tags,omitempty"`
	Note  *string  `json:"note"`
}

type order struct {
	Customer string         `json:"customer" jsonschema:"who pays"`
	Lines    []line         `json:"lines"`
	Rush     bool           `json:"rush,omitempty"`
	Limit    *float64       `json:"limit"`
	Extra    map[string]int `json:"extra,omitempty"`
	hidden   int            // not a parameter
	Skipped  string         `json:"-"`
}

type receipt struct {
	Who   string   `json:"who"`
	Total int      `json:"total"`
	Rush  bool     `json:"rush"`
	Limit *float64 `json:"limit"`
	Extra int      `json:"extra"`
}

func place(_ context.Context, o order) (receipt, error) {
	r := receipt{Who: o.Customer, Rush: o.Rush, Limit: o.Limit, Extra: o.Extra["x"] + o.hidden}
	for _, l := range o.Lines {
		r.Total += l.Count
	}
	switch o.Customer {
	case "broke":
		return r, neuroscript.Errorf(2001, "no credit")
	case "fail":
		return r, errors.New("out of stock")
	case "panic":
		panic("a bug")
	}
	return r, nil
}

// emitted is what a program emits of a call, or "code N: message".
func emitted(t *testing.T, tools neuroscript.ToolSet, call string) string {
	t.Helper()
	p, err := neuroscript.Compile([]byte("command\nemit tool." + call + "\nendcommand\n"))
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	res := p.Run(t.Context(), &neuroscript.Env{Tools: tools, Emit: func(s string) { out = s }})
	if res.Err != nil {
		return "code " + strconv.Itoa(res.Err.Code) + ": " + res.Err.Message
	}
	return out
}

func TestDefineDescribes(t *testing.T) {
	tool, err := tools.Define("shop.order", "Places an order.", messages.Keyed, place)
	if err != nil {
		t.Fatal(err)
	}
	if got := catalog.Signature(&tool); got != "(customer, lines, rush?, limit?, extra?)" {
		t.Errorf("got %s", got)
	}
	const want = `{"type":"object","properties":{` +
		`"customer":{"type":"string","description":"who pays"},` +
		`"lines":{"type":["null","array"],"items":{"type":"object","properties":{"item":{"type":"string"},"count":{"type":"integer"},` +
		`"tags":{"type":["null","array"],"items":{"type":"string"}},"note":{"type":["null","string"]}},"required":["item","count"],"additionalProperties":false}},` +
		`"rush":{"type":"boolean"},"limit":{"type":["null","number"]},"extra":{"type":"object","additionalProperties":{"type":"integer"}}},` +
		`"required":["customer","lines"],"additionalProperties":false}`
	r, err := catalog.New(tool)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Specs(nil)[0].Schema; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDefineCalls(t *testing.T) {
	action, err := tools.Define("shop.order", "", "", place)
	if err != nil {
		t.Fatal(err)
	}
	pure, err := tools.Define("shop.quote", "", messages.Pure, place)
	if err != nil {
		t.Fatal(err)
	}
	none, err := tools.Define("shop.hours", "", messages.ReadOnly, func(context.Context, struct{}) (string, error) { return "9-5", nil })
	if err != nil {
		t.Fatal(err)
	}
	maps, err := tools.Define("shop.sum", "", messages.Pure, func(_ context.Context, in struct {
		Parts map[string]float64 `json:"parts"`
	},
	) (float64, error) {
		return in.Parts["parts"] + in.Parts["a"], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := tools.Define("shop.twice", "", messages.Pure, func(_ context.Context, in struct {
		N  int   `json:"n"`
		Of []int `json:"of,omitempty"`
	},
	) (int, error) {
		for _, n := range in.Of {
			in.N += n
		}
		return 2 * in.N, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := catalog.New(action, pure, none, maps, twice)
	if err != nil {
		t.Fatal(err)
	}
	set, err := r.Apply(catalog.Policy{Allow: []string{"shop.*"}})
	if err != nil {
		t.Fatal(err)
	}
	p := set.Bind(catalog.Binding{
		Act: func(c *neuroscript.Call, tool *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
			if len(args) != len(tool.Params) {
				t.Errorf("%d arguments", len(args))
			}
			return tool.Run(c.Context(), &tools.Call{Args: args})
		},
	})
	for _, c := range []struct{ args, want string }{
		{`("ann", [{"item": "a", "count": 2}, {"item": "b", "count": 3}])`, `{"extra": 0, "limit": nil, "rush": false, "total": 5, "who": "ann"}`},
		{`("ann", [], "true", "2.5", {"x": 7})`, `{"extra": 7, "limit": 2.5, "rush": true, "total": 0, "who": "ann"}`},
		{`("ann", [], nil, nil, nil)`, `{"extra": 0, "limit": nil, "rush": false, "total": 0, "who": "ann"}`},
		{`({"customer": "ann", "lines": [{"item": "a", "count": 2, "note": nil, "tags": ["t"]}], "limit": 1})`, `{"extra": 0, "limit": 1, "rush": false, "total": 2, "who": "ann"}`},
		{`()`, `code 4: argument customer: missing`},
		{`("ann")`, `code 4: argument lines: missing`},
		{`(nil, [])`, `code 4: argument customer: missing`},
		{`({"customer": "ann"})`, `code 4: argument lines: missing`},
		{`({"customer": "ann", "lines": [], "rsh": true})`, `code 4: argument rsh: there is no such parameter`},
		{`(5, [])`, `code 4: argument customer: want string, not a number`},
		{`({"customer": 5, "lines": []})`, `code 4: argument customer: want string, not a number`},
		{`({"customer": "ann", "lines": []}, [])`, `code 4: argument customer: want string, not a map`},
		{`("ann", {})`, `code 4: argument lines: want list<map>, not a map`},
		{`("ann", [1])`, `code 4: argument lines: want list<map>, not a list`},
		{`("ann", [{"item": "a"}])`, `code 4: argument lines.0.count: missing`},
		{`("ann", [{"item": "a", "count": 1}, {"item": nil, "count": 1}])`, `code 4: argument lines.1.item: missing`},
		{`("ann", [{"item": "a", "count": 1, "colour": "red"}])`, `code 4: argument lines.0.colour: there is no such member`},
		{`("ann", [{"item": "a", "count": "1"}])`, `code 4: argument lines.0.count: does not fit int`},
		{`("ann", [{"item": "a", "count": 1.5}])`, `code 4: argument lines.0.count: does not fit int`},
		{`("ann", [], "yes")`, `code 4: argument rush: want bool, not a string`},
		{`("ann", [], false, "x")`, `code 4: argument limit: want float, not a string`},
		{`("ann", [], false, 1, {"x": "y"})`, `code 4: argument extra.x: does not fit int`},
		{`("ann", [], false, 1, {}, 6)`, `code 4: `},
		{`("broke", [])`, `code 2001: no credit`},
		{`("fail", [])`, `code 21: out of stock`},
	} {
		for _, name := range []string{"shop.order", "shop.quote"} {
			out := emitted(t, p, name+c.args)
			if !strings.HasPrefix(out, c.want) {
				t.Errorf("%s%s\n got %s\nwant %s", name, c.args, out, c.want)
			}
		}
	}
	for call, want := range map[string]string{
		`shop.hours()`: "9-5", `shop.hours({})`: "code 4",
		`shop.twice("4")`: "8", `shop.twice(4.5)`: "code 4", `shop.twice("4.5")`: "code 4", `shop.twice("x")`: "code 4", `shop.twice(1e300)`: "code 4",
		`shop.twice(1, [2, "3"])`: "12", `shop.twice(1, [2.5])`: "code 4", `shop.twice({"n": 1, "of": [1]})`: "4",
		`shop.sum({"a": 1})`: "1", `shop.sum({"parts": 2})`: "2", `shop.sum({"parts": {"a": 3}})`: "code 4",
	} {
		if out := emitted(t, p, call); out != want && !(strings.HasPrefix(want, "code ") && strings.HasPrefix(out, want+":")) {
			t.Errorf("%s: got %s", call, out)
		}
	}
}

func TestDefineLetsPanicsThrough(t *testing.T) {
	tool, err := tools.Define("shop.order", "", "", place)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() != "a bug" {
			t.Error("the panic was swallowed")
		}
	}()
	_, err = tool.Run(context.Background(), &tools.Call{Args: []neuroscript.Value{neuroscript.String("panic"), neuroscript.List(nil)}})
	t.Errorf("no panic: %v", err)
}

func TestDefineTakesUnpreparedCalls(t *testing.T) {
	tool, err := tools.Define("shop.order", "", "", place)
	if err != nil {
		t.Fatal(err)
	}
	named := neuroscript.Map(map[string]neuroscript.Value{"customer": neuroscript.String("ann"), "lines": neuroscript.List(nil)})
	v, err := tool.Run(context.Background(), &tools.Call{Args: []neuroscript.Value{named}})
	who, _ := v.MapGet("who")
	if name, _ := who.AsString(); err != nil || name != "ann" {
		t.Errorf("got %v", err)
	}
	if _, err := tool.Run(context.Background(), &tools.Call{Args: make([]neuroscript.Value, 9)}); err == nil {
		t.Error("surplus arguments were taken")
	}
}

func TestDefineRefuses(t *testing.T) {
	type late struct {
		A string `json:"a,omitempty"`
		B string `json:"b"`
	}
	_, notStruct := tools.Define("a.b", "", "", func(context.Context, string) (string, error) { return "", nil })
	_, noSchema := tools.Define("a.b", "", "", func(context.Context, struct{ F func() }) (string, error) { return "", nil })
	_, noResult := tools.Define("a.b", "", "", func(context.Context, struct{}) (chan int, error) { return nil, nil })
	_, order := tools.Define("a.b", "", "", func(context.Context, late) (string, error) { return "", nil })
	_, name := tools.Define("b c", "", "", func(context.Context, struct{}) (string, error) { return "", nil })
	_, class := tools.Define("a.b", "", "mild", func(context.Context, struct{}) (string, error) { return "", nil })
	for what, err := range map[string]error{"not a struct": notStruct, "no schema": noSchema, "no result": noResult, "order": order, "name": name, "class": class} {
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || !strings.HasPrefix(e.Field, "tools.") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// A reply names its arguments. A map in them is an argument, whatever the first
// parameter takes: never the whole object, and never names.
func TestDefineNamedByReplies(t *testing.T) {
	type labels struct {
		Labels map[string]string `json:"labels"`
		Name   string            `json:"name,omitzero"`
	}
	type anything struct {
		Value any    `json:"value"`
		Name  string `json:"name,omitzero"`
	}
	type plain struct {
		Name  string `json:"name"`
		Count int    `json:"count,omitzero"`
	}
	show := func(v any) (string, error) {
		b, err := json.Marshal(v, json.Deterministic(true))
		return string(b), err
	}
	for _, class := range []messages.Class{messages.Pure, messages.ReadOnly} {
		byMap, err1 := tools.Define("a.labels", "", class, func(_ context.Context, in labels) (string, error) { return show(in) })
		byAny, err2 := tools.Define("a.any", "", class, func(_ context.Context, in anything) (string, error) { return show(in) })
		byText, err3 := tools.Define("a.text", "", class, func(_ context.Context, in plain) (string, error) { return show(in) })
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			tool tools.Tool
			args string
			want string // or the beginning of the failure, with "!"
		}{
			{byMap, `{"labels":{"a":"b"}}`, `{"labels":{"a":"b"}}`},
			{byMap, `{"labels":{"a":"b"},"name":"n"}`, `{"labels":{"a":"b"},"name":"n"}`},
			{byMap, `{"labels":{"labels":"x"}}`, `{"labels":{"labels":"x"}}`},
			{byMap, `{"name":"n"}`, "!argument labels: missing"},
			{byMap, `{}`, "!argument labels: missing"},
			{byMap, `{"labels":{},"more":1}`, "!argument more:"},
			{byMap, `{"labels":"x"}`, "!argument labels: want map"},
			{byAny, `{"value":{"value":1}}`, `{"value":{"value":1}}`},
			{byAny, `{"value":{"name":"x"},"name":"n"}`, `{"value":{"name":"x"},"name":"n"}`},
			{byAny, `{"name":"n"}`, "!argument value: missing"},
			{byText, `{"name":"x","count":2}`, `{"name":"x","count":2}`},
			{byText, `{"name":{"name":"x"}}`, "!argument name: want string"},
			{byText, `{"count":2}`, "!argument name: missing"},
			{byText, `{"count":"x","more":1}`, "!argument more: there is no such parameter; argument name: missing; argument count: want int, not a string"},
		} {
			args, err := neuroscript.FromJSON([]byte(c.args))
			if err != nil {
				t.Fatal(err)
			}
			v, err := catalog.Invoke(context.Background(), &c.tool, &tools.Call{}, args, neuroscript.Limits{})
			got, _ := v.AsString()
			if err != nil {
				got = "!" + err.Error()
			}
			if why, fails := strings.CutPrefix(c.want, "!"); fails && (err == nil || !strings.Contains(err.Error(), why)) || !fails && got != c.want {
				t.Errorf("%s %s(%s) gives %s, want %s", class, c.tool.Name, c.args, got, c.want)
			}
		}
	}
}
