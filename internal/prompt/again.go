package prompt

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Of a reply that broke off, and whose run goes on.
const (
	brokeOffShown  = "Your reply broke off. The user has read what is above: go on behind it in a new paragraph, and do not repeat it."
	brokeOffUnseen = "Your reply broke off before the user could read any of it. Reply again."
)

// brokenOff is what the model is told of a turn whose reply broke off.
func (r *run) brokenOff(turn int64) string {
	for i := range r.responses {
		if r.responses[i].turn == turn && strings.TrimSpace(r.responses[i].Text) != "" {
			return brokeOffShown
		}
	}
	return brokeOffUnseen
}

// askAgain ends a prompt with what is wrong with the answer that the model gave, or that its
// reply broke off, behind that reply: a dialect need not show the model what it wrote.
func askAgain(p *messages.Projection, rendered []messages.Message) []messages.Message {
	text := p.Broken
	if p.Refused != "" {
		text = "Your answer was not shown: it does not fit the schema. " + p.Refused + "\nGive the whole answer again, so that it fits."
	}
	if text == "" {
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
	if last := len(rendered) - 1; last >= 0 && rendered[last].Role == messages.RoleUser {
		rendered = slices.Clone(rendered)
		rendered[last].Text += "\n\n" + text
		return rendered
	}
	return append(rendered, messages.Message{Role: messages.RoleUser, Text: text})
}
