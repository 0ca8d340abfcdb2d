package neuroscript

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// FromJSON reads one JSON text (RFC 8259, strict: UTF-8, no lone surrogates,
// nothing but blanks around the value). Numbers become binary64; of members with
// the same name the last wins. A text that is not JSON, or a number out of range,
// is a *ScriptError with code 41 naming the byte offset; nesting deeper than
// MaxValueDepth is one with code 17.
func FromJSON(b []byte) (Value, error) {
	p := jsonParser{s: string(b), most: math.MaxInt64}
	return p.document()
}

// AppendJSON appends v as canonical JSON: no blanks, names ascending by bytes,
// integral numbers without fraction, other numbers as ECMAScript writes them. An
// error value becomes its code, message and, if any, details; a timedate its
// RFC 3339 text (§4). What has no JSON form – nesting deeper than MaxValueDepth,
// a number that is not finite, text that is not UTF-8 – is a *ScriptError, and
// dst comes back as it was.
func AppendJSON(dst []byte, v Value) ([]byte, error) {
	if v.depth() > MaxValueDepth {
		return dst, Errorf(CodeEvaluation, "the value nests more than %d deep", MaxValueDepth)
	}
	out, err := appendJSON(dst, v)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendJSON(dst []byte, v Value) ([]byte, error) {
	var err error
	switch v.k {
	case KindNil:
		return append(dst, "null"...), nil
	case KindBool:
		return appendNested(dst, v, 0), nil
	case KindNumber:
		if !isFinite(v.num()) {
			return dst, Errorf(CodeEvaluation, "a number is not finite")
		}
		return appendJSONNumber(dst, v.num()), nil
	case KindString:
		return appendJSONString(dst, v.str())
	case KindTimeDate:
		return appendNested(dst, v, 0), nil
	case KindList:
		dst = append(dst, '[')
		for i, e := range v.list().elems {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, e); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case KindMap:
		dst = append(dst, '{')
		entries := v.dict().entries
		for i := range entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSONString(dst, entries[i].Key); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
			if dst, err = appendJSON(dst, entries[i].Value); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case KindError:
		e := v.fault()
		dst = append(dst, `{"code":`...)
		dst = strconv.AppendInt(dst, int64(e.code), 10)
		if !e.details.IsNil() {
			dst = append(dst, `,"details":`...)
			if dst, err = appendJSON(dst, e.details); err != nil {
				return dst, err
			}
		}
		dst = append(dst, `,"message":`...)
		if dst, err = appendJSONString(dst, e.message); err != nil {
			return dst, err
		}
		return append(dst, '}'), nil
	}
	return dst, nil
}

func appendJSONString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, Errorf(CodeInvalid, "a text is not UTF-8")
	}
	return jsonstring.Append(dst, s), nil
}

// appendJSONNumber writes a number as ECMAScript does: plain decimals from 1e-6
// to 1e21, an exponent outside.
func appendJSONNumber(dst []byte, f float64) []byte {
	a := math.Abs(f)
	if a == 0 || a >= 1e-6 && a < 1e21 {
		return appendNumber(dst, f)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// e-07 is written e-7.
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// jsonParser reads JSON by recursive descent, MaxValueDepth deep at most.
type jsonParser struct {
	s     string
	pos   int
	size  int64 // charged size of what was read so far
	most  int64 // stop when size is above it
	large bool  // stopped so
}

func (p *jsonParser) document() (Value, error) {
	if !utf8.ValidString(p.s) {
		return Value{}, Errorf(CodeInvalid, "not JSON: the text is not UTF-8")
	}
	p.blanks()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.blanks()
	if p.pos < len(p.s) {
		return Value{}, p.bad("text after the value")
	}
	return v, nil
}

func (p *jsonParser) bad(what string) error {
	return Errorf(CodeInvalid, "not JSON at byte %d: %s", p.pos, what)
}

// grow counts charged bytes of a value before it is made.
func (p *jsonParser) grow(n int64) error {
	if p.size += n; p.size > p.most {
		p.large = true
		return Errorf(CodeInvalid, "the JSON is too large")
	}
	return nil
}

func (p *jsonParser) blanks() {
	for p.pos < len(p.s) {
		switch p.s[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *jsonParser) peek() byte {
	if p.pos < len(p.s) {
		return p.s[p.pos]
	}
	return 0
}

// value reads a value; depth is the nesting around it.
func (p *jsonParser) value(depth int) (Value, error) {
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth >= MaxValueDepth {
			return Value{}, Errorf(CodeEvaluation, "the JSON nests more than %d deep at byte %d", MaxValueDepth, p.pos)
		}
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		s, err := p.text()
		if err != nil {
			return Value{}, err
		}
		return String(s), p.grow(StringBase + int64(len(s)))
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return p.word("true", Bool(true))
	case c == 'f':
		return p.word("false", Bool(false))
	case c == 'n':
		return p.word("null", Value{})
	}
	if p.pos >= len(p.s) {
		return Value{}, p.bad("the text ends where a value is expected")
	}
	return Value{}, p.bad("a value is expected")
}

func (p *jsonParser) word(w string, v Value) (Value, error) {
	if len(p.s)-p.pos < len(w) || p.s[p.pos:p.pos+len(w)] != w {
		return Value{}, p.bad("a value is expected")
	}
	p.pos += len(w)
	return v, nil
}

func (p *jsonParser) digits() bool {
	from := p.pos
	for p.pos < len(p.s) && p.s[p.pos] >= '0' && p.s[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > from
}

func (p *jsonParser) number() (Value, error) {
	from := p.pos
	if p.peek() == '-' {
		p.pos++
	}
	if p.peek() == '0' {
		p.pos++
	} else if !p.digits() {
		return Value{}, p.bad("a digit is expected")
	}
	if p.peek() == '.' {
		p.pos++
		if !p.digits() {
			return Value{}, p.bad("a digit is expected")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if !p.digits() {
			return Value{}, p.bad("a digit is expected")
		}
	}
	f, err := strconv.ParseFloat(p.s[from:p.pos], 64)
	if err != nil {
		p.pos = from
		return Value{}, p.bad("the number is out of range")
	}
	return Number(f), nil
}

// text reads a string; without escapes it aliases the source.
func (p *jsonParser) text() (string, error) {
	p.pos++
	from := p.pos
	var b []byte
	for p.pos < len(p.s) {
		c := p.s[p.pos]
		switch {
		case c == '"':
			s := p.s[from:p.pos]
			p.pos++
			if b != nil {
				return string(append(b, s...)), nil
			}
			return s, nil
		case c < 0x20:
			return "", p.bad("a control character in a string")
		case c != '\\':
			p.pos++
			continue
		}
		b = append(b, p.s[from:p.pos]...)
		if b == nil {
			b = []byte{}
		}
		var err error
		if b, err = p.escape(b); err != nil {
			return "", err
		}
		from = p.pos
	}
	return "", p.bad("a string is not closed")
}

func (p *jsonParser) escape(b []byte) ([]byte, error) {
	if p.pos+1 >= len(p.s) {
		return b, p.bad("a string is not closed")
	}
	c := p.s[p.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := p.hex4(p.pos + 2)
		if !ok {
			return b, p.bad(`\u takes four hexadecimal digits`)
		}
		n := 6
		if r >= 0xD800 && r <= 0xDFFF {
			low, ok := rune(0), false
			if r < 0xDC00 && p.pos+7 < len(p.s) && p.s[p.pos+6:p.pos+8] == `\u` {
				low, ok = p.hex4(p.pos + 8)
			}
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return b, p.bad("a lone surrogate")
			}
			r = (r-0xD800)<<10 | (low - 0xDC00) + 0x10000
			n = 12
		}
		p.pos += n
		return utf8.AppendRune(b, r), nil
	default:
		return b, p.bad("an unknown escape")
	}
	p.pos += 2
	return append(b, c), nil
}

func (p *jsonParser) hex4(i int) (rune, bool) {
	if i+4 > len(p.s) {
		return 0, false
	}
	r := rune(0)
	for _, c := range []byte(p.s[i : i+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (p *jsonParser) array(depth int) (Value, error) {
	p.pos++
	if err := p.grow(ListBase); err != nil {
		return Value{}, err
	}
	elems := []Value{}
	p.blanks()
	if p.peek() == ']' {
		p.pos++
		return List(elems), nil
	}
	for {
		p.blanks()
		if err := p.grow(ListSlot); err != nil {
			return Value{}, err
		}
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		elems = append(elems, v)
		p.blanks()
		switch p.peek() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return List(elems), nil
		default:
			return Value{}, p.bad("`,` or `]` is expected")
		}
	}
}

func (p *jsonParser) object(depth int) (Value, error) {
	p.pos++
	if err := p.grow(MapBase); err != nil {
		return Value{}, err
	}
	var entries []Entry
	p.blanks()
	if p.peek() == '}' {
		p.pos++
		return MapOf(entries), nil
	}
	for {
		p.blanks()
		if p.peek() != '"' {
			return Value{}, p.bad("a name in quotes is expected")
		}
		key, err := p.text()
		if err != nil {
			return Value{}, err
		}
		if err := p.grow(MapSlot + int64(len(key))); err != nil {
			return Value{}, err
		}
		p.blanks()
		if p.peek() != ':' {
			return Value{}, p.bad("`:` is expected")
		}
		p.pos++
		p.blanks()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		entries = append(entries, Entry{key, v})
		p.blanks()
		switch p.peek() {
		case ',':
			p.pos++
		case '}':
			p.pos++
			return MapOf(entries), nil
		default:
			return Value{}, p.bad("`,` or `}` is expected")
		}
	}
}
