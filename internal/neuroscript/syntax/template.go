package syntax

import "strings"

// PlaceholderKind says what stands between {{ and }}.
type PlaceholderKind uint8

// The kinds of placeholders (§6.5).
const (
	PlaceNone PlaceholderKind = iota // there is no further one
	PlaceName                        // {{name}}; Text is the name
	PlaceLast                        // {{last}} or {{LAST}}
	PlaceText                        // {{@symbol}}; Text is what it stands for
)

// Placeholder is one replacement in a text: bytes Start to End become what Kind
// and Text say.
type Placeholder struct {
	Kind       PlaceholderKind
	Start, End int
	Text       string
}

// NextPlaceholder finds the leftmost placeholder of s that begins at or after
// from. All other text stays as it is (§6.5). Time is linear in the text
// passed over.
func NextPlaceholder(s string, from int) Placeholder {
	for {
		i := strings.Index(s[from:], "{{")
		if i < 0 {
			return Placeholder{}
		}
		if p := placeholderAt(s, from+i); p.Kind != PlaceNone {
			return p
		}
		from += i + 1
	}
}

func placeholderAt(s string, start int) Placeholder {
	i := start + 2
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	word := i
	if i < len(s) && s[i] == '@' {
		i++
	}
	for i < len(s) && classes[s[i]]&(classLetter|classDigit) != 0 {
		i++
	}
	name := s[word:i]
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	if name == "" || !strings.HasPrefix(s[i:], "}}") {
		return Placeholder{}
	}
	p := Placeholder{Start: start, End: i + 2}
	switch {
	case name[0] == '@':
		if text, ok := symbolText(name[1:]); ok {
			p.Kind, p.Text = PlaceText, text
		}
	case name == "last" || name == "LAST":
		p.Kind = PlaceLast
	case classes[name[0]]&classLetter != 0 && len(name) <= MaxIdentBytes && keyword(name) == tokIdent:
		p.Kind, p.Text = PlaceName, name
	}
	return p
}

func symbolText(name string) (string, bool) {
	switch name {
	case "nl":
		return "\n", true
	case "cr":
		return "\r", true
	case "tab":
		return "\t", true
	case "sq":
		return "'", true
	case "dq":
		return `"`, true
	case "tsq":
		return "'''", true
	case "tdq":
		return `"""`, true
	case "bt":
		return "`", true
	case "tbt":
		return "```", true
	}
	return "", false
}
