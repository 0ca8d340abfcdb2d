package kitsu

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/internal/reasoning"
	"github.com/seed14be6753/stile/parse/scan"
)

// MaxReplyBytes bounds the token that is kept when the turn names no bound.
const MaxReplyBytes = 8 << 20

// decoder reads one reply: thoughts before it, one response, and at its end the action, or the
// error for which there is none.
type decoder struct {
	utf8    scan.UTF8
	think   thinker
	reason  *reasoning.Finder // of a thought without an opener; nil when there can be none
	strip   stripper
	find    finder
	off     int64 // bytes of the reply taken
	unit    int   // ordinal of the next unit
	open    bool  // the response is open
	within  bool  // a thought is open
	second  bool  // of version 2
	spent   bool  // search and get_time are not run any more
	shown   bool  // something was shown
	blank   []byte
	blankAt int64 // of blank, in front of what is shown: white space, and leftovers of a token
	emit    func(messages.Event)
}

// NewDecoder returns a decoder of one reply. In a continuation pass, which it knows by info.State,
// a search or get_time is stripped and not run if one was done before (docs/spec/kitsu.md §6).
// info.MaxReplyBytes bounds the token that is kept, MaxReplyBytes when it is 0; a longer token is
// malformed.
func (x Dialect) NewDecoder(info messages.TurnInfo) parse.Decoder {
	d := &decoder{second: x.Rendering >= 2}
	d.spent = len(info.State) > 0
	if d.second {
		d.spent = recall(info.State).looked
		d.strip.loose, d.find.loose = true, true
	}
	d.think.thought, d.think.shut, d.think.rest = d.ponder, d.pondered, d.pass
	d.think.skip = func(text []byte) { d.find.lines += bytes.Count(text, lf) }
	if d.second && x.Forgive.Has(parse.HabitThink) {
		d.reason = &reasoning.Finder{}
	} else {
		d.think.state = thinkRest
	}
	d.find.limit = MaxReplyBytes
	if m := info.MaxReplyBytes; m > 0 && m < MaxReplyBytes {
		d.find.limit = max(int(m), len(tokenPrefix))
	}
	d.strip.emit = d.show
	return d
}

// Push shows what can be shown; the response begins with its first text.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n, rest := d.utf8.Next(p)
		if n == 0 {
			break
		}
		d.take(text, n)
		p = rest
	}
	d.emit = nil
}

func (d *decoder) take(text []byte, n int) {
	if d.think.state == thinkRest {
		d.pass(text, d.off)
	} else {
		d.think.push(text, d.off)
	}
	d.off += int64(n)
}

// pass takes text outside thoughts.
func (d *decoder) pass(text []byte, at int64) {
	if d.reason == nil || d.think.any || d.reason.Over() {
		d.read(text, at)
		return
	}
	d.reason.Push(text, at, func(p []byte, at int64) {
		if d.reason.Over() {
			d.think.push(p, at)
		} else {
			d.read(p, at)
		}
	}, d.rethink)
}

// read takes text that is no thought, as far as it is known.
func (d *decoder) read(text []byte, at int64) {
	d.find.push(text, at)
	d.strip.push(text, at)
}

// rethink makes a thought of the text so far: its closing tag is at an offset, its opener was in
// the prompt. No token in it counts. The reply goes on as behind another thought.
func (d *decoder) rethink(at int64) {
	if d.open {
		d.open = false
		d.emit(messages.Event{Kind: messages.EventUnitEnd, UnitKind: messages.ThoughtUnit, Unit: d.unit, Offset: at, Complete: true})
		d.unit++
	}
	d.find = finder{limit: d.find.limit, loose: true, lines: d.find.lines}
	d.strip = stripper{loose: true, emit: d.show}
	d.shown, d.blank = false, nil
	d.think.state, d.think.any = thinkLead, true
	d.lintThought(at)
}

func (d *decoder) lintThought(at int64) {
	d.emit(messages.Event{Kind: messages.EventLint, Offset: at, Fault: &messages.ParseError{
		Code: parse.HabitThink.Lint(), Offset: at, Detail: "reasoning in front of the reply",
	}})
}

// ponder takes a piece of a thought.
func (d *decoder) ponder(text []byte, at int64) {
	d.find.lines += bytes.Count(text, lf)
	if !d.within {
		d.within = true
		d.emit(messages.Event{Kind: messages.EventUnitBegin, UnitKind: messages.ThoughtUnit, Unit: d.unit, Offset: at})
	}
	if len(text) > 0 {
		d.emit(messages.Event{Kind: messages.EventUnitText, UnitKind: messages.ThoughtUnit, Unit: d.unit, Text: text, Offset: at})
	}
}

func (d *decoder) pondered(at int64) {
	d.emit(messages.Event{Kind: messages.EventUnitEnd, UnitKind: messages.ThoughtUnit, Unit: d.unit, Offset: at, Complete: true})
	d.within = false
	d.unit++
	d.lintThought(at)
}

// End closes the response and emits the action, or an error with its reason. A reply that failed
// or was cancelled runs nothing. A complete reply has a response even if nothing of it is shown.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	d.emit = emit
	for {
		text, n := d.utf8.End()
		if n == 0 {
			break
		}
		d.take(text, n)
	}
	d.think.end(d.off)
	if d.reason != nil {
		d.reason.End(d.read, d.rethink)
	}
	d.strip.end()
	d.find.end()
	d.rest()
	whole := f == messages.FinishComplete || f == messages.FinishStop
	ended := whole || f == messages.FinishLength
	if ended {
		d.begin(d.off)
	}
	if d.open {
		emit(messages.Event{Kind: messages.EventUnitEnd, UnitKind: messages.ResponseUnit, Unit: d.unit, Offset: d.off, Final: whole, Complete: whole})
		d.open = false
	}
	if ended {
		d.act(emit)
	}
	d.emit = nil
}

func (d *decoder) begin(at int64) {
	if !d.open {
		d.open = true
		d.emit(messages.Event{Kind: messages.EventUnitBegin, UnitKind: messages.ResponseUnit, Unit: d.unit, Offset: at})
	}
}

func (d *decoder) show(text []byte, at int64) {
	if d.second && !d.shown {
		// What says nothing must not take the place of an earlier text.
		if len(d.blank) == 0 {
			d.blankAt = at
		}
		d.blank = append(d.blank, text...)
		if _, may := leftover(d.blank); may && len(d.blank) <= maxLead {
			return
		}
		text, at = d.blank, d.blankAt
		d.shown = true
	}
	d.begin(at)
	d.emit(messages.Event{Kind: messages.EventUnitText, UnitKind: messages.ResponseUnit, Unit: d.unit, Text: text, Offset: at})
}

// rest shows the bytes that are held at the end, without leftovers of a token.
func (d *decoder) rest() {
	if d.shown || len(bytes.TrimSpace(d.blank)) == 0 {
		return
	}
	if whole, _ := leftover(d.blank); whole && (d.find.count > 0 || d.find.beside || d.strip.inlines) {
		return
	}
	d.shown = true
	d.show(d.blank, d.blankAt)
}

func (d *decoder) act(emit func(messages.Event)) {
	a, reason := d.find.action()
	fault := func(at spot, reason, name, detail string) {
		emit(messages.Event{Kind: messages.EventParseError, Offset: at.at, Fault: &messages.ParseError{
			Code: messages.ErrDialect, Reason: reason, Name: name, Detail: detail, Offset: at.at, Line: at.line,
		}})
	}
	here := spot{d.find.at, d.find.line}
	switch {
	case reason != "" && d.second:
		fault(here, reason, d.find.kind(), d.find.cause(reason))
	case reason != "":
		fault(here, reason, "", reason+": "+meanings[reason])
	case a == nil && d.second && d.find.beside:
		fault(d.find.aside, NotAlone, "", meanings[NotAlone])
	case a == nil && d.second && d.strip.inlines && !d.shown:
		fault(spot{at: d.strip.inlineAt}, NotAlone, "", meanings[NotAlone])
	case a == nil:
	case d.spent && a.Kind != Continue:
		if d.second {
			fault(here, OneOnly, string(a.Kind), meanings[OneOnly])
		}
	default:
		emit(messages.Event{Kind: messages.EventAction, Offset: d.find.at, Action: &messages.Action{
			ID: "#1", Type: messages.TypeTool, Mode: messages.ModeSync, Name: string(a.Kind), Args: a.Payload(),
			Timeout: ExecutorTime, OnError: messages.OnErrorFail, Show: messages.ShowOperator,
		}})
	}
}

// Defuse returns a user's text in which no line looks like the host's: the "[" that begins such a
// line becomes "(" (docs/spec/kitsu.md §6).
func Defuse(text string) string {
	if !strings.Contains(text, internalPrefix) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " \t")
		if strings.HasPrefix(body, internalPrefix) {
			out.WriteString(line[:len(line)-len(body)])
			out.WriteByte('(')
			body = body[1:]
			line = body
		}
		out.WriteString(line)
	}
	return out.String()
}
