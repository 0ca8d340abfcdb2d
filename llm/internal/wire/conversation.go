package wire

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Raw is a JSON value as the provider wrote it.
type Raw = jsontext.Value

// Turns is a prompt in the shape that all vendors share: what the system says, then
// user and assistant in turn, the user first and last.
type Turns struct {
	System string // its messages joined by blank lines
	Turns  []Turn
}

// Turn is what one side said before the other answered: at least one text, none empty.
type Turn struct {
	Role  messages.Role
	Texts []string
}

// earlier stands where a prompt begins with the model's words, as a cut history does.
const earlier = "(Earlier messages are left out.)"

// Conversation orders a prompt. Empty messages are left out: providers refuse them. It
// fails when there is nothing to answer.
func Conversation(ms []messages.Message) (Turns, error) {
	var out Turns
	var system []string
	for i := range ms {
		m := &ms[i]
		switch {
		case strings.TrimSpace(m.Text) == "":
		case m.Role == messages.RoleSystem:
			system = append(system, m.Text)
		case len(out.Turns) > 0 && out.Turns[len(out.Turns)-1].Role == m.Role:
			last := &out.Turns[len(out.Turns)-1]
			last.Texts = append(last.Texts, m.Text)
		default:
			if len(out.Turns) == 0 && m.Role == messages.RoleAssistant {
				out.Turns = append(out.Turns, Turn{Role: messages.RoleUser, Texts: []string{earlier}})
			}
			out.Turns = append(out.Turns, Turn{Role: m.Role, Texts: []string{m.Text}})
		}
	}
	out.System = strings.Join(system, "\n\n")
	if n := len(out.Turns); n == 0 || out.Turns[n-1].Role != messages.RoleUser {
		return Turns{}, errors.New("there is no message to answer")
	}
	return out, nil
}
