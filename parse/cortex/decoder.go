package cortex

import (
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// state is where in the reply the decoder is (docs/spec/streaming.md §2).
type state uint8

const (
	inTop state = iota // between blocks
	inThought
	inResponse
	inAction
	inFeed
	inSkip  // in an element that is discarded
	inThink // in a thought under another name
	inOver  // after a final response
	inCut   // after the action that cut the reply: the rest is ignored
)

// expected is what the next bytes belong to, if they are whole characters without a "<".
type expected uint8

const (
	anything  expected = iota
	textBytes          // text of the current state
	bodyBytes          // the JSON of an action
	tagBytes           // in a tag
)

// decoder reads one reply.
//
//	len(held) ≤ limits.TagBytes    bodyBytes ≤ limits.BodyBytes    depth > 0 ⇔ a thought is open
//
// # From bytes to events
//
//	Push ─┬─▶ letter ── one byte that only continues what is expected ────────┐
//	      ├─▶ short ─── a short piece of whole characters ───────────┐        │
//	      └─▶ push ──── utf8 ──▶ take: text in whole characters ─────┤        │
//	                                                                 ▼        │
//	   segment: until the piece is used up                                    │
//	     in a tag of an earlier push      resume: scan.Tag goes on            │
//	     in the body of an action         bodyText: scan.JSON takes it; it    │
//	                                      knows a "<" in a string             │
//	     between blocks, from version 2   run: up to a "<" of a tag ───▶ top  │
//	     else                             candidate: the next such "<"        │
//	   follow: scan.Tag from the "<"                                          │
//	     Not, or Bad where it is no error    text                             │
//	     else settle                                                          │
//	       More    the push ends in the tag: copied to held                   │
//	       Done    complete: opener, closer, or the end of the block          │
//	       Bad     refused: an error, and text                                │
//	   text, by state: unit event, top, feed.text, spoil (the body is raw) ◀──┘
//
// A tag can end the block that it stands in without being its closer: complete returns false,
// or forgot rejects the open action. The same tag is then read once more (again), in the state
// outside the block, where it may mean something else.
//
// # States
//
//	inTop ── thought ──▶ inThought (depth) ── last closer ──▶ inTop
//	inTop, inThought ── action ──▶ inAction ── closer, or another opener ──▶ enclosing
//	inTop, inThought ── tags of the host and of extensions ──▶ inSkip ──▶ enclosing
//	inTop ── response (in a thought too, at the start of a line) ──▶ inResponse ──▶ inTop
//	inTop ── context_feed ──▶ inFeed ──▶ inTop
//	inTop ── think ──▶ inThink ──▶ inTop
//	inResponse, final ──▶ inOver: one error for what follows, no events
//	inAction, sync, with Dialect.Cut ──▶ inCut: nothing is read
//
// Extensions that are on (extend.go) add no state: the open blocks, branches and sub-thoughts are
// in ext.nest, and text in them is read as inTop or inThought. A template's body is read as an
// action's; bodyTag says which of the two it is.
//
// # What is held, and where
//
//	utf8        the beginning of a character           3 bytes
//	held        a tag that a push ends in              limits.TagBytes
//	top.text    text between blocks, from version 2: it may be the answer
//	top.later   code fences in it that hold blocks, until the reply ends
//	space       white space between blocks, in version 1
//	json        the body of an action                  limits.BodyBytes
//	feed.text   a feed
//	think       the answer in a thought without closer
//
// What has no bound of its own is bounded by the reply. Thoughts and responses pass without
// being held. An example in version 2 (TestMap); after each push:
//
//	push                      held                             events
//	Let me see.<th            top.text "Let me see."           –
//	                          held     "<th"
//	ought>a <b                –                                the text as a unit; the
//	                                                           thought begins, "a <b"
//	</thought><action>{"na    json     4 bytes                 the thought ends
//	me":"<x>"}</act           json     14 bytes, held "</act"  –
//	ion>                      –                                the action
//
// # Fast paths, and what was tried
//
// Models send a few letters at a time. letter and short skip the classification of push for
// them and give the same events at the same offsets; the tests read every reply whole, byte by
// byte and at random cuts. They exist because one loop over all bytes was slow: each byte of a
// tag was compared with every known name, and each byte of a body went through three calls.
// Now scan.Tag finds names by a table, scan.JSON takes strings eight bytes at a time, and next
// remembers what the next bytes belong to. A "<" that begins no tag does not cut a unit's text:
// one event for a piece costs less than two.
type decoder struct {
	emit   func(messages.Event) // of the current Push or End
	limits Limits
	limit  int64 // bytes the reply may have
	full   bool  // the reply had more
	next   expected

	utf8    scan.UTF8
	grammar scan.Grammar
	first   *[256]bool // what a known name begins with
	off     int64      // bytes of the reply taken
	blank   bool       // only spaces and tabs since the last LF
	state   state

	tag       scan.Tag
	inTag     bool // the last push ended in a tag, which is in held
	held      []byte
	heldAt    int64
	heldBlank bool

	open       bool // a unit is open
	unit       int  // its ordinal, or the next one's
	kind       messages.Kind
	space      []byte // between blocks: white space that text may follow
	afterFinal bool   // reported already

	depth     int // open thoughts
	thoughtAt int64
	response  struct {
		at       int64
		final    bool
		explicit bool // it has the attribute final
		ended    bool // a final one has ended, and the reply is still read
	}
	readsOn      bool // see Dialect
	warned       bool // the turn before had no action and no response, and the model was told so
	top          top
	think        reasoning
	defaultFinal bool // a response without the attribute final is final
	cuts         bool // a sync action ends the reply
	second       bool // rendering version 2, or a later one
	habits       parse.Habits
	feed         struct {
		at   int64
		id   string
		text []byte
	}
	skip struct {
		at    int64
		tag   int
		opens uint32 // the openers that mean something in it
		depth int
	}
	ext *extended // nil while no extension is on

	actions   int // blocks so far
	action    block
	json      scan.JSON
	raw       bool // the body is not JSON
	white     bool // and only white space
	bodyBytes int
	bodyLimit int
	bodyTag   int // whose body is read
	body      body
	ids       ids
	arena     []byte
	spans     []span
}

// NewDecoder returns a decoder of one reply of at most info.MaxReplyBytes, or MaxReplyBytes
// when that is not positive. A longer reply ends there, with ERR_QUOTA/stream_too_large. Of the
// rest of info State counts, which says whether the turn before had nothing to act on, and
// Templates, while they are on.
func (x Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	d := &decoder{limits: x.Limits.or(), limit: MaxReplyBytes, blank: true}
	if info.MaxReplyBytes > 0 {
		d.limit = info.MaxReplyBytes
	}
	d.defaultFinal, d.cuts, d.second, d.habits = !x.NotFinal, x.Cut, x.Rendering >= 2, x.Forgive
	d.readsOn, d.warned = x.readsOn(), len(info.State) > 0
	d.grammar, d.first = known.Within(d.limits.TagBytes), first
	d.extend(x, info.Templates)
	d.json.MaxDepth = d.limits.JSONDepth
	d.json.Keep = 1 // the last of each field is looked for, see fields
	d.json.Commas, d.json.Controls = d.forgives(parse.HabitCommas), d.forgives(parse.HabitControls)
	if d.json.Controls {
		d.json.Closer = closer
	}
	return d
}

// Push takes the next bytes.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	d.emit = emit
	if len(p) != 1 || !d.letter(p) {
		d.piece(p)
	}
}

func (d *decoder) piece(p []byte) {
	if d.next != anything && len(p) > 0 && int64(len(p)) <= d.limit-d.off && d.short(p) {
		return
	}
	d.push(p)
	d.next = d.expected()
}

// letter takes a piece of one byte that only continues what is expected: an open text, the
// JSON of a body, or a value in a tag. It returns false if it has not taken the byte.
func (d *decoder) letter(p []byte) bool {
	c := p[0]
	is := letters[c]
	if is == noLetter || d.off >= d.limit {
		return false
	}
	switch d.next {
	case textBytes:
		if !d.open || d.state > inResponse {
			return false
		}
		if d.state == inTop && is != blackLetter {
			d.space = append(d.space, c)
			break
		}
		if len(d.space) > 0 {
			d.emitSpace(d.off)
		}
		d.emitText(p, d.off)
	case bodyBytes:
		if d.body.fence.apart() || d.bodyBytes >= d.bodyLimit || !d.json.Letter(c) && d.json.Write(p) == 0 {
			return false
		}
		d.bodyBytes++
		if c == '\n' {
			d.body.lines++
		}
	case tagBytes:
		if !d.tag.Letter(c) {
			return false
		}
		d.held = append(d.held, c)
	default:
		return false
	}
	d.off++
	if is != spaceLetter {
		d.blank = is == endLetter
	}
	return true
}

// Single bytes, as letter sees them.
const (
	noLetter    uint8 = iota // "<", and bytes of longer characters
	blackLetter              // other than white space
	spaceLetter              // white space within a line
	endLetter                // LF: a line begins after it
	backLetter               // CR: no line begins after it
)

var letters = func() (t [256]uint8) {
	for c := range utf8.RuneSelf {
		t[c] = blackLetter
	}
	t['<'], t[' '], t['\t'], t['\n'], t['\r'] = noLetter, spaceLetter, spaceLetter, endLetter, backLetter
	return t
}()

// short takes a short piece of whole characters as what is expected, which is cheaper than
// push. It returns false if it has taken nothing.
func (d *decoder) short(p []byte) bool {
	plain, marked := scan.Plain(p, '<')
	if !plain {
		return false
	}
	at := d.off
	switch {
	case d.next == tagBytes:
		if n := d.resume(p); n < len(p) {
			d.segment(p[n:], at+int64(n), lineStart(p[:n], d.blank))
		}
		if !d.inTag {
			d.next = d.expected()
		}
	case marked:
		d.segment(p, at, d.blank)
		d.next = d.expected()
	case d.next == textBytes:
		d.text(p, at)
	default:
		if n := d.bodyText(p); n < len(p) {
			d.segment(p[n:], at+int64(n), lineStart(p[:n], d.blank)) // not JSON, and raw from here on
			d.next = d.expected()
		}
	}
	d.off = at + int64(len(p))
	d.blank = lineStart(p, d.blank)
	return true
}

// expected returns what the next bytes will belong to.
func (d *decoder) expected() expected {
	switch {
	case d.full || d.state == inCut || d.utf8.Held() > 0:
		return anything
	case d.inTag:
		return tagBytes
	case d.state == inAction && !d.raw:
		return bodyBytes
	}
	return textBytes
}

func (d *decoder) push(p []byte) {
	if d.full || d.state == inCut {
		return
	}
	if room := d.limit - d.off - int64(d.utf8.Held()); int64(len(p)) > room {
		d.full = true
		p = p[:room]
	}
	for {
		text, n, rest := d.utf8.Next(p)
		if n == 0 {
			break
		}
		d.take(text, n)
		p = rest
	}
}

// take reads text that stands for n bytes of the reply; the lengths differ if bytes were
// replaced.
func (d *decoder) take(text []byte, n int) {
	d.top.mended = d.top.mended || len(text) != n
	d.segment(text, d.off, d.blank)
	d.off += int64(n)
	d.blank = lineStart(text, d.blank)
}

// segment reads whole characters from off on. blank reports whether only spaces and tabs precede
// them on their line. Text goes out in one piece up to a tag that means something in the
// current state; one that only looks like a tag does not cut it.
func (d *decoder) segment(seg []byte, off int64, blank bool) {
	start := 0 // where the text begins that has not gone out yet
	for i := 0; i < len(seg) && d.state < inOver; {
		if d.inTag {
			i += d.resume(seg[i:])
			start = i
			continue
		}
		if d.state == inAction && !d.raw {
			i += d.bodyText(seg[i:])
			if start = i; i == len(seg) {
				break
			}
			if d.json.Closed() {
				d.swallowed(off + int64(i))
				continue
			}
		}
		if d.second && d.state == inTop {
			i += d.run(seg[i:], off+int64(i))
			if start = i; i == len(seg) {
				break
			}
		} else {
			k := d.candidate(seg[i:])
			if k < 0 {
				break
			}
			i += k
		}
		r, end := d.follow(seg, i, blank)
		switch {
		case r == scan.Not || r == scan.Bad && !d.reports():
			if r == scan.Bad {
				d.badInSkip()
			}
			if i = end; d.state == inAction || d.second && d.state == inTop {
				d.text(seg[start:i], off+int64(start))
				start = i
			}
		default:
			d.text(seg[start:i], off+int64(start))
			i = d.settle(r, seg, i, end, off, blank)
			start = i
		}
	}
	d.text(seg[start:], off+int64(start))
}

// text takes bytes that belong to no tag.
func (d *decoder) text(p []byte, at int64) {
	if len(p) == 0 {
		return
	}
	switch d.state {
	case inTop:
		if d.second {
			d.hold(p, at)
			return
		}
		d.topText(p, at)
	case inThink:
		d.unitText(messages.ThoughtUnit, p, at)
		if d.think.answer != nil {
			d.think.answer = append(d.think.answer, p...)
		}
	case inThought:
		d.unitText(messages.ThoughtUnit, p, at)
	case inResponse:
		d.emitText(p, at)
	case inFeed:
		d.feed.text = append(d.feed.text, p...)
	case inAction:
		d.spoil(p)
	case inOver:
		if rest := trimLeft(p); len(rest) > 0 && !d.afterFinal {
			d.afterFinal = true
			d.fault(fault(AfterFinal, at+int64(len(p)-len(rest))))
		}
	case inSkip, inCut:
	}
}

// End reads the bytes that were held back and reports what is open, from the inside out. A
// reply that was cut has nothing left to report.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	if d.state == inCut {
		return
	}
	d.emit = emit
	for {
		text, n := d.utf8.End()
		if n == 0 {
			break
		}
		d.take(text, n)
	}
	if d.full {
		f = messages.FinishLength
	}
	d.finish(f)
	if d.full {
		d.fault(messages.ParseError{
			Code: messages.ErrQuota, Reason: TooLarge, Offset: d.off, Detail: TooLarge + ": " + meanings[TooLarge],
		})
	}
}

// finish reports what is open, from the inside out.
func (d *decoder) finish(f messages.Finish) {
	if d.inTag {
		d.inTag = false
		d.cutTag()
	}
	closes := (f == messages.FinishComplete || f == messages.FinishStop) && d.forgives(parse.HabitClosing)
	switch d.state {
	case inTop:
		switch {
		case !d.second:
			d.endUnit(d.off, f == messages.FinishComplete || f == messages.FinishStop)
		case d.top.inner:
			d.segmentEnds(messages.TextUnit, d.off)
		default:
			d.lastText(f)
		}
	case inResponse:
		if closes {
			d.endResponse(d.off, d.response.final, true)
			d.forgave(parse.HabitClosing, d.off)
			break
		}
		d.endResponse(d.off, false, false)
		d.fault(d.told(UnclosedResponse, d.response.at))
	case inFeed:
		e := fault(UnclosedFeed, d.feed.at)
		e.ID = d.feed.id
		d.fault(e)
	case inAction:
		if d.quiet() {
			d.endQuiet()
			d.skipEnds()
			break
		}
		if d.bodyTag == tagAction && closes && !d.raw && d.json.Whole() {
			d.forgave(parse.HabitClosing, d.off)
			d.endAction(d.off)
			break
		}
		d.forgot()
	case inSkip:
		d.skipEnds()
	case inThink:
		d.unended(f)
	}
	switch {
	case d.ext != nil:
		d.closeAll()
	case d.depth > 0:
		d.endUnit(d.off, false)
		d.depth = 0
		d.fault(d.told(UnclosedThought, d.thoughtAt))
	}
	if d.state != inOver && d.state != inCut {
		d.state = inTop
	}
}

// skipEnds reports the discarded element that the reply ends in.
func (d *decoder) skipEnds() {
	e := d.told(UnclosedTag, d.skip.at)
	e.Tag = names[d.skip.tag]
	d.fault(e)
}

// cutTag judges a tag that the end of the reply has cut.
func (d *decoder) cutTag() {
	switch {
	case d.state == inAction || d.state == inSkip || d.state == inFeed || d.state == inResponse:
		// It could only be the block's own closer: the block is reported as unclosed.
	case d.ext != nil && len(d.ext.nest) > 0 && d.ownCloser():
	case d.state == inThought && d.tag.Closing():
	case d.state == inThought && len(d.held) == 1:
	case d.tag.Known():
		d.endUnit(d.heldAt, true)
		f := fault(UnclosedTag, d.heldAt)
		f.Tag = names[d.tag.Name()]
		d.fault(f)
	default:
		d.text(d.held, d.heldAt)
	}
}

// topText takes text between blocks in version 1. Outer white space is dropped, so white space
// that may be outer waits in space.
func (d *decoder) topText(p []byte, at int64) {
	if d.open && len(d.space) == 0 && !isWhite(p[len(p)-1]) {
		d.emitText(p, at)
		return
	}
	if !d.open {
		core := trimLeft(p)
		at += int64(len(p) - len(core))
		p = core
	}
	core := trimRight(p)
	if len(core) > 0 {
		if len(d.space) > 0 {
			d.emitSpace(at)
		}
		d.unitText(messages.TextUnit, core, at)
	}
	if d.open {
		d.space = append(d.space, p[len(core):]...)
	}
}

// unitText emits text of a unit, and begins the unit with its first text.
func (d *decoder) unitText(kind messages.Kind, p []byte, at int64) {
	if !d.open {
		d.beginUnit(kind, at, false)
	}
	d.emitText(p, at)
}

// emitSpace emits the white space that waited for the text at offset at.
func (d *decoder) emitSpace(at int64) {
	d.emitText(d.space, at-int64(len(d.space)))
	d.space = d.space[:0]
}

func (d *decoder) emitText(p []byte, at int64) {
	d.emit(messages.Event{Kind: messages.EventUnitText, Unit: d.unit, UnitKind: d.kind, Text: p, Offset: at})
}

func (d *decoder) beginUnit(kind messages.Kind, at int64, final bool) {
	d.open, d.kind = true, kind
	d.emit(messages.Event{Kind: messages.EventUnitBegin, Unit: d.unit, UnitKind: kind, Offset: at, Final: final, Block: d.standing(kind)})
}

// endUnit ends the open unit of a thought or of text between blocks, if there is one.
func (d *decoder) endUnit(at int64, complete bool) {
	d.space = d.space[:0]
	if d.second && d.state == inTop {
		d.segmentEnds(messages.TextUnit, at)
	}
	d.closeUnit(at, false, complete)
}

func (d *decoder) closeUnit(at int64, final, complete bool) {
	if !d.open {
		return
	}
	d.open = false
	d.emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: d.kind, Offset: at, Final: final, Complete: complete, Block: d.standing(d.kind)})
	d.unit++
}

func (d *decoder) beginThought(p []byte, at int64) {
	if d.tag.SelfClosing() {
		return
	}
	d.depth++
	if d.ext != nil {
		d.thoughtOpens(p, at)
		return
	}
	switch {
	case d.depth == 1:
		d.state, d.thoughtAt = inThought, at
	case d.depth > d.limits.ThoughtDepth:
		f := fault(TooDeep, at)
		f.Limit = messages.LimitThoughtDepth
		d.fault(f)
	default:
		d.fault(fault(NestedThought, at))
	}
}

func (d *decoder) beginResponse(p []byte, at int64) {
	d.response.at, d.response.final, d.response.explicit = at, d.defaultFinal, false
	if v := d.attr(p, "final"); v != nil {
		d.response.final, d.response.explicit = isWord(v, "true"), true
		if !d.response.final && !isWord(v, "false") {
			f := fault(BadAttribute, at)
			f.Name = "final"
			d.fault(f)
		}
	}
	d.state = inResponse
	d.beginUnit(messages.ResponseUnit, at, d.response.final)
	if d.tag.SelfClosing() {
		d.endResponse(at, d.response.final, true)
	}
}

func (d *decoder) endResponse(at int64, final, complete bool) {
	d.closeUnit(at, final, complete)
	d.state = inTop
	switch {
	case !final, d.inBlock():
	case d.readsOn && !d.response.explicit:
		d.response.ended = true
	default:
		d.stop(at, true)
	}
}

// stop stops the reply: what follows has no effect. explicit says that the response before it
// has the attribute final.
func (d *decoder) stop(at int64, explicit bool) {
	d.state = inOver
	if d.readsOn {
		d.emit(messages.Event{Kind: messages.EventStop, Final: explicit, Offset: at})
	}
}

func (d *decoder) beginFeed(p []byte, at int64) {
	d.feed.at, d.feed.id, d.feed.text = at, string(d.attr(p, "id")), d.feed.text[:0]
	if d.feed.id == "" {
		f := fault(MissingID, at)
		f.Tag = names[tagFeed]
		d.fault(f)
	}
	d.state = inFeed
	if d.tag.SelfClosing() {
		d.endFeed()
	}
}

func (d *decoder) endFeed() {
	d.state = inTop
	if d.feed.id != "" {
		d.emit(messages.Event{Kind: messages.EventFeed, Offset: d.feed.at, ID: d.feed.id, Text: trim(d.feed.text), Complete: true})
	}
}

// beginSkip reports and begins an element that is discarded.
func (d *decoder) beginSkip(name int, at int64) {
	reason := UnsupportedTag
	if name == tagResult {
		reason = ReservedTag
	}
	f := fault(reason, at)
	f.Tag = names[name]
	d.fault(f)
	if d.tag.SelfClosing() {
		return
	}
	d.discard(name, at)
}

// discard begins to skip an element, behind its opener.
func (d *decoder) discard(name int, at int64) {
	d.skip.at, d.skip.tag, d.skip.depth, d.skip.opens = at, name, 1, 1<<name
	d.state = inSkip
}

// nested counts the tags with a discarded element's own name, and ends the element with the
// last closer.
func (d *decoder) nested(closing bool) {
	switch {
	case closing:
		if d.skip.depth--; d.skip.depth == 0 {
			d.state = d.enclosing()
			if d.ext != nil {
				d.discarded()
			}
		}
	case !d.tag.SelfClosing() || d.skip.tag == tagElse:
		d.skip.depth++
	}
}

// enclosing returns the state around an action or a discarded element.
func (d *decoder) enclosing() state {
	if d.depth > 0 {
		return inThought
	}
	return inTop
}

// The white space of docs/spec/streaming.md §1.
func isWhite(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func trim(p []byte) []byte { return trimLeft(trimRight(p)) }

func trimLeft(p []byte) []byte {
	for len(p) > 0 && isWhite(p[0]) {
		p = p[1:]
	}
	return p
}

func trimRight(p []byte) []byte {
	for len(p) > 0 && isWhite(p[len(p)-1]) {
		p = p[:len(p)-1]
	}
	return p
}

// isWord reports whether p is a lower-case word, with ASCII letters in any case.
func isWord(p []byte, word string) bool {
	if len(p) != len(word) {
		return false
	}
	for i, c := range p {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}

// or returns l with defaults filled in.
func (l Limits) or() Limits {
	for _, x := range []struct {
		limit    *int
		standard int
	}{
		{&l.TagBytes, scan.MaxTagBytes},
		{&l.BodyBytes, MaxBodyBytes},
		{&l.JSONDepth, scan.MaxJSONDepth},
		{&l.ThoughtDepth, MaxThoughtDepth},
		{&l.ResultBytes, MaxResultBytes},
	} {
		if *x.limit <= 0 {
			*x.limit = x.standard
		}
	}
	return l
}
