package kitsu

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A query has at most MaxQueryRunes characters, any of which may be any letter, and
// a decision has a microsecond: four nanoseconds a character. The tables of package
// unicode take tens, for they are searched. So what this file asks of a character is
// in tables of its own, made of those when the program starts: 48 KiB, in a tenth of
// a millisecond. The last byte of a character has six bits of it, which are its place
// in a page; the bytes before it are the number of the page.

// differs reports whether a query has a topic other than last, ignoring case
// (docs/spec/kitsu.md §4).
func differs(last, query string) bool {
	word, same := topic(query, last)
	return word != "" && !same
}

// Topic returns the first word of a query that consists of letters, in lower case; "" if it has
// none.
func Topic(query string) string {
	word, _ := topic(query, "")
	return strings.ToLower(word)
}

// topic returns the topic of a query. same reports whether it is last, ignoring case. It looks at
// each byte once: as a letter until its word has another character, and from there on only for
// the white space that ends the word.
func topic(query, last string) (word string, same bool) {
	for i := 0; i < len(query); {
		end, k := skipLetters(query, i, last)
		next, size := findSpace(query, end)
		if next == end && end > i {
			return query[i:end], k == len(last)
		}
		i = next + size
	}
	return "", false
}

// skipLetters returns the place of the first character of s[i:] that is no letter, and of
// the letters before it how many bytes of last they are, ignoring case; -1 if they are
// not what last begins with.
//
// strings.EqualFold does not do for that: it takes the İ of a query for another letter
// than the i that Topic made of it.
func skipLetters(s string, i int, last string) (end, k int) {
	for i < len(s) {
		var page, place, size, least uint
		switch c := uint(s[i]); {
		case c|0x20-'a' < 26:
			i++
			switch {
			case k < 0:
			case k < len(last) && uint(last[k]) == c|0x20:
				k++
			default:
				k = match(last, k, rune(c))
			}
			continue
		case c < 0xc2:
			return i, k
		case c < 0xe0 && i+1 < len(s):
			page, place, size = c&31, uint(s[i+1])^0x80, 2
		case c < 0xf0 && i+2 < len(s):
			b := uint(s[i+1]) ^ 0x80
			page, place, size, least = c&15<<6|b&63, uint(s[i+2])^0x80|b&0xc0, 3, 0x800/64
		case c == 0xf0 && i+3 < len(s):
			b, d := uint(s[i+1])^0x80, uint(s[i+2])^0x80
			page, place, size, least = b&63<<6|d&63, uint(s[i+3])^0x80|(b|d)&0xc0, 4, 0x10000/64
		default:
			return i, k
		}
		// Bytes that are no character have a place over 63, of which a page has no bit, or
		// the page of a shorter one.
		if page < least || letters[page%letterPages]>>place&1 == 0 {
			return i, k
		}
		i += int(size)
		if k < 0 {
			continue
		}
		letter := page<<6 | place
		if k+int(size) <= len(last) {
			var r uint // no letter of that size if the character has another one
			switch size {
			case 2:
				b := last[k : k+2]
				r = uint(b[0]^0xc0)<<6 | uint(b[1]^0x80)
			case 3:
				b := last[k : k+3]
				r = uint(b[0]^0xe0)<<12 | uint(b[1]^0x80)<<6 | uint(b[2]^0x80)
			default:
				b := last[k : k+4]
				r = uint(b[0]^0xf0)<<18 | uint(b[1]^0x80)<<12 | uint(b[2]^0x80)<<6 | uint(b[3]^0x80)
			}
			// Mostly last is in lower case, as Topic gives it.
			if r == letter || rune(r) == fold(rune(letter)) {
				k += int(size)
				continue
			}
		}
		k = match(last, k, rune(letter))
	}
	return i, k
}

// match returns the place behind the character at last[k:] if that is a letter, ignoring
// case, and -1 if it is not.
func match(last string, k int, letter rune) int {
	if k == len(last) {
		return -1
	}
	r, n := character(last, k)
	if r != letter && fold(r) != fold(letter) {
		return -1
	}
	return k + n
}

// findSpace returns the place of the first white space of s[i:], and its size; len(s)
// and 0 for none.
func findSpace(s string, i int) (at, size int) {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c > ' ' && c < 0xc2: // what continues a character begins none
		case c == ' ' || c-'\t' < 5:
			return i, 1
		case c == 0xc2 && i+1 < len(s):
			if d := s[i+1]; d == 0x85 || d == 0xa0 {
				return i, 2
			}
		case c >= 0xe1 && c <= 0xe3 && i+2 < len(s):
			switch uint(c)<<16 | uint(s[i+1])<<8 | uint(s[i+2]) {
			case 0xe19a80, // U+1680
				0xe28080, 0xe28081, 0xe28082, 0xe28083, 0xe28084, 0xe28085, 0xe28086, 0xe28087, 0xe28088, 0xe28089, 0xe2808a, // U+2000…200A
				0xe280a8, 0xe280a9, 0xe280af, 0xe2819f, // U+2028, 2029, 202F, 205F
				0xe38080: // U+3000
				return i, 3
			}
			if (s[i+1]^0x80)|(s[i+2]^0x80) < 0x40 {
				i += 2
			}
		}
	}
	return i, 0
}

// character is utf8.DecodeRuneInString, in a third of its time: it does not look
// whether a character is one. What is not valid UTF-8 is at worst another topic.
func character(s string, i int) (r rune, size int) {
	switch c := s[i]; {
	case c < utf8.RuneSelf:
		return rune(c), 1
	case c < 0xe0 && i+1 < len(s):
		return rune(c&31)<<6 | rune(s[i+1]&63), 2
	case c < 0xf0 && i+2 < len(s):
		return rune(c&15)<<12 | rune(s[i+1]&63)<<6 | rune(s[i+2]&63), 3
	case i+3 < len(s):
		return rune(c&7)<<18 | rune(s[i+1]&63)<<12 | rune(s[i+2]&63)<<6 | rune(s[i+3]&63), 4
	}
	return utf8.RuneError, 1
}

const (
	letterPages = 0x40000 / 64 // there is no letter beyond; a test holds it
	foldPages   = 0x20000 / 64 // nor one with cases beyond this
)

var (
	// letters has a bit for each letter.
	letters = findLetters()
	// foldPage and foldBy tell how far a character is from the one that stands for it
	// and its other cases. Page 0 is that of characters without cases.
	foldPage, foldBy = findFolds()
)

// fold returns the character that stands for r and its other cases: the lower case of
// the upper case of its lower case. So "ſ" is "s", and "ς" is "σ".
func fold(r rune) rune {
	if p := uint32(r) / 64; p < foldPages {
		return r + foldBy[foldPage[p]][r%64]
	}
	return r
}

func findLetters() (set [letterPages]uint64) {
	fill := func(lo, hi, stride rune) {
		for r := lo; r <= hi; r += stride {
			if stride == 1 && r%64 == 0 && hi-r >= 63 {
				set[r/64] = ^uint64(0)
				r += 63
				continue
			}
			set[r/64] |= 1 << (r % 64)
		}
	}
	for _, t := range unicode.L.R16 {
		fill(rune(t.Lo), rune(t.Hi), rune(t.Stride))
	}
	for _, t := range unicode.L.R32 {
		fill(rune(t.Lo), rune(t.Hi), rune(t.Stride))
	}
	return set
}

func findFolds() (page [foldPages]uint8, by [][64]int32) {
	by = make([][64]int32, 1, 64)
	set := func(r, to rune) {
		if page[r/64] == 0 {
			page[r/64] = uint8(len(by))
			by = append(by, [64]int32{})
		}
		by[page[r/64]][r%64] = to - r
	}
	cased := func(c *unicode.CaseRange, r rune, to int) rune {
		if d := c.Delta[to]; d <= unicode.MaxRune {
			return r + d
		}
		return rune(c.Lo) + (r-rune(c.Lo))&^1 + rune(to) // they take turns, UpperCase first
	}
	for i := range unicode.CaseRanges {
		for c, r := &unicode.CaseRanges[i], rune(unicode.CaseRanges[i].Lo); r <= rune(c.Hi); r++ {
			if l := cased(c, r, unicode.LowerCase); l != r {
				set(r, l)
			}
		}
	}
	// Some lower cases share their upper case.
	for i := range unicode.CaseRanges {
		for c, r := &unicode.CaseRanges[i], rune(unicode.CaseRanges[i].Lo); r <= rune(c.Hi); r++ {
			u := cased(c, r, unicode.UpperCase)
			if l := u + by[page[u/64]][u%64]; l != r && cased(c, r, unicode.LowerCase) == r {
				set(r, l)
			}
		}
	}
	return page, by
}
