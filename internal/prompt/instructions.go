package prompt

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Given is the placeholder of the instructions that a program gives for a session.
const Given = messages.InstructionsFeed

// Placeholder reads a placeholder ${NAME} or ${NAME:-text} that a text begins with: its name,
// what it stands for when NAME has no value, and how long it is. ok is false for everything
// else that may begin with a dollar sign.
func placeholder(s string) (name, otherwise string, n int, ok bool) {
	if !strings.HasPrefix(s, "${") {
		return "", "", 0, false
	}
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return "", "", 0, false
	}
	name, otherwise, _ = strings.Cut(s[len("${"):end], ":-")
	return name, otherwise, end + 1, isName(name) || name == Given
}

// isName reports whether a text is the name of a variable or a feed.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Placeholders are the names of the placeholders in instructions, in their order.
func Placeholders(text string) (names []string) {
	// Without a value nothing fails.
	_, _ = Expand(text, func(name string) (string, error) {
		names = append(names, name)
		return "", nil
	})
	return names
}

// Expand puts what value gives in the place of ${NAME}, the text behind :- where that is
// nothing, and one dollar sign in that of two. Any other dollar sign stays. What was put in
// is not read again. The first error of value ends it.
func Expand(text string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		text = text[i:]
		name, otherwise, n, ok := placeholder(text)
		switch {
		case ok:
			v, err := value(name)
			if err != nil {
				return "", err
			}
			if v == "" {
				v = otherwise
			}
			b.WriteString(v)
		case strings.HasPrefix(text, "$$"):
			b.WriteByte('$')
			n = len("$$")
		default:
			b.WriteByte('$')
			n = 1
		}
		text = text[n:]
	}
}

// Filled is the value of a feed as instructions have it: without the markers of any dialect.
func Filled(value string) string { return feedBody(value, messages.Rendering) }

// instructions takes those that were made for the run from among the feeds of a turn.
func instructions(fs []messages.Feed) (text string, rest []messages.Feed) {
	for i := range fs {
		if fs[i].ID == messages.InstructionsFeed {
			return FeedBody(fs[i].Value), append(fs[:i:i], fs[i+1:]...)
		}
	}
	return "", fs
}
