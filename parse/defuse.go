package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// reserved are the words of all dialects' markers. Only hosts and models may write a word of
// them after "<" or "</" (docs/spec/design.md §10). A user's text keeps the word and loses the
// "<".
//
// "<if", "<foreach" and "<parallel" of docs/spec/streaming.md §9 are not among them: no host
// writes them, and users write programs.
var reserved = [...]struct {
	word string
	// whole asks for the ">" of a tag without attributes: "i <end" is a comparison.
	whole bool
}{
	{word: "action"}, // "<action:" of kitsu too
	{word: "action_result"},
	{word: "action_template"},
	{word: "block_result"},
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

// internalWord follows the "[" of the host's line in kitsu.
const internalWord = "internal"

// quiet are the replacements for the first byte of a marker, by its place.
type quiet struct{ tag, bracket string }

var (
	inText = quiet{"&lt;", "("}
	inJSON = quiet{`\u003c`, `\u005b`}
)

// Defuse returns a text from outside without markers of any dialect: "<" before a reserved
// word becomes "&lt;", and the "[" of "[INTERNAL" becomes "(". The case of a marker, its place
// in a line, and characters without width in it do not matter. A text without markers is
// returned as it is, so a second call changes nothing.
func Defuse(text string) string { return defuse(text, inText) }

// DefuseJSON is Defuse for a JSON text. It does not change the value: markers are within
// strings, and there become escapes.
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

// marker returns the index of the first "<" or "[" of a marker from an index on, -1 for none.
func marker(text string, from int) (at int, bracket bool) {
	// Two searches: each is a vector search, and most texts have neither byte.
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

// isTag reports whether the text after a "<" makes it a marker.
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

// isInternal reports whether the text after a "[" makes it the host's line.
func isInternal(text string) bool {
	_, ok := cutWord(skip(text, true), internalWord)
	return ok
}

// cutWord cuts an ASCII word in any case, with characters without width in it and after it.
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

// skip cuts characters without width, and white space too if asked for.
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
