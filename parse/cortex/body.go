package cortex

import (
	"bytes"
	"strconv"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// body is what of an action's body is no JSON: the code fence around it, where that is
// forgiven, and the place and cause of what spoiled it.
type body struct {
	fence  fence
	mark   byte   // that the fence is made of
	lines  int    // line ends in it
	cause  string // why it is no JSON, with its place; "" while it may be
	habits parse.Habits
	twice  bool // its arguments are given under two names
}

// fence is how far the code fence around a body has come.
type fence uint8

const (
	fenceNone   fence = iota
	fenceMarker       // in the backticks of its first line
	fenceWord         // in the word behind them
	fenceOpen         // behind that line
	fenceEnd          // in the backticks of its last line
	fenceShut         // behind them
)

// apart tells that the next byte is none of the JSON in a fence.
func (f fence) apart() bool { return f != fenceNone && f != fenceOpen }

// closer begins the tag that ends a body.
const closer = "</action"

// forgives reports whether habits are put right.
func (d *decoder) forgives(h parse.Habits) bool { return d.habits.Has(h) }

// forgave makes the lint of a habit that was put right at a byte of the reply.
func (d *decoder) forgave(h parse.Habits, at int64) {
	d.emit(messages.Event{Kind: messages.EventLint, Offset: at, Fault: &messages.ParseError{Code: h.Lint(), Offset: at}})
}

// bodyText takes what of p belongs to a body that is JSON so far, within the limit of a
// body, and tells how much.
func (d *decoder) bodyText(p []byte) (n int) {
	room := p[:min(len(p), d.limits.BodyBytes-d.bodyBytes)]
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

// fenceByte takes a byte of the code fence around a body.
func (d *decoder) fenceByte(c byte) bool {
	b := &d.body
	switch {
	case !d.forgives(parse.HabitFence):
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

// swallowed ends a body whose last string has run into the closer of the action: that is
// read as the tag it is, up to the byte at which it is known.
func (d *decoder) swallowed(at int64) {
	d.spoil([]byte{'>'})
	d.held = append(d.held[:0], closer...)
	d.heldAt, d.heldBlank = at-int64(len(closer)), false
	d.tag.Begin(&d.grammar, 0, 1<<tagAction)
	d.tag.Take(d.held[1:])
	d.inTag = true
}

// spoil takes bytes that make the body no JSON.
func (d *decoder) spoil(p []byte) {
	if !d.raw {
		d.raw = true
		if d.second && d.overrun() == "" {
			d.body.cause = d.place() + ": " + d.refusal(p[0])
		}
	}
	d.white = d.white && len(trim(p)) == 0
}

// refusal says what is wrong with a byte of the body.
func (d *decoder) refusal(c byte) string {
	if d.body.fence.apart() {
		return "text follows the code fence: leave it out"
	}
	return d.json.Refusal(c)
}

// place is where in the body the next byte stands, for a remark on it.
func (d *decoder) place() string {
	at := "byte " + strconv.Itoa(d.bodyBytes+1) + ", line " + strconv.Itoa(d.body.lines+1)
	if tail := d.json.Tail(); tail != "" {
		at += ", behind " + tail
	}
	return at
}

// slipped makes lints of what was put right in a body that is accepted.
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
