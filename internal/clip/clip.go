// Package clip cuts texts for models and people. Its functions are pure, and cut at the end of
// a character.
package clip

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxExcerpt is the bytes of an excerpt.
const maxExcerpt = 256

// Excerpt returns the beginning of a text, at most 256 bytes on one line, for an error.
func Excerpt(s string) string { return OneLine(s, maxExcerpt) }

// OneLine returns the beginning of a text, at most most bytes on one line, as Short does.
func OneLine(s string, most int) string {
	return Short(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " "), most)
}

// maxQuoted is the bytes of a value in an error.
const maxQuoted = 64

// Quoted returns the beginning of a value, at most 64 bytes, for an error.
func Quoted(s string) string { return Short(s, maxQuoted) }

// Short returns a text of at most most bytes unchanged, and otherwise its beginning with a
// mark, without bytes that are not UTF-8.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Start returns the beginning of a text, at most most bytes and without a mark. A text that is
// not UTF-8 near the cut is cut at that byte.
func Start(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for n := most; n >= 0 && n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:most]
}

// Bytes cuts a text to most bytes, at the end of a line if one is near, and adds a note; hint
// is the part of the note that describes how to get the rest.
func Bytes(s string, most int, hint string) string {
	if len(s) <= most {
		return s
	}
	note := fmt.Sprintf("[cut: %d bytes in all", len(s))
	if hint != "" {
		note += "; " + hint
	}
	note += "]"
	s = Start(s, max(0, most-len(note)-1))
	if at := strings.LastIndexByte(s, '\n'); at > len(s)/2 {
		s = s[:at]
	}
	return strings.TrimSuffix(s, "\n") + "\n" + note
}

// Lines returns the number of lines; a final line end begins no line.
func Lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// Runes cuts a text to most characters.
func Runes(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// Middle cuts a text to most bytes by leaving out its middle.
func Middle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	note := fmt.Sprintf("\n[%d bytes left out]\n", len(s)-most)
	half := max(0, most-len(note)) / 2
	return strings.ToValidUTF8(s[:half], "") + note + strings.ToValidUTF8(s[len(s)-half:], "")
}
