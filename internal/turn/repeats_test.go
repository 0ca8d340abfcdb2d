package turn

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A submit repeats another one when it says the same, however it is taken.
func TestRepeats(t *testing.T) {
	said := func(text string) []messages.Said { return []messages.Said{{Role: messages.RoleUser, Text: text}} }
	recorded := messages.Input{Text: "a\uFFFD", History: said("b\uFFFD"), Key: "k", Policy: messages.Enqueue, User: "ada"}
	for name, c := range map[string]struct {
		again messages.Input
		want  bool
	}{
		"the same":              {messages.Input{Text: "a\uFFFD", History: said("b\uFFFD")}, true},
		"before its repair":     {messages.Input{Text: "a\xff", History: said("b\xff")}, true},
		"under another policy":  {messages.Input{Text: "a\xff", History: said("b\xff"), Policy: messages.Rollback, User: "bob"}, true},
		"another text":          {messages.Input{Text: "b", History: said("b\xff")}, false},
		"another conversation":  {messages.Input{Text: "a\xff", History: said("c")}, false},
		"without conversation":  {messages.Input{Text: "a\xff"}, false},
		"with userdata as well": {messages.Input{Text: "a\xff", History: said("b\xff"), Userdata: "{}"}, false},
	} {
		if got := Repeats(&recorded, &c.again); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
