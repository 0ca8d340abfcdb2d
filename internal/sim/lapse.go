package sim

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// forgiven are the lints of habits that are put right.
var forgiven = func() map[messages.Code]bool {
	all := map[messages.Code]bool{}
	for h := parse.Habits(1); h <= parse.AllHabits; h <<= 1 {
		all[h.Lint()] = true
	}
	return all
}()

// lapse is a reply as models miss their dialect: habits that are forgiven, told of, or in
// rendering 1 neither. A model that wants to come to an end has none.
func (a *author) lapse(reply []byte) []byte {
	if a.calm || a.rnd.IntN(6) > 0 {
		return reply
	}
	text := string(reply)
	swap := func(old, with string) string { return strings.ReplaceAll(text, old, with) }
	switch a.rnd.IntN(12) {
	case 0:
		text = "```" + a.one("", "xml", "neuroscript", "json") + "\n" + text + "\n```" + a.one("", "\n", "\nThere.")
	case 1:
		text = a.one("Sure, here it is:\n", "Let me see.\n\n") + text + a.one("", "\nThat is all.")
	case 2:
		text = a.one("<think>", "<THINK>", "", "") + a.word() + a.one("</think>\n", "</think>", "\n</think>\n", "") + text
	case 3:
		text = swap("}", ",}")
	case 4:
		text = swap(`":"`, "\":\"\n")
	case 5:
		text = strings.NewReplacer(`"parameters":`, `"arguments":`, `"args":`, `"input":`).Replace(text)
	case 6:
		text = strings.NewReplacer(`"n":1`, `"n":"1"`, `"timeout":`, `"timeout":"1","x":`).Replace(text)
	case 7:
		text = strings.NewReplacer("<action", "<Action", "</action>", "</ACTION>", "<execute>", "<EXECUTE>", "command\n", "Command\n", "<response", "<RESPONSE").Replace(text)
	case 8:
		text = strings.NewReplacer("<execute>[", "<execute>", "]</execute>", "</execute>").Replace(text)
	case 9: // the last marker is missing
		if at := bytes.LastIndexAny(reply, "<e"); at > 0 {
			text = text[:at]
		}
	case 10:
		text = a.word() + " and nothing else"
	default:
		text = a.one("", " \n", "```\n```", "<think>hm</think>")
	}
	return []byte(text)
}
