package cortex

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

//go:embed primer.txt
var primerText string

// Primer teaches the blocks, their rules and the fields of an action, then lists
// the tools, one a line, in the order given, and after them the other targets, each with the
// schema of its parameters if it has one.
func (x Dialect) Primer(tools []messages.ToolSpec) string {
	if x.Rendering >= 2 {
		return x.newPrimer(tools).text()
	}
	var b strings.Builder
	x.rules(&b)
	b.WriteString("\n## Tools\n\n")
	others := slices.IndexFunc(tools, func(t messages.ToolSpec) bool { return t.Type != "" && t.Type != messages.TypeTool })
	if others < 0 {
		others = len(tools)
	}
	if others == 0 {
		b.WriteString("None.\n")
	}
	for _, t := range tools[:others] {
		spec(&b, &t, "")
	}
	if others < len(tools) {
		b.WriteString("\n## Other actions\n\nCalled like tools, with the type in the tag.\n\n")
	}
	for _, t := range tools[others:] {
		spec(&b, &t, "type=\""+parse.OneLine(string(t.Type))+"\" ")
	}
	return b.String()
}

// The words about sync actions, for which primer.txt leaves room.
var (
	gateWords = strings.NewReplacer(
		"{sync}", "what follows waits for it",
		"{advice}", "Independent actions are best async; use sync for what the rest of this reply rests on.")
	cutWords = strings.NewReplacer(
		"{sync}", "it ends your reply at its closing tag, and your next turn has its result",
		"{advice}", "Independent actions are best async; use sync for what you must know before you go on, and write nothing behind it.")
)

// The words about final responses.
var (
	finalWords   = strings.NewReplacer("{partial}", ` final="false"`, "{whole}", "", "{final}", `unless it says final="false"`)
	partialWords = strings.NewReplacer("{partial}", "", "{whole}", ` final="true"`, "{final}", `only if it says final="true"`)
)

// rules writes the primer's text.
func (x Dialect) rules(b *strings.Builder) {
	sync, final := gateWords, finalWords
	if x.Cut {
		sync = cutWords
	}
	if x.NotFinal {
		final = partialWords
	}
	b.WriteString(final.Replace(sync.Replace(primerText)))
}

// spec writes one line, and one for the schema.
func spec(b *strings.Builder, t *messages.ToolSpec, typ string) {
	b.WriteString("- " + typ + parse.OneLine(t.Name) + parse.OneLine(t.Signature))
	if d := parse.OneLine(t.Description); d != "" {
		b.WriteString(": " + d)
	}
	b.WriteByte('\n')
	if s := parse.OneLine(t.Schema); s != "" {
		b.WriteString("  parameters: " + s + "\n")
	}
}
