package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// Letter takes one byte that stands for itself in a string, as Write does. It returns false if it
// has not taken the byte; then call Write.
func (j *JSON) Letter(c byte) bool {
	if j.state != jsonString || j.wrapped || c < ' ' || c == '"' || c == '\\' || j.high != 0 || cap(j.buf)-len(j.buf) <= slack {
		return false
	}
	j.buf = append(j.buf, c)
	return true
}

// run takes bytes of a string that do not change in normal form, with escapes of two bytes, from
// p[n] on. It returns the index of the byte that it stopped at.
func (j *JSON) run(p []byte, n int) int {
	from, buf := n, j.buf
	for {
		buf, n = appendPlain(buf, p, n)
		if n+1 >= len(p) || p[n] != '\\' || !short[p[n+1]] {
			break
		}
		buf = append(buf, '\\', p[n+1])
		n += 2
	}
	j.buf = buf
	if n > from {
		j.alone()
	}
	return n
}

// short are the escapes that the normal form keeps.
var short = [256]bool{'"': true, '\\': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// appendPlain appends the bytes from p[n] on that stand for themselves in a string, and returns
// the index of the first that does not. It works by words and may write one too many: dst must
// have room for it.
func appendPlain(dst, p []byte, n int) ([]byte, int) {
	for ; len(p)-n >= wordBytes; n += wordBytes {
		x := binary.LittleEndian.Uint64(p[n:])
		at := len(dst)
		dst = dst[:at+wordBytes]
		binary.LittleEndian.PutUint64(dst[at:], x)
		if m := special(x); m != 0 {
			k := bits.TrailingZeros64(m) / 8
			return dst[:at+k], n + k
		}
	}
	if rest := len(p) - n; rest > 1 && len(p) >= wordBytes {
		// The last word of p, without bytes that were looked at: zeros follow, and are special.
		x := binary.LittleEndian.Uint64(p[len(p)-wordBytes:]) >> (8 * (wordBytes - rest))
		at, k := len(dst), bits.TrailingZeros64(special(x))/8
		dst = dst[:at+wordBytes]
		binary.LittleEndian.PutUint64(dst[at:], x)
		return dst[:at+k], n + k
	}
	for ; n < len(p); n++ {
		c := p[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		dst = append(dst, c)
	}
	return dst, n
}

// StringRun returns how many bytes at the beginning of p stand for themselves in a JSON string:
// all but control characters, quotes and backslashes.
func StringRun(p []byte) (n int) {
	for ; len(p)-n >= wordBytes; n += wordBytes {
		if m := special(binary.LittleEndian.Uint64(p[n:])); m != 0 {
			return n + bits.TrailingZeros64(m)/8
		}
	}
	for n < len(p) && p[n] >= ' ' && p[n] != '"' && p[n] != '\\' {
		n++
	}
	return n
}

// unquote takes the quote that ends a string.
func (j *JSON) unquote() {
	j.alone()
	j.wrapped = false
	j.buf = append(j.buf, '"')
	if !j.inKey {
		j.ended()
		return
	}
	j.inKey, j.state = false, jsonColon
	depth := len(j.stack)
	top := &j.stack[depth-1]
	m := &j.members[top.last]
	m.KeyEnd = len(j.buf)
	if depth > j.Keep && top.sorted && top.last > top.members {
		top.sorted = j.compare(j.members[top.last-1], *m) < 0
	}
}

// alone notes that no low surrogate follows a high one.
func (j *JSON) alone() {
	if j.high != 0 {
		j.high, j.lone = 0, true
	}
}

// escape takes the byte after a backslash.
func (j *JSON) escape(c byte) bool {
	var r rune
	switch c {
	case 'u':
		j.state, j.unit, j.digits = jsonHex, 0, 0
		return true
	case '"', '\\', '/':
		r = rune(c)
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	default:
		return false
	}
	j.alone()
	j.buf = appendRune(j.buf, r)
	j.state = jsonString
	return true
}

// hex takes a digit after \u; the fourth completes a character or half of one.
func (j *JSON) hex(c byte) bool {
	switch {
	case c >= '0' && c <= '9':
		c -= '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		c = c | 0x20 - 'a' + 10
	default:
		return false
	}
	j.unit = j.unit<<4 | rune(c)
	if j.digits++; j.digits < 4 {
		return true
	}
	j.state = jsonString
	high := j.high
	j.high = 0
	switch {
	case high != 0 && j.unit >= 0xdc00 && j.unit < 0xe000:
		j.buf = utf8.AppendRune(j.buf, utf16.DecodeRune(high, j.unit))
		return true
	case high != 0:
		j.lone = true
	}
	switch {
	case j.unit >= 0xd800 && j.unit < 0xdc00:
		j.high = j.unit
	case j.unit >= 0xdc00 && j.unit < 0xe000:
		j.lone = true
	default:
		j.buf = appendRune(j.buf, j.unit)
	}
	return true
}

// appendRune appends a character as strings in normal form have it.
func appendRune(dst []byte, r rune) []byte {
	if r < ' ' || r == '"' || r == '\\' {
		return jsonstring.AppendEscape(dst, byte(r))
	}
	return utf8.AppendRune(dst, r)
}

// AppendString appends the text of a string literal in normal form.
func AppendString(dst, literal []byte) []byte {
	return jsonstring.AppendMeant(dst, literal[1:len(literal)-1])
}
