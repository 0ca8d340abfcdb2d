package aeiou

import "strings"

// Comparable returns an emission without its token candidates, which a program that
// runs again mints anew (docs/spec/design.md §7). It implements turn.Comparer.
func (Dialect) Comparable(text string) string {
	if !strings.Contains(text, candidatePrefix) {
		return text
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !IsCandidate([]byte(line)) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
