package journal

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// What of JSON a body is made of: each method takes one member, list or value at the place, in
// canonical form, and nothing else. The first failure stays; what follows it takes nothing.

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = &messages.Error{
			Code: messages.ErrJournal, Reason: ReasonCorrupt, Field: string(d.kind),
			Offset: int64(d.pos), HasOffset: true, Detail: what,
		}
	}
}

// lit takes exactly s.
func (d *decoder) lit(s string) {
	if d.err != nil {
		return
	}
	if len(d.raw)-d.pos < len(s) || string(d.raw[d.pos:d.pos+len(s)]) != s {
		if s == "}" {
			d.fail("a member that this version does not know, or the end is missing")
		} else {
			d.fail("want " + s)
		}
		return
	}
	d.pos += len(s)
}

// has reads the name of the next member if that is k, and reports whether it was.
func (d *decoder) has(k string) bool {
	if d.err != nil {
		return false
	}
	p := d.pos
	if p > 0 && d.raw[p-1] != '{' {
		if p >= len(d.raw) || d.raw[p] != ',' {
			return false
		}
		p++
	}
	if len(d.raw)-p < len(k)+3 || d.raw[p] != '"' || string(d.raw[p+1:p+1+len(k)]) != k ||
		d.raw[p+1+len(k)] != '"' || d.raw[p+2+len(k)] != ':' {
		return false
	}
	d.pos = p + len(k) + 3
	return true
}

func (d *decoder) need(k string) {
	if !d.has(k) {
		d.fail("want member " + k)
	}
}

// zero refuses a zero value where the encoder would have left the member out.
func (d *decoder) zero(isZero bool, k string) {
	if isZero {
		d.fail("member " + k + " is zero and should be absent")
	}
}

func (d *decoder) str(k string) string {
	d.need(k)
	return d.text()
}

func (d *decoder) strz(k string) string {
	if !d.has(k) {
		return ""
	}
	s := d.text()
	d.zero(s == "", k)
	return s
}

func (d *decoder) num(k string) int64 {
	d.need(k)
	return d.integer()
}

func (d *decoder) numz(k string) int64 {
	if !d.has(k) {
		return 0
	}
	n := d.integer()
	d.zero(n == 0, k)
	return n
}

func (d *decoder) boolean(k string) bool {
	d.need(k)
	if d.err == nil && d.pos < len(d.raw) && d.raw[d.pos] == 't' {
		d.lit("true")
		return true
	}
	d.lit("false")
	return false
}

func (d *decoder) booleanz(k string) bool {
	if !d.has(k) {
		return false
	}
	d.lit("true")
	return true
}

func (d *decoder) digest(k string) messages.Digest {
	d.need(k)
	return d.hex()
}

func (d *decoder) digestz(k string) messages.Digest {
	if !d.has(k) {
		return messages.Digest{}
	}
	v := d.hex()
	d.zero(v.IsZero(), k)
	return v
}

func (d *decoder) bytes(k string) []byte {
	d.need(k)
	return d.base64()
}

func (d *decoder) bytesz(k string) []byte {
	if !d.has(k) {
		return nil
	}
	return d.base64()
}

func decodeText[T ~string](d *decoder) T { return T(d.text()) }

func decodeListz[T any](d *decoder, k string, one func(*decoder) T) []T {
	if !d.has(k) {
		return nil
	}
	d.lit("[")
	list := []T{}
	for d.err == nil {
		if d.pos < len(d.raw) && d.raw[d.pos] == ']' {
			break
		}
		if len(list) > 0 {
			d.lit(",")
		}
		list = append(list, one(d))
	}
	d.lit("]")
	return list
}

// quoted reads a string and returns the bytes between its quotes, with their escapes.
func (d *decoder) quoted() []byte {
	d.lit(`"`)
	if d.err != nil {
		return nil
	}
	start := d.pos
	for i := start; i < len(d.raw); i++ {
		switch c := d.raw[i]; {
		case c == '"':
			d.pos = i + 1
			return d.raw[start:i]
		case c == '\\':
			i++
		case c < ' ':
			d.pos = i
			d.fail("a control character in a string")
			return nil
		}
	}
	d.fail("a string without an end")
	return nil
}

func (d *decoder) text() string {
	start := d.pos + 1
	q := d.quoted()
	if d.err != nil {
		return ""
	}
	end := d.pos
	plain := true
	for _, c := range q {
		if c == '\\' {
			plain = false
			break
		}
	}
	if !utf8.Valid(q) {
		d.pos = start
		d.fail("a string that is not UTF-8")
		return ""
	}
	if plain {
		return string(q)
	}
	out := make([]byte, 0, len(q))
	for i := 0; i < len(q); i++ {
		if q[i] != '\\' {
			out = append(out, q[i])
			continue
		}
		c, n := unescape(q[i:])
		if n == 0 {
			d.pos = start + i
			d.fail("an escape that the canonical form does not use")
			return ""
		}
		out = append(out, c)
		i += n - 1
	}
	d.pos = end
	return string(out)
}

// unescape reads one canonical escape at the start of q; n is 0 for any other.
func unescape(q []byte) (c byte, n int) {
	if len(q) < 2 {
		return 0, 0
	}
	switch q[1] {
	case '"', '\\':
		return q[1], 2
	case 'b':
		return '\b', 2
	case 't':
		return '\t', 2
	case 'n':
		return '\n', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		if len(q) < 6 || q[2] != '0' || q[3] != '0' || q[4] != '0' && q[4] != '1' {
			return 0, 0
		}
		low := digit(q[5])
		if low < 0 {
			return 0, 0
		}
		c = (q[4]-'0')<<4 | byte(low)
		switch c {
		case '\b', '\t', '\n', '\f', '\r': // these have a shorter form
			return 0, 0
		}
		return c, 6
	}
	return 0, 0
}

// digit is the value of a lower-case hex digit, or -1.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

func (d *decoder) integer() int64 {
	if d.err != nil {
		return 0
	}
	p, negative := d.pos, false
	if p < len(d.raw) && d.raw[p] == '-' {
		negative = true
		p++
	}
	first := p
	var n int64
	for ; p < len(d.raw) && d.raw[p] >= '0' && d.raw[p] <= '9'; p++ {
		n = n*10 + int64(d.raw[p]-'0')
		if n > maxInt {
			d.fail("an integer beyond 2^53-1")
			return 0
		}
	}
	if p == first || d.raw[first] == '0' && (p > first+1 || negative) {
		d.fail("want an integer")
		return 0
	}
	d.pos = p
	if negative {
		return -n
	}
	return n
}

func (d *decoder) hex() (v messages.Digest) {
	start := d.pos
	q := d.quoted()
	if d.err != nil {
		return v
	}
	err := v.UnmarshalText(q)
	if err != nil || v.IsZero() && len(q) > 0 {
		d.pos = start
		d.fail("want 64 lower-case hex digits")
	}
	return v
}

func (d *decoder) base64() []byte {
	start := d.pos
	q := d.quoted()
	if d.err != nil {
		return nil
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(q)))
	n, err := base64.StdEncoding.Strict().Decode(out, q)
	// The decoder of the standard library skips line ends; quoted has none.
	if err != nil {
		d.pos = start
		d.fail("want base64")
		return nil
	}
	return out[:n]
}
