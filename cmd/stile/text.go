package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// harmless makes text from elsewhere fit for a terminal: control characters and
// those that turn the direction of writing become visible escapes, what is not
// UTF-8 becomes U+FFFD. Line ends and tabs stay. It is safe piece by piece, as
// long as no character is cut.
func harmless(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || hostile(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hostile(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hostile(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// oneLine is text on one line of at most limit characters.
func oneLine(s string, limit int) string {
	if most := limit * 16; len(s) > most { // looking at more than can be shown would only cost
		s = strings.ToValidUTF8(s[:most], "")
	}
	s = strings.Join(strings.Fields(harmless(s)), " ")
	n := 0
	for i := range s {
		if n == limit-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	case n < 1024*1024:
		return fmt.Sprintf("%.1f KiB", float64(n)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1024*1024))
}

// count is a number with its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
