package resume

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A reply is found in a prompt by its text but for white space, however its pieces were cut, and
// only where the prompt says that of it which a provider accepts behind it.
func TestSaid(t *testing.T) {
	const (
		call   = `{"said":"I look.","calls":[{"id":"c1","name":"f","args":"{}"}]}`
		noID   = `{"said":"I look.","calls":[{"name":"f","args":"{}"}]}`
		result = `{"results":[{"id":"c1","name":"f","text":"7"}]}`
		other  = `{"results":[{"name":"f","text":"7"}]}`
	)
	a := func(text, native string) messages.Message {
		return messages.Message{Role: messages.RoleAssistant, Text: text, Native: native}
	}
	u := func(native string) messages.Message {
		return messages.Message{Role: messages.RoleUser, Text: "then", Native: native}
	}
	for name, c := range map[string]struct {
		said   string
		counts int64
		called bool
		made   bool
		prompt []messages.Message
		want   bool
	}{
		"the same":                    {said: "one two", counts: -1, prompt: []messages.Message{a("one two", ""), u("")}, want: true},
		"white space":                 {said: " one\r\n two\t", counts: -1, prompt: []messages.Message{a("onetwo", ""), u("")}, want: true},
		"nothing":                     {said: "", counts: -1, prompt: []messages.Message{a(" ", ""), u("")}, want: true},
		"another":                     {said: "one two", counts: -1, prompt: []messages.Message{a("one three", ""), u("")}},
		"another, made of the record": {said: "one two", counts: -1, made: true, prompt: []messages.Message{a("one three", ""), u("")}, want: true},
		"in part":                     {said: "one two", counts: 3, prompt: []messages.Message{a("one", ""), u("")}},
		"in part, made of the record": {said: "one two", counts: 3, made: true, prompt: []messages.Message{a("one", ""), u("")}},
		"but for white space behind":  {said: "one \n", counts: 3, prompt: []messages.Message{a("one", ""), u("")}, want: true},
		"the prompt ends with it":     {said: "one", counts: -1, made: true, prompt: []messages.Message{a("one", "")}},
		"the user's":                  {said: "then", counts: -1, made: true, prompt: []messages.Message{u(""), u("")}},
		"two messages of it":          {said: "one", counts: -1, made: true, prompt: []messages.Message{a("one", ""), a("two", "")}},
		"with calls":                  {said: "I look.", counts: -1, called: true, made: true, prompt: []messages.Message{a("I look.", call), u(result)}, want: true},
		"calls that are told as text": {said: "I look.", counts: -1, called: true, made: true, prompt: []messages.Message{a("I look.", ""), u("")}},
		"calls that it did not make":  {said: "I look.", counts: -1, made: true, prompt: []messages.Message{a("I look.", call), u(result)}},
		"a call without its result":   {said: "I look.", counts: -1, called: true, made: true, prompt: []messages.Message{a("I look.", call), u("")}},
		"a call without its id":       {said: "I look.", counts: -1, called: true, made: true, prompt: []messages.Message{a("I look.", noID), u(other)}},
	} {
		for size := 1; size <= 8; size++ {
			var s Said
			for at := 0; at < len(c.said); at += size {
				s.Add([]byte(c.said[at:min(at+size, len(c.said))]), c.counts)
			}
			if c.called {
				s.Called()
			}
			prompt := append([]messages.Message{{Role: messages.RoleUser, Text: "q"}}, c.prompt...)
			if got := s.In(prompt, 1, c.made); got != c.want {
				t.Errorf("%s, in pieces of %d: %v", name, size, got)
			}
		}
	}
}
