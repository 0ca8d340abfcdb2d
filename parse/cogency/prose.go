package cogency

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// suspicion is what text is searched for in rendering 2 besides the markers: calls that are
// written in another form, thoughts in another tag, and a code fence in front of a batch
// (docs/spec/cogency.md §2.4). Of these none is shown.
//
// What may be the beginning of one is kept in seen until it is one, or is text: then it is
// read again as text, in which nothing but markers is looked for up to trust. So each byte is
// read twice at most, but for the short beginnings of tags.
//
//	len(seen) ≤ maxCallBytes
type suspicion struct {
	layout
	seen   []byte
	seenAt int64
	from   layout // in front of seen
	exact  bool   // only a marker can come of seen
	trust  int64
	skip   int64 // here stands no marker: it was looked at

	// What of seen is a value of JSON.
	value *scan.JSON
	start int // in seen; 0 is at its beginning too
	fed   int // bytes of seen that the value has, or that follow it
	depth int
	whole bool
	late  finding // what it is if nothing follows its fence
}

// maxCallBytes is how much text waits for being a call in another form.
const maxCallBytes = 64 << 10

// lookahead bounds what is searched for the end of a line and a "<" at once: the search begins
// again behind what was looked at in vain.
const lookahead = 512

// layout is where in the text a byte stands.
type layout struct {
	bol    bool // the line has nothing but blanks so far
	ticks  int  // backticks the line began with, so far
	fenced fencing
	said   bool // there is text
	last   byte // of the text
}

// fencing reports whether text stands in a code fence.
type fencing uint8

const (
	fencedNot   fencing = iota
	fencedAlone         // a fence that the reply began with
	fencedQuote         // one behind text: an example
)

// advance follows text that is none of what is searched for.
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
				case l.said:
					l.fenced = fencedQuote
				default:
					l.fenced = fencedAlone
				}
			}
		default:
			l.bol, l.ticks, l.said = false, 0, true
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

// begins tells that p may begin with something other than text. What it needs to see and p
// has not is taken for granted.
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

// agrees tells that p and word are the same as far as both go.
func agrees(p []byte, word string) bool {
	n := min(len(p), len(word))
	return string(p[:n]) == word[:n]
}

// tagLetters are what the tags of native.go and the markers have behind "<".
var tagLetters = func() (t [256]bool) {
	for _, words := range [][]string{thoughtTags, callTags, ownTags, {"results", "end", "|", "\xef"}} {
		for _, w := range words {
			t[w[0]] = true
			t[w[0]&^0x20] = true
		}
	}
	return t
}()

// readProse reads text in rendering 2, and tells how much.
func (d *decoder) readProse(p []byte, at int64) int {
	s := &d.prose
	if len(s.seen) > 0 {
		return d.suspect(p, 0, at)
	}
	for i := 0; i < len(p); {
		pos := at + int64(i)
		if pos != s.skip && s.begins(p[i:], pos < s.trust) {
			d.say(p[:i], at)
			s.seen, s.seenAt, s.from, s.exact = append(s.seen[:0], p[i]), pos, s.layout, pos < s.trust
			return d.suspect(p, i+1, at)
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
	d.say(p, at)
	return len(p)
}

// suspect follows what may be the beginning of something, with p from p[i] on, and tells
// how much of p is read.
func (d *decoder) suspect(p []byte, i int, at int64) int {
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

// found acts on what seen has come to be. n is where in it that begins, or ends in the case of
// a marker; last is how long its last character is.
func (d *decoder) found(what finding, n, last int) {
	s := &d.prose
	seen, at := s.seen, s.seenAt
	s.seen, s.value, s.start, s.fed, s.depth, s.whole, s.late = nil, nil, 0, 0, 0, false, foundNothing
	switch what {
	case foundNothing:
	case foundText:
		s.skip, s.trust = at, max(s.trust, at+int64(len(seen)-last))
		d.tape, d.tapeAt = seen, at
	case foundMarker:
		k := bytes.LastIndexByte(seen[:n], '<')
		m := string(seen[k:n])
		if k > 0 {
			if m != openExecute || !d.forgive.Has(parse.HabitFence) { // a fence in front of something else is text
				s.skip, s.trust = at, max(s.trust, at+int64(len(seen)))
				d.tape, d.tapeAt = seen, at
				return
			}
			d.fenced = true
		}
		d.mark(m, at+int64(k))
		if n < len(seen) {
			d.tape, d.tapeAt = seen[n:], at+int64(n)
		}
	case foundThought:
		d.think(seen, at)
	case foundCloser: // what was shown stays; the answer is a unit of its own
		d.close(at, true)
		d.lint(parse.HabitThink, d.off(at))
		s.layout = layout{said: true}
		if n < len(seen) {
			d.tape, d.tapeAt = seen[n:], at+int64(n)
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

// refuse ends the reply at what is a call in another form.
func (d *decoder) refuse(reason, why string, at int64) {
	off := d.off(at)
	f := faulty(reason, why, off)
	d.emit(eventOf(f))
	d.stop(at, false)
}

// think opens a thought whose tag is another's.
func (d *decoder) think(tag []byte, at int64) {
	d.close(at, true)
	d.bodyAt = at + int64(len(tag))
	d.bodyOff = d.off(d.bodyAt)
	name := bytes.ToLower(bytes.Trim(tag, "<> \t"))
	d.ends, d.remarked = append([]string{"</" + string(name) + ">"}, thinkClosers...), true
	d.lint(parse.HabitThink, d.off(at))
	d.state = inThink
}

// flushProse settles at the end of a reply what may still have become something.
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
	s.trust = 1<<63 - 1
	d.found(foundText, 0, 0)
	d.reread()
	if d.state == inText && len(s.seen) > 0 { // the beginning of a marker
		d.say(s.seen, s.seenAt)
		s.seen = nil
	}
}
