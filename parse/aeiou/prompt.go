package aeiou

import (
	"bytes"
	_ "embed"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// emptyProgram is the ACTIONS of an author message: where the author writes.
const emptyProgram = "command\nendcommand"

// maxErrorBytes bounds what of a previous error is repeated to the author.
const maxErrorBytes = 2048

//go:embed primer.txt
var primerText string

// Primer teaches the author rules of docs/spec/aeiou.md §19 and enough NeuroScript to write
// a program, then lists the tools, in the order given: one a line, but those of the
// default set, from version 2 on, a group a line.
func (d Dialect) Primer(tools []messages.ToolSpec) string {
	if d.Rendering >= 2 {
		return d.primer2(tools)
	}
	var b strings.Builder
	b.WriteString(primerText)
	b.WriteString("\n## Tools\n\n")
	if len(tools) == 0 {
		b.WriteString("None besides tool.aeiou.magic.\n")
	}
	for _, t := range tools {
		b.WriteString("- tool." + oneLine(t.Name) + oneLine(t.Signature))
		if d := oneLine(t.Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Render returns the primer and one author message: an envelope with the turn's
// USERDATA, the previous turn's streams and an empty command block
// (docs/spec/design.md §10). Transcript items are not used, the streams are this dialect's history. A
// last error follows behind END, where no parser looks. Lints of composing are in
// the author message.
//
// Render cannot fail: bytes of a stream that are not UTF-8 become U+FFFD, and
// should the input be no USERDATA, which CheckInput prevents, the author gets an
// empty one and is told why.
func (d Dialect) Render(p messages.Projection) []messages.Message {
	input := p.Userdata
	if input == "" {
		input = TextUserdata(strings.ToValidUTF8(p.Text, "\ufffd"))
	}
	env := Envelope{
		Userdata:   []byte(input),
		Scratchpad: validUTF8(Carry(p.Scr)),
		Output:     validUTF8(d.shown(Carry(p.Out))),
		Actions:    []byte(emptyProgram),
	}
	var remarks []string
	if err := CheckUserdata(env.Userdata); err != nil {
		env.Userdata = []byte(`{"subject":"error","fields":{}}`)
		remarks = append(remarks, "This turn's input could not be passed on: "+oneLine(err.Error()))
	}
	if p.Note != "" {
		remarks = append(remarks, oneLine(p.Note))
	}
	told := d.Rendering >= 2 && len(p.Failed) > 0
	if p.LastError != "" && !told {
		remarks = append(remarks, "The previous turn did not go through: "+oneLine(p.LastError))
	}
	text, lints, err := Compose(env)
	if err != nil {
		// USERDATA has passed its check, and JSON holds no marker line; ACTIONS
		// is a constant; the streams are UTF-8 now and cut to fit.
		panic("aeiou: a checked envelope does not compose: " + err.Error())
	}
	for _, r := range remarks {
		text = append(text, "\n"+r+"\n"...)
	}
	if told {
		text = append(text, failures(p.Failed)...)
	}
	primer := p.Primer
	if primer == "" {
		primer = d.Primer(p.Tools)
	}
	return []messages.Message{
		{Role: messages.RoleSystem, Text: primer},
		{Role: messages.RoleUser, Text: string(text), Lints: lints},
	}
}

// validUTF8 returns b itself, or a copy with U+FFFD for what is not UTF-8.
func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\ufffd"))
}

// oneLine is text from elsewhere as one line, cut at maxErrorBytes.
func oneLine(s string) string { return clip.Short(parse.OneLine(s), maxErrorBytes) }
