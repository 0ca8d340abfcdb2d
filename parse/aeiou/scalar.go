package aeiou

import (
	"unicode/utf16"
	"unicode/utf8"
)

// The lexical part of the USERDATA walk: numbers, strings and their escapes.

// number follows RFC 8259 §6.
func (w *walker) number() bool {
	if w.b[w.i] == '-' {
		w.i++
	}
	switch {
	case w.i < len(w.b) && w.b[w.i] == '0':
		w.i++
	case !w.digits():
		return w.bad("a number needs a digit")
	}
	if w.i < len(w.b) && w.b[w.i] == '.' {
		w.i++
		if !w.digits() {
			return w.bad("a fraction needs a digit")
		}
	}
	if w.i < len(w.b) && (w.b[w.i] == 'e' || w.b[w.i] == 'E') {
		w.i++
		if w.i < len(w.b) && (w.b[w.i] == '+' || w.b[w.i] == '-') {
			w.i++
		}
		if !w.digits() {
			return w.bad("an exponent needs a digit")
		}
	}
	return true
}

func (w *walker) digits() bool {
	from := w.i
	for w.i < len(w.b) && w.b[w.i] >= '0' && w.b[w.i] <= '9' {
		w.i++
	}
	return w.i > from
}

// str reads a string whose opening quote is at i; esc reports whether it holds an escape.
func (w *walker) str() (esc, ok bool) {
	b, i := w.b, w.i+1
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			w.i = i + 1
			return esc, true
		case c == '\\':
			esc = true
			if w.i = i; !w.escape() {
				return esc, false
			}
			i = w.i
		case c < 0x20:
			w.i = i
			return esc, w.bad("a control character inside a string")
		default:
			i++
		}
	}
	w.i = i
	return esc, w.bad("a string without its end")
}

// escape reads one escape, or a surrogate pair of two.
func (w *walker) escape() bool {
	if w.i+1 < len(w.b) {
		switch w.b[w.i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			w.i += 2
			return true
		case 'u':
			r, ok := hex4(w.b[w.i+2:])
			if !ok {
				return w.bad(`\u needs four hexadecimal digits`)
			}
			at := w.i
			w.i += 6
			if !utf16.IsSurrogate(r) {
				return true
			}
			if r < 0xDC00 && w.i+1 < len(w.b) && w.b[w.i] == '\\' && w.b[w.i+1] == 'u' {
				if low, ok := hex4(w.b[w.i+2:]); ok && low >= 0xDC00 && low < 0xE000 {
					w.i += 6
					return true
				}
			}
			return w.broke(at, "", "an unpaired surrogate escape")
		}
	}
	return w.bad("no such escape")
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendUnescaped appends the text of a string that str has accepted. An
// unpaired surrogate, met by a tolerant walk only, becomes U+FFFD.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		switch c := s[i+1]; c {
		case 'u':
			r, _ := hex4(s[i+2:])
			i += 6
			if utf16.IsSurrogate(r) && i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
				low, _ := hex4(s[i+2:])
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}
