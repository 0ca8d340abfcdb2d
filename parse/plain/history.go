package plain

import "github.com/seed14be6753/stile/messages"

// Past is what Render makes of one entry of the conversation.
func (Dialect) Past(it *messages.Item) []messages.Message {
	return []messages.Message{{Role: it.Role, Text: it.Text}}
}

// Tell is nothing: what was said before in a run has no place in plain talk.
func (Dialect) Tell(*messages.Reply) []messages.Message { return nil }
