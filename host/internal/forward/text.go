package forward

import "strings"

// Text is a text that a client is sent in pieces, by one host after the other. Each later host says it
// from its beginning. The zero value is a text of which nothing was sent.
type Text struct {
	sent strings.Builder
	said int // bytes that the host that speaks now has said again
}

// Add adds a piece of the first host's.
func (t *Text) Add(piece string) {
	t.sent.WriteString(piece)
	t.said = t.sent.Len()
}

// Again says that another host speaks.
func (t *Text) Again() { t.said = 0 }

// Behind takes a piece of the host that speaks now, and returns what of it lies behind the text that
// was sent; that counts as sent. same is false when the piece is another text than the one that was sent.
func (t *Text) Behind(piece string) (rest string, same bool) {
	old := t.sent.String()[t.said:]
	n := min(len(old), len(piece))
	if old[:n] != piece[:n] {
		return "", false
	}
	t.said += n
	t.sent.WriteString(piece[n:])
	t.said += len(piece) - n
	return piece[n:], true
}

// Whole reports whether the host that speaks now has said all that was sent.
func (t *Text) Whole() bool { return t.said == t.sent.Len() }
