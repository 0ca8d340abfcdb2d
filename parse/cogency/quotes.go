package cogency

import "github.com/seed14be6753/stile/parse/scan"

// quotes follows the strings in a text: inside one, and after a backslash there. With every it
// stops at each quote, because the text may be read again from there.
type quotes struct{ inside, escaped, every bool }

// next is what quotes stopped at.
type next uint8

const (
	nextNothing next = iota // all of p is read
	nextAngle               // after a ">" outside strings
	nextQuote               // after a quote, in a string, if every
	nextControl             // at a control character in a string
)

// step reads p up to the next byte that may matter, and returns how many bytes.
func (q *quotes) step(p []byte) (n int, what next) {
	for n < len(p) {
		if !q.inside {
			for ; n < len(p) && p[n] != '"' && p[n] != '>'; n++ {
			}
			if n == len(p) {
				break
			}
			n++
			if p[n-1] == '>' {
				return n, nextAngle
			}
			if q.inside = true; q.every {
				return n, nextQuote
			}
		}
		if !q.escaped {
			if n = q.skip(p, n); n == len(p) {
				break
			}
		}
		c := p[n]
		switch {
		case c < ' ':
			return n, nextControl
		case q.escaped:
			q.escaped = false
			if c == '"' && q.every {
				return n + 1, nextQuote
			}
		case c == '\\':
			q.escaped = true
		default:
			q.inside = false
		}
		n++
	}
	return n, nextNothing
}

// skip returns the index of the next byte of a string, from p[n] on, that may matter.
func (q *quotes) skip(p []byte, n int) int {
	for {
		n += scan.StringRun(p[n:])
		if n+1 >= len(p) || p[n] != '\\' || p[n+1] < ' ' || p[n+1] == '"' && q.every {
			return n
		}
		n += 2
	}
}
