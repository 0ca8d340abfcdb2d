package cogency

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// search looks in text of rendering 2 for more than markers: calls in another format, thoughts
// in another tag, and a code fence before a batch (docs/spec/cogency.md §2.4). None of these is
// shown.
//
// The possible beginning of one is kept in seen until it is known what it is. If it is text, it
// is read again, and only markers are looked for in it, up to textUpTo. So each byte is read
// twice at most, except for short beginnings of tags. An example:
//
//	I'd use {"name": …       "{" begins a line or not? Not: text, shown at once
//	LF {"name": "a", "x"     seen; "x" is no member of a call: text, and textUpTo is its end
//	LF {"name": "a", "args"  seen, up to 64 KiB: a call in another format, if nothing follows
//
//	len(seen) ≤ maxCallBytes
type search struct {
	layout
	seen       []byte
	seenAt     int64
	from       layout // before seen
	exact      bool   // seen can only be a marker
	textUpTo   int64
	noMarkerAt int64 // position that was searched before: no marker is there

	// The value of JSON in seen.
	value    *scan.JSON
	start    int // index in seen
	fed      int // bytes of seen that were given to value, or that follow it
	depth    int
	whole    bool
	deferred finding // what seen is if nothing follows its fence
}

// maxCallBytes is how much text may wait because it may be a call in another format.
const maxCallBytes = 64 << 10

// lookahead bounds how far the end of a line and a "<" are searched for at once: the next
// search begins after the bytes that were searched in vain.
const lookahead = 512

// layout is the place of a byte in the text.
type layout struct {
	bol     bool // the line has only blanks so far
	ticks   int  // backticks the line began with, so far
	fenced  fencing
	anyText bool // there is text
	last    byte // of the text
}

// fencing is whether text is in a code fence.
type fencing uint8

const (
	fencedNot   fencing = iota
	fencedAlone         // a fence that the reply began with
	fencedQuote         // one after text: an example
)

// advance moves over text that the search does not look for.
func (l *layout) advance(p []byte) {
	for i := 0; i < len(p); {
		switch c := p[i]; {
		case c == '\n':
			l.bol, l.ticks = true, 0
			i++
		case l.bol && isBlank(c):
			i++
		case c == '`' && (l.bol || l.ticks > 0):
			l.bol = false
			i++
			if l.ticks++; l.ticks == fenceRun {
				l.ticks = 0
				switch {
				case l.fenced != fencedNot:
					l.fenced = fencedNot
				case l.anyText:
					l.fenced = fencedQuote
				default:
					l.fenced = fencedAlone
				}
			}
		default:
			l.bol, l.ticks, l.anyText = false, 0, true
			k := bytes.IndexByte(p[i:], '\n')
			if k < 0 {
				k = len(p) - i
			}
			i += k
		}
	}
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// begins reports whether p may begin with something other than text. Bytes that p does not have
// yet are assumed to match.
func (l *layout) begins(p []byte, exact bool) bool {
	c := p[0]
	if c == '<' {
		if len(p) > 1 && p[1] == '/' {
			n := min(len(p), len(endings[1]))
			return agrees(p, shutThink) || strings.EqualFold(string(p[:n]), endings[1][:n])
		}
		n := 1
		for n < len(p) && p[n] == ' ' && n < 3 {
			n++
		}
		return n == len(p) || tagLetters[p[n]]
	}
	if exact || !l.bol {
		return false
	}
	switch c {
	case '`':
		return l.fenced == fencedNot && agrees(p, "```")
	case '{', '[':
		return l.fenced != fencedQuote
	case reactAction[0]:
		return l.fenced != fencedQuote && agrees(p, reactAction)
	case functionGroup[0]:
		return l.fenced != fencedQuote && agrees(p, functionGroup)
	}
	return false
}

// agrees reports whether p and word are equal over their common length.
func agrees(p []byte, word string) bool {
	n := min(len(p), len(word))
	return string(p[:n]) == word[:n]
}

// tagLetters are the bytes after "<" of the markers and of the tags of native.go.
var tagLetters = func() (t [256]bool) {
	for _, words := range [][]string{thoughtTags, callTags, ownTags, {"results", "end", "|", "\xef"}} {
		for _, w := range words {
			t[w[0]] = true
			t[w[0]&^0x20] = true
		}
	}
	return t
}()

// readProse reads text in rendering 2, and returns how many bytes.
func (d *decoder) readProse(p []byte, at int64) int {
	s := &d.prose
	if len(s.seen) > 0 {
		return d.suspect(p, 0)
	}
	for i := 0; i < len(p); {
		pos := at + int64(i)
		if pos != s.noMarkerAt && s.begins(p[i:], pos < s.textUpTo) {
			d.emitText(p[:i], at)
			s.seen, s.seenAt, s.from, s.exact = append(s.seen[:0], p[i]), pos, s.layout, pos < s.textUpTo
			return d.suspect(p, i+1)
		}
		end := i + 1
		if !s.bol || !isBlank(p[i]) {
			ahead := p[i+1 : min(len(p), i+lookahead)]
			if k := bytes.IndexByte(ahead, '\n'); k >= 0 {
				ahead = ahead[:k+1]
			}
			if k := bytes.IndexByte(ahead, '<'); k >= 0 {
				ahead = ahead[:k]
			}
			if p[i] != '\n' {
				end += len(ahead)
			}
			d.steps += int64(len(ahead))
		}
		s.advance(p[i:end])
		i = end
	}
	d.emitText(p, at)
	return len(p)
}

// suspect goes on with seen, from p[i] on, until it is known what it is. It returns how many
// bytes of p are read.
func (d *decoder) suspect(p []byte, i int) int {
	s := &d.prose
	last := 1
	for {
		what, n := d.judge(false)
		if what != foundNothing {
			d.found(what, n, last)
			return i
		}
		if i == len(p) {
			return i
		}
		last = 1
		if p[i] >= utf8.RuneSelf {
			_, last = utf8.DecodeRune(p[i:])
		}
		s.seen = append(s.seen, p[i:i+last]...)
		d.steps += int64(last)
		i += last
	}
}

// found acts on what seen turned out to be. n is the index in seen where that begins, or ends in
// the case of a marker; last is the length of the last character.
func (d *decoder) found(what finding, n, last int) {
	s := &d.prose
	seen, at := s.seen, s.seenAt
	s.seen, s.value, s.start, s.fed, s.depth, s.whole, s.deferred = nil, nil, 0, 0, 0, false, foundNothing
	switch what {
	case foundNothing:
	case foundText:
		s.noMarkerAt, s.textUpTo = at, max(s.textUpTo, at+int64(len(seen)-last))
		d.pending, d.pendingAt = seen, at
	case foundMarker:
		k := bytes.LastIndexByte(seen[:n], '<')
		m := string(seen[k:n])
		if k > 0 {
			if m != openExecute || !d.forgive.Has(parse.HabitFence) { // a fence in front of something else is text
				s.noMarkerAt, s.textUpTo = at, max(s.textUpTo, at+int64(len(seen)))
				d.pending, d.pendingAt = seen, at
				return
			}
			d.fenced = true
		}
		d.mark(m, at+int64(k))
		if n < len(seen) {
			d.pending, d.pendingAt = seen[n:], at+int64(n)
		}
	case foundThought:
		d.think(seen, at)
	case foundCloser: // the answer is a unit of its own
		d.rethink(at)
		d.lint(parse.HabitThink, d.off(at))
		s.layout = layout{anyText: true}
		if n < len(seen) {
			d.pending, d.pendingAt = seen[n:], at+int64(n)
		}
	case foundEnd:
		d.close(at, true)
		d.lint(parse.HabitCase, d.off(at))
		d.stop(at, true)
	case foundOther, foundCall:
		d.close(at, true)
		reason, why := ExecuteMarker, meanings[ExecuteMarker]
		if what == foundCall {
			reason, why = ExecuteNative, "this is a call in the form of another interface"
		}
		d.refuse(reason, why, at+int64(n))
	}
}

// refuse ends the reply at a call in another format.
func (d *decoder) refuse(reason, why string, at int64) {
	off := d.off(at)
	f := faulty(reason, why, off)
	d.emit(eventOf(f))
	d.stop(at, false)
}

// think opens a thought with a tag of another format.
func (d *decoder) think(tag []byte, at int64) {
	d.close(at, true)
	d.bodyAt = at + int64(len(tag))
	d.bodyOff = d.off(d.bodyAt)
	name := bytes.ToLower(bytes.Trim(tag, "<> \t"))
	d.thinkEnds, d.linted = append([]string{"</" + string(name) + ">"}, thinkClosers...), true
	d.lint(parse.HabitThink, d.off(at))
	d.state = inThink
}

// rethink ends the open unit at a closer without an opener. The text that a reply began with was
// a thought.
func (d *decoder) rethink(at int64) {
	if !d.open || d.unit > 0 {
		d.close(at, true)
		return
	}
	d.open = false
	d.emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: messages.ThoughtUnit, Offset: d.off(at), Complete: true})
	d.unit++
}

// flushProse decides, at the end of a reply, about seen.
func (d *decoder) flushProse() {
	s := &d.prose
	if len(s.seen) == 0 {
		return
	}
	what, n := d.judge(true)
	if what == foundNothing {
		what = foundText
	}
	if what != foundText {
		d.found(what, n, 0)
		d.reread()
		return
	}
	s.textUpTo = 1<<63 - 1
	d.found(foundText, 0, 0)
	d.reread()
	if d.state == inText && len(s.seen) > 0 { // the beginning of a marker
		d.emitText(s.seen, s.seenAt)
		s.seen = nil
	}
}
