package compiler

import "github.com/seed14be6753/stile/messages"

// MaxHistoryBytes bounds the texts of a conversation that a caller sends with an input.
const MaxHistoryBytes = 1 << 20

// CheckHistory returns ERR_INVALID for a conversation that cannot come with an input of the
// agent: roles other than user and assistant, too many bytes, or a dialect without transcripts.
func (c *Agent) CheckHistory(history []messages.Said) error {
	size := 0
	for _, message := range history {
		size += len(message.Text)
		switch {
		case message.Role != messages.RoleUser && message.Role != messages.RoleAssistant:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "its roles are user and assistant"}
		case size > MaxHistoryBytes:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "its texts have more than 1 MiB together"}
		case c.Carries:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "the agent's dialect shows its model no conversation: submit to a session, which remembers by itself"}
		}
	}
	return nil
}
