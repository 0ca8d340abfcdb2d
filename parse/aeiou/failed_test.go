package aeiou

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// The author is told why a turn failed, what it wrote, and what it has done already.
func TestFailedTurns(t *testing.T) {
	paid := messages.Reply{
		Turn: 2, Why: "ERR_ACTIONS_RUNTIME: line 3: no such key", Text: "command\n  emit x\nendcommand\n<<<NSENV:V3:END>>>", Shown: "paid order 7\n",
		Calls: []messages.Call{
			{Name: "bank.pay", Args: "[7]", Class: messages.Effectful, State: messages.ActionOK, Value: `"paid"`},
			{Name: "bank.send", Args: "[8]", Class: messages.Keyed, State: messages.ActionUnknown},
			{Name: "bank.read", Args: "[]", Class: messages.ReadOnly, State: messages.ActionOK},
			{Name: "bank.void", Args: "[9]", Class: messages.Effectful, State: messages.ActionFailed, Reason: "denied"},
		}, MoreCalls: 3,
	}
	told := []string{
		"- tool.bank.pay [7]: ok, \"paid\" [already done, do not repeat]\n", "- tool.bank.send [8]: unknown [already done, do not repeat]\n",
		"- tool.bank.read []: ok\n", "- tool.bank.void [9]: failed (denied)\n", "- and 3 more\n",
		"The user has already seen, from turn 2:\n    paid order 7\n",
	}
	mistake := messages.Reply{Turn: 3, Why: "ERR_ACTIONS_PARSE: line 2:\nthere is no `let`", Text: "command\n\tlet x\rendcommand"}
	crash := messages.Reply{Turn: 3, Why: "ERR_CRASH: the host restarted"}
	before := mistake
	before.Before = true
	for name, c := range map[string]struct {
		failed []messages.Reply
		has    []string
		hasNot []string
	}{
		"in this run":       {[]messages.Reply{paid, mistake}, append(told, "did not go through: ERR_ACTIONS_PARSE: line 2: there is no `let`\n", "    command\n    \tlet x endcommand\n", "write the whole program again"), []string{"emit x", "line 3"}},
		"the first":         {[]messages.Reply{paid}, append(told, "line 3: no such key", "    <<<NSENV:V3:END>>>\n"), nil},
		"a crash behind it": {[]messages.Reply{before, paid, crash}, append(told, "did not go through: ERR_CRASH: the host restarted\n", "Turn 2 had failed: ERR_ACTIONS_RUNTIME: line 3: no such key\n"), []string{"Turn 3 had failed", "ERR_ACTIONS_PARSE"}},
		"of the run before": {
			[]messages.Reply{before}, []string{"for the message before this one failed: ERR_ACTIONS_PARSE"}, []string{"let x", "write the whole program again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := messages.Projection{Text: "go", LastError: "the last error", Failed: c.failed}
			got := Dialect{Rendering: 2}.Render(p)[1].Text
			_, behind, ok := strings.Cut(got, "<<<NSENV:V3:END>>>\n")
			if !ok || strings.Contains(got, p.LastError) {
				t.Errorf("%s", got)
			}
			for _, want := range c.has {
				if !strings.Contains(behind, want) {
					t.Errorf("no %q in\n%s", want, behind)
				}
			}
			for _, line := range c.hasNot {
				if strings.Contains(behind, line) {
					t.Errorf("%q in\n%s", line, behind)
				}
			}
			if old := (Dialect{}).Render(p)[1].Text; !strings.HasSuffix(old, "\nThe previous turn did not go through: the last error\n") {
				t.Errorf("the first version changed:\n%s", old)
			}
		})
	}
}
