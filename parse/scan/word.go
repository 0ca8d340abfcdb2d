package scan

import "encoding/binary"

// wordBytes is how many bytes are looked at and copied at once.
const wordBytes = 8

// The lowest bit of each byte of a word, and the highest.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// zeros returns a value other than 0 if a byte of x is 0.
func zeros(x uint64) uint64 { return (x - ones) &^ x & tops }

// lastWord returns the last eight bytes of p; of a shorter p all of it, some bytes more than
// once. p must not be empty.
func lastWord(p []byte) uint64 {
	switch n := len(p); {
	case n >= wordBytes:
		return binary.LittleEndian.Uint64(p[n-wordBytes:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(p)) | uint64(binary.LittleEndian.Uint32(p[n-4:]))<<32
	default:
		return uint64(p[0])*(ones&^0xffff) | uint64(p[n/2])<<8 | uint64(p[n-1])
	}
}

// special marks the bytes of a word that do not stand for themselves in a string: the lowest bit
// is that of the first one; bits above it may be wrong.
func special(x uint64) uint64 {
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops
}
