package scan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxJSONDepth is how deep arrays and objects may nest by default; a flat one has
// depth 1 (streaming.md §2).
const MaxJSONDepth = 64

// JSON takes one JSON text (RFC 8259) as it arrives, tells the first byte that
// cannot belong to one, and keeps the text in normal form (design.md §10):
//
//   - no white space between tokens;
//   - of members with one name the last stands, its value replacing the whole
//     earlier one; members are in the order of RFC 8785;
//   - strings hold escapes for `"`, `\` and control characters alone, in the
//     shortest form; everything else is itself;
//   - numbers keep their literals: 1.0, 1e2 and 12345678901234567890 stay.
//
// A text whose numbers are canonical is in the form of RFC 8785. A lone surrogate
// is no character: such a text stays readable to its end, so that its strings keep
// protecting what is in them, and is then invalid.
//
// Input is UTF-8 (see UTF8). Each byte is looked at once; members that come
// unsorted are moved once for each object they are in, so at most MaxDepth times.
// The zero value is ready; Reset makes it so again and keeps its memory.
type JSON struct {
	MaxDepth int // 0 is MaxJSONDepth

	state   jsonState
	buf     []byte   // the normal form so far
	stack   []frame  // the arrays and objects that are open
	members []Member // those of the open objects; of the outermost one they stay
	literal string   // true, false or null, what is left of it
	unit    rune     // of \u: what its digits have given
	digits  int      // and how many came
	high    rune     // a high surrogate that waits for its low one; 0 none
	lone    bool     // one waited in vain
	started bool
	spare   []byte // for sort
}

// Member is a member of an object, as offsets into the text's normal form. The key
// is a string literal.
type Member struct{ Key, KeyEnd, Value, ValueEnd int }

// frame is an open array or object.
type frame struct {
	object  bool
	sorted  bool // its keys ascend so far, so that none repeats
	at      int  // of its bracket in buf
	members int  // index of its first in members
}

type jsonState uint8

const (
	jsonValue      jsonState = iota // a value must come
	jsonFirstValue                  // behind "["
	jsonFirstKey                    // behind "{"
	jsonKey                         // behind "," in an object
	jsonColon                       // behind a key
	jsonAfter                       // behind a value in an array or object
	jsonString
	jsonEscape // behind "\"
	jsonHex
	jsonLiteral
	jsonMinus // in a number, from here on
	jsonZero
	jsonInt
	jsonDot
	jsonFrac
	jsonExp
	jsonExpSign
	jsonExpInt
	jsonDone // white space may follow
)

// Reset forgets the text.
func (j *JSON) Reset() {
	j.state, j.high, j.lone, j.started = jsonValue, 0, false, false
	j.buf, j.stack, j.members = j.buf[:0], j.stack[:0], j.members[:0]
}

// Blank tells that nothing but white space has come.
func (j *JSON) Blank() bool { return !j.started }

// Write takes the bytes of p for as long as they continue a JSON text. n is how
// many that are; when it is less than len(p), p[n] belongs to no JSON text there,
// and nothing of it was taken.
func (j *JSON) Write(p []byte) (n int) {
	if j.buf == nil {
		j.grow()
	}
	for n < len(p) {
		if j.state == jsonString {
			if n += j.run(p[n:]); n == len(p) {
				break
			}
		}
		if !j.step(p[n]) {
			break
		}
		n++
	}
	return n
}

// End tells whether the text is complete and valid. Nothing may be written after
// it.
func (j *JSON) End() bool {
	if len(j.stack) == 0 && j.numberEnds() {
		j.state = jsonDone
	}
	return j.state == jsonDone && !j.lone
}

// Bytes is the normal form of a text that End found valid. It holds until Reset.
func (j *JSON) Bytes() []byte { return j.buf }

// Members are those of the outermost value, when it is an object. They hold until
// Reset.
func (j *JSON) Members() []Member { return j.members }

// Grow makes room for the normal form of a text of n bytes that is at hand.
func (j *JSON) Grow(n int) {
	if j.buf == nil {
		j.grow()
	}
	if n > cap(j.buf)-len(j.buf) {
		j.buf = slices.Grow(j.buf, n)
	}
}

// grow gives a scanner the memory of a usual text in one allocation.
func (j *JSON) grow() {
	room := new(struct {
		buf     [512]byte
		spare   [256]byte
		stack   [8]frame
		members [16]Member
	})
	j.buf, j.spare, j.stack, j.members = room.buf[:0], room.spare[:0], room.stack[:0], room.members[:0]
}

// run takes what of a string stays as it is, escapes of two bytes among it.
func (j *JSON) run(p []byte) (n int) {
	buf := j.buf
	for {
		k := plainRun(p[n:])
		buf = append(buf, p[n:n+k]...)
		n += k
		if n+1 >= len(p) || p[n] != '\\' || !short[p[n+1]] {
			break
		}
		buf = append(buf, '\\', p[n+1])
		n += 2
	}
	j.buf = buf
	if n > 0 && j.high != 0 {
		j.high, j.lone = 0, true
	}
	return n
}

// short are the escapes that the normal form keeps.
var short = [256]bool{'"': true, '\\': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// plainRun counts the bytes a string literal begins with that mean themselves,
// eight at a time: in m, the lowest bit set belongs to the first that does not.
func plainRun(p []byte) (n int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for len(p)-n >= 8 {
		x := binary.LittleEndian.Uint64(p[n:])
		quote, slash := x^ones*'"', x^ones*'\\'
		m := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if m != 0 {
			return n + bits.TrailingZeros64(m)/8
		}
		n += 8
	}
	for ; n < len(p); n++ {
		if c := p[n]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

func (j *JSON) step(c byte) bool {
	switch j.state {
	case jsonString:
		return j.inString(c)
	case jsonEscape:
		return j.escape(c)
	case jsonHex:
		return j.hex(c)
	case jsonLiteral:
		if c != j.literal[0] {
			return false
		}
		j.buf = append(j.buf, c)
		if j.literal = j.literal[1:]; j.literal == "" {
			j.ended()
		}
		return true
	}
	if j.state >= jsonMinus && j.state < jsonDone {
		if next, ok := numberStep(j.state, c); ok {
			j.state = next
			j.buf = append(j.buf, c)
			return true
		}
		if !j.numberEnds() {
			return false
		}
		// What ends a number is judged as what follows a value. That it may be
		// refused does no harm: a number without it is complete as well.
		j.ended()
	}
	if isWhite(c) {
		return true
	}
	return j.token(c)
}

// token takes the first byte of a token.
func (j *JSON) token(c byte) bool {
	switch j.state {
	case jsonFirstValue:
		if c == ']' {
			j.shut(c)
			return true
		}
		return j.value(c)
	case jsonValue:
		return j.value(c)
	case jsonFirstKey:
		if c == '}' {
			j.shut(c)
			return true
		}
		return j.key(c)
	case jsonKey:
		return j.key(c)
	case jsonColon:
		if c != ':' {
			return false
		}
		j.buf = append(j.buf, c)
		j.members[len(j.members)-1].Value = len(j.buf)
		j.state = jsonValue
		return true
	case jsonAfter:
		top := &j.stack[len(j.stack)-1]
		switch {
		case c == ',':
			j.buf = append(j.buf, c)
			j.state = jsonValue
			if top.object {
				j.state = jsonKey
			}
			return true
		case c == '}' && top.object, c == ']' && !top.object:
			j.shut(c)
			return true
		}
	}
	return false
}

func (j *JSON) key(c byte) bool {
	if c != '"' {
		return false
	}
	j.members = append(j.members, Member{Key: len(j.buf)})
	j.buf = append(j.buf, c)
	j.state = jsonString
	return true
}

func (j *JSON) value(c byte) bool {
	switch {
	case c == '{' || c == '[':
		limit := j.MaxDepth
		if limit == 0 {
			limit = MaxJSONDepth
		}
		if len(j.stack) >= limit {
			return false
		}
		j.stack = append(j.stack, frame{object: c == '{', sorted: true, at: len(j.buf), members: len(j.members)})
		j.state = jsonFirstValue
		if c == '{' {
			j.state = jsonFirstKey
		}
	case c == '"':
		j.state = jsonString
	case c == '-':
		j.state = jsonMinus
	case c == '0':
		j.state = jsonZero
	case c >= '1' && c <= '9':
		j.state = jsonInt
	case c == 't':
		j.literal, j.state = "rue", jsonLiteral
	case c == 'f':
		j.literal, j.state = "alse", jsonLiteral
	case c == 'n':
		j.literal, j.state = "ull", jsonLiteral
	default:
		return false
	}
	j.started = true
	j.buf = append(j.buf, c)
	return true
}

// ended follows the last byte of a value.
func (j *JSON) ended() {
	if len(j.stack) == 0 {
		j.state = jsonDone
		return
	}
	if j.stack[len(j.stack)-1].object {
		j.members[len(j.members)-1].ValueEnd = len(j.buf)
	}
	j.state = jsonAfter
}

// shut closes the innermost array or object.
func (j *JSON) shut(c byte) {
	top := j.stack[len(j.stack)-1]
	if top.object && !top.sorted {
		j.sort(top)
	}
	j.buf = append(j.buf, c)
	j.stack = j.stack[:len(j.stack)-1]
	if len(j.stack) > 0 {
		j.members = j.members[:top.members]
	}
	j.ended()
}

// inString takes a byte that does not mean itself.
func (j *JSON) inString(c byte) bool {
	switch c {
	case '\\':
		j.state = jsonEscape
		return true
	case '"':
		if j.high != 0 {
			j.high, j.lone = 0, true
		}
		j.buf = append(j.buf, c)
		if n := len(j.stack); n > 0 && j.stack[n-1].object {
			top := &j.stack[n-1]
			if m := &j.members[len(j.members)-1]; m.Value == 0 {
				m.KeyEnd = len(j.buf)
				if top.sorted && len(j.members)-top.members > 1 {
					top.sorted = j.compare(j.members[len(j.members)-2], *m) < 0
				}
				j.state = jsonColon
				return true
			}
		}
		j.ended()
		return true
	}
	return false
}

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
	if j.high != 0 {
		j.high, j.lone = 0, true
	}
	j.buf = appendRune(j.buf, r)
	j.state = jsonString
	return true
}

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

// appendRune writes a character as a string in normal form has it.
func appendRune(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= ' ':
		return utf8.AppendRune(dst, r)
	case r == '\b':
		return append(dst, '\\', 'b')
	case r == '\f':
		return append(dst, '\\', 'f')
	case r == '\n':
		return append(dst, '\\', 'n')
	case r == '\r':
		return append(dst, '\\', 'r')
	case r == '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
}

// numberEnds tells a number that may end where it is.
func (j *JSON) numberEnds() bool {
	switch j.state {
	case jsonZero, jsonInt, jsonFrac, jsonExpInt:
		return true
	}
	return false
}

func numberStep(s jsonState, c byte) (jsonState, bool) {
	digit := c >= '0' && c <= '9'
	switch {
	case s == jsonMinus && c == '0':
		return jsonZero, true
	case s == jsonMinus && digit, s == jsonInt && digit:
		return jsonInt, true
	case (s == jsonZero || s == jsonInt) && c == '.':
		return jsonDot, true
	case (s == jsonDot || s == jsonFrac) && digit:
		return jsonFrac, true
	case (s == jsonZero || s == jsonInt || s == jsonFrac) && c|0x20 == 'e':
		return jsonExp, true
	case s == jsonExp && (c == '+' || c == '-'):
		return jsonExpSign, true
	case (s == jsonExp || s == jsonExpSign || s == jsonExpInt) && digit:
		return jsonExpInt, true
	}
	return s, false
}
