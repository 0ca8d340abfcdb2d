package neuroscript

import (
	"math"
	"strconv"
)

// maxExact is 2^53: up to it every integer is exact.
const maxExact = 1 << 53

// maxNumberBytes is more than the longest rendering of a number has: sign, point,
// 324 zeros and 17 digits.
const maxNumberBytes = 352

// ParseNumber reads a numeric string (§6.2): after trimming
// [+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?, in the range of binary64.
func ParseNumber(s string) (float64, bool) {
	for len(s) > 0 && isTrimmed(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isTrimmed(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	i := 0
	digits := func() bool {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i > from
	}
	sign := func() {
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
	}
	sign()
	if !digits() {
		return 0, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if !digits() {
			return 0, false
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		sign()
		if !digits() {
			return 0, false
		}
	}
	if i < len(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false
	}
	return f + 0, true
}

func isTrimmed(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// isFinite reports whether f is neither infinite nor NaN.
func isFinite(f float64) bool { return f-f == 0 }

func isIntegral(f float64) bool { return f == math.Trunc(f) }

// appendNumber writes the shortest decimal that reads back as f, never with an
// exponent (§10).
func appendNumber(dst []byte, f float64) []byte {
	if i := int64(f); float64(i) == f && i > -maxExact && i < maxExact {
		return strconv.AppendInt(dst, i, 10)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}
