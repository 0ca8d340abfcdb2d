package cortex

import "strings"

// lesson teaches one extension: a short section with an example.
type lesson struct {
	of    Extensions
	short bool // the short primer has it too
	text  func(*primer) string
}

// lessons are in the order of docs/spec/extensions.md.
var lessons = []lesson{
	{of: ExtSubThoughts, text: func(*primer) string {
		return "## Thoughts in thoughts\n\n" + `<thought label="plan">Look first.<thought label="risk">It may be old.</thought></thought>` + "\n"
	}},
}

// lessons writes those of the extensions that are on.
func (l *primer) lessons(b *strings.Builder) {
	for i := range lessons {
		if lesson := &lessons[i]; l.Extensions&lesson.of != 0 && (lesson.short || !l.Short) {
			if text := lesson.text(l); text != "" {
				b.WriteString("\n" + text)
			}
		}
	}
}
