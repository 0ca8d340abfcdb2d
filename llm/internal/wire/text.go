package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text joins the JSON strings of a reply. Some servers cut between the two halves of a UTF-16
// pair, or inside a UTF-8 sequence; text joins both.
type text struct {
	out  []byte
	high rune // the first half of a pair whose second half has not come; 0 for none
}

// add appends the content of a JSON string literal with its quotes, and reports whether it is
// one. Bytes that are not UTF-8 are kept.
func (t *text) add(lit []byte) bool {
	if len(lit) < 2 || lit[0] != '"' || lit[len(lit)-1] != '"' {
		return false
	}
	s := lit[1 : len(lit)-1]
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			j := i + 1
			for j < len(s) && s[j] != '\\' {
				j++
			}
			t.flush()
			t.out = append(t.out, s[i:j]...)
			i = j
			continue
		}
		if i+1 >= len(s) {
			return false
		}
		c := s[i+1]
		i += 2
		if c == 'u' {
			r, ok := hex4(s[i:])
			if !ok {
				return false
			}
			i += 4
			t.unit(r)
			continue
		}
		b, ok := plainEscapes[c]
		if !ok {
			return false
		}
		t.flush()
		t.out = append(t.out, b)
	}
	return true
}

var plainEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unit adds one escaped UTF-16 code unit.
func (t *text) unit(r rune) {
	if t.high != 0 {
		if pair := utf16.DecodeRune(t.high, r); pair != utf8.RuneError {
			t.high = 0
			t.out = utf8.AppendRune(t.out, pair)
			return
		}
		t.flush()
	}
	if r >= 0xd800 && r < 0xdc00 {
		t.high = r
		return
	}
	t.out = utf8.AppendRune(t.out, r) // a second half alone becomes U+FFFD
}

// flush ends a pair without its second half.
func (t *text) flush() {
	if t.high != 0 {
		t.high = 0
		t.out = utf8.AppendRune(t.out, utf8.RuneError)
	}
}

// take returns the text so far and removes it. Half a pair stays for the next literal.
func (t *text) take() []byte {
	out := t.out
	t.out = nil
	return out
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
