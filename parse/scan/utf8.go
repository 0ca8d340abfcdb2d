package scan

import (
	"encoding/binary"
	"unicode/utf8"
)

// UTF8 turns a stream of bytes into valid UTF-8: each byte that belongs to no character becomes
// one U+FFFD. It holds back at most three bytes, the beginning of one character. The zero value
// is ready to use. It is not safe for concurrent use.
type UTF8 struct {
	cut [utf8.UTFMax]byte // cut[:n] began a character in an earlier push
	n   int
	at  int // bytes of cut that the caller may still read
}

var replacement = []byte("\ufffd")

// Next takes the beginning of p. text is whole characters that stand for the next n bytes of the
// stream, and rest is the part of p that it has not taken. Call it with rest until n is 0, also
// when rest is empty: then all of p is taken or held back. text aliases p or the scanner and is
// valid until the next call.
func (u *UTF8) Next(p []byte) (text []byte, n int, rest []byte) {
	u.drop()
	for u.n > 0 {
		if utf8.FullRune(u.cut[:u.n]) {
			text, n = u.first()
			return text, n, p
		}
		if len(p) == 0 {
			return nil, 0, nil
		}
		u.cut[u.n] = p[0]
		u.n++
		p = p[1:]
	}
	whole := len(p) - tail(p)
	if utf8.Valid(p[:whole]) {
		if whole == 0 {
			u.n = copy(u.cut[:], p)
			return nil, 0, nil
		}
		return p[:whole], whole, p[whole:]
	}
	if i := valid(p); i > 0 {
		return p[:i], i, p[i:]
	}
	return replacement, 1, p[1:]
}

// shortPiece is the greatest length of a piece that Plain looks at.
const shortPiece = 64

// Plain reports whether p is a short piece of whole characters: then Next would return it
// unchanged if nothing is held back. marked reports whether it contains the ASCII byte mark.
// Models send a few letters at a time, for which Plain is cheaper than Next. plain is false for
// every longer piece.
func Plain(p []byte, mark byte) (plain, marked bool) {
	if len(p) == 1 {
		return p[0] < utf8.RuneSelf, p[0] == mark
	}
	if len(p) == 0 || len(p) > shortPiece {
		return len(p) == 0, false
	}
	marks := uint64(mark) * ones
	last := lastWord(p)
	all, hits := last, zeros(last^marks)
	for q := p; len(q) > wordBytes; q = q[wordBytes:] {
		x := binary.LittleEndian.Uint64(q)
		all |= x
		hits |= zeros(x ^ marks)
	}
	return all&tops == 0 || utf8.Valid(p), hits != 0
}

// End returns U+FFFD for each byte that is held back, one a call, and then n = 0.
func (u *UTF8) End() (text []byte, n int) {
	u.drop()
	if u.n == 0 {
		return nil, 0
	}
	return u.first()
}

// Held returns the number of bytes that are held back, at most 3.
func (u *UTF8) Held() int { return u.n - u.at }

// first returns the character that cut begins with, or U+FFFD for its first byte.
func (u *UTF8) first() (text []byte, n int) {
	r, size := utf8.DecodeRune(u.cut[:u.n])
	u.at = size
	if r == utf8.RuneError && size == 1 {
		return replacement, 1
	}
	return u.cut[:size], size
}

// drop removes the bytes that the last call returned.
func (u *UTF8) drop() {
	if u.at > 0 {
		u.n = copy(u.cut[:], u.cut[u.at:u.n])
		u.at = 0
	}
}

// tail returns how many bytes at the end of p begin a character without ending it.
func tail(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

// valid returns how many bytes of p precede the first one that belongs to no character.
func valid(p []byte) int {
	i := 0
	for i < len(p) {
		if p[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}
