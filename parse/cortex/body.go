package cortex

import (
	"bytes"
	"strconv"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// body is what a decoder knows of an action's body besides its JSON: the code fence around it,
// if that habit is forgiven, and why the body is not JSON.
type body struct {
	fence  fence
	mark   byte   // the byte that the fence consists of
	lines  int    // line ends in the body so far
	cause  string // why the body is not JSON, with the place; "" while it may be
	habits parse.Habits
	twice  bool // its arguments are given under two names
}

// fence is how far the code fence around a body has come.
type fence uint8

const (
	fenceNone   fence = iota
	fenceMarker       // in the backticks of its first line
	fenceWord         // in the word after them
	fenceOpen         // after that line
	fenceEnd          // in the backticks of its last line
	fenceShut         // after them
)

// apart reports whether the next byte belongs to the fence and not to the JSON in it.
func (f fence) apart() bool { return f != fenceNone && f != fenceOpen }

// closer begins the tag that ends a body.
const closer = "</action"

// forgives reports whether the dialect corrects the habits h.
func (d *decoder) forgives(h parse.Habits) bool { return d.habits.Has(h) }

// forgave emits the lint of a habit that was corrected at offset at.
func (d *decoder) forgave(h parse.Habits, at int64) {
	d.emit(messages.Event{Kind: messages.EventLint, Offset: at, Fault: &messages.ParseError{Code: h.Lint(), Offset: at}})
}

// bodyText takes the bytes of p that continue a body which is JSON so far, within the limit of
// a body, and returns how many.
func (d *decoder) bodyText(p []byte) (n int) {
	room := p[:min(len(p), d.bodyLimit-d.bodyBytes)]
	for n < len(room) {
		k := 0
		if !d.body.fence.apart() {
			k = d.json.Write(room[n:])
		}
		if n += k; n == len(room) || d.json.Closed() || !d.fenceByte(room[n]) {
			break
		}
		n++
	}
	if d.second {
		d.body.lines += bytes.Count(room[:n], newline)
	}
	d.bodyBytes += n
	return n
}

var newline = []byte{'\n'}

// fenceByte takes a byte of the code fence around a body. It returns false for other bytes.
func (d *decoder) fenceByte(c byte) bool {
	b := &d.body
	switch {
	case !d.forgives(parse.HabitFence) || d.bodyTag != tagAction:
		return false
	case b.fence == fenceNone && (c == '`' || c == '~') && d.json.Blank():
		b.fence, b.mark = fenceMarker, c
		b.habits |= parse.HabitFence
	case (b.fence == fenceMarker || b.fence == fenceEnd) && c == b.mark:
	case (b.fence == fenceMarker || b.fence == fenceWord) && (c == '\n' || c == '{'):
		b.fence = fenceOpen
		return c == '\n' || d.json.Write([]byte{c}) == 1
	case b.fence == fenceMarker && c != '<', b.fence == fenceWord && c != '<':
		b.fence = fenceWord
	case b.fence == fenceOpen && c == b.mark && d.json.Whole():
		b.fence = fenceEnd
	case (b.fence == fenceEnd || b.fence == fenceShut) && isWhite(c):
		b.fence = fenceShut
	default:
		return false
	}
	return true
}

// swallowed ends a body whose last string has no end and ran into the closer of the action,
// which is now read as a tag. at is the offset after the part of the closer that json has seen.
func (d *decoder) swallowed(at int64) {
	d.spoil([]byte{'>'})
	d.held = append(d.held[:0], closer...)
	d.heldAt, d.heldBlank = at-int64(len(closer)), false
	d.tag.Begin(&d.grammar, 0, 1<<tagAction)
	d.tag.Take(d.held[1:])
	d.inTag = true
}

// spoil takes bytes of a body that is not JSON.
func (d *decoder) spoil(p []byte) {
	if !d.raw {
		d.raw = true
		if d.second && d.overrun() == "" {
			d.body.cause = d.place() + ": " + d.refusal(p[0])
		}
	}
	d.white = d.white && len(trim(p)) == 0
}

// refusal returns what is wrong with the next byte of the body.
func (d *decoder) refusal(c byte) string {
	if d.body.fence.apart() {
		return "text follows the code fence: leave it out"
	}
	return d.json.Refusal(c)
}

// place returns where in the body the next byte is, for an error.
func (d *decoder) place() string {
	at := "byte " + strconv.Itoa(d.bodyBytes+1) + ", line " + strconv.Itoa(d.body.lines+1)
	if tail := d.json.Tail(); tail != "" {
		at += ", behind " + tail
	}
	return at
}

// slipped emits lints of the habits that were corrected in an accepted body.
func (d *decoder) slipped() {
	all := d.body.habits
	commas, controls := d.json.Slipped()
	if commas {
		all |= parse.HabitCommas
	}
	if controls {
		all |= parse.HabitControls
	}
	for h := parse.Habits(1); h <= all; h <<= 1 {
		if all.Has(h) {
			d.forgave(h, d.action.at)
		}
	}
}
