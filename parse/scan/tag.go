package scan

import (
	"cmp"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Limits of a tag (docs/spec/streaming.md §1).
const (
	MaxTagBytes   = 4096 // from "<" to ">"
	MaxAttributes = 32   // repeated keys count
)

// letters counts the bytes from "A" to "z".
const letters = 'z' - 'A' + 1

// A Grammar is the set of known tags. It is immutable and safe for concurrent use. A set of its
// names is a number whose bit i stands for the i-th name.
//
//	open  = "<" name *( 1*WS attr ) *WS [ "/" ] ">"
//	close = "</" name *WS ">"
//	attr  = key [ *WS "=" *WS value ]
//	key   = [A-Za-z_] *[A-Za-z0-9_.-]
//	value = DQ *(not DQ) DQ / SQ *(not SQ) SQ / "[" *(not "]") "]" /
//	        1*( any but WS " ' = < > ` / [ ] )
//
// WS is space, tab, CR, LF. A value cannot contain "<" (but see Quoting), a quoted one neither
// CR nor LF.
type Grammar struct {
	words    []string
	fits     [][letters]uint32 // by place in a name and letter: the names with that letter there
	ends     []uint32          // by length: the names of that length
	maxBytes int               // of a tag
	quoting  uint32            // names whose quoted values may hold "<"
}

// NewGrammar makes the grammar of tags with these names, at most 32, of ASCII letters
// and "_".
func NewGrammar(names ...string) *Grammar {
	longest := 0
	for _, w := range names {
		longest = max(longest, len(w))
	}
	// One place more, which no name has.
	g := &Grammar{words: names, fits: make([][letters]uint32, longest+1), ends: make([]uint32, longest+1), maxBytes: MaxTagBytes}
	for i, w := range names {
		for k := range len(w) {
			g.fits[k][w[k]-'A'] |= 1 << i
		}
		g.ends[len(w)] |= 1 << i
	}
	return g
}

// Within returns the grammar for tags of at most maxBytes; 0 is MaxTagBytes.
func (g *Grammar) Within(maxBytes int) Grammar {
	h := *g
	h.maxBytes = cmp.Or(maxBytes, MaxTagBytes)
	return h
}

// Quoting returns the grammar in which quoted values in openers of some names may hold "<": a
// tag that is Bad can then hold one.
func (g *Grammar) Quoting(names uint32) *Grammar {
	h := *g
	h.quoting = names
	return &h
}

// All returns the set of all names.
func (g *Grammar) All() uint32 { return uint32(1)<<len(g.words) - 1 }

// Result is the state of a tag after Take.
type Result uint8

// The results of Take.
const (
	More Result = iota // the tag goes on
	Done               // the tag is complete
	Not                // it is not a tag: it has no name of the set
	Bad                // it is a tag, but the next byte breaks the grammar or the limit
)

// Pair is the place of a key and its value. For an attribute it has offsets from the tag's "<",
// and an empty value if there is none. For a member of an object it has offsets in the normal
// form of the text, and the key is a string literal.
type Pair struct{ Key, KeyEnd, Value, ValueEnd int }

// attr is the Pair of an attribute in half the memory.
type attr struct{ key, keyEnd, value, valueEnd int32 }

// Tag reads one tag. The caller keeps its bytes, which the grammar's limit bounds. It is not safe
// for concurrent use.
//
//	Call Begin, then Take with the bytes after "<" until the result is not More. After Not and
//	Bad the bytes taken are text, all of them, because there is no second "<" among them.
type Tag struct {
	grammar *Grammar
	open    uint32 // names that still fit, as an opener
	close   uint32 // and as a closer
	phase   phase
	name    int
	n       int // bytes, with "<"
	letter  int // place in the name
	closing bool
	selfEnd bool
	over    bool
	attrs   [MaxAttributes]attr
	nAttrs  int
}

type phase uint8

const (
	phaseLead     phase = iota // after "<"
	phaseName                  // in the name
	phaseGap                   // after WS: an attribute or the end may follow
	phaseKey                   // in a key
	phaseAfterKey              // in WS after a key
	phaseEquals                // after "="
	phaseDouble                // in a value
	phaseSingle
	phaseBracket
	phaseBare
	phaseValueEnd // after a closing quote or bracket
	phaseSlash    // after the "/" of a tag that closes itself
	phaseClose    // after the name of a closer
)

// Begin starts a tag at a "<". Only openers and closers with names of the sets count.
func (t *Tag) Begin(g *Grammar, open, close uint32) {
	t.grammar, t.open, t.close = g, open, close
	t.phase, t.n, t.letter, t.name, t.nAttrs = phaseLead, 1, 0, -1, 0
	t.closing, t.selfEnd, t.over = false, false, false
}

// Known reports whether the name is complete: the byte after it has come.
func (t *Tag) Known() bool { return t.name >= 0 }

// Name returns the index of the name in the grammar, −1 before it is known.
func (t *Tag) Name() int { return t.name }

// Closing reports whether the tag is a closer, once "/" has come.
func (t *Tag) Closing() bool { return t.closing }

// SelfClosing reports whether the tag is an opener that ends with "/>".
func (t *Tag) SelfClosing() bool { return t.selfEnd }

// Len returns the number of bytes taken, with "<".
func (t *Tag) Len() int { return t.n }

// Over reports whether a tag is Bad because it exceeds the grammar's limit.
func (t *Tag) Over() bool { return t.over }

// Attrs returns the number of attributes of a tag that is Done.
func (t *Tag) Attrs() int { return t.nAttrs }

// Attr returns an attribute by its index, in order.
func (t *Tag) Attr(i int) Pair {
	a := &t.attrs[i]
	return Pair{int(a.key), int(a.keyEnd), int(a.value), int(a.valueEnd)}
}

// Take takes the next bytes, which must be whole characters (see UTF8), and returns how many
// belong to the tag. It stops after the byte that makes the name known, with More if that does
// not end the tag: call it again for the rest.
func (t *Tag) Take(p []byte) (n int, r Result) {
	if t.phase <= phaseName {
		n, r = t.takeName(p)
	} else {
		n, r = t.takeWithin(p)
	}
	t.n += n
	return n, r
}

// Letter takes one ASCII byte within a value in double quotes, as Take does. It returns false if
// it has not taken the byte; then call Take.
func (t *Tag) Letter(c byte) bool {
	if t.phase != phaseDouble || classes[c]&inDouble == 0 || t.n >= t.grammar.maxBytes {
		return false
	}
	t.n++
	return true
}

// takeName matches the name: names that do not fit leave the set, so that the caller stops
// holding back the "<" at the first byte that no name has.
func (t *Tag) takeName(p []byte) (n int, r Result) {
	if len(p) == 0 {
		return 0, More
	}
	if t.phase == phaseLead {
		t.phase = phaseName
		if p[0] == '/' && t.close != 0 {
			t.closing, t.open = true, t.close
			n = 1
		}
	}
	names := t.grammar
	for ; n < len(p); n++ {
		c := p[n]
		if i := c - 'A'; i < letters {
			if t.open &= names.fits[t.letter][i]; t.open == 0 {
				return n, Not
			}
			t.letter++
			continue
		}
		whole := t.open & names.ends[t.letter]
		if whole == 0 || classes[c]&endsName == 0 || c == '/' && t.closing {
			return n, Not
		}
		t.name = bits.TrailingZeros32(whole)
		return n + 1, t.named(c)
	}
	return n, More
}

// named takes the byte after the name.
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

// takeWithin takes the bytes after the name, within the limit.
func (t *Tag) takeWithin(p []byte) (n int, r Result) {
	k := t.fitting(p)
	n, r = t.takeAttrs(p[:k])
	if r == More && k < len(p) {
		r, t.over = Bad, true
	}
	return n, r
}

// fitting returns how many bytes of p are within the limit: whole characters, so that a tag that
// turns out to be text ends with a whole one.
func (t *Tag) fitting(p []byte) int {
	k := max(0, t.grammar.maxBytes-t.n)
	if k >= len(p) {
		return len(p)
	}
	for k > 0 && !utf8.RuneStart(p[k]) {
		k--
	}
	return k
}

// takeAttrs takes attributes and the end of the tag. The bytes that continue a key or a value are
// taken at once.
func (t *Tag) takeAttrs(p []byte) (n int, r Result) {
	for n < len(p) {
		at := int32(t.n + n)
		switch t.phase {
		case phaseKey:
			k := span(p[n:], keyByte)
			if n += k; n == len(p) {
				return n, More
			}
			at += int32(k)
			t.attrs[t.nAttrs-1].keyEnd = at
			t.phase = phaseAfterKey
			r = t.afterKey(p[n], at)
		case phaseAfterKey:
			r = t.afterKey(p[n], at)
		case phaseEquals:
			r = t.value(p[n], at)
		case phaseDouble, phaseSingle, phaseBracket:
			k := span(p[n:], within[t.phase-phaseDouble])
			for t.quotes() && n+k < len(p) && p[n+k] == '<' {
				k += 1 + span(p[n+k+1:], within[t.phase-phaseDouble])
			}
			if n += k; n == len(p) {
				return n, More
			}
			r = t.shut(p[n], at+int32(k))
		case phaseBare:
			k := span(p[n:], bare)
			if n += k; n == len(p) {
				return n, More
			}
			t.attrs[t.nAttrs-1].valueEnd = at + int32(k)
			r = t.behind(p[n])
		case phaseValueEnd:
			r = t.behind(p[n])
		case phaseGap:
			r = t.gap(p[n], at)
		default:
			r = t.last(p[n])
		}
		if r > Done {
			return n, r
		}
		n++
		if r == Done {
			return n, Done
		}
	}
	return n, More
}

// quotes reports whether "<" belongs to the value that the tag is in.
func (t *Tag) quotes() bool {
	return t.grammar.quoting != 0 && !t.closing && t.phase != phaseBracket && t.grammar.quoting&(1<<t.name) != 0
}

// span returns how many bytes at the beginning of p are in a class.
func span(p []byte, c class) int {
	for i, b := range p {
		if classes[b]&c == 0 {
			return i
		}
	}
	return len(p)
}

// within are the classes of the bytes that continue a value in phaseDouble, phaseSingle and
// phaseBracket.
var within = [...]class{inDouble, inSingle, inBracket}

// last takes a byte where only the end of the tag can follow.
func (t *Tag) last(c byte) Result {
	switch {
	case c == '>':
		t.selfEnd = t.phase == phaseSlash
		return Done
	case t.phase == phaseClose && isWhite(c):
		return More
	}
	return Bad
}

func (t *Tag) afterKey(c byte, at int32) Result {
	if c == '=' {
		t.phase = phaseEquals
		return More
	}
	return t.gap(c, at)
}

// gap takes a byte where an attribute may begin.
func (t *Tag) gap(c byte, at int32) Result {
	if classes[c]&startsKey == 0 {
		return t.behind(c)
	}
	if t.nAttrs == MaxAttributes {
		return Bad
	}
	t.attrs[t.nAttrs] = attr{key: at}
	t.nAttrs++
	t.phase = phaseKey
	return More
}

// behind takes a byte that ends a name, key or value. A key followed by WS may still have a
// value.
func (t *Tag) behind(c byte) Result {
	switch {
	case isWhite(c):
		if t.phase != phaseAfterKey {
			t.phase = phaseGap
		}
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
func (t *Tag) value(c byte, at int32) Result {
	a := &t.attrs[t.nAttrs-1]
	a.value = at + 1
	switch {
	case isWhite(c):
	case c == '"':
		t.phase = phaseDouble
	case c == '\'':
		t.phase = phaseSingle
	case c == '[':
		// The brackets stay: they mark a list.
		t.phase = phaseBracket
		a.value = at
	case classes[c]&bare != 0:
		t.phase = phaseBare
		a.value = at
	default:
		return Bad
	}
	return More
}

// shut takes the byte that ends a value in quotes or brackets.
func (t *Tag) shut(c byte, at int32) Result {
	switch c {
	case '"', '\'':
	case ']':
		at++
	default:
		return Bad
	}
	t.attrs[t.nAttrs-1].valueEnd = at
	t.phase = phaseValueEnd
	return More
}

// class is a set of properties of a byte.
type class uint8

const (
	endsName class = 1 << iota
	startsKey
	keyByte
	bare // in a value without quotes
	inDouble
	inSingle
	inBracket
)

var classes = func() (t [256]class) {
	for i := range t {
		c := byte(i)
		set := func(is bool, k class) {
			if is {
				t[c] |= k
			}
		}
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		set(isWhite(c) || c == '>' || c == '/', endsName)
		set(letter, startsKey)
		set(letter || c >= '0' && c <= '9' || c == '.' || c == '-', keyByte)
		set(!isWhite(c) && !strings.ContainsRune("\"'=<>`/[]", rune(c)), bare)
		set(c != '<' && c != '\r' && c != '\n' && c != '"', inDouble)
		set(c != '<' && c != '\r' && c != '\n' && c != '\'', inSingle)
		set(c != '<' && c != ']', inBracket)
	}
	return t
}()

// The white space of tags, and of JSON.
func isWhite(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
