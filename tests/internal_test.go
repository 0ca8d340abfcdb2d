package tests

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// keeping is an agent that may use its session's variables.
func keeping(t *testing.T, internal string, replies ...string) *stile.Agent {
	t.Helper()
	m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\ninternal_actions: "+internal+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Manifest: m, Model: scripted.New(replies...)}
}

const variables = "{allowed_actions: [set_variable, delete_variable, clear_context]}"

// on writes an action on the session itself.
func on(id, name, params string) string {
	return `<action type="internal" mode="async" id="` + id + `">{"name":"` + name + `","parameters":` + params + `}</action>`
}

// said are the responses of a session.
func said(t *testing.T, s *stile.Session) string {
	t.Helper()
	var all []string
	for _, r := range records(t, s) {
		if b, ok := r.Body.(*messages.UnitText); ok && b.UnitKind == messages.ResponseUnit {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "|")
}

// audits are the audit records of a session.
func audits(t *testing.T, s *stile.Session) (all []string) {
	t.Helper()
	for _, b := range bodies[*messages.Audit](records(t, s)) {
		word := "refused"
		if b.Allowed {
			word = "allowed"
		}
		all = append(all, strings.TrimSpace(b.What+" "+word+" "+b.Text))
	}
	return all
}

// Variables are the session's: they outlive runs and processes, a fork has those of its
// turn, and a text shows what they were where it stands.
func TestVariables(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		a := keeping(t, variables,
			`<response final="false">before $city</response>`+
				on("a", "set_variable", `{"name":"city","value":"Oslo"}`)+`<response final="false">first $city</response>`+
				on("b", "set_variable", `{"name":"city","value":{"name":"Bergen","in":["NO"]}}`)+`<response>then ${city.name} in ${city.in.0}</response>`,
			`<response>still ${city.name}</response>`,
			on("c", "set_variable", `{"name":"copy","value":"$city"}`)+on("d", "delete_variable", `{"name":"city"}`)+on("e", "delete_variable", `{"name":"city"}`)+
				`<response>$city and ${copy.name}, ${e.deleted}</response>`,
			on("f", "clear_context", `{}`)+`<response>$copy</response>`)
		rt := l.begin()
		s := open(t, rt, "stream", a)
		ask(t, s, "go")
		l.end()
		rt = l.begin()
		s = open(t, rt, "stream", a)
		ask(t, s, "and")
		ask(t, s, "on")
		ask(t, s, "end")
		if got := said(t, s); got != "before $city|first Oslo|then Bergen in NO|still Bergen|$city and Bergen, false|$copy" {
			t.Errorf("said %q", got)
		}
		if got := ends(t, s); got["a"] != `ok {"name":"city"}` || got["d"] != `ok {"deleted":true,"name":"city"}` || got["f"] != "ok {}" {
			t.Errorf("ends %v", got)
		}
		if got := audits(t, s); len(got) != 6 || got[0] != "internal set_variable allowed" || got[5] != "internal clear_context allowed" {
			t.Errorf("audits %q", got)
		}
		replays(t, rt, a)
		replays(t, rt, nil)
		if _, err := rt.Fork(t.Context(), "stream", 2, "fork"); err != nil {
			t.Fatal(err)
		}
		forked := *a
		forked.Model = scripted.New(`never`, `never`, `<response>forked ${city.name} $copy</response>`)
		f := open(t, rt, "fork", &forked)
		ask(t, f, "go")
		if got := said(t, f); !strings.HasSuffix(got, "|forked Bergen $copy") {
			t.Errorf("the fork said %q", got)
		}
		l.end()
	})
}

// Every refusal has its reason, is told to the model, and is audited.
func TestInternalRefusals(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	a := keeping(t, "{allowed_actions: [set_variable, delete_variable], blocked_actions: [delete_variable]}",
		on("a", "set_variable", `{"name":"1st","value":1}`)+
			on("b", "set_variable", `{"name":"x"}`)+
			on("c", "set_variable", `{"name":"x","value":1,"more":2}`)+
			on("d", "set_variable", `{"name":"x","value":"`+long+`"}`)+
			on("e", "delete_variable", `{"name":"x"}`)+
			on("f", "clear_context", `{}`)+
			on("g", "read_mind", `{}`)+
			on("h", "set_variable", `{"name":"x","value":"$nothing"}`)+
			`<response>$x</response>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	got := ends(t, s)
	for id, want := range map[string]string{
		"a": "failed bad_field ", "b": "failed bad_field ", "c": "failed bad_field ", "d": "failed value_limit ",
		"e": "failed not_allowed", "f": "failed not_allowed", "g": "failed unknown_target", "h": "failed unresolved_variable:nothing",
	} {
		if !strings.HasPrefix(got[id], want) {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	for id, want := range map[string]string{"a": "parameters.name", "b": "parameters.value: missing", "c": "more", "d": "65538 bytes as JSON; the limit is 65536"} {
		if !strings.Contains(got[id], want) {
			t.Errorf("%s: %s, want %s in it", id, got[id], want)
		}
	}
	want := []string{
		"internal set_variable allowed bad_field", "internal set_variable allowed bad_field", "internal set_variable allowed bad_field",
		"internal set_variable allowed value_limit", "internal delete_variable refused not_allowed", "internal clear_context refused not_allowed",
		"internal read_mind refused unknown_target",
	}
	if got := audits(t, s); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("audits %q", got)
	}
	if got := said(t, s); got != "$x" {
		t.Errorf("said %q", got)
	}
	replays(t, rt, a)
}

// An absent list and an empty one are told apart by their canonical form; switched off,
// nothing is allowed; and the model is told of nothing it may not do.
func TestInternalPermission(t *testing.T) {
	for _, tc := range []struct{ internal, want, end string }{
		{"{allowed_actions: []}", "", "failed not_allowed"},
		{"{enabled: false, allowed_actions: [set_variable]}", "", "failed not_allowed"},
		{"{}", "", "failed not_allowed"},
		{"{allowed_actions: [set_variable]}", `- set_variable(name, value)`, "ok "},
	} {
		t.Run(tc.internal, func(t *testing.T) {
			a := keeping(t, tc.internal)
			rec := &recorder{Model: scripted.New(on("a", "set_variable", `{"name":"x","value":1}`) + `<response>$x</response>`)}
			a.Model = rec
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			ask(t, s, "go")
			if got := ends(t, s)["a"]; !strings.HasPrefix(got, tc.end) {
				t.Errorf("%s", got)
			}
			primer := rec.requests()[0].Messages[0].Text
			if strings.Contains(primer, `set_variable(`) != (tc.want != "") || !strings.Contains(primer, tc.want) {
				t.Errorf("the model is told\n%s", primer)
			}
			replays(t, rt, nil)
		})
	}
	for yaml, want := range map[string]string{
		"dialect: cortex\ninternal_actions: {allowed_actions: [read_mind]}":   `internal_actions.allowed_actions[0]: ERR_CONFIG/BAD_VALUE`,
		"dialect: cortex\ninternal_actions: {blocked_actions: [read_mind]}":   `internal_actions.blocked_actions[0]: ERR_CONFIG/BAD_VALUE`,
		"dialect: cortex\ninternal_actions: {enabled: maybe}":                 `internal_actions.enabled: ERR_CONFIG/WRONG_TYPE`,
		"dialect: aeiou\ninternal_actions: {allowed_actions: [set_variable]}": `internal_actions.allowed_actions: ERR_CONFIG`,
	} {
		m, err := manifest.Parse("agent.yaml", []byte(yaml))
		if err == nil {
			err = stile.Check(&stile.Agent{Manifest: m, Model: scripted.New()}, stile.Config{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
}

// A session has so many variables and no more; the fold of a restart has as many.
func TestVariableLimit(t *testing.T) {
	var replies []string
	for turn := range 5 {
		var b strings.Builder
		for i := range 60 {
			b.WriteString(on("", "set_variable", `{"name":"v`+string(rune('a'+turn))+string(rune('a'+i/26))+string(rune('a'+i%26))+`","value":`+"1"+`}`))
		}
		replies = append(replies, b.String()+`<response final="false">on</response>`)
	}
	replies = append(replies, on("x", "set_variable", `{"name":"vaaa","value":2}`)+on("y", "delete_variable", `{"name":"vaab"}`)+
		on("z", "set_variable", `{"name":"new","value":3}`)+on("w", "set_variable", `{"name":"newer","value":3}`)+`<response>$vaaa $new $newer</response>`)
	a := keeping(t, variables, replies...)
	a.Manifest.Quotas.Actions = 1000
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	refused := 0
	for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
		if b.Reason == "variable_limit" {
			refused++
		}
	}
	if got := ends(t, s); refused != 300-256+1 || !strings.HasPrefix(got["z"], "ok") || !strings.HasPrefix(got["w"], "failed variable_limit") {
		t.Errorf("%d refused; %v", refused, got)
	}
	if got := said(t, s); !strings.HasSuffix(got, "|2 3 $newer") {
		t.Errorf("said %q", got)
	}
	replays(t, rt, a)
}
