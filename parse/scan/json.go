package scan

import (
	"cmp"
	"math/bits"
)

// MaxJSONDepth is how deep arrays and objects may nest by default; a flat one has
// depth 1 (docs/spec/streaming.md §2).
const MaxJSONDepth = 64

// JSON takes one JSON text (RFC 8259) as it arrives, tells the first byte that
// cannot belong to one, and keeps the text in normal form (docs/spec/design.md §10):
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
	// Keep is how deep objects are whose members stay as they come, in their order and
	// the repeated ones too: for those who look for members and have no use for the
	// object's normal form.
	Keep int
	// Commas lets one comma stand behind the last element or member; Controls lets line
	// ends and tabs stand as they are in a string that is a value, which Closer watches.
	Commas, Controls bool
	// Closer is a tag's beginning, such as "</action": where it stands in a string behind
	// a raw line end, followed by white space or ">", the string's end is missing, and the
	// byte that follows is not taken (Closed).
	Closer string

	state    jsonState
	buf      []byte  // the normal form so far
	stack    []frame // the arrays and objects that are open
	members  []Pair  // those of the open objects; of the outermost ones they stay
	literal  string  // true, false or null, what is left of it
	unit     rune    // of \u: what its digits have given
	digits   int     // and how many came
	high     rune    // a high surrogate that waits for its low one; 0 none
	lone     bool    // one waited in vain
	inKey    bool    // the string is a key
	started  bool
	deep     bool // MaxDepth ended it
	commas   bool // such a comma was there
	controls bool // such a character was
	wrapped  bool // the string has a raw line end
	closer   int  // bytes of Closer that the string ends in, while wrapped
	closed   bool
	spare    []byte // for sort
}

// frame is an open array or object.
type frame struct {
	object  bool
	sorted  bool // its keys ascend so far, so that none repeats
	at      int  // of its bracket in buf
	members int  // index of its first in members
	last    int  // and of its last
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
	j.state, j.high, j.lone, j.inKey, j.started, j.deep = jsonValue, 0, false, false, false, false
	j.commas, j.controls, j.wrapped, j.closed = false, false, false, false
	j.buf, j.stack, j.members = j.buf[:0], j.stack[:0], j.members[:0]
}

// MemoryBytes is how much memory Reset keeps, but for the stack's, which MaxDepth bounds.
func (j *JSON) MemoryBytes() int {
	const memberBytes = 4 * bits.UintSize / 8
	return cap(j.buf) + cap(j.spare) + cap(j.members)*memberBytes
}

// Blank tells that nothing but white space has come.
func (j *JSON) Blank() bool { return !j.started }

// Deep tells that Write took no more because of MaxDepth.
func (j *JSON) Deep() bool { return j.deep }

// InString tells that the text so far ends within a string.
func (j *JSON) InString() bool {
	return j.state == jsonString || j.state == jsonEscape || j.state == jsonHex
}

// depth is how deep a text may be.
func (j *JSON) depth() int { return cmp.Or(j.MaxDepth, MaxJSONDepth) }

// Write takes the bytes of p for as long as they continue a JSON text. n is how
// many that are; when it is less than len(p), p[n] belongs to no JSON text there,
// and nothing of it was taken.
func (j *JSON) Write(p []byte) (n int) {
	for n < len(p) {
		end := min(len(p), n+pieceBytes)
		j.room(end - n)
		if n = j.write(p[:end], n); n < end {
			break
		}
	}
	return n
}

// pieceBytes is how much of a push there is made room for at once: what is behind the
// text in a long one needs none.
const pieceBytes = 256

// write takes p from p[n] on and gives the place of the byte that it does not take.
func (j *JSON) write(p []byte, n int) int {
	for n < len(p) {
		switch c := p[n]; j.state {
		case jsonString:
			if j.wrapped {
				if !j.wrappedByte(c) {
					return n
				}
				j.room(len(p) - n)
				break
			}
			if n+1 == len(p) && c >= ' ' && c != '"' && c != '\\' && j.high == 0 {
				j.buf = append(j.buf, c)
				return n + 1
			}
			if n = j.run(p, n); n == len(p) {
				return n
			}
			switch p[n] {
			case '"':
				j.unquote()
			case '\\':
				j.state = jsonEscape
			default:
				if !j.control(p[n]) {
					return n
				}
				j.room(len(p) - n) // an escape is longer than what it stands for
			}
		case jsonEscape:
			if !j.escape(c) {
				return n
			}
		case jsonHex:
			if !j.hex(c) {
				return n
			}
		case jsonLiteral:
			if c != j.literal[0] {
				return n
			}
			j.buf = append(j.buf, c)
			if j.literal = j.literal[1:]; j.literal == "" {
				j.ended()
			}
		case jsonMinus, jsonZero, jsonInt, jsonDot, jsonFrac, jsonExp, jsonExpSign, jsonExpInt:
			if n = j.number(p, n); n == len(p) {
				return n
			}
			if !j.numberEnds() {
				return n
			}
			// What ends a number is judged as what follows a value. That it may be
			// refused does no harm: a number without it is complete as well.
			j.ended()
			continue
		default:
			if !j.token(c) && !isWhite(c) {
				return n
			}
		}
		n++
	}
	return n
}

// Whole tells that what came is an array, an object or a string that has ended.
func (j *JSON) Whole() bool { return j.state == jsonDone }

// End reports whether the text is complete and valid. Nothing may be written after
// it.
func (j *JSON) End() bool {
	if len(j.stack) == 0 && j.numberEnds() {
		j.state = jsonDone
	}
	return j.state == jsonDone && !j.lone
}

// Bytes is the normal form of a text that End found valid. It holds until Reset.
func (j *JSON) Bytes() []byte { return j.buf }

// Members are those of the outermost value, when it is an object, and of all objects
// at most Keep deep, in the order of their keys in Bytes. They hold until Reset.
func (j *JSON) Members() []Pair { return j.members }

// slack is the room that a piece needs besides its own length: an escape that was begun
// may end in it, and words are written whole.
const slack = len(`\u0000`) + wordBytes

// room is made for n bytes more, where there is none.
func (j *JSON) room(n int) {
	if cap(j.buf)-len(j.buf) < n+slack {
		j.grow(n)
	}
}

// grow makes room for n bytes more, and doubles what there is: append lets a large text
// grow by little, and copies it again and again.
func (j *JSON) grow(n int) {
	if j.buf == nil {
		j.begin()
	}
	if need := len(j.buf) + n + slack; need > cap(j.buf) {
		j.buf = append(make([]byte, 0, max(need, 2*cap(j.buf))), j.buf...)
	}
}

// begin gives a scanner the memory of a usual text in one allocation.
func (j *JSON) begin() {
	room := new(struct {
		buf     [512]byte
		spare   [256]byte
		stack   [8]frame
		members [16]Pair
	})
	j.buf, j.spare, j.stack, j.members = room.buf[:0], room.spare[:0], room.stack[:0], room.members[:0]
}

// number takes what a number goes on with, from p[n] on, and gives the place of the
// byte that it does not.
func (j *JSON) number(p []byte, n int) int {
	from := n
	for ; n < len(p); n++ {
		next, ok := numberStep(j.state, p[n])
		if !ok {
			break
		}
		j.state = next
	}
	j.buf = append(j.buf, p[from:n]...)
	return n
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
		return j.value(c) || c == ']' && j.trailing()
	case jsonFirstKey:
		if c == '}' {
			j.shut(c)
			return true
		}
		return j.key(c)
	case jsonKey:
		return j.key(c) || c == '}' && j.trailing()
	case jsonColon:
		if c != ':' {
			return false
		}
		j.buf = append(j.buf, c)
		j.members[j.stack[len(j.stack)-1].last].Value = len(j.buf)
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
	j.stack[len(j.stack)-1].last = len(j.members)
	j.members = append(j.members, Pair{Key: len(j.buf)})
	j.buf = append(j.buf, c)
	j.state, j.inKey = jsonString, true
	return true
}

func (j *JSON) value(c byte) bool {
	switch {
	case c == '{' || c == '[':
		if len(j.stack) >= j.depth() {
			j.deep = true
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
	if top := &j.stack[len(j.stack)-1]; top.object {
		j.members[top.last].ValueEnd = len(j.buf)
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
	if depth := len(j.stack); depth > 0 && depth >= j.Keep {
		j.members = j.members[:top.members]
	}
	j.ended()
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
