// Package jsonstring writes, reads and orders the strings of canonical JSON (RFC 8785): tokens,
// records, scripts and replies of models must agree on them to the byte.
//
// KindName names kinds of JSON values in errors.
//
// Its functions are pure. They check nothing: their output is UTF-8 if the input is, and the
// strings that they read must have been accepted by a scanner.
package jsonstring

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// lengths are those of bytes in a string; 1 means as it is.
var lengths = func() (n [256]uint8) {
	for i := range n {
		n[i] = 1
		if i < ' ' {
			n[i] = 6
		}
	}
	for _, c := range "\"\\\b\t\n\f\r" {
		n[c] = 2
	}
	return n
}()

// Append appends s as a string, with its quotes and the escapes of RFC 8785 §3.2.2.2.
func Append(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; lengths[c] != 1 {
			dst = append(dst, s[from:i]...)
			dst = AppendEscape(dst, c)
			from = i + 1
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// Len is the number of bytes that Append appends.
func Len(s string) int64 {
	n := int64(2)
	for i := range len(s) {
		n += int64(lengths[s[i]])
	}
	return n
}

// AppendEscape appends the escape of a quote, a backslash or a control character.
func AppendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendMeant appends the decoded value of a string, given as its text between the quotes.
func AppendMeant(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		r, n := unescape(s[i:])
		dst = utf8.AppendRune(dst, r)
		s = s[i+n:]
	}
}

// unescape decodes the escape that s begins with, both halves of a pair at once.
func unescape(s []byte) (r rune, size int) {
	switch s[1] {
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
		unit, _ := Unit(s)
		if 0xd800 <= unit && unit < 0xdc00 {
			low, _ := Unit(s[6:])
			return utf16.DecodeRune(rune(unit), rune(low)), 12
		}
		return rune(unit), 6
	}
	return rune(s[1]), 2 // \" \\ \/
}

// Unit decodes the \uXXXX at the start of s; ok is false if there is none.
func Unit(s []byte) (unit uint16, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		unit <<= 4
		switch {
		case '0' <= c && c <= '9':
			unit |= uint16(c - '0')
		case 'a' <= c && c <= 'f':
			unit |= uint16(c - 'a' + 10)
		case 'A' <= c && c <= 'F':
			unit |= uint16(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return unit, true
}

// Compare compares two strings, given as their texts between the quotes, by the UTF-16 code
// units of their values (RFC 8785 §3.2.3): 😀 (D83D DE00) is before דּ (FB33), unlike in the
// order of bytes.
func Compare(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if c, d := a[i], b[i]; c|d >= utf8.RuneSelf || c == '\\' || d == '\\' {
			return compareCharacters(a[i:], b[i:])
		} else if c != d {
			return int(c) - int(d)
		}
	}
	return len(a) - len(b)
}

// compareCharacters compares the rest of two strings, one character after the other.
func compareCharacters(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	for len(a) > 0 && len(b) > 0 {
		ra, na := first(a)
		rb, nb := first(b)
		if ra != rb {
			return unitOrder(ra) - unitOrder(rb)
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// first decodes the character that s begins with.
func first(s []byte) (r rune, size int) {
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
