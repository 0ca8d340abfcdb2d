package stile_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/rehearse"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// noted is an agent with a tool that has an effect, and how often it had.
func noted(t *testing.T, dialect string, replies ...string) (*stile.Agent, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	type args struct {
		Text string `json:"text"`
	}
	note, err := stile.DefineTool("note.add", "Adds a note.", messages.Effectful, func(_ context.Context, a args) (string, error) {
		n.Add(1)
		return "noted " + a.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	look, err := stile.DefineTool("note.look", "Looks at notes.", messages.ReadOnly, func(_ context.Context, a args) (string, error) {
		n.Add(100)
		return "seen " + a.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Default(dialect)
	m.Name, m.Import.Tools = "noted", []string{"note.add", "note.look"}
	return &stile.Agent{Manifest: m, Tools: []stile.Tool{note, look}, Model: stile.ScriptedModel(replies...)}, &n
}

// ends are how the calls of a session ended, in order.
func ends(t *testing.T, s *stile.Session) (all []string) {
	t.Helper()
	for r, err := range s.Records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.Body.(*messages.ActionEnded); ok {
			all = append(all, strings.TrimSpace(string(b.State)+" "+b.Reason+" "+b.Result))
		}
	}
	return all
}

// Calls of programs and of replies pass Around: a recorded one is answered and does
// nothing, a reading one runs, another effect is refused and the model is told.
func TestAround(t *testing.T) {
	call := func(id, name, text string) string {
		return `<action id="` + id + `" mode="sync">{"name":"` + name + `","parameters":{"text":"` + text + `"}}</action>`
	}
	program := func(lines ...string) string {
		return "command\n on error as e do\n  emit \"error \" + e.code + \" \" + e.message\n  clear_error\n endon\n" + strings.Join(lines, "\n") + "\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand"
	}
	for _, tc := range []struct{ dialect, first, again string }{
		{
			"cortex", call("a", "note.add", "tea") + "<response>ok</response>",
			call("a", "note.add", "tea") + call("b", "note.look", "tea") + call("c", "note.add", "milk") + "<response>ok</response>",
		},
		{
			"aeiou", program(` emit tool.note.add("tea")`),
			program(` emit tool.note.add("tea")`, ` emit tool.note.look("tea")`, ` emit tool.note.add("milk")`),
		},
	} {
		t.Run(tc.dialect, func(t *testing.T) {
			rt := start(t, stile.Config{InMemory: true})
			agent, did := noted(t, tc.dialect, tc.first)
			agent.Manifest.Loop.MaxTurns = 1
			was := opened(t, rt, "was", agent)
			decided(t, submitted(t, was, "go"))
			if did.Load() != 1 {
				t.Fatalf("the tool ran %d times: %v", did.Load(), ends(t, was))
			}
			calls, err := rehearse.Recorded(was.Records(context.Background()), 0)
			if err != nil || len(calls) != 1 {
				t.Fatal(calls, err)
			}
			stage := rehearse.New(calls, rehearse.Options{})
			again, did := noted(t, tc.dialect, tc.again)
			again.Manifest.Loop.MaxTurns, again.Around = 1, stage.Around
			now := opened(t, rt, "now", again)
			decided(t, submitted(t, now, "go"))
			got := ends(t, now)
			if len(got) != 3 || got[0] != `ok  "noted tea"` || got[1] != `ok  "seen tea"` || !strings.HasPrefix(got[2], `failed rehearsal "refused`) {
				t.Errorf("%q", got)
			}
			if did.Load() != 100 {
				t.Errorf("the tools did %d", did.Load())
			}
			if c := stage.Counts(); c.Reused != 1 || c.Ran != 1 || c.Refused != 1 || c.Unused != 0 {
				t.Errorf("%+v", c)
			}
			replays(t, rt.Archive(), again)
		})
	}
}

// What Around gives that is no end of a call fails the call, by a cause that says so; a
// change of what the target gave is recorded; retries pass it again.
func TestAroundOddEnds(t *testing.T) {
	type do = func(context.Context) *messages.ActionEnded
	for _, tc := range []struct {
		name   string
		around func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded
		want   string
	}{
		{"nil", func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded { return nil }, "gave no end"},
		{"no state", func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded {
			return &messages.ActionEnded{}
		}, "unknown state"},
		{"skipped", func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded {
			return &messages.ActionEnded{State: messages.ActionSkipped}
		}, "never began"},
		{"no JSON", func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded {
			return &messages.ActionEnded{State: messages.ActionOK, Result: "{"}
		}, "not JSON"},
		{"changed", func(ctx context.Context, _ *messages.ActionDeclared, run do) *messages.ActionEnded {
			end := run(ctx)
			end.Result = `"changed"`
			return end
		}, `ok  "changed"`},
		{"panic", func(context.Context, *messages.ActionDeclared, do) *messages.ActionEnded { panic("odd") }, "panic"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := start(t, stile.Config{InMemory: true})
			agent, _ := noted(t, "cortex", `<action id="a" mode="sync">{"name":"note.look","parameters":{"text":"x"}}</action><response>ok</response>`)
			agent.Manifest.Loop.MaxTurns, agent.Around = 1, tc.around
			s := opened(t, rt, "s", agent)
			decided(t, submitted(t, s, "go"))
			if got := ends(t, s); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, tc.want) }) {
				t.Errorf("%q, want %s", got, tc.want)
			}
		})
	}
}

// A recorded failure is final: what the model says of retries counted then.
func TestAroundRecordedFailure(t *testing.T) {
	rt := start(t, stile.Config{InMemory: true})
	reply := `<action id="a" mode="sync">{"name":"note.look","parameters":{"text":"x"},"retry":2,"retry_delay":0.001}</action><response>ok</response>`
	stage := rehearse.New([]rehearse.Call{{
		Name: "note.look", Args: `{"text":"x"}`, End: messages.ActionEnded{State: messages.ActionFailed, Reason: "timeout", ErrorCode: 21, Result: `"late"`},
	}}, rehearse.Options{})
	agent, did := noted(t, "cortex", reply)
	agent.Manifest.Loop.MaxTurns, agent.Around = 1, stage.Around
	s := opened(t, rt, "s", agent)
	decided(t, submitted(t, s, "go"))
	if got := ends(t, s); len(got) != 1 || got[0] != `failed timeout "late"` || did.Load() != 0 {
		t.Errorf("%q, the tool did %d", got, did.Load())
	}
}

// What changes the session alone passes Around by: a key-value relic, and an action on the
// session itself.
func TestAroundLeavesTheSession(t *testing.T) {
	rt := start(t, stile.Config{InMemory: true})
	m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {max_turns: 1}\nimport: {relics: [shelf]}\ninternal_actions: {allowed_actions: [set_variable]}\ndefine: {relics: [{name: shelf, service_type: key_value}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	stage := rehearse.New(nil, rehearse.Options{})
	agent := &stile.Agent{Manifest: m, Around: stage.Around, Model: stile.ScriptedModel(
		`<action id="a" type="relic">{"name":"shelf","parameters":{"operation":"set","key":"k","value":1}}</action>` +
			`<action id="b" type="internal">{"name":"set_variable","parameters":{"name":"v","value":2}}</action><response>ok</response>`)}
	s := opened(t, rt, "s", agent)
	decided(t, submitted(t, s, "go"))
	got := ends(t, s)
	if c := stage.Counts(); len(got) != 2 || !strings.HasPrefix(got[0], "ok") || !strings.HasPrefix(got[1], "ok") || c.Ran+c.Refused+c.Reused != 0 {
		t.Errorf("%q, %+v", got, c)
	}
}
