package plain

import "github.com/seed14be6753/stile/messages"

// Past returns the messages of one entry of the conversation.
func (Dialect) Past(it *messages.Item) []messages.Message {
	return []messages.Message{{Role: it.Role, Text: it.Text, Parts: it.Parts}}
}

// Tell returns nil: a plain prompt does not repeat earlier turns of the run.
func (Dialect) Tell(*messages.Reply) []messages.Message { return nil }
