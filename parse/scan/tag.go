package scan

import "unicode/utf8"

// Limits of a tag (streaming.md §1).
const (
	MaxTagBytes   = 4096 // from "<" to ">"
	MaxAttributes = 32   // repeated keys count
)

// A Set is a set of names of a Grammar: bit i stands for Names[i]. That is why a
// Grammar has at most 32.
type Set uint32

// A Grammar says which tags there are. It is immutable once in use and may be
// shared.
//
//	open  = "<" name *( 1*WS attr ) *WS [ "/" ] ">"
//	close = "</" name *WS ">"
//	attr  = key [ *WS "=" *WS value ]
//	key   = [A-Za-z_] *[A-Za-z0-9_.-]
//	value = DQ *(not DQ) DQ / SQ *(not SQ) SQ / "[" *(not "]") "]" /
//	        1*( any but WS " ' = < > ` / [ ] )
//
// WS is space, tab, CR, LF. No value holds "<", no quoted one CR or LF.
type Grammar struct {
	Names    []string // at most 32, of ASCII letters and "_"
	MaxBytes int      // of a tag; 0 is MaxTagBytes
}

// All is the set of all names.
func (g *Grammar) All() Set { return Set(1)<<len(g.Names) - 1 }

// Result is what a byte did to a tag.
type Result uint8

// The results of Step.
const (
	More Result = iota // the byte belongs to the tag, and it goes on
	Done               // the byte ends the tag
	Not                // it is no tag: no name that is looked for
	Bad                // it is one, but the byte breaks its grammar or limits
)

// Attr is where an attribute stands, as offsets from the tag's "<". A key without
// a value has an empty one.
type Attr struct{ Key, KeyEnd, Value, ValueEnd int32 }

// Tag follows one tag byte by byte. Bytes are whole characters' (see UTF8). The
// caller keeps them: at most Grammar.MaxBytes, because Step ends what gets longer.
//
//	Begin, then Step for each byte after "<" until the result is not More. After
//	Not and Bad the byte is not part of the tag, which is text; as it holds no
//	second "<", all of it is.
type Tag struct {
	grammar *Grammar
	open    Set // names that still fit, as an opener
	close   Set // and as a closer
	phase   phase
	name    int
	n       int // bytes, "<" included
	nameAt  int
	closing bool
	selfEnd bool
	attrs   [MaxAttributes]Attr
	nAttrs  int
}

type phase uint8

const (
	phaseLead     phase = iota // behind "<"
	phaseName                  // in the name
	phaseGap                   // behind WS: an attribute or the end may come
	phaseKey                   // in a key
	phaseAfterKey              // behind WS behind a key
	phaseEquals                // behind "="
	phaseDouble                // in a value
	phaseSingle
	phaseBracket
	phaseBare
	phaseValueEnd // behind a closing quote or bracket
	phaseSlash    // behind the "/" of a tag that closes itself
	phaseClose    // behind the name of a closer
)

// Begin starts a tag at a "<": only openers and closers of these names count.
func (t *Tag) Begin(g *Grammar, open, close Set) {
	t.grammar, t.open, t.close = g, open, close
	t.phase, t.n, t.name, t.nAttrs = phaseLead, 1, -1, 0
	t.closing, t.selfEnd = false, false
}

// Known tells that the name and the byte after it have come.
func (t *Tag) Known() bool { return t.name >= 0 }

// Name is the index of the name in the grammar, −1 before it is known.
func (t *Tag) Name() int { return t.name }

// Closing tells a closer from an opener, once "/" has come.
func (t *Tag) Closing() bool { return t.closing }

// SelfClosing tells an opener that ends with "/>".
func (t *Tag) SelfClosing() bool { return t.selfEnd }

// Len is the bytes taken, "<" included.
func (t *Tag) Len() int { return t.n }

// Attrs are the attributes of a tag that is Done, in order. The slice is valid
// until Begin.
func (t *Tag) Attrs() []Attr { return t.attrs[:t.nAttrs] }

// Step takes the next byte.
func (t *Tag) Step(c byte) Result {
	if t.phase <= phaseName {
		return t.stepName(c)
	}
	if t.tooLong(c) {
		return Bad
	}
	r := t.step(c)
	if r <= Done {
		t.n++
	}
	return r
}

// tooLong judges a character at its first byte, so that a tag that is text after
// all ends with a whole one.
func (t *Tag) tooLong(c byte) bool {
	size := 1
	switch {
	case c >= 0xf0:
		size = 4
	case c >= 0xe0:
		size = 3
	case c >= 0xc0:
		size = 2
	case c >= utf8.RuneSelf: // its first byte has been judged
		return false
	}
	limit := t.grammar.MaxBytes
	if limit == 0 {
		limit = MaxTagBytes
	}
	return t.n+size > limit
}

// stepName matches the name: the sets lose every name that does not fit, so that
// "<" stops being held back at the first byte that cannot be.
func (t *Tag) stepName(c byte) Result {
	if t.phase == phaseLead {
		t.phase = phaseName
		t.nameAt = t.n
		if c == '/' && t.close != 0 {
			t.closing, t.open = true, t.close
			t.n++
			t.nameAt = t.n
			return More
		}
	}
	k := t.n - t.nameAt
	ends := isWhite(c) || c == '>' || c == '/' && !t.closing
	for i, left := 0, t.open; left != 0; i, left = i+1, left>>1 {
		if left&1 == 0 {
			continue
		}
		name := t.grammar.Names[i]
		switch {
		case k < len(name) && name[k] == c:
		case ends && k == len(name):
			t.name = i
			t.n++
			return t.named(c)
		default:
			t.open &^= 1 << i
		}
	}
	if t.open == 0 {
		return Not
	}
	t.n++
	return More
}

// named takes the byte behind the name.
func (t *Tag) named(c byte) Result {
	switch {
	case c == '>':
		return Done
	case c == '/':
		t.phase = phaseSlash
	case t.closing:
		t.phase = phaseClose
	default:
		t.phase = phaseGap
	}
	return More
}

func (t *Tag) step(c byte) Result {
	switch t.phase {
	case phaseGap:
		return t.gap(c)
	case phaseKey:
		if isKeyByte(c) {
			return More
		}
		t.attrs[t.nAttrs-1].KeyEnd = int32(t.n)
		if c == '=' {
			t.phase = phaseEquals
			return More
		}
		return t.behind(c, phaseAfterKey)
	case phaseAfterKey:
		if c == '=' {
			t.phase = phaseEquals
			return More
		}
		return t.gap(c)
	case phaseEquals:
		return t.value(c)
	case phaseDouble, phaseSingle, phaseBracket:
		return t.quoted(c)
	case phaseBare:
		if isBare(c) {
			return More
		}
		t.attrs[t.nAttrs-1].ValueEnd = int32(t.n)
		return t.behind(c, phaseGap)
	case phaseValueEnd:
		return t.behind(c, phaseGap)
	case phaseSlash:
		if c == '>' {
			t.selfEnd = true
			return Done
		}
	case phaseClose:
		if isWhite(c) {
			return More
		}
		if c == '>' {
			return Done
		}
	}
	return Bad
}

// gap takes a byte where an attribute may begin.
func (t *Tag) gap(c byte) Result {
	if !isKeyStart(c) {
		return t.behind(c, t.phase)
	}
	if t.nAttrs == MaxAttributes {
		return Bad
	}
	t.attrs[t.nAttrs] = Attr{Key: int32(t.n)}
	t.nAttrs++
	t.phase = phaseKey
	return More
}

// behind takes a byte that ends what was before it: WS leads to next.
func (t *Tag) behind(c byte, next phase) Result {
	switch {
	case isWhite(c):
		t.phase = next
		return More
	case c == '/':
		t.phase = phaseSlash
		return More
	case c == '>':
		return Done
	}
	return Bad
}

// value takes the first byte of a value.
func (t *Tag) value(c byte) Result {
	a := &t.attrs[t.nAttrs-1]
	a.Value = int32(t.n) + 1
	switch {
	case isWhite(c):
	case c == '"':
		t.phase = phaseDouble
	case c == '\'':
		t.phase = phaseSingle
	case c == '[':
		// The brackets stay: they say that it is a list.
		t.phase = phaseBracket
		a.Value = int32(t.n)
	case isBare(c):
		t.phase = phaseBare
		a.Value = int32(t.n)
	default:
		return Bad
	}
	return More
}

// quoted takes a byte of a value in quotes or brackets.
func (t *Tag) quoted(c byte) Result {
	a := &t.attrs[t.nAttrs-1]
	switch {
	case c == '<', t.phase != phaseBracket && (c == '\r' || c == '\n'):
		return Bad
	case t.phase == phaseDouble && c == '"', t.phase == phaseSingle && c == '\'':
		a.ValueEnd = int32(t.n)
		t.phase = phaseValueEnd
	case t.phase == phaseBracket && c == ']':
		a.ValueEnd = int32(t.n) + 1
		t.phase = phaseValueEnd
	}
	return More
}

func isWhite(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isKeyStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func isKeyByte(c byte) bool {
	return isKeyStart(c) || c >= '0' && c <= '9' || c == '.' || c == '-'
}

func isBare(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '"', '\'', '=', '<', '>', '`', '/', '[', ']':
		return false
	}
	return true
}
