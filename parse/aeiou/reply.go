package aeiou

import (
	"fmt"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// reply reads a reply under version 2 of the rendering: it keeps the reply, and looks for
// the program once the reply is whole (search). Like decoder it says nothing before End.
//
//	len(buf) ≤ most()+1
type reply struct {
	dialect Dialect
	info    messages.TurnInfo
	limit   int // bytes of an envelope, or of a program with what stands around it
	buf     []byte
	n       int64 // reply bytes taken
}

// most is how much of a reply is looked at: an envelope, and as much again around it.
func (r *reply) most() int { return 2 * r.limit }

// Push takes reply bytes and emits nothing.
func (r *reply) Push(p []byte, _ func(messages.Event)) {
	r.n += int64(len(p))
	r.buf = append(r.buf, p[:min(len(p), r.most()+1-len(r.buf))]...)
}

// End emits the lints and the program, or one parse error. A reply that needs a habit
// that is not forgiven is read as decoder reads it.
func (r *reply) End(f messages.Finish, emit func(messages.Event)) {
	switch f {
	case messages.FinishComplete, messages.FinishStop, messages.FinishLength:
	default:
		return
	}
	if r.n > int64(r.most()) {
		r.fail(emit, fault{code: messages.ErrEnvSize, detail: fmt.Sprintf("the reply is larger than %d bytes; write a shorter program", r.most())})
		return
	}
	cut := fault{code: messages.ErrActionsParse, offset: len(r.buf), detail: refusedCut}
	if !utf8.Valid(r.buf) {
		if f == messages.FinishLength { // inside a character, it may be
			r.fail(emit, cut)
			return
		}
		r.fail(emit, fault{code: messages.ErrEnvMarkersInvalid, offset: firstInvalid(r.buf), detail: "NON_UTF8: the bytes are not UTF-8"})
		return
	}
	s := search{b: r.buf, limit: r.limit, strict: r.dialect.StrictDuplicates}
	got := s.reply()
	switch {
	case f == messages.FinishLength && !got.closed:
		r.fail(emit, cut)
	case got.habits&^r.dialect.Forgive != 0:
		r.strictly(f, emit)
	case got.fault.code != "":
		r.lints(emit, got.lints)
		r.fail(emit, got.fault)
	case got.hi-got.lo > MaxSectionBytes:
		r.fail(emit, fault{
			code: messages.ErrEnvSize, offset: got.lo,
			detail: fmt.Sprintf("the program has %d bytes; the limit is %d", got.hi-got.lo, MaxSectionBytes),
		})
	default:
		r.lints(emit, got.lints)
		for h := parse.Habits(1); h <= got.habits; h <<= 1 {
			if got.habits.Has(h) {
				r.lint(emit, h.Lint(), got.lo, h.String())
			}
		}
		emit(messages.Event{Kind: messages.EventProgram, Text: r.buf[got.lo:got.hi:got.hi], Offset: int64(got.lo), Complete: true})
	}
}

// strictly has the reply read as without any habit.
func (r *reply) strictly(f messages.Finish, emit func(messages.Event)) {
	d := newDecoder(r.dialect, r.info)
	d.Push(r.buf, emit)
	d.End(f, emit)
}

// lints emits those of an envelope.
func (r *reply) lints(emit func(messages.Event), all []Lint) {
	for _, l := range all {
		r.lint(emit, l.Code, l.Offset, l.Section)
	}
}

func (r *reply) lint(emit func(messages.Event), code messages.Code, offset int, detail string) {
	line, col := place(r.buf, offset)
	emit(messages.Event{Kind: messages.EventLint, Offset: int64(offset), Fault: &messages.ParseError{
		Code: code, Offset: int64(offset), Line: line, Col: col, Detail: detail,
	}})
}

func (r *reply) fail(emit func(messages.Event), f fault) {
	e := f.err(r.buf)
	detail := e.Detail
	if e.Reason != "" {
		detail = e.Reason + ": " + detail
	}
	if e.Field != "" {
		detail = e.Field + ": " + detail
	}
	emit(messages.Event{Kind: messages.EventParseError, Offset: e.Offset, Fault: &messages.ParseError{
		Code: e.Code, Offset: e.Offset, Line: e.Line, Col: e.Col, Detail: detail,
	}})
}
