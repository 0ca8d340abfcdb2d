package cortex

import (
	"maps"
	"slices"
	"strings"
)

// lesson teaches one extension: a short section with an example.
type section struct {
	of    Extensions
	short bool // the short primer has it too
	text  func(*primer) string
}

// sections are in the order of docs/spec/extensions.md.
var sections = []section{
	{of: ExtRollback, text: (*primer).undoing},
	{of: ExtStream, text: (*primer).streams},
	{of: ExtSubThoughts, text: func(*primer) string {
		return "## Thoughts in thoughts\n\n" + `<thought label="plan">Look first.<thought label="risk">It may be old.</thought></thought>` + "\n"
	}},
	{of: ExtTemplates, short: true, text: (*primer).templates},
}

// templates lists those of the agent, and says how one is used and made.
func (l *primer) templates() string {
	var b strings.Builder
	b.WriteString("## Templates of actions\n\n")
	for _, name := range slices.Sorted(maps.Keys(l.Templates)) {
		b.WriteString("- template=" + quoted(name) + " (" + strings.Join(l.Templates[name].Params(), ", ") + ")\n")
	}
	switch {
	case len(l.Templates) > 0:
		b.WriteString("\nThe body of such an action has the values: <action template=\"…\" id=\"t1\">{\"with\": {…}}</action>\n")
	case l.Short:
		return ""
	}
	if !l.Short && len(l.tools) > 0 {
		b.WriteString("\nYou may define your own, for the rest of your work:\n\n<action_template name=\"mine\">{\"name\": " + quoted(l.example.Name) +
			", \"params\": [\"x\"], \"parameters\": {\"…\": \"%{x}\"}}</action_template>\n<action template=\"mine\" id=\"t2\">{\"with\": {\"x\": 1}}</action>\n")
	}
	return b.String()
}

// sections writes those of the extensions that are on.
func (l *primer) sections(b *strings.Builder) {
	for i := range sections {
		if section := &sections[i]; l.Extensions&section.of != 0 && (section.short || !l.Short) {
			if text := section.text(l); text != "" {
				b.WriteString("\n" + text)
			}
		}
	}
}

// streams teaches "stream": true with the primer's own example.
func (l *primer) streams() string {
	if len(l.tools) == 0 {
		return ""
	}
	final := ""
	if l.NotFinal {
		final = ` final="true"`
	}
	return "## Results as they grow\n\nThe user sees the result of an async action with \"stream\": true while it comes; ${id.partial} is its text so far.\n\n" +
		`<action type="` + typeName(&l.example) + `" id="s1" mode="async">{"name": ` + quoted(l.example.Name) + `, "parameters": ` + arguments(l.example.Schema) + `, "stream": true}</action>` +
		"\n<response" + final + ">It says: ${s1.partial}</response>\n"
}
