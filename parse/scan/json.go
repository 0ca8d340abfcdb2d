package scan

import (
	"cmp"
	"math/bits"
)

// MaxJSONDepth is the default limit of the nesting of arrays and objects; a flat one has depth 1
// (docs/spec/streaming.md §2).
const MaxJSONDepth = 64

// JSON reads one JSON text (RFC 8259) while it arrives, finds the first byte that cannot belong
// to one, and keeps the text in normal form (docs/spec/design.md §10):
//
//   - no white space between tokens;
//   - of members with one name the last one counts; members are in the order of RFC 8785;
//   - strings have escapes only for `"`, `\` and control characters, in the shortest form;
//   - numbers keep their literals: 1.0, 1e2 and 12345678901234567890 stay.
//
// A text whose numbers are canonical is in the form of RFC 8785. A text with a lone surrogate is
// read to its end, because its strings may hold brackets and quotes, and is then invalid.
//
// Input must be UTF-8 (see UTF8). Each byte is looked at once; unsorted members are moved once
// for each object around them, so at most MaxDepth times. The zero value is ready to use; Reset
// makes it so again and keeps its memory. It is not safe for concurrent use.
type JSON struct {
	MaxDepth int // 0 is MaxJSONDepth
	// Keep is the depth up to which members of objects stay in their order, with repeated
	// ones: for callers that look for members and do not need the objects' normal form.
	Keep int
	// Commas allows one comma after the last element or member. Controls allows unescaped
	// line ends and tabs in a string that is a value; see Closer.
	Commas, Controls bool
	// Closer is the beginning of a tag, such as "</action". If a string has it after an
	// unescaped line end, followed by white space or ">", the end of the string is missing:
	// Write stops before that byte (Closed).
	Closer string

	state    jsonState
	buf      []byte  // the normal form so far
	stack    []frame // the open arrays and objects
	members  []Pair  // of the open objects; those of the outermost ones are kept
	literal  string  // the rest of true, false or null
	unit     rune    // of \u: the value of its digits so far
	digits   int     // and their number
	high     rune    // a high surrogate that waits for its low one; 0 none
	lone     bool    // a lone surrogate was found
	inKey    bool    // the string is a key
	started  bool
	deep     bool // MaxDepth ended it
	commas   bool // the text has a comma that Commas allows
	controls bool // the text has a character that Controls allows
	wrapped  bool // the string has an unescaped line end
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
	last    int  // index of its last
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

// Reset drops the text and keeps the settings.
func (j *JSON) Reset() {
	j.state, j.high, j.lone, j.inKey, j.started, j.deep = jsonValue, 0, false, false, false, false
	j.commas, j.controls, j.wrapped, j.closed = false, false, false, false
	j.buf, j.stack, j.members = j.buf[:0], j.stack[:0], j.members[:0]
}

// MemoryBytes returns how much memory Reset keeps, without the stack, which MaxDepth bounds.
func (j *JSON) MemoryBytes() int {
	const memberBytes = 4 * bits.UintSize / 8
	return cap(j.buf) + cap(j.spare) + cap(j.members)*memberBytes
}

// Blank reports whether only white space has come.
func (j *JSON) Blank() bool { return !j.started }

// Deep reports whether Write stopped because of MaxDepth.
func (j *JSON) Deep() bool { return j.deep }

// InString reports whether the text so far ends within a string.
func (j *JSON) InString() bool {
	return j.state == jsonString || j.state == jsonEscape || j.state == jsonHex
}

// depth returns the limit of nesting.
func (j *JSON) depth() int { return cmp.Or(j.MaxDepth, MaxJSONDepth) }

// Write takes the bytes of p as long as they continue a JSON text, and returns their number n. If
// n is less than len(p), p[n] cannot follow there and was not taken.
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

// pieceBytes is for how much of a push room is made at once: in a long one, most bytes may come
// after the text and need no room.
const pieceBytes = 256

// write takes p from p[n] on and returns the index of the first byte that it does not take.
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
				j.room(len(p) - n) // an escape can be longer than the byte it stands for
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
			// The byte that ends a number is read as the one after a value. If it is
			// refused there, the number is complete without it.
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

// Whole reports whether the text so far is a complete array, object or string.
func (j *JSON) Whole() bool { return j.state == jsonDone }

// End reports whether the text is complete and valid. Write must not be called after it.
func (j *JSON) End() bool {
	if len(j.stack) == 0 && j.numberEnds() {
		j.state = jsonDone
	}
	return j.state == jsonDone && !j.lone
}

// Bytes returns the normal form of a text that End found valid. It is valid until Reset.
func (j *JSON) Bytes() []byte { return j.buf }

// Members returns the members of the outermost value, if it is an object, and of all objects at
// most Keep deep, in the order of their keys in Bytes. They are valid until Reset.
func (j *JSON) Members() []Pair { return j.members }

// slack is the room that a piece needs besides its own length: an escape may end in it that began
// before, and words are written whole.
const slack = len(`\u0000`) + wordBytes

// room makes room for n more bytes, if there is none.
func (j *JSON) room(n int) {
	if cap(j.buf)-len(j.buf) < n+slack {
		j.grow(n)
	}
}

// grow makes room for n more bytes by doubling: append would let a large text grow by little and
// copy it often.
func (j *JSON) grow(n int) {
	if j.buf == nil {
		j.begin()
	}
	if need := len(j.buf) + n + slack; need > cap(j.buf) {
		j.buf = append(make([]byte, 0, max(need, 2*cap(j.buf))), j.buf...)
	}
}

// begin allocates the memory of a usual text at once.
func (j *JSON) begin() {
	room := new(struct {
		buf     [512]byte
		spare   [256]byte
		stack   [8]frame
		members [16]Pair
	})
	j.buf, j.spare, j.stack, j.members = room.buf[:0], room.spare[:0], room.stack[:0], room.members[:0]
}

// number takes the bytes that continue a number, from p[n] on, and returns the index of the first
// other byte.
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

// ended notes that a value is complete.
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

// numberEnds reports whether a number may end in the current state.
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
