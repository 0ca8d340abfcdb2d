package syntax

import (
	"strings"
	"unicode/utf8"
)

// raw reads a string that ends with the first closing delimiter.
func (s *scanner) raw(delim string, t token) {
	from := s.start + 3
	n := strings.Index(s.src[from:], delim)
	if n < 0 {
		s.pos = len(s.src)
		s.fail(s.start, "this string is not closed: "+delim+" is missing")
		return
	}
	end := from + n
	s.text = s.src[from:end]
	for i := from; i < end; i++ {
		// A CRLF counts once: its CR has length 2.
		if c := s.src[i]; c == '\n' || c == '\r' {
			if n := s.lineEnd(i); i+n <= end {
				s.newline(i + n)
				i += n - 1
			}
		}
	}
	s.pos = end + 3
	s.set(t)
}

func (s *scanner) unclosed(quote string) {
	s.fail(s.start, "this string is not closed: "+quote+" is missing before the line end; text of several lines stands between ''' or three backticks")
}

func (s *scanner) singleQuoted() {
	src := s.src
	var b []byte
	from := s.start + 1 // of the bytes not yet in b
	for i := from; i < len(src); i++ {
		switch src[i] {
		case '\'':
			s.pos = i + 1
			s.text = joinText(b, src[from:i])
			s.set(tokString)
			return
		case '\n', '\r':
			s.pos = i
			s.unclosed("'")
			return
		case '\\':
			if i+1 < len(src) && src[i+1] == '\'' {
				b = append(b, src[from:i]...)
				b = append(b, '\'')
				i++
				from = i + 1
			} else if n := s.lineEnd(i + 1); n > 0 {
				s.newline(i + 1 + n)
				b = append(b, src[from:i]...)
				i += n
				from = i + 1
			}
		}
	}
	s.pos = len(src)
	s.unclosed("'")
}

// joinText puts a string together; without decoded bytes it aliases the source.
func joinText(b []byte, rest string) string {
	if b == nil {
		return rest
	}
	return string(append(b, rest...))
}

func (s *scanner) doubleQuoted() {
	src := s.src
	var b []byte
	from := s.start + 1
	for i := from; i < len(src); {
		switch src[i] {
		case '"':
			s.pos = i + 1
			s.text = joinText(b, src[from:i])
			s.set(tokString)
			return
		case '\n', '\r':
			s.pos = i
			s.unclosed(`"`)
			return
		case '\\':
			if b == nil {
				b = make([]byte, 0, 32)
			}
			b = append(b, src[from:i]...)
			var n int
			if b, n = s.escape(b, i); n == 0 {
				return
			}
			i += n
			from = i
		default:
			i++
		}
	}
	s.pos = len(src)
	s.unclosed(`"`)
}

// escape decodes the escape at i, which is a backslash in a "…" string, and gives
// its length in the source; 0 after an error.
func (s *scanner) escape(b []byte, i int) ([]byte, int) {
	src := s.src
	if n := s.lineEnd(i + 1); n > 0 {
		s.newline(i + 1 + n)
		return b, 1 + n
	}
	if i+1 >= len(src) {
		s.pos = i
		s.unclosed(`"`)
		return b, 0
	}
	switch c := src[i+1]; c {
	case '"', '\'', '\\', '~', '`':
		return append(b, c), 2
	case 'b':
		return append(b, '\b'), 2
	case 't':
		return append(b, '\t'), 2
	case 'n':
		return append(b, '\n'), 2
	case 'f':
		return append(b, '\f'), 2
	case 'r':
		return append(b, '\r'), 2
	case 'v':
		return append(b, '\v'), 2
	case 'x':
		if r, ok := digitsAt(src, i+2, 2, 16, classHex); ok {
			return utf8.AppendRune(b, r), 4
		}
		return s.badEscape(b, i, `\x takes exactly two hexadecimal digits`)
	case 'u':
		r, ok := digitsAt(src, i+2, 4, 16, classHex)
		if !ok {
			return s.badEscape(b, i, `\u takes exactly four hexadecimal digits`)
		}
		if r < 0xD800 || r > 0xDFFF {
			return utf8.AppendRune(b, r), 6
		}
		if r < 0xDC00 && strings.HasPrefix(src[i+6:], `\u`) {
			if low, ok := digitsAt(src, i+8, 4, 16, classHex); ok && low >= 0xDC00 && low <= 0xDFFF {
				return utf8.AppendRune(b, (r-0xD800)<<10|(low-0xDC00)+0x10000), 12
			}
		}
		return s.badEscape(b, i, `\u names a lone surrogate: a pair is written \uD83D\uDE00`)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		if r, ok := digitsAt(src, i+1, 3, 8, classOctal); ok && r <= 0xFF {
			return utf8.AppendRune(b, r), 4
		}
		return s.badEscape(b, i, `an octal escape has exactly three digits, \000 to \377`)
	default:
		_, n := utf8.DecodeRuneInString(src[i+1:])
		return s.badEscape(b, i, "unknown escape \\"+src[i+1:i+1+n]+` in "…": write \\ for a backslash, or use '…', where backslashes are text`)
	}
}

func (s *scanner) badEscape(b []byte, i int, detail string) ([]byte, int) {
	s.pos = i
	s.fail(i, detail)
	return b, 0
}

// digitsAt reads exactly n digits of a base.
func digitsAt(src string, i, n, base int, class uint8) (rune, bool) {
	if i+n > len(src) {
		return 0, false
	}
	r := 0
	for _, c := range []byte(src[i : i+n]) {
		if classes[c]&class == 0 {
			return 0, false
		}
		d := int(c - '0')
		if c > '9' {
			d = int(c|0x20-'a') + 10
		}
		r = r*base + d
	}
	return rune(r), true
}
