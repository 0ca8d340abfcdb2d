package cogency

import (
	"bytes"
	"unicode"
)

// results reads a block of results that the model wrote, up to its closer. A closer in a string
// does not count. But a control character in a string means that the block is not JSON, and its
// quotes mean nothing: then the first closer counts, and the bytes after it are read again as
// text. For example, with LF as the control character:
//
//	<results>"a</results>b"</results>     the unit is "a</results>b", with its quotes
//	<results>"a</results>b LF …           the unit is "a; then b LF … is text
//
// A reply could repeat such blocks so that each makes the rest be read again. stringStarts and
// brokenStarts keep that linear. A reading that is in a string after the quote at some position
// goes on like any other reading that is in a string there, and meets the same control
// character. So the quotes of a block that broke (stringStarts) are remembered (brokenStarts),
// and a later reading that reaches one of them is broken at once.
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
			if _, doomed := d.brokenStarts[q]; doomed {
				if d.unquote() {
					return i
				}
			} else {
				d.stringStarts = append(d.stringStarts, q)
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

// first reads up to the next ">". shut reports whether that ends the block.
func (d *decoder) first(p []byte) (n int, shut bool) {
	k := bytes.IndexByte(p, '>')
	if k < 0 {
		d.body = append(d.body, p...)
		return len(p), false
	}
	d.body = append(d.body, p[:k+1]...)
	return k + 1, bytes.HasSuffix(d.body, []byte(shutResults))
}

// unquote reads the block as one without strings. If that ends it already, the bytes after its
// closer become pending, and shut is true.
func (d *decoder) unquote() (shut bool) {
	d.raw = true
	if d.brokenStarts == nil {
		d.brokenStarts = map[int64]struct{}{}
	}
	for _, q := range d.stringStarts {
		d.brokenStarts[q] = struct{}{}
	}
	k := bytes.Index(d.body, []byte(shutResults))
	d.steps += int64(len(d.stringStarts))
	if k < 0 {
		return false
	}
	body := d.body
	k += len(shutResults)
	d.body = nil // pending aliases the old one
	d.pending, d.pendingAt = body[k:], d.bodyAt+int64(k)
	d.result(body[:k-len(shutResults)], d.pendingAt, true)
	d.state = inText
	return true
}

// reread reads pending. If unquote sets pending meanwhile, it is a part of the same bytes, so
// reread goes on from there.
func (d *decoder) reread() {
	if d.pending == nil {
		return
	}
	tape, at := d.pending, d.pendingAt
	d.pending = nil
	for i := 0; i < len(tape); {
		i += d.read(tape[i:], at+int64(i))
		if d.pending != nil {
			i = int(d.pendingAt - at)
			d.pending = nil
		}
	}
}

// shut ends a block of results behind its closer.
func (d *decoder) shut(at int64) {
	d.result(d.body[:len(d.body)-len(shutResults)], at, true)
	d.state = inText
}

// result emits the content of a block as one unit that operators see.
func (d *decoder) result(body []byte, at int64, complete bool) {
	if content := bytes.TrimSpace(body); len(content) > 0 {
		d.emitText(content, d.bodyAt+int64(len(body)-len(bytes.TrimLeftFunc(body, unicode.IsSpace))))
		d.close(at, complete)
	}
	d.body = d.body[:0]
}
