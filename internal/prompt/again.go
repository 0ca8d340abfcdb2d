package prompt

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// askAgain ends a prompt with what is wrong with the answer that the model gave, behind
// that answer: a dialect need not show the model what it wrote.
func askAgain(p *messages.Projection, rendered []messages.Message) []messages.Message {
	if p.Refused == "" {
		return rendered
	}
	rendered = slices.Clip(rendered)
	if n := len(p.Replies); n > 0 {
		reply := strings.TrimSpace(p.Replies[n-1].Text)
		shown := slices.ContainsFunc(rendered, func(m messages.Message) bool {
			return m.Role == messages.RoleAssistant && strings.Contains(m.Text, reply)
		})
		if reply != "" && !shown {
			rendered = append(rendered, messages.Message{Role: messages.RoleAssistant, Text: reply})
		}
	}
	text := "Your answer was not shown: it does not fit the schema. " + p.Refused + "\nGive the whole answer again, so that it fits."
	if last := len(rendered) - 1; last >= 0 && rendered[last].Role == messages.RoleUser {
		rendered = slices.Clone(rendered)
		rendered[last].Text += "\n\n" + text
		return rendered
	}
	return append(rendered, messages.Message{Role: messages.RoleUser, Text: text})
}
