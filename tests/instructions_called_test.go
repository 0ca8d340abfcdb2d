package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// The instructions of an llm are the first part of what the system says in its call, in
// front of its own message: a text, or a file beside the manifest or beside the agent that
// imports it, with the variables of the environment. A replay asks nothing.
func TestInstructionsOfLLM(t *testing.T) {
	const call = `<action id="a" type="llm">{"name":"sum","parameters":{"x":"this"}}</action><response>$a</response>`
	for name, c := range map[string]struct {
		define string
		files  []string
		want   string // "" for no system message
	}{
		"none":               {`template: "Sum $x"`, nil, ""},
		"system alone":       {`system: "Cost $5 ${HOST}", template: "Sum $x"`, nil, "Cost $5 ${HOST}"},
		"a text":             {`instructions: "You sum.", template: "Sum $x"`, nil, "You sum."},
		"in front of system": {`instructions: "You sum.", system: "Cost $5 ${HOST}", template: "Sum $x"`, nil, "You sum.\n\nCost $5 ${HOST}"},
		"variables":          {`instructions: "At ${HOST}, ${UNSET:-nowhere}, for $$5 and $x.", template: "Sum $x"`, nil, "At example.org, nowhere, for $5 and $x."},
		"a file":             {`instructions: {file: sum.md}, template: "Sum $x"`, []string{"sum.md", "From a file at ${HOST}."}, "From a file at example.org."},
		"a file of a file":   {"", []string{"llms/sum.yaml", "kind: LLM\nname: sum\ninstructions: {file: llms/sum.md}\ntemplate: \"Sum $x\"\n", "llms/sum.md", "Beside it."}, "Beside it."},
	} {
		t.Run(name, func(t *testing.T) {
			define := ""
			if c.define != "" {
				define = "define: {llms: [{kind: LLM, name: sum, " + c.define + "}]}\n"
			}
			dir := write(t, append([]string{
				"agent.yaml", "dialect: cortex\ninstructions: You are the boss.\nloop: {strict: [unseen]}\nimport: {llms: [sum]}\nenvironment: {variables: {HOST: example.org}, allow: [UNSET]}\n" + define,
			}, c.files...)...)
			model := &recorder{Model: scripted.New(call, "the sum")}
			a := load(t, dir)
			a.Model = model
			rt := start(t, stile.Config{})
			s := open(t, rt, "s", a)
			wantDone(t, ask(t, s, "go"))
			all := model.requests()
			if len(all) != 2 || !strings.HasPrefix(all[0].Messages[0].Text, "You are the boss.") {
				t.Fatalf("%d requests", len(all))
			}
			got := all[1].Messages
			want := []messages.Message{{Role: messages.RoleUser, Text: "Sum this"}}
			if c.want != "" {
				want = append([]messages.Message{{Role: messages.RoleSystem, Text: c.want}}, want...)
			}
			if len(got) != len(want) || got[0].Role != want[0].Role || got[0].Text != want[0].Text || got[len(got)-1].Text != "Sum this" {
				t.Errorf("it was asked %+v", got)
			}
			if err := os.RemoveAll(filepath.Join(dir, "sum.md")); err != nil {
				t.Fatal(err)
			}
			if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInstructionsOfLLMMistakes(t *testing.T) {
	for define, c := range map[string]struct {
		files []string
		want  []string // in the error
	}{
		`instructions: {text: a, file: b.md}`: {nil, []string{"define.llms[0].instructions.file", "leave one of them out"}},
		`instructions: {file: gone.md}`:       {nil, []string{"gone.md", "define.llms[0].instructions.file", "cannot read"}},
		`instructions: {file: big.md}`:        {[]string{"big.md", strings.Repeat("x", manifest.MaxInstructions+1)}, []string{"big.md", "define.llms[0].instructions.file", "64KiB"}},
		`instructions: {file: bad.md}`:        {[]string{"bad.md", "\xff"}, []string{"bad.md", "not UTF-8"}},
		`instructions: {file: var.md}`:        {[]string{"var.md", "${NOBODY}"}, []string{"var.md", "define.llms[0].instructions.file", "NOBODY"}},
		`instructions: "${NOBODY}"`:           {nil, []string{"define.llms[0].instructions.text", "NOBODY"}},
		`instructions: "${clock}"`:            {nil, []string{"define.llms[0].instructions.text", "clock"}},
		`instructions: "${LONG}${LONG}"`:      {nil, []string{"define.llms[0].instructions", "65536"}},
		`instruction: a`:                      {nil, []string{"define.llms[0].instruction", "instructions is meant"}},
	} {
		dir := write(t, append([]string{"agent.yaml", "dialect: cortex\nimport: {llms: [sum]}\n" +
			"environment: {variables: {LONG: " + strings.Repeat("l", 40_000) + "}}\ncontext_feeds: [{id: clock, source: {type: internal, action: system_clock}}]\n" +
			"define: {llms: [{kind: LLM, name: sum, template: \"Sum $x\", " + define + "}]}\n"}, c.files...)...)
		a, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
		if err == nil {
			a.Model = says("x")
			_, err = start(t, stile.Config{}).Open(t.Context(), "s", a)
		}
		if messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", define, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v has no %q", define, err, part)
			}
		}
	}
}

// An agent that is called has instructions of its own: those of its manifest, inside its
// parent's or in a file of its own, and never its parent's.
func TestInstructionsOfCalledAgents(t *testing.T) {
	const call = `<action id="a" type="agent">{"name":"helper","parameters":{"task":"dig"}}</action><response>$a</response>`
	for name, files := range map[string][]string{
		"inside":           {"agent.yaml", "dialect: cortex\ninstructions: You are the boss.\nloop: {strict: [unseen]}\nimport: {agents: [helper]}\ndefine: {agents: [{name: helper, dialect: plain, instructions: You dig.}]}\n"},
		"a file":           {"agent.yaml", "dialect: cortex\ninstructions: You are the boss.\nloop: {strict: [unseen]}\nimport: {agents: [helper]}\n", "agents/helper.yaml", "name: helper\ndialect: plain\ninstructions: {file: dig.md}\n", "agents/dig.md", "You dig."},
		"inside, and file": {"agent.yaml", "dialect: cortex\ninstructions: You are the boss.\nloop: {strict: [unseen]}\nimport: {agents: [helper]}\ndefine: {agents: [{name: helper, dialect: plain, instructions: {file: dig.md}}]}\n", "dig.md", "You dig."},
	} {
		t.Run(name, func(t *testing.T) {
			model := &recorder{Model: scripted.New(call, "a hole")}
			a := load(t, write(t, files...))
			a.Model = model
			for _, child := range a.Agents {
				child.Model = model
			}
			rt := start(t, stile.Config{})
			s := open(t, rt, "s", a)
			wantDone(t, ask(t, s, "go"))
			all := model.requests()
			if len(all) != 2 {
				t.Fatalf("%d requests", len(all))
			}
			if system := all[1].Messages[0]; system.Role != messages.RoleSystem || system.Text != "You dig." {
				t.Errorf("the helper was told %+v", system)
			}
		})
	}
}
