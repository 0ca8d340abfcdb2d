package aeiou

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// decoder reads a reply in extract mode (docs/spec/aeiou.md §2, §3 rule 6). It says nothing
// before End: a program counts only once the reply is known to be whole.
//
// Two phases, told apart by the START line. Before it, buf holds the reply from
// its first byte, because without START all of it is the program; once that is
// over the limit only a later START can help, so buf then holds the current line
// alone. From START on, buf holds the envelope. In both, at most hold bytes are
// kept; watch follows the line in progress, so a marker is recognised whatever
// its trailing blanks, kept or not.
//
//	0 ≤ lineAt ≤ len(buf) ≤ hold,  base ≤ line ≤ n
type decoder struct {
	limit  int // bytes of an envelope
	strict bool
	buf    []byte
	base   int64 // of buf[0] in the reply
	before int   // LFs in the reply before base
	n      int64 // reply bytes taken
	lines  int   // LFs taken

	line   int64 // reply offset of the current line
	lineAt int   // and its place in buf, while buf holds more than this line
	watch  watch

	started bool // a START line was found
	ended   bool // and an END line behind it, closed by its LF; nothing later matters
	bare    bool // before START: the reply is too large to be a program
	over    bool // from START on: too large, whatever follows
}

// hold is how much is kept: one byte over the limit, behind a BOM.
func (d *decoder) hold() int { return d.limit + 1 + len(bom) }

// NewDecoder reads one reply. info.MaxReplyBytes lowers the envelope limit when
// it is positive and smaller; the rest of info means nothing here.
func (d Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	r := newDecoder(d, info)
	if d.Rendering < 2 {
		return r
	}
	return &reply{dialect: d, info: info, limit: r.limit}
}

// newDecoder reads a reply as version 1 does.
func newDecoder(d Dialect, info messages.TurnInfo) *decoder {
	r := &decoder{limit: MaxEnvelopeBytes, strict: d.StrictDuplicates}
	if m := info.MaxReplyBytes; m > 0 && m < int64(r.limit) {
		r.limit = int(m)
	}
	r.watch.marker = markStart
	return r
}

// Push takes reply bytes and emits nothing.
func (d *decoder) Push(p []byte, _ func(messages.Event)) {
	if !d.ended && !d.over && !d.bare {
		d.buf = slices.Grow(d.buf, min(len(p), d.hold()-len(d.buf)))
	}
	for len(p) > 0 && !d.ended && !d.over {
		seg, rest, lf := bytes.Cut(p, []byte{'\n'})
		p = rest
		d.watch.feed(seg)
		d.keep(seg)
		if lf {
			d.endLine()
		}
	}
}

// keep takes bytes that hold no LF, or an LF alone.
func (d *decoder) keep(seg []byte) {
	d.n += int64(len(seg))
	if !d.started && !d.bare && d.n > int64(d.hold()) {
		// It cannot be a bare program any more; only this line is of interest.
		d.bare = true
		d.dropLines()
	}
	if d.bare && !d.started && d.watch.dead {
		return
	}
	if room := d.hold() - len(d.buf); room < len(seg) {
		seg = seg[:room]
	}
	d.buf = append(d.buf, seg...)
	d.over = d.started && d.n-d.base > int64(d.hold()) && !d.endFits()
}

// endFits reports whether the current line is, so far, an END marker within the
// limit. Blanks behind it do not count, however many come.
func (d *decoder) endFits() bool {
	closeAt := d.line + int64(d.watch.bom+len(markEnd))
	return d.watch.found() && closeAt-d.base-int64(markAt(d.buf)) <= int64(d.limit)
}

// endLine takes the LF of the current line.
func (d *decoder) endLine() {
	found := d.watch.found()
	if found && d.started {
		d.ended = true
		return
	}
	d.keep([]byte{'\n'})
	if found {
		d.begin()
	}
	d.lines++
	d.line = d.n
	d.watch.reset()
	switch {
	case d.started:
	case d.bare:
		d.lineAt = len(d.buf)
		d.dropLines()
	default:
		d.lineAt = len(d.buf)
	}
}

// dropLines lets go of everything before the current line.
func (d *decoder) dropLines() {
	d.buf = append(d.buf[:0], d.buf[d.lineAt:]...)
	d.lineAt, d.base, d.before = 0, d.line, d.lines
}

// begin makes the current line the START of an envelope.
func (d *decoder) begin() {
	d.dropLines()
	d.started = true
	d.watch.marker = markEnd
	d.over = d.n-d.base > int64(d.hold())
}

// End emits the lints and the program, or one parse error. A reply that was cut
// at the model's length limit runs only when its END line had arrived whole: a
// program cut in the middle may be a program still. After an error or a cancel
// there is nothing to say.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	switch f {
	case messages.FinishComplete, messages.FinishStop, messages.FinishLength:
	default:
		return
	}
	if !d.started && d.watch.found() {
		d.begin()
	}
	switch {
	case f == messages.FinishLength && !d.ended && !d.tooBig():
		d.fail(emit, messages.ParseError{
			Code: messages.ErrActionsParse, Offset: d.n, Line: d.lines + 1,
			Detail: "the reply was cut at the model's length limit; nothing was run",
		})
	case d.started:
		d.envelope(emit)
	default:
		d.whole(emit)
	}
}

// tooBig reports whether no further byte could make the reply fit.
func (d *decoder) tooBig() bool {
	return d.over || !d.started && d.n > int64(d.limit)
}

// envelope reads what was kept from START on.
func (d *decoder) envelope(emit func(messages.Event)) {
	var l layout
	f := tooBig(markAt(d.buf), d.limit)
	if !d.over {
		l, f = read(d.buf, Options{Extract: true, StrictDuplicates: d.strict}, limits{whole: d.limit, input: d.n})
	}
	if f.code != "" {
		e := f.err(d.buf)
		detail := e.Detail
		if e.Reason != "" {
			detail = e.Reason + ": " + detail
		}
		if e.Field != "" {
			detail = e.Field + ": " + detail
		}
		d.fail(emit, messages.ParseError{Code: e.Code, Offset: d.base + e.Offset, Line: d.before + e.Line, Col: e.Col, Detail: detail})
		return
	}
	for _, lint := range l.lints {
		emit(messages.Event{Kind: messages.EventLint, Offset: d.base + int64(lint.Offset), Fault: &messages.ParseError{
			Code: lint.Code, Offset: d.base + int64(lint.Offset), Line: d.before + lint.Line, Col: 1, Detail: lint.Section,
		}})
	}
	d.program(emit, l.body(d.buf, actions), l.at[actions].lo)
}

// whole takes a reply without START as the program, outer white space removed.
func (d *decoder) whole(emit func(messages.Event)) {
	if d.tooBig() {
		d.fail(emit, messages.ParseError{
			Code: messages.ErrEnvSize, Line: 1, Col: 1,
			Detail: fmt.Sprintf("the reply is larger than %d bytes", d.limit),
		})
		return
	}
	if !utf8.Valid(d.buf) {
		at := firstInvalid(d.buf)
		line, col := place(d.buf, at)
		d.fail(emit, messages.ParseError{
			Code: messages.ErrEnvMarkersInvalid, Offset: int64(at), Line: line, Col: col,
			Detail: "NON_UTF8: the bytes are not UTF-8",
		})
		return
	}
	const white = " \t\n\v\f\r"
	src := bytes.TrimLeft(d.buf, white)
	at := len(d.buf) - len(src)
	d.program(emit, bytes.TrimRight(src, white), at)
}

// program emits a source. None at all is no program: that it does not parse can
// be said without an interpreter.
func (d *decoder) program(emit func(messages.Event), src []byte, at int) {
	line, col := place(d.buf, at)
	line += d.before
	switch {
	case len(src) == 0:
		d.fail(emit, messages.ParseError{
			Code: messages.ErrActionsParse, Offset: d.base + int64(at), Line: line, Col: col,
			Detail: "there is no program; ACTIONS needs one command block",
		})
	case len(src) > MaxSectionBytes:
		d.fail(emit, messages.ParseError{
			Code: messages.ErrEnvSize, Offset: d.base + int64(at), Line: line, Col: col,
			Detail: fmt.Sprintf("ACTIONS: the body has %d bytes; the limit is %d", len(src), MaxSectionBytes),
		})
	default:
		emit(messages.Event{Kind: messages.EventProgram, Text: src, Offset: d.base + int64(at), Complete: true})
	}
}

func (d *decoder) fail(emit func(messages.Event), p messages.ParseError) {
	emit(messages.Event{Kind: messages.EventParseError, Offset: p.Offset, Fault: &p})
}

// markAt is where the START marker of buf begins: behind its BOM, if any.
func markAt(buf []byte) int {
	if bytes.HasPrefix(buf, []byte(bom)) {
		return len(bom)
	}
	return 0
}

// watch follows one line byte by byte and knows whether, so far, it is its marker
// line (§3 rule 2): a BOM or none, the marker, blanks.
type watch struct {
	marker string
	bom    int // bytes of a BOM seen
	pos    int // bytes of the marker seen
	dead   bool
}

func (w *watch) reset() { w.bom, w.pos, w.dead = 0, 0, false }

func (w *watch) found() bool { return !w.dead && w.pos == len(w.marker) }

func (w *watch) feed(p []byte) {
	for _, c := range p {
		switch {
		case w.dead:
			return
		case w.pos == len(w.marker):
			w.dead = !isBlank(c)
		case w.pos == 0 && w.bom < len(bom) && c == bom[w.bom]:
			w.bom++
		case (w.bom == 0 || w.bom == len(bom)) && c == w.marker[w.pos]:
			w.pos++
		default:
			w.dead = true
		}
	}
}
