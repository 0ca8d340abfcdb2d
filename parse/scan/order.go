package scan

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// sort puts the members of an object that is about to close in order, without
// those that a later one of the same name replaces.
func (j *JSON) sort(f frame) {
	ms := j.members[f.members:]
	slices.SortFunc(ms, func(a, b Member) int {
		if c := j.compare(a, b); c != 0 {
			return c
		}
		return b.Key - a.Key // the last of one name first
	})
	j.spare = j.spare[:0]
	kept := ms[:0]
	var before Member
	for i, m := range ms {
		again := i > 0 && j.compare(before, m) == 0
		before = m
		if again {
			continue
		}
		if len(kept) > 0 {
			j.spare = append(j.spare, ',')
		}
		from := m.Key
		to := f.at + 1 + len(j.spare)
		j.spare = append(j.spare, j.buf[from:m.ValueEnd]...)
		kept = append(kept, Member{to, m.KeyEnd - from + to, m.Value - from + to, m.ValueEnd - from + to})
	}
	j.members = j.members[:f.members+len(kept)]
	j.buf = append(j.buf[:f.at+1], j.spare...)
}

// compare orders two members by name as RFC 8785 does: by the UTF-16 units of what
// the names mean.
func (j *JSON) compare(a, b Member) int {
	return compareStrings(j.buf[a.Key:a.KeyEnd], j.buf[b.Key:b.KeyEnd])
}

// compareStrings compares two string literals in normal form, in which equal
// strings are equal bytes.
func compareStrings(a, b []byte) int {
	a, b = a[1:len(a)-1], b[1:len(b)-1]
	for i := range min(len(a), len(b)) {
		if c, d := a[i], b[i]; c|d >= utf8.RuneSelf || c == '\\' || d == '\\' {
			return compareCharacters(a[i:], b[i:])
		} else if c != d {
			return int(c) - int(d)
		}
	}
	return len(a) - len(b)
}

// compareCharacters compares what strings go on with, one character after the other.
func compareCharacters(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	for len(a) > 0 && len(b) > 0 {
		ra, na := firstRune(a)
		rb, nb := firstRune(b)
		if ra != rb {
			return unitOrder(ra) - unitOrder(rb)
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// firstRune decodes the character that a string's content begins with.
func firstRune(s []byte) (r rune, size int) {
	switch {
	case s[0] == '\\':
		return unescape(s)
	case s[0] < utf8.RuneSelf:
		return rune(s[0]), 1
	}
	return utf8.DecodeRune(s)
}

// unitOrder places characters beyond the first plane where their first surrogate
// is: behind U+D7FF and before U+E000.
func unitOrder(r rune) int {
	switch {
	case r >= 0x10000:
		return int(r) + 0xd800
	case r >= 0xe000:
		return int(r) + 0x200000
	}
	return int(r)
}
