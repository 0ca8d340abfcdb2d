package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// reserved are the words of every dialect's markers: what begins with "<" and one of them,
// or with "</" and one of them, is written by hosts and models alone
// (docs/spec/design.md §10). A user's text keeps the word and loses the "<".
//
// "<if", "<foreach" and "<parallel", which docs/spec/streaming.md §9 keeps for later, are
// not among them: no host writes them, and users write programs.
var reserved = [...]struct {
	word string
	// whole asks for the ">" of a tag without attributes: "i <end" is a comparison.
	whole bool
}{
	{word: "action"}, // "<action:" of kitsu too
	{word: "action_result"},
	{word: "action_template"},
	{word: "context_feed"},
	{word: "end", whole: true},
	{word: "execute"},
	{word: "nsenv"},
	{word: "nsmag"},
	{word: "response"},
	{word: "results"},
	{word: "think"},
	{word: "thinking"},
	{word: "thought"},
}

// internalWord is behind the "[" of the host's line in kitsu.
const internalWord = "internal"

// quiet are what markers become, by the place they stand in.
type quiet struct{ tag, bracket string }

var (
	inText = quiet{"&lt;", "("}
	inJSON = quiet{`\u003c`, `\u005b`}
)

// Defuse writes a text from outside so that nothing in it is a marker of any dialect: "<"
// in front of a reserved word is "&lt;", and the "[" of "[INTERNAL" is "(". Case does not
// matter, nor where in a line a marker stands, nor characters in it that have no width.
// A text without a marker is returned as it is, and a second time changes nothing.
func Defuse(text string) string { return defuse(text, inText) }

// DefuseJSON is Defuse of a JSON text: the value stays the same, because markers are
// within its strings and there become escapes.
func DefuseJSON(text string) string { return defuse(text, inJSON) }

func defuse(text string, as quiet) string {
	at, bracket := marker(text, 0)
	if at < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 64)
	from := 0
	for at >= 0 {
		b.WriteString(text[from:at])
		if bracket {
			b.WriteString(as.bracket)
		} else {
			b.WriteString(as.tag)
		}
		from = at + 1
		at, bracket = marker(text, from)
	}
	b.WriteString(text[from:])
	return b.String()
}

// marker gives the place of the first "<" or "[" of a marker from a place on, -1 for none.
func marker(text string, from int) (at int, bracket bool) {
	// One search at a time: each is a vector search, and most texts hold neither.
	tag, mark := -1, -1
	for i := from; ; {
		if tag < i {
			tag = next(text, i, '<')
		}
		if mark < i {
			mark = next(text, i, '[')
		}
		i = min(tag, mark)
		switch {
		case i == len(text):
			return -1, false
		case i == mark && isInternal(text[i+1:]):
			return i, true
		case i == tag && isTag(text[i+1:]):
			return i, false
		}
		i++
	}
}

func next(text string, from int, c byte) int {
	if n := strings.IndexByte(text[from:], c); n >= 0 {
		return from + n
	}
	return len(text)
}

// isTag reports whether a text that stands behind a "<" makes it a marker's.
func isTag(text string) bool {
	text = skip(text, false)
	if rest, closer := strings.CutPrefix(text, "/"); closer {
		text = skip(rest, false)
	}
	if text == "" || text[0] >= utf8.RuneSelf {
		return false
	}
	for i := range reserved {
		rest, ok := cutWord(text, reserved[i].word)
		if !ok {
			continue
		}
		if reserved[i].whole {
			rest = strings.TrimPrefix(skip(rest, true), "/")
			if strings.HasPrefix(skip(rest, true), ">") {
				return true
			}
			continue
		}
		r, _ := utf8.DecodeRuneInString(rest)
		if rest == "" || r == '>' || r == '/' || r == ':' || unicode.IsSpace(r) {
			return true
		}
	}
	return false
}

// isInternal reports whether a text that stands behind a "[" makes it the host's.
func isInternal(text string) bool {
	_, ok := cutWord(skip(text, true), internalWord)
	return ok
}

// cutWord cuts a word of ASCII in any case, and what has no width in it and behind it.
func cutWord(text, word string) (rest string, ok bool) {
	for i := range len(word) {
		if text == "" || text[0]|0x20 != word[i]|0x20 {
			return "", false
		}
		if text = text[1:]; text != "" && text[0] >= utf8.RuneSelf {
			text = skip(text, false)
		}
	}
	return text, true
}

// skip cuts characters without width, and white space where that is asked for.
func skip(text string, space bool) string {
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if !Invisible(r) && (!space || !unicode.IsSpace(r)) {
			break
		}
		text = text[n:]
	}
	return text
}

// Invisible reports whether a character has no width: soft hyphens, joiners, marks of
// direction, byte order marks, variation selectors, fillers and tags (what Unicode calls
// Default_Ignorable_Code_Point, and the annotations).
func Invisible(r rune) bool { return r >= 0xad && unicode.Is(invisible, r) }

var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1},
		{Lo: 0x034f, Hi: 0x034f, Stride: 1},
		{Lo: 0x061c, Hi: 0x061c, Stride: 1},
		{Lo: 0x115f, Hi: 0x1160, Stride: 1},
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1},
		{Lo: 0x180b, Hi: 0x180f, Stride: 1},
		{Lo: 0x200b, Hi: 0x200f, Stride: 1},
		{Lo: 0x202a, Hi: 0x202e, Stride: 1},
		{Lo: 0x2060, Hi: 0x206f, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1},
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1},
		{Lo: 0xfff9, Hi: 0xfffb, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1},
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1},
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1},
	},
	LatinOffset: 1,
}
