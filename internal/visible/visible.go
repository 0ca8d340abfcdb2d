// Package visible shows text from elsewhere to people, with nothing in it that hides: what
// has no ink, what turns the direction of writing, what moves a cursor and what piles up
// over its neighbours become escapes, such as \u{200b}. It is the one rule for terminals;
// the host's page has the same in its own language, and a test holds it to this one.
//
// Its functions are pure. Both keep line ends and tabs, and neither makes letters of one
// alphabet look other than those of another: a Cyrillic а stays what it is.
package visible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what may follow on each other as it is.
const (
	MaxMarks  = 4  // that combine with one character; no script of a living language needs more
	MaxSpaces = 40 // behind each other: more of them push what follows out of sight
)

// Exact is a text that a person decides about: an escape stands for everything but letters,
// marks, numbers, punctuation, symbols, and the space, and for those of them that show
// nothing, for marks over MaxMarks of one character, and for spaces over MaxSpaces in a row.
// In canonical JSON no escape can be mistaken for what the text itself says.
func Exact(s string) string { return show(s, exact, MaxSpaces) }

// Text is a text to read. It keeps what writing needs though it shows nothing: joiners,
// selectors of a variant, spaces of any width. It is safe piece by piece, as long as no
// character is cut, but for the bound of marks, which then holds for each piece.
func Text(s string) string { return show(s, harmful, len(s)) }

func show(s string, escaped func(rune) bool, spaces int) string {
	var b strings.Builder
	kept, marks, run := 0, 0, 0 // s[:kept] is in b
	for i, r := range s {
		switch {
		case r == ' ':
			run++
			marks = 0
		case unicode.Is(unicode.M, r):
			marks++
			run = 0
		default:
			marks, run = 0, 0
		}
		n := utf8.RuneLen(r)
		broken := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd")
		if broken {
			n = 1
		}
		if !broken && !escaped(r) && marks <= MaxMarks && run <= spaces {
			continue
		}
		b.WriteString(s[kept:i])
		kept = i + n
		if broken {
			b.WriteString("\ufffd")
			continue
		}
		b.WriteString(`\u{`)
		b.WriteString(strconv.FormatInt(int64(r), 16))
		b.WriteByte('}')
	}
	if kept == 0 {
		return s
	}
	b.WriteString(s[kept:])
	return b.String()
}

func exact(r rune) bool {
	return r != '\n' && r != '\t' && (!unicode.IsPrint(r) || unicode.Is(inkless, r) || unicode.Is(unicode.Variation_Selector, r))
}

func harmful(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == zwnj || r == zwj || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	case unicode.Is(unicode.Variation_Selector, r):
		return r > 0xFFFF // those of the supplement carry bytes, and no emoji needs them
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, inkless)
}

const (
	zwnj = 0x200C
	zwj  = 0x200D
)

// inkless are letters, marks and symbols that show nothing.
var inkless = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille without dots
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // of half width
	},
	R32: []unicode.Range32{
		{Lo: 0x16FE4, Hi: 0x16FE4, Stride: 1}, // Khitan filler
		{Lo: 0x1D159, Hi: 0x1D159, Stride: 1}, // musical null note head
	},
}
