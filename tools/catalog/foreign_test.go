package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/schema"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// foreign is a tool that gives back what it gets.
func foreign(t *testing.T, schema string) tools.Tool {
	t.Helper()
	tool, err := NewForeign(Foreign{Name: "far.off", Schema: schema, Class: messages.Effectful, Do: func(_ context.Context, _ *tools.Call, args string) (string, error) {
		return `{"got":` + args + `}`, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

const noteSchema = `{"type":"object","properties":{"words":{"type":"array","items":{"type":"string"}},"at":{"type":"object"},"most":{"type":["integer","null"]},"to-whom":{"type":"string"}},"required":["words"],"additionalProperties":false}`

// Arguments by place and by name, as a program gives them.
func TestForeignFromPrograms(t *testing.T) {
	list := neuroscript.List([]neuroscript.Value{neuroscript.String("a")})
	object := func(kv ...any) neuroscript.Value {
		var es []neuroscript.Entry
		for i := 0; i < len(kv); i += 2 {
			es = append(es, neuroscript.Entry{Key: kv[i].(string), Value: kv[i+1].(neuroscript.Value)})
		}
		return neuroscript.MapOf(es)
	}
	first := `{"type":"object","properties":{"at":{"type":"object"},"n":{"type":"number"}},"required":["at"]}`
	for _, c := range []struct {
		schema string
		args   []neuroscript.Value
		want   string // JSON, or the message of code 4
	}{
		{noteSchema, []neuroscript.Value{list}, `{"words":["a"]}`},
		{noteSchema, []neuroscript.Value{list, {}, neuroscript.Number(3)}, `{"most":3,"words":["a"]}`},
		{noteSchema, []neuroscript.Value{object("words", list, "to-whom", neuroscript.String("b"))}, `{"to-whom":"b","words":["a"]}`},
		{noteSchema, nil, "missing propert"},
		{noteSchema, []neuroscript.Value{list, list}, "argument at: want map"},
		{noteSchema, []neuroscript.Value{list, {}, {}, list}, "want 3 arguments at most"},
		{noteSchema, []neuroscript.Value{object("words", list, "nothing", list)}, "additional properties"},
		{first, []neuroscript.Value{object("at", object("x", list))}, `{"at":{"x":["a"]}}`},
		{first, []neuroscript.Value{object("x", list)}, `{"at":{"x":["a"]}}`},
		{first, []neuroscript.Value{object("at", list)}, "argument at: got array, want object"},
		{`{"type":"object"}`, []neuroscript.Value{object("any", list)}, `{"any":["a"]}`},
		{"", nil, `{}`},
		{`{"properties":{"n":{"type":"number"}}}`, []neuroscript.Value{neuroscript.String("2.5")}, `{"n":2.5}`},
	} {
		tool := foreign(t, c.schema)
		args, err := tool.Form.Prepare(c.args)
		var v neuroscript.Value
		if err == nil {
			v, err = tool.Run(t.Context(), &tools.Call{Args: args})
		}
		var e *neuroscript.ScriptError
		switch {
		case errors.As(err, &e):
			if e.Code != neuroscript.CodeArgument || !strings.Contains(e.Message, c.want) {
				t.Errorf("%v: %v, want %s", c.args, err, c.want)
			}
		case err != nil:
			t.Error(err)
		default:
			got, _ := v.MapGet("got")
			raw, _ := neuroscript.AppendJSON(nil, got)
			if string(raw) != c.want {
				t.Errorf("%v: got %s, want %s", c.args, raw, c.want)
			}
		}
	}
	tool := foreign(t, noteSchema)
	if got := Signature(&tool); got != "(words, at?, most?)" {
		t.Errorf("signature %s", got)
	}
}

// What a reply calls goes as it was written, when the schema accepts it.
func TestForeignFromReplies(t *testing.T) {
	tool := foreign(t, `{"type":"object","properties":{"id":{"type":"integer","minimum":1},"when":{"type":"string","format":"date","pattern":"^(?=2)\\d+"}},"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false,"required":["id"]}`)
	limits := neuroscript.Limits{}
	for _, c := range [][2]string{
		{`{"id":9007199254740993}`, `{"got":{"id":9007199254740993}}`},
		{`{"id":1,"when":"no date, and no pattern that RE2 can read","x-a":"b"}`, `{"got":{"id":1,"when":"no date, and no pattern that RE2 can read","x-a":"b"}}`},
	} {
		if got, err := do(t.Context(), &tool, &tools.Call{}, c[0], limits); err != nil || got != c[1] {
			t.Errorf("%s: got %s, %v", c[0], got, err)
		}
	}
	for _, c := range []struct {
		args  string
		words []string
	}{
		{`{}`, []string{"id"}},
		{`{"id":0,"x-a":1,"more":2}`, []string{"argument id: minimum", "argument x-a: got number, want string", "more"}}, // all of it
		{`{"id":1.5}`, []string{"integer"}},
		{`[]`, []string{"must be an object"}},
		{`{"id":`, []string{"must be an object"}},
		{`null`, []string{"must be an object"}},
	} {
		_, err := do(t.Context(), &tool, &tools.Call{}, c.args, limits)
		var e *neuroscript.ScriptError
		if !errors.As(err, &e) || e.Code != neuroscript.CodeArgument {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(e.Message, w) {
				t.Errorf("%s: %q lacks %q", c.args, e.Message, w)
			}
		}
	}
	var many strings.Builder
	many.WriteString(`{"id":1`)
	for i := range 500 {
		fmt.Fprintf(&many, `,"x-%d":1`, i)
	}
	_, err := do(t.Context(), &tool, &tools.Call{}, many.String()+"}", limits)
	if err == nil || len(err.Error()) > 2<<10 || !strings.Contains(err.Error(), "and 492 more") {
		t.Errorf("%d bytes: %v", len(fmt.Sprint(err)), err)
	}
}

// What others declare is refused when it cannot be used.
func TestForeignRefuses(t *testing.T) {
	for _, c := range []struct{ name, schema, words string }{
		{"far.off", `{"type":"array"}`, "another"},
		{"far.off", `true`, "no object"},
		{"far.off", `{"type":`, "no JSON"},
		{"far.off", `{"type":"object"} {}`, "no JSON"},
		{"far.off", `{"type":"objekt"}`, "another"},
		{"far.off", `{"properties":{"a":{"type":"objekt"}}}`, "cannot be used"},
		{"far.off", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "refers to another document"},
		{"far.off", `{"$schema":"http://127.0.0.1:9/own"}`, "refers to another document"},
		{"far.off", `{"properties":{"a":{"$ref":"#/$defs/absent"}}}`, "cannot be used"},
		{"far.off", strings.Repeat(`{"not":`, 80) + "{}" + strings.Repeat("}", 80), "64 deep"},
		{"far.off", `{"description":"` + strings.Repeat("x", schema.MaxBytes) + `"}`, "65536"},
		{"aeiou.magic", `{}`, "belongs to the turn"},
	} {
		_, err := NewForeign(Foreign{Name: c.name, Schema: c.schema})
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%.60s: %v, want %s", c.schema, err, c.words)
		}
	}
	loop, err := NewForeign(Foreign{Name: "far.loop", Schema: `{"properties":{"next":{"$ref":"#"}}}`, Do: func(context.Context, *tools.Call, string) (string, error) { return "1", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(t.Context(), &loop, &tools.Call{}, `{"next":{"next":{"next":{}}}}`, neuroscript.Limits{}); err != nil {
		t.Error(err)
	}
	tool, err := NewForeign(Foreign{Name: "far.off", Description: strings.Repeat("ä", MaxDescriptionBytes), Do: nil})
	if err != nil || len(tool.Description) > MaxDescriptionBytes+3 {
		t.Errorf("%d bytes of description, %v", len(tool.Description), err)
	}
}

func FuzzForeignSchema(f *testing.F) {
	for _, s := range []string{noteSchema, `{}`, `true`, `{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"properties":{"a":{"pattern":"("}}}`, `{"required":["a"],"properties":{"a":{"type":["string"]}}}`} {
		f.Add(s, `{"a":[{"b":1}]}`)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		tool, err := NewForeign(Foreign{Name: "far.off", Schema: schema, Do: func(_ context.Context, _ *tools.Call, args string) (string, error) { return args, nil }})
		if err != nil {
			if messages.CodeOf(err) != messages.ErrConfig {
				t.Fatal(err)
			}
			return
		}
		if _, err := New(tool); err != nil {
			t.Fatalf("a registry refuses what NewForeign made: %v", err)
		}
		if len(args) < 1<<10 {
			_, _ = do(t.Context(), &tool, &tools.Call{}, args, neuroscript.Limits{})
		}
	})
}
