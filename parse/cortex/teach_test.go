package cortex

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// oneTool has two scalar parameters: what the bounds of primers are counted with.
var oneTool = []messages.ToolSpec{{
	Name: "file.read", Signature: "(path, start?)", Description: "The text of a file.",
	Schema: `{"type":"object","properties":{"path":{"type":"string"},"start":{"type":"integer"}},"required":["path"],"additionalProperties":false}`,
}}

var session = []messages.ToolSpec{
	{Type: messages.TypeInternal, Name: messages.InternalAddFeed, Signature: "(id, source?)", Description: "Adds a feed."},
	{Type: messages.TypeInternal, Name: messages.InternalListFeeds, Signature: "()", Description: "Lists the feeds."},
	{Type: messages.TypeInternal, Name: messages.InternalRemoveFeed, Signature: "(id)", Description: "Removes a feed."},
}

var everything = append(append([]messages.ToolSpec{
	{
		Name: "set", Signature: "(mode, n, tags)", Description: "Sets\n it.",
		Schema: `{"type":"object","properties":{"mode":{"type":"string","enum":["on","off"]},"n":{"type":"number"},"tags":{"type":"array"},"x":{"type":"object"}},"required":["mode","n","tags"]}`,
	},
	oneTool[0],
	{Name: "now", Signature: "()"},
	{Type: messages.TypeAgent, Name: "writer", Signature: "(task)", Description: "Writes.", Schema: `{"type":"object","properties":{"task":{"type":"string"}},"required":["task"]}`},
	{Type: messages.TypeRelic, Name: "cache", Signature: "(operation, …)", Description: "Keeps values."},
}, session...), messages.ToolSpec{Type: messages.TypeInternal, Name: messages.InternalSetVariable, Signature: "(name, value)", Description: "Keeps a value."})

// A primer of the second rendering teaches what the agent has in few bytes, and what its
// examples say the dialect reads without a complaint.
func TestSecondPrimer(t *testing.T) {
	full, brief := Dialect{Rendering: 2}, Dialect{Rendering: 2, Short: true}
	for _, c := range []struct {
		name  string
		x     Dialect
		specs []messages.ToolSpec
		most  int // bytes
	}{
		{"none", full, nil, 1024},
		{"none-short", brief, nil, 512},
		{"one", full, append(append([]messages.ToolSpec(nil), oneTool...), session...), 3072},
		{"one-short", brief, append(append([]messages.ToolSpec(nil), oneTool...), session...), 1536},
		{"session", full, session, 3072},
		{"several", full, everything, 4096},
		{"several-short", brief, everything, 2048},
		{"cut", Dialect{Rendering: 2, Cut: true}, oneTool, 3072},
		{"partial", Dialect{Rendering: 2, NotFinal: true}, oneTool, 3072},
	} {
		text := c.x.Primer(c.specs)
		if len(text) > c.most {
			t.Errorf("%s: %d bytes, at most %d", c.name, len(text), c.most)
		}
		golden(t, "primer2-"+c.name+".golden", text)
		x := c.x
		x.Forgive = lenient.Forgive
		form, _, _ := strings.Cut(strings.TrimPrefix(text, text[:strings.Index(text, "\n\n<")]), "\n\n- ")
		said, actions := 0, 0
		for _, reply := range append(strings.Split(form, "\n\n<response")[:1], parts(text)...) {
			got := everyCut(t, x, reply)
			for _, e := range got.canonical {
				switch e["ev"] {
				case "error", "lint", "text":
					t.Errorf("%s: %q: %v", c.name, reply, e)
				case "action":
					actions++
				case "response":
					said++
					if e["final"] != true {
						t.Errorf("%s: the answer is not final: %v", c.name, e)
					}
				}
			}
		}
		if callable := len(c.specs) > 0; callable != (actions > 0) || (callable && c.name != "session") != (said > 0) {
			t.Errorf("%s: %d actions, %d responses", c.name, actions, said)
		}
		for _, word := range []string{"relic", "workflow", "llm", "agent"} {
			if has := strings.Contains(text, word); has && c.name != "several" && c.name != "several-short" {
				t.Errorf("%s: teaches %s", c.name, word)
			}
		}
	}
}

// parts are the replies of a primer's exchange.
func parts(primer string) (replies []string) {
	for _, part := range strings.Split(primer, "You write:\n\n")[1:] {
		part, _, _ = strings.Cut(part, "\n\nYou are told")
		part, _, _ = strings.Cut(part, "\n\n## ")
		replies = append(replies, part)
	}
	return replies
}
