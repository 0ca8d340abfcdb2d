package tests

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Each meter halts with its code; the detail names meter and limit, and so do the
// control record and the metric. No handler catches it, and no token counts.
func TestMeters(t *testing.T) {
	handler := "on error as e do\nclear_error\nendon"
	repeat := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	for name, c := range map[string]struct {
		lines  string
		change func(*manifest.Manifest)
		code   messages.Code
		meter  string // in the control record
		limit  string
	}{
		"gas":         {"while true\nset x = 1\nendwhile", nil, messages.ErrQuota, "GAS", "1000000"},
		"gas lowered": {"set x = 1\n" + repeat(60, "set x = 2"), func(m *manifest.Manifest) { m.Quotas.Gas = 100 }, messages.ErrQuota, "GAS", "100"},
		"alloc": {
			"set s = \"0123456789\"\nwhile true\nset t = s + s\nendwhile",
			func(m *manifest.Manifest) { m.Quotas.Alloc = 4096 }, messages.ErrQuota, "ALLOC", "4096",
		},
		"value": {
			"set s = \"0123456789\"\nwhile true\nset s = s + s\nendwhile",
			func(m *manifest.Manifest) { m.Quotas.Value = 1000 }, messages.ErrQuota, "VALUE", "1000",
		},
		"emits": {"while true\nemit 1\nendwhile", nil, messages.ErrQuota, "EMITS", "10000"},
		"tools": {
			repeat(300, `set x = tool.str.ToUpper("a")`) + repeat(4, "set x = tool.test.read()"),
			func(m *manifest.Manifest) { m.Quotas.Calls = 3 }, messages.ErrQuota, "TOOLS", "3",
		},
		"emits lowered": {repeat(3, "emit 1"), func(m *manifest.Manifest) { m.Quotas.Emits = 2 }, messages.ErrQuota, "EMITS", "2"},
		"magic":         {repeat(33, `set x = tool.aeiou.magic("LOOP", {"action": "done"})`), nil, messages.ErrQuota, "MAGIC", "32"},
		"output":        {repeat(3, `emit "0123456789"`), func(m *manifest.Manifest) { m.Quotas.Output = 25 }, messages.ErrEnvSize, "OUTPUT", "25"},
		"output at the protocol's limit": {
			"set s = \"0123456789abcdef\"\nset s = s + s + s + s\nset s = s + s + s + s\nset s = s + s + s + s\nwhile true\nemit s\nendwhile",
			nil, messages.ErrEnvSize, "OUTPUT", "524288",
		},
		"line": {
			"set s = \"0123456789abcdef\"\nset s = s + s + s + s + s + s + s + s\nset s = s + s + s + s + s + s + s + s\nset s = s + s + s + s + s + s + s + s\nemit s + \"x\"",
			nil, messages.ErrEnvSize, "LINE", "8192",
		},
		"actions": {repeat(3, "set x = tool.test.read()"), func(m *manifest.Manifest) { m.Quotas.Actions = 2 }, messages.ErrQuota, "actions", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				a := agent(says(program(handler, sayDone, c.lines)), c.change, tool("test.read", messages.ReadOnly, gives("x")))
				s := open(t, rt, "metered", a)
				o := ask(t, s, "go")
				wantHalt(t, o, c.code, c.meter, c.limit)
				if o.Turn.JTI != "" {
					t.Error("a token of a turn that did not complete counts")
				}
				if ctl := control(t, records(t, s), messages.ControlBreach); ctl.Name != c.meter || ctl.Code != c.code || !contains(ctl.Detail, c.limit) {
					t.Errorf("control %+v", ctl)
				}
				if n := metric(t, rt, "quota_breach_total", "kind", strings.ToLower(c.meter)); n != 1 {
					t.Errorf("%v breaches counted, want 1", n)
				}
				wantHalt(t, ask(t, s, "again"), c.code)
			})
		})
	}
}

// The meter of nested calls counts calls of library functions.
func TestDepthMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		a := agent(says(program("set x = down(1)", sayDone)), func(m *manifest.Manifest) { m.Quotas.Depth = 5 })
		a.Library = []neuroscript.Source{{Name: "deep", Text: []byte("func down(needs n returns r) means\nset r = down(n + 1)\nreturn r\nendfunc\n")}}
		s := open(t, rt, "deep", a)
		wantHalt(t, ask(t, s, "go"), messages.ErrQuota, "DEPTH", "5")
	})
}

// Tokens and cost are counted over the run, from what the model reports.
func TestModelBudgets(t *testing.T) {
	reply := func(input, output, cost int) string {
		return fmt.Sprintf(`{"chunks":[{"text":%q}],"usage":{"input":%d,"output":%d,"cost_micro_usd":%d}}`+"\n",
			program(`emit userdata["subject"]`, sayContinue), input, output, cost)
	}
	for name, c := range map[string]struct {
		script string
		meter  string
		limit  string
		turns  int64
	}{
		"tokens": {strings.Repeat(reply(90, 10, 0), 3), "tokens", "250", 3},
		"cost":   {strings.Repeat(reply(1, 1, 400_000), 3), "cost_usd", "1000000", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script, err := scripted.Parse("budget.jsonl", []byte(c.script))
				if err != nil {
					t.Fatal(err)
				}
				rt := start(t, stile.Config{})
				s := open(t, rt, "costly", agent(script, func(m *manifest.Manifest) { m.Quotas.Tokens = 250; m.Loop.NoProgressN = 100 }))
				o := ask(t, s, "go")
				wantHalt(t, o, messages.ErrQuota, c.meter, c.limit)
				if o.Turns != c.turns {
					t.Errorf("halted in turn %d, want %d", o.Turns, c.turns)
				}
			})
		})
	}
}

// A reply without end is cut off at its limit.
func TestReplyMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "endless", &stile.Agent{Dialect: "plain", Model: says(strings.Repeat("x", 8<<20+1))})
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrQuota)
		if !contains(o.Detail, "8388608") {
			t.Errorf("detail %q names no limit", o.Detail)
		}
	})
}

// More than 64 actions in one turn fail one by one; the program may go on.
func TestGenerationCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		lines := "on error as e do\nemit \"caught \" + e.code\nclear_error\nendon\n" + strings.Repeat("set x = tool.test.read()\n", 66)
		s := open(t, rt, "many", agent(says(program(lines, sayDone)), func(m *manifest.Manifest) { m.Quotas.ReplyActions = 64 }, tool("test.read", messages.ReadOnly, gives("x"))))
		wantDone(t, ask(t, s, "go"))
		if got := texts(records(t, s)); len(got) != 2 || got[0] != "caught 21" {
			t.Errorf("emitted %q", got)
		}
	})
}
