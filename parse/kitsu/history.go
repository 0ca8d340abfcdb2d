package kitsu

import "github.com/seed14be6753/stile/messages"

// Past returns the messages of one entry of the conversation, in which nothing looks like the
// host's line.
func (x Dialect) Past(it *messages.Item) []messages.Message {
	text := it.Text
	if x.Rendering >= 2 {
		if it.Role == messages.RoleAssistant {
			text = visible(text, true)
		}
		if text == "" {
			return nil
		}
		return []messages.Message{{Role: it.Role, Text: text, Parts: it.Parts}}
	}
	if it.Role == messages.RoleAssistant {
		text = Visible(text)
	} else {
		text = Defuse(text)
	}
	return []messages.Message{{Role: it.Role, Text: text, Parts: it.Parts}}
}

// Tell returns nil: the results of a run are in the message of its user.
func (Dialect) Tell(*messages.Reply) []messages.Message { return nil }
