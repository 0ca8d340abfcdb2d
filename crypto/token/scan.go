package token

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// One pass over JSON text that answers three questions at once: is it strict
// JSON, is it already in canonical form, and where is the first number that a
// token may not hold. The pass keeps its own stack of open containers, so a
// hostile depth costs a refusal and never a Go stack.
//
// Duplicate names are the one fault it does not see by itself. Names in strictly
// ascending order cannot repeat, so the second pass (duplicate.go) runs only when
// some object's names are out of order: never on a token a host has minted.

// maxSafeInteger is 2^53−1, the largest integer every canonicaliser agrees on
// (docs/spec/aeiou.md §8, §20 row 21).
const maxSafeInteger = 1<<53 - 1

// fault is the first place where text stops being acceptable JSON.
type fault struct {
	offset int
	what   string
}

// shape is what a pass found out about text that is strict JSON, repeated names
// aside.
type shape struct {
	// canonical: the text equals its RFC 8785 form. Numbers beyond the safe
	// integers are never called canonical here; that is for the transform to say.
	canonical bool
	// unordered: some object's names do not ascend strictly, so two may be equal.
	unordered bool
	// badNumber is the offset of the first number that is not an integer
	// -?(0|[1-9][0-9]*) other than -0 within ±maxSafeInteger, or -1.
	badNumber int
	// hugeNumber is the offset of the first number beyond the range of an IEEE 754
	// double, or -1. It is also a bad one.
	hugeNumber int
}

// frame is one open container. last[from:to] of the text is the previous name of
// an object, without quotes; from is -1 before the first.
type frame struct {
	object   bool
	plain    bool // the previous name is ASCII without escapes
	from, to int
}

// scan checks b, which may hold white space around one value nested at most
// maxDepth containers deep (the outermost counts 1).
func scan(b []byte, maxDepth int) (shape, *fault) {
	s := shape{canonical: true, badNumber: -1, hugeNumber: -1}
	var room [16]frame
	open := room[:0]
	i := 0
	for {
		// A value begins at or after i.
		i = s.blanks(b, i)
		if i >= len(b) {
			return s, &fault{i, "the text ends where a value should begin"}
		}
		switch c := b[i]; {
		case c == '{' || c == '[':
			if len(open) >= maxDepth {
				return s, &fault{i, "nested deeper than " + strconv.Itoa(maxDepth)}
			}
			open = append(open, frame{object: c == '{', from: -1})
			i = s.blanks(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' is '{'+2 and ']' is '['+2
				break // empty: closed below
			}
			if c == '{' {
				var f *fault
				if i, f = s.name(b, i, &open[len(open)-1]); f != nil {
					return s, f
				}
			}
			continue
		case c == '"':
			end, _, f := s.text(b, i)
			if f != nil {
				return s, f
			}
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end, f := s.number(b, i)
			if f != nil {
				return s, f
			}
			i = end
		default:
			n := literal(b[i:])
			if n == 0 {
				return s, &fault{i, "no value begins like this"}
			}
			i += n
		}
		// A value has ended, or an empty container is about to: close what
		// closes here, then go on behind a comma.
		for {
			i = s.blanks(b, i)
			if len(open) == 0 {
				if i < len(b) {
					return s, &fault{i, "something follows the value"}
				}
				return s, nil
			}
			if i >= len(b) {
				return s, &fault{i, "the text ends inside an array or object"}
			}
			top := &open[len(open)-1]
			if closer := byte(']'); b[i] == closer && !top.object || b[i] == '}' && top.object {
				open = open[:len(open)-1]
				i++
				continue
			}
			if b[i] != ',' {
				return s, &fault{i, "a comma or the end of the array or object should stand here"}
			}
			i++
			if top.object {
				var f *fault
				if i, f = s.name(b, s.blanks(b, i), top); f != nil {
					return s, f
				}
			}
			break
		}
	}
}

// blanks steps over insignificant white space, which no canonical text has.
func (s *shape) blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		s.canonical = false
		i++
	}
	return i
}

// name reads a member's name and its colon and notes whether it follows the
// object's previous name in canonical order.
func (s *shape) name(b []byte, i int, top *frame) (int, *fault) {
	if i >= len(b) || b[i] != '"' {
		return i, &fault{i, "a member name should begin here"}
	}
	end, plain, f := s.text(b, i)
	if f != nil {
		return i, f
	}
	from, to := i+1, end-1
	if top.from >= 0 {
		var order int
		if plain && top.plain {
			order = bytes.Compare(b[top.from:top.to], b[from:to])
		} else {
			order = jsonstring.Compare(b[top.from:top.to], b[from:to])
		}
		if order >= 0 {
			s.canonical, s.unordered = false, true
		}
	}
	top.from, top.to, top.plain = from, to, plain
	i = s.blanks(b, end)
	if i >= len(b) || b[i] != ':' {
		return i, &fault{i, "a colon should follow the member name"}
	}
	return i + 1, nil
}

// text reads a string that begins with the quote at b[i]; end is behind its
// closing quote. plain reports whether it is ASCII without escapes.
func (s *shape) text(b []byte, i int) (end int, plain bool, f *fault) {
	start := i
	plain = true
	i++
	for i < len(b) {
		c := b[i]
		switch {
		case c == '"':
			return i + 1, plain, nil
		case c == '\\':
			plain = false
			n, minimal, what := escape(b[i:])
			if what != "" {
				return i, false, &fault{i, what}
			}
			if !minimal {
				s.canonical = false
			}
			i += n
		case c < ' ':
			return i, false, &fault{i, "a control character stands in a string"}
		case c < utf8.RuneSelf:
			i++
		default:
			plain = false
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n <= 1 {
				return i, false, &fault{i, "the text is not UTF-8"}
			}
			i += n
		}
	}
	return i, false, &fault{start, "a string is not closed"}
}

// escape measures the escape sequence at the start of b, a surrogate pair being
// one. minimal reports whether canonical form spells the character this way.
func escape(b []byte) (n int, minimal bool, what string) {
	if len(b) < 2 {
		return 0, false, "a string is not closed"
	}
	switch b[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2, true, ""
	case '/':
		return 2, false, ""
	case 'u':
	default:
		return 0, false, "an unknown escape"
	}
	unit, ok := jsonstring.Unit(b)
	if !ok {
		return 0, false, "an escape without four hexadecimal digits"
	}
	switch {
	case 0xd800 <= unit && unit < 0xdc00:
		if low, ok := jsonstring.Unit(b[6:]); ok && 0xdc00 <= low && low < 0xe000 {
			return 12, false, ""
		}
		return 0, false, "a surrogate without its pair"
	case 0xdc00 <= unit && unit < 0xe000:
		return 0, false, "a surrogate without its pair"
	case unit < 0x20:
		switch unit {
		case '\b', '\f', '\n', '\r', '\t':
			return 6, false, ""
		}
		return 6, b[5] < 'A' || b[5] > 'F', ""
	}
	return 6, false, ""
}

// number reads a number by the grammar of RFC 8259 §6. One that is well-formed
// and not allowed in a token is noted, not refused: docs/spec/aeiou.md §10 gives it another
// detail, and one that ranks behind every fault of the text.
func (s *shape) number(b []byte, i int) (end int, f *fault) {
	start := i
	if b[i] == '-' {
		i++
	}
	whole := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	switch {
	case i == whole:
		return i, &fault{start, "a minus sign without a number"}
	case b[whole] == '0' && i > whole+1:
		return i, &fault{start, "a number with a leading zero"}
	}
	digits := b[whole:i]
	integer := true
	if i < len(b) && b[i] == '.' {
		integer = false
		i++
		fraction := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		if i == fraction {
			return i, &fault{start, "a decimal point without digits"}
		}
	}
	exponent := false
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		integer, exponent = false, true
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		power := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		if i == power {
			return i, &fault{start, "an exponent without digits"}
		}
	}
	if integer && safeInteger(digits) && !(start < whole && digits[0] == '0') {
		return i, nil
	}
	s.canonical = false
	if s.badNumber < 0 {
		s.badNumber = start
	}
	if s.hugeNumber < 0 && (exponent || len(digits) > 308) { // 308 digits are finite
		if v, err := strconv.ParseFloat(string(b[start:i]), 64); err != nil && math.IsInf(v, 0) {
			s.hugeNumber = start
		}
	}
	return i, nil
}

// literal measures true, false or null at the start of b; 0 for none of them.
func literal(b []byte) int {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b) >= len(word) && string(b[:len(word)]) == word {
			return len(word)
		}
	}
	return 0
}

// safeInteger reports whether digits, without leading zeros, are at most
// maxSafeInteger.
func safeInteger(digits []byte) bool {
	if len(digits) > 16 {
		return false
	}
	v := uint64(0)
	for _, c := range digits {
		v = v*10 + uint64(c-'0')
	}
	return v <= maxSafeInteger
}
