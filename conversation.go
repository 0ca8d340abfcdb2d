package stile

import (
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/messages"
)

// Said is one entry of a conversation that was held elsewhere.
type Said = messages.Said

// MaxHistoryBytes bounds the texts of Conversation together.
const MaxHistoryBytes = compiler.MaxHistoryBytes

// Conversation attaches prior messages to a submit, held elsewhere: the model sees them
// in front of the input, as if they had been said here, and so does every later run of
// the session. They are recorded with the input. Roles are user and assistant; another one,
// or more than MaxHistoryBytes, is ERR_INVALID, and so is any history for an agent whose
// dialect shows its model no transcript (aeiou).
func Conversation(said ...Said) SubmitOption {
	return func(in *messages.Input) { in.History = said }
}

// AgentName is the name of the agent that the session runs under; "" when its manifest
// has none.
func (s *Session) AgentName() string { return s.agent.Manifest.Name }
