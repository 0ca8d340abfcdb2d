package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// calledWith are the arguments of calls, some of which run side by side.
type calledWith struct {
	mu  sync.Mutex
	all []string
}

func (c *calledWith) add(args string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, args)
}

func (c *calledWith) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.all))
}

// aliased is an agent whose template times is the tool own.twice: it fills own.repeat.
func aliased(t *testing.T, dialect string, seen *calledWith, replies ...string) *stile.Agent {
	t.Helper()
	repeat, err := tools.Define("own.repeat", "Repeats a text.", messages.ReadOnly, func(_ context.Context, in struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	},
	) (string, error) {
		seen.add(fmt.Sprint(in.Text, " ", in.N))
		return strings.Repeat(in.Text, in.N), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Default(dialect)
	m.Extensions = []string{"templates"}
	m.Import.Tools = []string{"own.repeat", "own.twice"}
	m.ActionTemplates = map[string]any{"times": map[string]any{
		"name": "own.repeat", "parameters": map[string]any{"text": "%{word}!", "n": "%{n}"},
		"params": map[string]any{"word": map[string]any{"type": "string", "required": true, "description": "What is said."}, "n": map[string]any{"type": "integer", "default": 2}},
	}}
	m.Define.Aliases = []manifest.Alias{{Name: "own.twice", Template: "times", Summary: "Says a word twice."}}
	return &stile.Agent{Manifest: m, Tools: []stile.Tool{repeat}, Model: scripted.New(replies...)}
}

// A template is a tool in every dialect that calls tools: with the arguments of its params, the
// work of the tool that it names, and its name in the record.
func TestAliases(t *testing.T) {
	for _, c := range []struct {
		dialect, call, wrong, end string
		args                      string
	}{
		{"cogency", `<execute>[{"name":"own.twice","args":{"word":"hi"}},{"name":"own.twice","args":{"word":"ho","n":3}}]</execute>`, `<execute>[{"name":"own.twice","args":{"n":"x"}}]</execute>`, "Done.<end>", `{"word":"hi"}`},
		{"cortex", `<action id="a">{"name":"own.twice","parameters":{"word":"hi"}}</action><action id="b">{"name":"own.twice","parameters":{"word":"ho","n":3}}</action>`, `<action id="c">{"name":"own.twice","parameters":{"n":"x"}}</action>`, "<response>Done.</response>", `{"word":"hi"}`},
		{"aeiou", program(`emit tool.own.twice("hi")`, `emit tool.own.twice({"word": "ho", "n": 3})`, sayContinue), program(`on error do`, `emit "caught"`, `clear_error`, `endon`, `emit tool.own.twice({"n": "x"})`, sayContinue), program(`emit "over"`, sayDone), `[{"word":"hi"}]`},
	} {
		t.Run(c.dialect, func(t *testing.T) {
			var seen calledWith
			a := aliased(t, c.dialect, &seen, c.call, c.wrong, c.end)
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			if o := ask(t, s, "go"); o.Decision != stile.Done || o.Turns != 3 {
				t.Fatalf("%+v", o)
			}
			if got, want := seen.sorted(), []string{"hi! 2", "ho! 3"}; !slices.Equal(got, want) {
				t.Errorf("the tool got %q, want %q", got, want)
			}
			recs := records(t, s)
			called := bodies[*messages.ActionDeclared](recs)
			if len(called) < 2 || called[0].Name != "own.twice" || called[0].Template != "times" || called[0].Args != c.args || called[0].Class != messages.ReadOnly {
				t.Errorf("declared %+v", called)
			}
			ended := bodies[*messages.ActionEnded](recs)
			results := []string{ended[0].Result, ended[1].Result}
			if slices.Sort(results); !slices.Equal(results, []string{`"hi!hi!"`, `"ho!ho!ho!"`}) {
				t.Errorf("ended %q", results)
			}
			if len(ended) > 2 && (ended[2].State != messages.ActionFailed || !strings.Contains(ended[2].Result, "word")) {
				t.Errorf("a call that does not fit: %+v", ended[2])
			}
			replays(t, rt, a)
		})
	}
}

// The gate judges an alias as the call that it makes as well: it opens no way around a rule.
func TestAliasesAndTheGate(t *testing.T) {
	const reply = `<action id="a">{"name":"own.twice","parameters":{"word":"hi"}}</action>`
	for name, change := range map[string]func(*stile.Agent){
		"a rule of the tool": func(a *stile.Agent) {
			a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"own.repeat": messages.GateDeny}
		},
		"a rule of the alias": func(a *stile.Agent) {
			a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"own.twice": messages.GateDeny}
		},
		"a policy that sees what is called": func(a *stile.Agent) {
			a.Policies = []tools.CustomPolicy{{Name: "words", Judge: func(q tools.Request) (messages.GateAnswer, string, bool) {
				return messages.GateDeny, "", q.Tool == "own.repeat" && q.JSON == `{"n":2,"text":"hi!"}`
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen calledWith
			a := aliased(t, "cortex", &seen, reply, "<response>Done.</response>")
			change(a)
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			wantDone(t, ask(t, s, "go"))
			if end := bodies[*messages.ActionEnded](records(t, s))[0]; len(seen.sorted()) > 0 || end.Reason != "denied" {
				t.Errorf("ran %q, ended %+v", seen.sorted(), end)
			}
			replays(t, rt, a)
		})
	}
}

// An alias that leads nowhere is refused when the agent is opened.
func TestAliasesAreChecked(t *testing.T) {
	for want, change := range map[string]func(*manifest.Manifest){
		`define.aliases[0].template: ERR_CONFIG/MISSING: its tool own.repeat is not imported`: func(m *manifest.Manifest) { m.Import.Tools = []string{"own.twice"} },
		`define.aliases[0].name: ERR_CONFIG/DUPLICATE: own.repeat is a tool already`:          func(m *manifest.Manifest) { m.Define.Aliases[0].Name = "own.repeat" },
		`define.aliases[0].template: ERR_CONFIG/BAD_VALUE: there is no template "other"`:      func(m *manifest.Manifest) { m.Define.Aliases[0].Template = "other" },
		`define.aliases[0].template: ERR_CONFIG/BAD_VALUE: it calls the llm x`: func(m *manifest.Manifest) {
			m.ActionTemplates["times"] = map[string]any{"name": "x", "type": "llm"}
		},
	} {
		var seen calledWith
		a := aliased(t, "cogency", &seen)
		change(a.Manifest)
		rt := start(t, stile.Config{})
		if _, err := rt.Open(t.Context(), "s", a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
