package stile

import "github.com/seed14be6753/stile/messages"

// Said is one entry of a conversation that was held elsewhere.
type Said = messages.Said

// MaxHistoryBytes bounds the texts of Conversation together.
const MaxHistoryBytes = 1 << 20

// Conversation attaches prior messages to a submit, held elsewhere: the model sees them
// in front of the input, as if they had been said here, and so does every later run of
// the session. They are recorded with the input. Roles are user and assistant; another one,
// or more than MaxHistoryBytes, is ERR_INVALID, and so is any history for an agent whose
// dialect shows its model no transcript (aeiou).
func Conversation(said ...Said) SubmitOption {
	return func(in *messages.Input) { in.History = said }
}

func (s *Session) checkHistory(in *messages.Input) error {
	size := 0
	for _, said := range in.History {
		size += len(said.Text)
		switch {
		case said.Role != messages.RoleUser && said.Role != messages.RoleAssistant:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "its roles are user and assistant"}
		case size > MaxHistoryBytes:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "its texts have more than 1 MiB together"}
		case s.agent.Carries:
			return &messages.Error{Code: messages.ErrInvalid, Field: "history", Detail: "the agent's dialect shows its model no conversation: submit to a session, which remembers by itself"}
		}
	}
	return nil
}

// AgentName is the name of the agent that the session runs under; "" when its manifest
// has none.
func (s *Session) AgentName() string { return s.agent.Manifest.Name }
