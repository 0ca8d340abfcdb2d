package main

import (
	"strings"
	"unicode"
)

// runeWidth is how many columns of a terminal a character takes: none for marks that
// stand on another and for what is not seen, two for the wide ones of East Asia and for
// pictures, one for all others.
func runeWidth(r rune) int {
	switch {
	case r < 0x20:
		return 0
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115F, r >= 0x2E80 && r <= 0x303E, r >= 0x3041 && r <= 0xA4CF, r >= 0xAC00 && r <= 0xD7A3,
		r >= 0xF900 && r <= 0xFAFF, r >= 0xFE30 && r <= 0xFE6F, r >= 0xFF00 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6,
		r >= 0x1F300 && r <= 0x1F64F, r >= 0x1F680 && r <= 0x1F6FF, r >= 0x1F900 && r <= 0x1F9FF, r >= 0x20000 && r <= 0x3FFFD:
		return 2
	}
	return 1
}

// textWidth is how many columns a text takes.
func textWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// cutWidth is a text cut to so many columns, tabs as blanks.
func cutWidth(s string, columns int) string {
	s = strings.ReplaceAll(s, "\t", " ")
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > columns {
			return s[:i]
		}
	}
	return s
}

// pad fills a text up to so many columns.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(columns-textWidth(s), 0))
}

// lastRows breaks a line into rows of so many columns and gives the last ones. Of a line
// that is much longer it looks at the end alone.
func lastRows(s string, columns, most int) []string {
	s = strings.ReplaceAll(s, "\t", " ")
	if far := columns * most * 4; len(s) > 2*far {
		s = strings.ToValidUTF8(s[len(s)-far:], "")
	}
	rows := []string{""}
	from, n := 0, 0
	for i, r := range s {
		w := runeWidth(r)
		if n+w > columns {
			rows = append(rows, "")
			from, n = i, 0
		}
		n += w
		rows[len(rows)-1] = s[from : i+len(string(r))]
	}
	return rows[max(len(rows)-most, 0):]
}
