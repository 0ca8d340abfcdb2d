package plan

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions below walk JSON texts that were validated before. They look at each byte
// once, do not recurse, and stay inside the text even if it is invalid.

// space skips white space from i.
func space(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// quoteEnd returns the end of the string that begins at s[i] == '"'.
func quoteEnd(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// valueEnd returns the end of the value that begins at i.
func valueEnd(s string, i int) int {
	i = min(i, len(s))
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			i = quoteEnd(s, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default: // a number or a word
			for i++; i < len(s) && strings.IndexByte(",:]} \t\r\n", s[i]) < 0; i++ {
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(s)
}

// child returns the member or element of value that a path segment names, and how many bytes
// it looked at.
func child(value, seg string) (part string, seen int, ok bool) {
	i := space(value, 0)
	if i == len(value) {
		return "", i, false
	}
	switch value[i] {
	case '{':
		for i = space(value, i+1); i < len(value) && value[i] == '"'; i = space(value, i+1) {
			key := i
			i = quoteEnd(value, i)
			name := value[key:i]
			start := space(value, space(value, i)+1) // over the colon
			i = valueEnd(value, start)
			if unquote(name) == seg && start < len(value) {
				return value[start:i], i, true
			}
			i = space(value, i) // at the comma, or at the end
		}
	case '[':
		n, ok := index(seg)
		if !ok {
			return "", i, false
		}
		for i = space(value, i+1); i < len(value) && value[i] != ']'; i = space(value, i+1) {
			start := i
			i = valueEnd(value, i)
			if n == 0 {
				return value[start:i], i, true
			}
			n--
			i = space(value, i)
		}
	}
	return "", min(i, len(value)), false
}

// index reads an array index: decimal, without sign and leading zeros.
func index(seg string) (n int, ok bool) {
	if seg == "" || len(seg) > 9 || seg[0] == '0' && len(seg) > 1 {
		return 0, false
	}
	for i := range len(seg) {
		if seg[i] < '0' || seg[i] > '9' {
			return 0, false
		}
		n = n*10 + int(seg[i]-'0')
	}
	return n, true
}

// unquote returns the text of a JSON string.
func unquote(s string) string {
	if len(s) >= 2 && strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, s) // of an invalid string, the part that could be decoded
	return string(b)
}

// appendEmbedded appends a value as it reads inside longer text: strings raw,
// others in canonical form (docs/spec/streaming.md §6).
func appendEmbedded(dst []byte, value string) []byte {
	if i := space(value, 0); i < len(value) && value[i] == '"' {
		return append(dst, unquote(value[i:quoteEnd(value, i)])...)
	}
	v := jsontext.Value(value)
	if err := v.Canonicalize(); err != nil {
		return append(dst, value...)
	}
	return append(dst, v...)
}
