package token

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Member names: their order by UTF-16 code units (RFC 8785 §3.2.3), their
// repetition, and the walk over an object's members. Everything here takes text
// that scan has accepted.

// units yields the UTF-16 code units of a string as it stands in JSON, without
// its quotes.
type units struct {
	b   []byte
	low uint16 // second half of a pair that is still to come, or 0
}

// next gives one unit; ok is false at the end.
func (u *units) next() (unit uint16, ok bool) {
	if u.low != 0 {
		unit, u.low = u.low, 0
		return unit, true
	}
	if len(u.b) == 0 {
		return 0, false
	}
	r, n := character(u.b)
	u.b = u.b[n:]
	if r > 0xffff {
		hi, lo := utf16.EncodeRune(r)
		u.low = uint16(lo)
		return uint16(hi), true
	}
	return uint16(r), true
}

// character decodes the character at the start of b and the bytes it takes,
// escapes resolved.
func character(b []byte) (r rune, n int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		unit, _ := hexUnit(b)
		if 0xd800 <= unit && unit < 0xdc00 {
			low, _ := hexUnit(b[6:])
			return utf16.DecodeRune(rune(unit), rune(low)), 12
		}
		return rune(unit), 6
	}
	return rune(b[1]), 2 // \" \\ \/
}

// compareNames orders two names, given without quotes, by the UTF-16 code units
// of what they spell: 😀 (D83D DE00) before דּ (FB33), the reverse of their bytes.
func compareNames(a, b []byte) int {
	ua, ub := units{b: a}, units{b: b}
	for {
		x, okX := ua.next()
		y, okY := ub.next()
		switch {
		case !okX && !okY:
			return 0
		case !okX:
			return -1
		case !okY:
			return 1
		case x != y:
			return int(x) - int(y)
		}
	}
}

// unquote gives what a string spells, from its bytes without quotes. Without
// escapes that is the bytes themselves, not a copy.
func unquote(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := character(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

// stringEnd gives the index behind the string that begins with the quote at b[i].
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd gives the index behind the value that begins at b[i].
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or literal ended
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// members calls visit for each member of the object at the start of b (behind
// white space), with the name as it stands between its quotes and the value's
// text. A repeated name is visited as often as it stands there.
func members(b []byte, visit func(name, value []byte)) {
	i := bytes.IndexByte(b, '{') + 1
	for i < len(b) {
		switch b[i] {
		case '"':
			end := stringEnd(b, i)
			name := b[i+1 : end-1]
			i = end + bytes.IndexByte(b[end:], ':') + 1
			for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
				i++
			}
			end = valueEnd(b, i)
			visit(name, b[i:end])
			i = end
		case '}':
			return
		default: // a comma or white space
			i++
		}
	}
}

// repeatedName gives the offset of the first name in the text that its object
// already holds, or -1. Sorting keeps the cost of a hostile object at n·log n.
func repeatedName(b []byte) int {
	type place struct{ from, to int }
	var (
		names  []place // of all open objects, innermost last
		starts []int   // of each open container in names; -1 for an array
		found  = -1
	)
	for i := 0; i < len(b); {
		switch b[i] {
		case '{':
			starts = append(starts, len(names))
			i++
		case '[':
			starts = append(starts, -1)
			i++
		case ']':
			starts = starts[:len(starts)-1]
			i++
		case '}':
			start := starts[len(starts)-1]
			starts = starts[:len(starts)-1]
			own := names[start:]
			names = names[:start]
			slices.SortFunc(own, func(x, y place) int {
				if c := compareNames(b[x.from:x.to], b[y.from:y.to]); c != 0 {
					return c
				}
				return x.from - y.from
			})
			for k := 1; k < len(own); k++ {
				if compareNames(b[own[k-1].from:own[k-1].to], b[own[k].from:own[k].to]) == 0 &&
					(found < 0 || own[k].from <= found) {
					found = own[k].from - 1
				}
			}
			i++
		case '"':
			end := stringEnd(b, i)
			if k := skipBlanks(b, end); k < len(b) && b[k] == ':' {
				names = append(names, place{i + 1, end - 1})
			}
			i = end
		default:
			i++
		}
	}
	return found
}

// skipBlanks gives the index of the first byte at or behind i that is no white
// space.
func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}
