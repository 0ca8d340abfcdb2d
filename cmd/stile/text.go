package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/visible"
)

// harmless makes text from elsewhere fit for a terminal, as visible.Text does.
func harmless(s string) string { return visible.Text(s) }

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
