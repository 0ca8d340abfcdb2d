package cogency

import (
	"bytes"
	"unicode"
)

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
		case nextNothing:
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
	if content := bytes.TrimSpace(body); len(content) > 0 {
		d.say(content, d.bodyAt+int64(len(body)-len(bytes.TrimLeftFunc(body, unicode.IsSpace))))
		d.close(at, complete)
	}
	d.body = d.body[:0]
}
