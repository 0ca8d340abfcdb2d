package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// templated is an agent with templates, one of them its own.
func templated(t *testing.T, replies ...string) (*stile.Agent, *recorder) {
	t.Helper()
	a, model := working(t, "cortex", map[string]string{"a.txt": "one\n", "b.txt": "two\n"}, replies...)
	a.Manifest.Extensions = []string{"templates"}
	a.Manifest.ActionTemplates = map[string]any{"get": map[string]any{
		"name": "read", "mode": "async", "retry": 2,
		"params":     map[string]any{"file": map[string]any{"type": "string", "required": true}, "n": map[string]any{"type": "integer"}},
		"parameters": map[string]any{"file": "%{file}.txt", "lines": "%{n}"},
	}}
	return a, model
}

// declared are the actions of records, in order.
func declared(recs []*stile.Record) (all []string) {
	for _, b := range bodies[*messages.ActionDeclared](recs) {
		all = append(all, fmt.Sprintf("%s %s %s %s %s", b.ID, b.Name, b.Mode, b.Args, b.Template))
	}
	return all
}

// Templates of the manifest and of a reply make actions, in this turn and in those of its run
// after it, and a replay finds the same. What is wrong with a use is told to the model by field.
func TestTemplates(t *testing.T) {
	replies := []string{
		`<action template="get" id="a">{"with":{"file":"a"}}</action>` +
			`<action_template name="both">{"name":"read","params":["of"],"parameters":{"file":"%{of}"}}</action_template>` +
			`<action template="both" id="b">{"with":{"of":"b.txt"},"output_key":"second"}</action>` +
			`<action template="get" id="c">{"with":{"n":2}}</action><action template="none" id="d"/>` +
			`<action_template name="get">{"name":"read"}</action_template>`,
		`<action template="both" id="e" mode="async">{"with":{"of":"a.txt"}}</action><action template="get" id="f">{"with":{"file":"b","n":1.0}}</action>`,
		`<response>done</response>`,
		`<action template="both" id="g">{"with":{"of":"a.txt"}}</action>`,
		`<response>over</response>`,
	}
	a, model := templated(t, replies...)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 3 {
		t.Fatalf("%+v", o)
	}
	if o := ask(t, s, "more"); o.Decision != stile.Done || o.Turns != 2 {
		t.Fatalf("%+v", o)
	}
	recs := records(t, s)
	want := []string{
		`a read async {"file":"a.txt"} get`, `b read sync {"file":"b.txt"} both`,
		`e read async {"file":"a.txt"} both`, `f read async {"file":"b.txt","lines":1.0} get`,
	}
	if got := declared(recs); !slices.Equal(got, want) {
		t.Errorf("actions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	made := bodies[*messages.ActionTemplate](recs)
	if len(made) != 1 || *made[0] != (messages.ActionTemplate{Name: "both", Definition: `{"name":"read","params":["of"],"parameters":{"file":"%{of}"}}`}) {
		t.Errorf("templates %+v", made)
	}
	told := model.requests()[1].Messages
	last := told[len(told)-1].Text
	for _, part := range []string{
		`<action_result status="error" reason="bad_template" id="c" field="with.file">`,
		`<action_result status="error" reason="bad_template" id="d" field="template">`,
		`<action_result status="error" reason="template_exists" name="get">the agent has a template get: choose another name</action_result>`,
	} {
		if !strings.Contains(last, part) {
			t.Errorf("the model is not told %s:\n%s", part, last)
		}
	}
	// The run is over, and its templates with it.
	told = model.requests()[4].Messages
	if last := told[len(told)-1].Text; !strings.Contains(last, `reason="bad_template" id="g" field="template"`) {
		t.Errorf("in the next run\n%s", last)
	}
	primer := model.requests()[0].Messages[0].Text
	if !strings.Contains(primer, "\n- template=\"get\" (file, n?)\n") {
		t.Errorf("the primer\n%s", primer)
	}
	replays(t, rt, a)
}

// A template that a turn defined is in the journal: a fork in the middle of the run, which is
// opened like a session after a restart, goes on with it, and a replay of the fork agrees.
func TestTemplatesOfAFork(t *testing.T) {
	const define = `<action_template name="both">{"name":"read","params":["of"],"parameters":{"file":"%{of}"}}</action_template><action template="both" id="a">{"with":{"of":"a.txt"}}</action>`
	const use = `<action template="both" id="b">{"with":{"of":"b.txt"}}</action>`
	a, _ := templated(t, define, use, "<response>done</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	if _, err := rt.Fork(t.Context(), "stream", 1, "fork"); err != nil {
		t.Fatal(err)
	}
	again := *a
	again.Model = scripted.New(define, use, "<response>forked</response>")
	f := open(t, rt, "fork", &again)
	if o := decision(t, f.Run(1)); o.Decision != stile.Done || o.Text != "forked" {
		t.Fatalf("%+v", o)
	}
	recs := records(t, f)
	want := []string{`a read sync {"file":"a.txt"} both`, `b read sync {"file":"b.txt"} both`}
	if got := declared(recs); !slices.Equal(got, want) {
		t.Errorf("actions of the fork %q", got)
	}
	if _, err := rt.Replay(t.Context(), "fork", &again); err != nil {
		t.Error(err)
	}
}

// A template whose actions would call what the agent does not have is refused when it is opened.
func TestTemplatesWithoutATarget(t *testing.T) {
	for field, v := range map[string]map[string]any{
		"action_templates.t.name: ERR_CONFIG/MISSING: no tool \"reed\"; near: read; what a template calls must be imported": {"name": "reed"},
		"action_templates.t.name: ERR_CONFIG/MISSING: no llm \"read\"":                                                      {"name": "read", "type": "llm"},
	} {
		a, _ := templated(t)
		a.Manifest.ActionTemplates = map[string]any{"t": v}
		rt := start(t, stile.Config{})
		if _, err := rt.Open(t.Context(), "s", a); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %s", err, field)
		}
	}
}
