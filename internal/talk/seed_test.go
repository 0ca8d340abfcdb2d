package talk

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A new conversation is sent the latest messages, beginning with a question.
func TestOmit(t *testing.T) {
	for _, c := range []struct {
		shape string // s system, f feeds, q question, a assistant, r results
		n     int
		want  string // what is sent
	}{
		{"sqaqaq", 0, "sqaqaq"},
		{"sqaqaq", 9, "sqaqaq"},
		{"sqaqaq", 5, "sqaqaq"},
		{"sqaqaq", 4, "sqaq"},
		{"sqaqaq", 3, "sqaq"},
		{"sqaqaq", 1, "sq"},
		{"qaqaq", 1, "q"},
		{"sfqaq", 1, "sfq"},
		{"sqarar", 2, "sqarar"}, // its only question
		{"sqaqarar", 2, "sqarar"},
		{"sqaqarar", 1, "sqarar"},
		{"sqaqas", 2, "sqas"},
		{"ss", 1, "ss"},
		{"sarar", 1, "sarar"},
		{"", 1, ""},
	} {
		var ms []messages.Message
		for _, k := range c.shape {
			m := messages.Message{Role: messages.RoleUser, Text: string(k)}
			switch k {
			case 's':
				m.Role = messages.RoleSystem
			case 'a':
				m.Role = messages.RoleAssistant
			case 'f':
				m.Holds = messages.HoldsFeeds
			case 'r':
				m.Holds = messages.HoldsResults
			}
			ms = append(ms, m)
		}
		l := omit(ms, c.n)
		got := ""
		for i := range ms {
			if i < l.from || i >= l.to {
				got += ms[i].Text
			}
		}
		if got != c.want {
			t.Errorf("%s, %d: %q is sent, want %q", c.shape, c.n, got, c.want)
		}
	}
}
