package cortex

import (
	_ "embed"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

//go:embed primer.txt
var primerText string

// Primer teaches the blocks, their rules and the fields of an action, then lists
// the tools, one a line, in the order given, each with the schema of its parameters
// where there is one.
func (Dialect) Primer(tools []messages.ToolSpec) string {
	var b strings.Builder
	b.WriteString(primerText)
	b.WriteString("\n## Tools\n\n")
	if len(tools) == 0 {
		b.WriteString("None.\n")
	}
	for _, t := range tools {
		b.WriteString("- " + oneLine(t.Name) + oneLine(t.Signature))
		if d := oneLine(t.Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
		if s := oneLine(t.Schema); s != "" {
			b.WriteString("  parameters: " + s + "\n")
		}
	}
	return b.String()
}

// oneLine makes text from elsewhere harmless in a list: white space runs, line ends
// among them, become one space.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}
