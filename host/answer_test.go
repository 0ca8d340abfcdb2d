package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// aeiouSays is a reply in aeiou that runs these lines and ends with the action.
func aeiouSays(action string, lines ...string) string {
	return "command\n" + strings.Join(append(lines, `emit tool.aeiou.magic("LOOP", {"action": "`+action+`"})`), "\n") + "\nendcommand\n"
}

// What a run said is the same text, whoever asks: a Go program at the end, while it grows and
// later; HTTP by a submit that waits and by a look; chat completions whole and streamed; a tool
// of MCP; and the parent of a child session.
func TestOneAnswer(t *testing.T) {
	type value struct {
		Total float64 `json:"total"`
	}
	const look = `<execute>[{"name":"shop.look","args":{}}]</execute>`
	for _, c := range []struct {
		name, dialect string
		replies       []string
		output        any
		decision      stile.Decision // "" is DONE
		want          string
	}{
		{name: "plain", dialect: "plain", replies: []string{"<think>hm</think>Hello, Ada."}, want: "Hello, Ada."},
		{name: "plain with a value", dialect: "plain", output: value{}, replies: []string{"about 2.50", "```json\n{\"total\": 2.5}\n```"}, want: "```json\n{\"total\": 2.5}\n```"},
		{name: "cogency", dialect: "cogency", replies: []string{"Let me look. " + look, "<think>a hat</think>There is a hat."}, want: "Let me look. \n\nThere is a hat."},
		{name: "cogency, repaired", dialect: "cogency", replies: []string{`One moment. <execute>[{"name":5}]</execute>`, "There is nothing."}, want: "One moment. \n\nThere is nothing."},
		{name: "cogency, halted in the midst", dialect: "cogency", decision: stile.Halt, replies: []string{"Let me look. " + look}, want: "Let me look. "},
		{name: "cortex", dialect: "cortex", replies: []string{
			`<thought>hm</thought><response final="false">One.</response><response final="false">Two.</response>`, `<response>Three.</response>`,
		}, want: "One.\n\nTwo.\n\nThree."},
		{name: "cortex with a value", dialect: "cortex", output: value{}, replies: []string{`<response final="false">{"total": 1}</response>`, `<response>{"total": 2.5}</response>`}, want: "{\"total\": 1}\n\n{\"total\": 2.5}"},
		{name: "kitsu, replaced", dialect: "kitsu", replies: []string{"Let me look.\n<action:search query=\"weather Oslo\">", "It will rain."}, want: "It will rain."},
		{name: "kitsu, replaced behind a pass that says nothing", dialect: "kitsu", replies: []string{"Let me look.\n<action:search query=\"weather Oslo\">", "<action:dance>", "It will rain."}, want: "It will rain."},
		{name: "kitsu, left standing", dialect: "kitsu", decision: stile.Halt, replies: []string{"Let me look.\n<action:search query=\"weather Oslo\">"}, want: "Let me look.\n"},
		{name: "kitsu, continued", dialect: "kitsu", replies: []string{"First.\n<action:continue reason=\"more\">", "Second."}, want: "First.\n\n\nSecond."},
		{name: "aeiou", dialect: "aeiou", replies: []string{aeiouSays("continue", `emit "one"`, `whisper self, "psst"`), aeiouSays("done", `emit "two"`, `emit "three"`)}, want: "one\ntwo\nthree"},
		{name: "aeiou, repaired", dialect: "aeiou", replies: []string{aeiouSays("done", `emit "one"`, `emit 1/0`), aeiouSays("done", `emit "two"`)}, want: "one\ntwo"},
		{name: "aeiou, aborted", dialect: "aeiou", decision: stile.Abort, replies: []string{aeiouSays("abort", `emit "I give up"`)}, want: "I give up"},
		{name: "aeiou with a value", dialect: "aeiou", output: value{}, replies: []string{aeiouSays("done", `emit "{\"total\": 2.5}"`)}, want: `{"total": 2.5}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decision := c.decision
			if decision == "" {
				decision = stile.Done
			}
			speaker := func(name string) *stile.Agent {
				m := manifest.Default(c.dialect)
				m.Name, m.Summary = name, "Says it."
				if c.dialect == "cogency" {
					m.Import.Tools = []string{"shop.look"}
				}
				m.Kitsu.Search = manifest.SearchStub
				a := &stile.Agent{Manifest: m, Model: scripted.New(c.replies...), Output: c.output}
				if c.dialect == "cogency" {
					tool, err := stile.DefineTool("shop.look", "Looks.", stile.ReadOnly, func(context.Context, struct{}) (string, error) { return "a hat", nil })
					if err != nil {
						t.Fatal(err)
					}
					a.Tools = []tools.Tool{tool}
				}
				return a
			}
			boss := manifest.Default("cortex")
			boss.Name, boss.Import.Agents = "boss", []string{"child"}
			parent := &stile.Agent{Manifest: boss, Agents: []*stile.Agent{speaker("child")}, Model: scripted.New(
				`<action id="a" type="agent">{"name":"child","parameters":{"message":"go"}}</action>`, `<response>done</response>`)}
			agents := []*stile.Agent{parent}
			for _, name := range []string{"go", "late", "wait", "look", "chat", "pieces", "mcp"} {
				agents = append(agents, speaker(name))
			}
			d := serve(t, host.Config{}, agents...)
			same := func(who, got string) {
				t.Helper()
				if got != c.want {
					t.Errorf("%s: %q, want %q", who, got, c.want)
				}
			}

			open := func(name string) *stile.Session {
				t.Helper()
				i := slices.IndexFunc(agents, func(a *stile.Agent) bool { return a.Manifest.Name == name })
				s, err := d.rt.Open(t.Context(), "local:local:"+name, agents[i])
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			submit := func(name string) *stile.Run {
				t.Helper()
				run, err := open(name).Submit(t.Context(), "go")
				if err != nil {
					t.Fatal(err)
				}
				return run
			}
			ended := func(who string, err error) {
				t.Helper()
				if stile.IsHalt(err) != (decision == stile.Halt) || stile.IsAbort(err) != (decision == stile.Abort) || (err == nil) != (decision == stile.Done) {
					t.Errorf("%s: %v, want %s", who, err, decision)
				}
			}
			stream := func(who string, run *stile.Run) {
				t.Helper()
				var got string
				var end error
				for piece, err := range run.TextStream(t.Context()) {
					got, end = got+piece, err
				}
				same(who, got)
				ended(who, end)
			}
			run := submit("go")
			stream("TextStream", run)
			text, err := run.Text(t.Context())
			same("Text", text)
			ended("Text", err)
			stream("TextStream at the end", run)
			stream("TextStream by number", open("go").Run(1))
			run = submit("late")
			text, err = run.Text(t.Context())
			same("Text while it runs", text)
			ended("Text while it runs", err)
			text, err = open("late").Run(1).Text(t.Context())
			same("Text by number", text)
			ended("Text by number", err)
			heard, err := run.Decision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read, _, err := open("late").Run(1).Outcome(t.Context())
			if err != nil || fmt.Sprint(read.Usage, read.CostMicroUSD, read.Units, read.Began, read.Ended, read.Finish, read.Turns) != fmt.Sprint(heard.Usage, heard.CostMicroUSD, heard.Units, heard.Began, heard.Ended, heard.Finish, heard.Turns) || heard.Duration() <= 0 {
				t.Errorf("read %+v, %v\nheard %+v", read, err, heard)
			}

			var view struct {
				State, Decision, Text string
				Output                *value
				Units                 []struct{ Kind, Text string }
			}
			d.session("wait", "wait")
			d.call(200, &view, "POST", "/v1/sessions/wait/runs?wait=1m", `{"input":"go"}`)
			same("a submit that waits", view.Text)
			d.session("look", "look")
			d.call(202, nil, "POST", "/v1/sessions/look/runs", `{"input":"go"}`)
			d.call(200, &view, "GET", "/v1/sessions/look/runs/1?wait=1m", "")
			same("a look that waits", view.Text)
			if view.State != "ended" || view.Decision != string(decision) || (view.Output != nil) != (c.output != nil) {
				t.Errorf("%+v", view)
			}
			d.call(200, &view, "GET", "/v1/sessions/wait/runs/1", "")
			same("a look", view.Text)

			var whole struct {
				Choices []struct{ Message struct{ Content string } }
				Error   struct{ Type string }
			}
			res := d.ask("POST", "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"go"}]}`)
			if err := json.NewDecoder(res.Body).Decode(&whole); err != nil {
				t.Fatal(err)
			}
			if decision == stile.Halt {
				if whole.Error.Type != "stile_halt" {
					t.Errorf("chat: %+v", whole)
				}
			} else {
				same("chat", whole.Choices[0].Message.Content)
			}
			var pieces string
			res = d.ask("POST", "/v1/chat/completions", `{"model":"pieces","stream":true,"messages":[{"role":"user","content":"go"}]}`)
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				data, ok := strings.CutPrefix(lines.Text(), "data: {")
				var chunk struct {
					Choices []struct{ Delta struct{ Content string } }
				}
				if ok && json.Unmarshal([]byte("{"+data), &chunk) == nil && len(chunk.Choices) == 1 {
					pieces += chunk.Choices[0].Delta.Content
				}
			}
			same("chat in pieces", pieces)

			_, answer, shown := callTool(t, toolClient(t, d, "", nil), "mcp", map[string]any{"message": "go"})
			same("MCP", answer.Text)
			if (decision == stile.Halt) != (answer.Detail != "" && strings.HasPrefix(shown, answer.Code+": "+answer.Detail) && strings.Contains(shown, strings.TrimSpace(answer.Text))) {
				t.Errorf("MCP: %q of %+v", shown, answer)
			}

			if _, err := submit("boss").Text(t.Context()); err != nil {
				t.Fatal(err)
			}
			for r, err := range open("boss").Records(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				end, ok := r.Body.(*messages.ActionEnded)
				if !ok {
					continue
				}
				if decision != stile.Done {
					if end.State != messages.ActionFailed {
						t.Errorf("child: %+v", end)
					}
					continue
				}
				var got string
				if err := json.Unmarshal([]byte(end.Result), &got); err != nil {
					t.Errorf("child: %+v, %v", end, err)
				}
				same("child", got)
			}
		})
	}
}
