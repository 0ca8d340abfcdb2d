package cortex

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Past returns the messages of one entry of the conversation: a finished run is its user's
// text with a line for each action, and its responses. From version 2 on an action's line
// has its result as far as the run's bytes for results reach, of the last actions first.
func (x Dialect) Past(it *messages.Item) []messages.Message {
	text := it.Text + actionLines(it.Calls)
	if x.Rendering >= 2 && x.Kept > 0 {
		text = it.Text + resultLines(it.Calls, x.Kept)
	}
	return []messages.Message{{Role: it.Role, Text: text, Parts: it.Parts}}
}

// resultLines are actionLines with results of at most so many bytes together. A result is
// JSON, which has no line ends, and escaped as in the run.
func resultLines(calls []messages.Call, most int) string {
	lines := make([]string, len(calls))
	for i := len(calls) - 1; i >= 0; i-- {
		lines[i] = strings.TrimPrefix(actionLines(calls[i:i+1]), "\n\n")
		value := calls[i].Value
		if strings.ContainsAny(value, "\r\n") { // JSON with line ends between its tokens
			value = parse.OneLine(value)
		}
		body, cut := resultBody(value, most)
		if most -= len(body); body == "" {
			continue
		}
		if lines[i] += " " + body; cut {
			lines[i] += " [truncated]"
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n\n" + strings.Join(lines, "\n")
}

// Tell returns the messages of an earlier turn of the run: the model's reply and, as one user
// message, its results.
func (x Dialect) Tell(r *messages.Reply) []messages.Message {
	text, met := results(r.Calls, r.Errors, x.Limits.or().ResultBytes, x.Rendering >= 2)
	for _, remark := range x.remarks(r, text) {
		if text != "" {
			text += "\n\n"
		}
		text += remark
	}
	return []messages.Message{
		{Role: messages.RoleAssistant, Text: cutReply(r.Text)},
		{Role: messages.RoleUser, Text: text, Holds: messages.HoldsResults, Limits: met},
	}
}
