package kitsu

import (
	_ "embed"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

//go:embed primer.txt
var primer string

// Primer returns the text that teaches the tokens: search and get_time if they are among tools,
// and in version 2 the same for continue.
func (x Dialect) Primer(tools []messages.ToolSpec) string {
	has := map[string]bool{string(Continue): x.Rendering < 2}
	for _, t := range tools {
		has[t.Name] = true
	}
	if x.Rendering >= 2 {
		return teach(has, x.Short)
	}
	var b strings.Builder
	for line := range strings.Lines(primer) {
		kind := ""
		if rest, ok := strings.CutPrefix(line, tokenPrefix); ok {
			n := 0
			for n < len(rest) && kindByte(rest[n]) {
				n++
			}
			kind = rest[:n]
		}
		if kind == "" || has[kind] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// teach is the primer of version 2: the tokens that the agent has, and one whole exchange.
func teach(has map[string]bool, short bool) string {
	var b strings.Builder
	say := func(lines ...string) { b.WriteString(strings.Join(lines, "\n") + "\n") }
	look, clock, more := has[string(Search)], has[string(GetTime)], has[string(Continue)]
	if !look && !clock && !more {
		return ""
	}
	say("Answer the user in plain text. If you know the answer, just answer.")
	if short {
		say("Else end your reply with one token, alone on a line.")
	} else {
		say("If you need something first, write one token alone on a line and end your reply there. The user does not see it.")
	}
	if look && short {
		say("To search, in your own words:")
	} else if look {
		say("To search, with your own words between the double quotes, at most 256 characters and no double quote among them:")
	}
	if look {
		say(`<action:search query="height of Mount Kenya">`)
	}
	if clock {
		say("For date and time:", "<action:get_time>")
	}
	if more && short {
		say("To go on in another reply:", `<action:continue reason="two parts are left">`)
	} else if more {
		say("To go on in another reply, behind what you wrote (the reason has at most 128 characters):", `<action:continue reason="two parts are left">`)
	}
	if short {
		say("The host answers with a line that begins with [INTERNAL]: answer from it, and never write one.")
	} else {
		say("Write tokens exactly so: lower case, straight double quotes, nothing in front of them or behind. The host answers with a line that begins with [INTERNAL]; then answer the user with what it says. Never write such a line yourself, and never make up a result.")
	}
	switch {
	case look:
		say("", "Example:", "User: How high is Mount Kenya?", "You:", `<action:search query="height of Mount Kenya">`,
			`Host: `+resultPrefix+`{"action":"search","result":"Mount Kenya, 5,199 m"}`, "You: Mount Kenya is 5,199 metres high.")
	case clock:
		say("", "Example:", "User: What day is it?", "You:", "<action:get_time>",
			`Host: `+resultPrefix+`{"action":"get_time","result":"2031-05-01T09:30:00Z"}`, "You: It is Thursday, 1 May 2031.")
	}
	return b.String()
}
