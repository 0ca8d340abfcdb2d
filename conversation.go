package stile

import (
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/messages"
)

// Said is one message of a conversation with roles user and assistant.
type Said = messages.Said

// MaxHistoryBytes bounds the sum of the texts of a Conversation.
const MaxHistoryBytes = compiler.MaxHistoryBytes

// Conversation attaches the messages of an earlier conversation to a submit: the model sees
// them before the input, in this and every later run of the session. They are recorded with
// the input. Roles are user and assistant. Submit returns ERR_INVALID for another role, for
// more than MaxHistoryBytes, and for an agent whose dialect shows its model no transcript
// (aeiou).
func Conversation(history ...Said) SubmitOption {
	return func(in *messages.Input) { in.History = history }
}

// AgentName returns the name in the manifest of the session's agent; "" when it has none.
func (s *Session) AgentName() string { return s.agent.Manifest.Name }
