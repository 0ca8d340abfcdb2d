package cogency

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/parse/scan"
)

// next is what quotes stopped at.
type next uint8

const (
	nextNothing next = iota // all of p is read
	nextAngle               // behind a ">" outside of strings
	nextQuote               // behind a quote, in a string: an escaped one if every
	nextControl             // at a control character in a string
)

// step reads p up to what may matter. n is how much was read.
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
			q.inside = true
			return n, nextQuote
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
			if c == '"' {
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

// skip gives the place of the next byte of a string, from p[n] on, that may matter.
func (q *quotes) skip(p []byte, n int) int {
	for {
		n += scan.StringRun(p[n:])
		if n+1 >= len(p) || p[n] != '\\' || p[n+1] < ' ' || p[n+1] == '"' && q.every {
			return n
		}
		n += 2
	}
}

// results reads a block of results that the model wrote, up to its closer.
//
// A control character in a string means that there are no strings: the first closer
// counts, and what was read behind it is read again as text. That a reply of such
// blocks is not read again and again is the work of trail and doomed. Behind a quote
// there are two states, in a string or not, so two readings that are both in one
// there go the same way from then on: the second is broken by the same character, and
// is so at once.
func (d *decoder) results(p []byte, at int64) int {
	for i := 0; i < len(p); {
		if d.raw {
			n, shut := d.first(p[i:])
			d.steps += int64(n)
			if i += n; shut {
				d.shut(at + int64(i))
				return i
			}
			continue
		}
		n, what := d.quotes.step(p[i:])
		d.steps += int64(n)
		d.body = append(d.body, p[i:i+n]...)
		i += n
		switch what {
		case nextAngle:
			if bytes.HasSuffix(d.body, []byte(shutResults)) {
				d.shut(at + int64(i))
				return i
			}
		case nextQuote:
			q := at + int64(i)
			if _, doomed := d.doomed[q]; doomed {
				if d.unquote() {
					return i
				}
			} else {
				d.trail = append(d.trail, q)
			}
		case nextControl:
			if d.unquote() {
				return i
			}
		}
	}
	return len(p)
}

// first reads up to the next ">" and tells whether it ends the block.
func (d *decoder) first(p []byte) (n int, shut bool) {
	k := bytes.IndexByte(p, '>')
	if k < 0 {
		d.body = append(d.body, p...)
		return len(p), false
	}
	d.body = append(d.body, p[:k+1]...)
	return k + 1, bytes.HasSuffix(d.body, []byte(shutResults))
}

// unquote takes the block as one without strings. If that ended it already, what it
// has behind its closer is the tape.
func (d *decoder) unquote() (shut bool) {
	d.raw = true
	if d.doomed == nil {
		d.doomed = map[int64]struct{}{}
	}
	for _, q := range d.trail {
		d.doomed[q] = struct{}{}
	}
	k := bytes.Index(d.body, []byte(shutResults))
	d.steps += int64(len(d.trail))
	if k < 0 {
		return false
	}
	body := d.body
	k += len(shutResults)
	d.body = nil // the tape stays as it is
	d.tape, d.tapeAt = body[k:], d.bodyAt+int64(k)
	d.result(body[:k-len(shutResults)], d.tapeAt, true)
	d.state = inText
	return true
}

// reread reads the tape. Where a block on it is unquoted, what is to be read again
// is on it already.
func (d *decoder) reread() {
	if d.tape == nil {
		return
	}
	tape, at := d.tape, d.tapeAt
	d.tape = nil
	for i := 0; i < len(tape); {
		i += d.read(tape[i:], at+int64(i))
		if d.tape != nil {
			i = int(d.tapeAt - at)
			d.tape = nil
		}
	}
}

func (d *decoder) shut(at int64) {
	d.result(d.body[:len(d.body)-len(shutResults)], at, true)
	d.state = inText
}

// result emits the content of a block as one unit that operators see.
func (d *decoder) result(body []byte, at int64, complete bool) {
	if content := trim(body); len(content) > 0 {
		d.say(content, d.bodyAt+int64(len(body)-len(bytes.TrimLeftFunc(body, unicode.IsSpace))))
		d.close(at, complete)
	}
	d.body = d.body[:0]
}

// trim cuts Unicode white space.
func trim(p []byte) []byte { return bytes.TrimSpace(p) }

func trimRight(p []byte) []byte {
	for len(p) > 0 {
		_, n := utf8.DecodeLastRune(p)
		if !isBlank(p[len(p)-n:]) {
			break
		}
		p = p[:len(p)-n]
	}
	return p
}
