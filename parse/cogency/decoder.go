package cogency

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// The markers (docs/spec/cogency.md §1). A marker has a "<" only at its beginning.
const (
	openThink   = "<think>"
	shutThink   = "</think>"
	openExecute = "<execute>"
	shutExecute = "</execute>"
	openResults = "<results>"
	shutResults = "</results>"
	endReply    = "<end>"

	maxHeldBytes = len(openExecute) - 1
)

var (
	textMarkers  = []string{openThink, openExecute, openResults, endReply}
	thinkMarkers = []string{shutThink}
)

// state is where in the reply the decoder is (docs/spec/cogency.md §2).
type state uint8

const (
	inText state = iota
	inThink
	inExecute
	inResults
	inDone
)

// decoder reads one reply.
//
// Bytes come in segments of whole characters. In text and thoughts a segment goes out in one
// piece up to a marker; only a possible beginning of a marker at the end of a push is copied, to
// held. A batch goes to json, which distinguishes a "<" in a string from a marker. The bytes
// that json refuses, and results, are kept in body and followed by quotes.
//
// Positions count the bytes of the text after invalid UTF-8 was replaced; lag is how much longer
// that is than the reply so far. Events have offsets in the reply.
//
//	len(held) ≤ maxHeldBytes    open ⇒ len(blank) = 0    len(body) ≤ limits.ExecuteBytes + len(shutExecute) in EXECUTE
type decoder struct {
	emit   func(messages.Event) // of the current Push or End
	limits Limits
	room   int64 // bytes the reply may still have
	full   bool  // the reply had more
	// textOnly ends the reply where its batch begins, because its calls are known.
	textOnly bool

	utf8  scan.UTF8
	pos   int64
	lag   int64
	state state

	held   []byte
	heldAt int64
	hold   [maxHeldBytes + 1]byte

	open    bool // a unit is open
	unit    int  // its ordinal, or the next one's
	blank   []byte
	blankAt int64

	body    []byte
	bodyAt  int64
	bodyOff int64 // offset of bodyAt in the reply
	quotes  quotes

	json        *scan.JSON // the batch, as far as it is JSON; nil outside EXECUTE
	jsonEnded   bool       // json took less than the batch: the rest is in body
	closer      closer
	fence       fence
	fenced      bool   // a code fence precedes the batch's opener
	closerAdded bool   // the closer is missing and was added
	slipAt      int64  // where json refused a byte, in the reply
	problem     string // why the batch has not the right shape

	second    bool         // the rendering is 2 or later
	forgive   parse.Habits // habits that are corrected, from rendering 2 on
	prose     search       // what text is searched for, from rendering 2 on
	thinkEnds []string     // the closers of the open thought in lower case, nil for the marker alone
	linted    bool         // the lint of the thought's tag is out

	raw          bool               // the first closer ends the results, in a string or not
	stringStarts []int64            // positions after quotes, at which the results were in a string (results)
	brokenStarts map[int64]struct{} // such positions from which a string breaks
	pending      []byte             // bytes to be read again, from position pendingAt on
	pendingAt    int64
	steps        int64 // bytes looked at in results, and in text of rendering 2; the tests check that it is linear
}

// NewDecoder returns a decoder of one reply of at most info.MaxReplyBytes, or MaxReplyBytes
// when that is not positive. A longer reply ends there, with ERR_QUOTA/stream_too_large. The
// rest of info is not used.
func (x Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	d := &decoder{limits: x.Limits.or(), room: MaxReplyBytes, second: x.second(), forgive: x.Forgive}
	d.prose.bol, d.prose.noMarkerAt = true, -1
	if info.MaxReplyBytes > 0 {
		d.room = info.MaxReplyBytes
	}
	d.held = d.hold[:0]
	return d
}

// reset prepares the decoder for another reply, with the default limit of bytes.
func (d *decoder) reset() {
	*d = decoder{limits: d.limits, room: MaxReplyBytes, second: d.second, forgive: d.forgive}
	d.prose.bol, d.prose.noMarkerAt = true, -1
	d.held = d.hold[:0]
}

// Push takes the next bytes.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	if d.full || d.state == inDone {
		return
	}
	d.emit = emit
	if int64(len(p)) > d.room {
		d.full = true
		p = p[:d.room]
	}
	d.room -= int64(len(p))
	if d.utf8.Held() == 0 {
		if plain, marked := scan.Plain(p, '<'); plain {
			if !marked && d.state == inExecute {
				p = p[d.letters(p):]
			}
			d.segment(p, len(p))
			return
		}
	}
	for {
		text, n, rest := d.utf8.Next(p)
		if n == 0 {
			break
		}
		d.segment(text, n)
		p = rest
	}
	if d.utf8.Held() > 0 {
		d.release() // no marker has a byte of a longer character
	}
}

// letters takes the part of a short piece without "<" that continues the JSON of a batch, and
// returns how many bytes. Models send a few letters at a time, for which this is cheaper than
// execute.
func (d *decoder) letters(p []byte) int {
	if d.jsonEnded || d.closer.begun > 0 || d.fence.opening() || d.pos+int64(len(p)) > d.bodyAt+int64(d.limits.ExecuteBytes) {
		return 0
	}
	n := 1
	if len(p) != 1 || !d.json.Letter(p[0]) {
		n = d.json.Write(p)
	}
	d.pos += int64(n)
	return n
}

// segment reads whole characters that stand for n bytes of the reply; the lengths differ if
// bytes were replaced.
func (d *decoder) segment(p []byte, n int) {
	at, grown := d.pos, int64(len(p)-n)
	d.pos += int64(len(p))
	for len(p) > 0 {
		k := d.read(p, at)
		p, at = p[k:], at+int64(k)
		d.reread()
	}
	d.lag += grown
}

// read reads a part of p and returns how many bytes.
func (d *decoder) read(p []byte, at int64) int {
	switch d.state {
	case inText:
		if d.second {
			return d.readProse(p, at)
		}
		return d.text(p, at, textMarkers)
	case inThink:
		return d.text(p, at, d.closers())
	case inExecute:
		return d.execute(p, at)
	case inResults:
		return d.results(p, at)
	case inDone:
	}
	return len(p)
}

// off returns the offset in the reply of a position. In results that are read again it is too
// low by two for each byte that was replaced.
func (d *decoder) off(at int64) int64 { return max(0, at-d.lag) }

// text reads up to a marker, or all of p, and returns how many bytes.
func (d *decoder) text(p []byte, at int64, markers []string) int {
	if len(d.held) > 0 {
		return d.resume(p, markers)
	}
	for i := 0; ; i++ {
		k := bytes.IndexByte(p[i:], '<')
		if k < 0 {
			d.emitText(p, at)
			return len(p)
		}
		i += k
		m, begun := d.find(p[i:], markers)
		switch {
		case m != "":
			d.emitText(p[:i], at)
			d.mark(m, at+int64(i))
			return i + len(m)
		case begun:
			d.emitText(p[:i], at)
			d.held = append(d.held, p[i:]...)
			d.heldAt = at + int64(i)
			return len(p)
		}
	}
}

// resume goes on with the possible marker that an earlier push ended in.
func (d *decoder) resume(p []byte, markers []string) int {
	for i, c := range p {
		d.held = append(d.held, c)
		m, begun := d.find(d.held, markers)
		switch {
		case m != "":
			at := d.heldAt
			d.held = d.hold[:0]
			d.mark(m, at)
			return i + 1
		case !begun:
			d.held = d.held[:len(d.held)-1]
			d.release()
			return i
		}
	}
	return len(p)
}

// release emits held as text: it is not a marker.
func (d *decoder) release() {
	if len(d.held) > 0 {
		d.emitText(d.held, d.heldAt)
		d.held = d.hold[:0]
	}
}

// find returns the marker that p begins with; begun reports whether p is the beginning of one.
func find(p []byte, markers []string) (marker string, begun bool) {
	for _, m := range markers {
		n := min(len(p), len(m))
		if string(p[:n]) == m[:n] {
			if n == len(m) {
				return m, true
			}
			return "", true
		}
	}
	return "", false
}

// find is like the function, but ignores case if other closers of thoughts count.
func (d *decoder) find(p []byte, markers []string) (marker string, begun bool) {
	if d.thinkEnds == nil || d.state != inThink {
		return find(p, markers)
	}
	for _, m := range markers {
		n := min(len(p), len(m))
		if !strings.EqualFold(string(p[:n]), m[:n]) {
			continue
		}
		if n < len(m) {
			begun = true
			continue
		}
		return string(p[:n]), true
	}
	return "", begun
}

// closers returns the markers that end the open thought.
func (d *decoder) closers() []string {
	if d.thinkEnds == nil {
		return thinkMarkers
	}
	return d.thinkEnds
}

// mark acts on a marker: each of them ends the unit (docs/spec/cogency.md §2.1).
func (d *decoder) mark(m string, at int64) {
	d.close(at, true)
	d.bodyAt = at + int64(len(m))
	d.bodyOff = d.off(d.bodyAt)
	d.body, d.stringStarts, d.quotes, d.raw = d.body[:0], d.stringStarts[:0], quotes{every: m == openResults}, false
	switch m {
	case openThink:
		d.state = inThink
		if d.forgive.Has(parse.HabitThink) {
			d.thinkEnds, d.linted = thinkClosers, false
		}
	case openExecute:
		if d.textOnly {
			d.state = inDone
			break
		}
		d.state, d.json = inExecute, newScanner(d.limits.JSONDepth)
		d.json.Commas, d.json.Controls = d.forgive.Has(parse.HabitCommas), d.forgive.Has(parse.HabitControls)
		if d.json.Controls {
			d.json.Closer = shutExecute[:len(shutExecute)-1]
		}
	case openResults:
		d.state = inResults
	case endReply:
		d.stop(at, true)
	default: // a closer of thoughts
		if m != shutThink && !d.linted {
			d.lint(parse.HabitThink, d.off(at))
		}
		d.state, d.prose.layout = inText, layout{bol: true, anyText: d.prose.anyText}
	}
}

// kind returns the kind of the units in the current state.
func (d *decoder) kind() messages.Kind {
	switch d.state {
	case inThink:
		return messages.ThoughtUnit
	case inResults:
		return messages.TextUnit
	}
	return messages.ResponseUnit
}

// emitText emits text of a unit. The unit begins with its first character other than white
// space; white space before that waits.
func (d *decoder) emitText(p []byte, at int64) {
	if len(p) == 0 {
		return
	}
	if !d.open {
		if len(d.blank) == 0 {
			d.blankAt = at
		}
		if len(bytes.TrimSpace(p)) == 0 {
			d.blank = append(d.blank, p...)
			return
		}
		d.open = true
		d.emit(messages.Event{Kind: messages.EventUnitBegin, Unit: d.unit, UnitKind: d.kind(), Offset: d.off(d.blankAt)})
		if len(d.blank) > 0 {
			d.emit(messages.Event{Kind: messages.EventUnitText, Unit: d.unit, UnitKind: d.kind(), Text: d.blank, Offset: d.off(d.blankAt)})
			d.blank = d.blank[:0]
		}
	}
	d.emit(messages.Event{Kind: messages.EventUnitText, Unit: d.unit, UnitKind: d.kind(), Text: p, Offset: d.off(at)})
}

// close ends the open unit, if there is one, and drops waiting white space.
func (d *decoder) close(at int64, complete bool) {
	d.blank = d.blank[:0]
	if !d.open {
		return
	}
	d.open = false
	d.emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: d.kind(), Offset: d.off(at), Complete: complete})
	d.unit++
}

// stop discards the rest of the reply.
func (d *decoder) stop(at int64, final bool) {
	d.done()
	d.emit(messages.Event{Kind: messages.EventStop, Offset: d.off(at), Final: final})
}

// done frees what only a reply that goes on needs.
func (d *decoder) done() {
	d.state = inDone
	d.body, d.stringStarts, d.brokenStarts = nil, nil, nil
	if d.json != nil {
		free(d.json)
		d.json = nil
	}
}

// fail ends the reply with an error. Its place is the batch; in rendering 2 the wrong byte, if
// there is one.
func (d *decoder) fail(reason string, at int64) {
	f := fault(reason, d.bodyOff)
	if d.second {
		f = d.explained(reason, at)
	}
	if d.json != nil && d.json.Deep() {
		f.Limit = messages.LimitJSONDepth
	}
	d.emit(messages.Event{Kind: messages.EventParseError, Offset: f.Offset, Fault: f})
	d.stop(at, false)
}

// End reads the bytes that were held back and closes the open unit or batch
// (docs/spec/cogency.md §2.3).
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n := d.utf8.End()
		if n == 0 {
			break
		}
		d.segment(text, n)
	}
	if d.full {
		f = messages.FinishLength
	}
	clean := f == messages.FinishComplete || f == messages.FinishStop
	if d.state == inText {
		d.flushProse()
	}
	switch d.state {
	case inText:
		d.release()
		d.close(d.pos, clean)
	case inThink:
		d.release()
		d.close(d.pos, false)
	case inResults:
		d.result(d.body, d.pos, false)
	case inExecute:
		if clean || f == messages.FinishLength {
			d.unterminated(clean)
		}
	case inDone:
	}
	if d.full {
		d.emit(messages.Event{Kind: messages.EventParseError, Offset: d.off(d.pos), Fault: &messages.ParseError{
			Code: messages.ErrQuota, Reason: TooLarge, Offset: d.off(d.pos), Detail: TooLarge + ": " + meanings[TooLarge],
		}})
	}
	d.done()
}
