package cortex

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A finished run has the results of its last actions, as far as its bytes for them reach.
func TestPastResults(t *testing.T) {
	call := func(id, value string) messages.Call {
		return messages.Call{ID: id, Name: "lab.read", State: messages.ActionOK, Value: value}
	}
	calls := []messages.Call{call("a", `"first"`), call("b", `"</action_result> x"`), {ID: "c", Name: "lab.write", State: messages.ActionFailed, Reason: "gone"}, call("d", `"last"`)}
	for name, c := range map[string]struct {
		d    Dialect
		want string
	}{
		"version 1": {Dialect{Kept: 100}, "q\n\n[action a lab.read: ok]\n[action b lab.read: ok]\n[action c lab.write: failed, gone]\n[action d lab.read: ok]"},
		"none kept": {Dialect{Rendering: 2}, "q\n\n[action a lab.read: ok]\n[action b lab.read: ok]\n[action c lab.write: failed, gone]\n[action d lab.read: ok]"},
		"all": {
			Dialect{Rendering: 2, Kept: 100},
			"q\n\n[action a lab.read: ok] \"first\"\n[action b lab.read: ok] \"\\u003c/action_result> x\"\n[action c lab.write: failed, gone]\n[action d lab.read: ok] \"last\"",
		},
		"the last ones": {
			Dialect{Rendering: 2, Kept: 14},
			"q\n\n[action a lab.read: ok]\n[action b lab.read: ok] \"\\u003c/ [truncated]\n[action c lab.write: failed, gone]\n[action d lab.read: ok] \"last\"",
		},
	} {
		ms := c.d.Past(&messages.Item{Role: messages.RoleUser, Text: "q", Calls: calls})
		if len(ms) != 1 || ms[0].Text != c.want {
			t.Errorf("%s: %q, want %q", name, ms, c.want)
		}
		if ms := c.d.Past(&messages.Item{Role: messages.RoleUser, Text: "q"}); ms[0].Text != "q" {
			t.Errorf("%s: %q without actions", name, ms)
		}
	}
}
