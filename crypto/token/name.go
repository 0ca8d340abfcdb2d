package token

import (
	"bytes"
	"slices"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// Member names: their repetition, and the walk over an object's members. Everything
// here takes text that scan has accepted.

// unquote returns what a string spells, from its bytes without quotes. Without
// escapes that is the bytes themselves, not a copy.
func unquote(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	return jsonstring.AppendMeant(make([]byte, 0, len(b)), b)
}

// stringEnd returns the index behind the string that begins with the quote at b[i].
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns the index behind the value that begins at b[i].
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

// repeatedName returns the offset of the first name in the text that its object
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
				if c := jsonstring.Compare(b[x.from:x.to], b[y.from:y.to]); c != 0 {
					return c
				}
				return x.from - y.from
			})
			for k := 1; k < len(own); k++ {
				if jsonstring.Compare(b[own[k-1].from:own[k-1].to], b[own[k].from:own[k].to]) == 0 &&
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

// skipBlanks returns the index of the first byte at or behind i that is no white
// space.
func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}
