package plain

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// front is what a reply of rendering 2 may have in front of its answer: white space, and
// thoughts in tags of those that reasoning models write. The answer begins with the first
// other character; where there is no thought, with the white space.
type front struct {
	think bool // thoughts are looked for
	quiet bool // no answer is none, and not an empty one
	state frontState
	held  []byte // white space, and what may be a tag
	at    int64  // of held in the reply
	open  bool   // the thought has a unit
	shut  string // its closer
}

type frontState uint8

const (
	frontBlank   frontState = iota // nothing has come but white space, and what may be a tag
	frontThought                   // in the thought
	frontBehind                    // behind a thought, in white space, and what may be the next one's tag
)

// tags are those of thoughts, in any case.
var tags = []struct{ open, shut string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"<reasoning>", "</reasoning>"},
}

const white = " \t\r\n"

// take reads whole characters, which stand for n bytes of the reply: as many as they have, but
// for one that stands for a byte which belongs to none.
func (f *front) take(d *decoder, text []byte, n int, emit func(messages.Event)) {
	for i := 0; i < len(text); {
		if len(f.held) == 0 {
			f.at = d.off
		}
		if f.state == frontThought {
			k := f.thought(d, text[i:], n == len(text), emit)
			i += k
			if n < len(text) {
				k = n
			}
			d.off += int64(k)
			continue
		}
		if n < len(text) || f.answers(d, text[i], emit) {
			f.release(d, emit)
			d.put(text[i:], n-min(i, n), emit)
			return
		}
		d.off++
		i++
	}
}

// answers takes a byte in front of a thought or behind it. It is true, and the byte is not
// taken, where the answer has begun.
func (f *front) answers(d *decoder, c byte, emit func(messages.Event)) bool {
	tag := append(f.mayBeTag(), c)
	if strings.IndexByte(white, c) >= 0 && len(tag) == 1 {
		f.held = append(f.held, c)
		return false
	}
	if !f.think {
		return true
	}
	for _, t := range tags {
		n := min(len(tag), len(t.open))
		if !strings.EqualFold(string(tag[:n]), t.open[:n]) {
			continue
		}
		if f.held = append(f.held, c); n == len(t.open) {
			f.state, f.shut, f.held = frontThought, t.shut, nil
			d.reasoning = nil // the model opens its thoughts itself
			lint(d.off+1-int64(n), emit)
		}
		return false
	}
	if f.state == frontBehind {
		return true
	}
	for _, t := range tags {
		n := min(len(tag), len(t.shut))
		if !strings.EqualFold(string(tag[:n]), t.shut[:n]) {
			continue
		}
		if f.held = append(f.held, c); n == len(t.shut) { // of an empty thought that was opened in the prompt
			f.state, f.held, d.reasoning = frontBehind, nil, nil
			lint(d.off+1-int64(n), emit)
		}
		return false
	}
	return true
}

// lint emits the lint of a tag of a thought at an offset.
func lint(at int64, emit func(messages.Event)) {
	fault := &messages.ParseError{Code: parse.HabitThink.Lint(), Offset: at, Detail: parse.HabitThink.String()}
	emit(messages.Event{Kind: messages.EventLint, Offset: at, Fault: fault})
}

// release begins the answer: with what is held in front of it, but for the white space behind a
// thought.
func (f *front) release(d *decoder, emit func(messages.Event)) {
	d.front = nil
	held := f.held
	if f.state == frontBehind {
		held = f.mayBeTag()
	}
	if len(held) > 0 {
		d.off = f.at + int64(len(f.held)-len(held))
		d.put(held, len(held), emit)
	}
}

// mayBeTag is what is held without the white space in front of it.
func (f *front) mayBeTag() []byte { return bytes.TrimLeft(f.held, white) }

// thought reads text of the thought and tells how much. plain says that it stands for as many
// bytes.
func (f *front) thought(d *decoder, p []byte, plain bool, emit func(messages.Event)) int {
	if !plain {
		f.say(d, f.held, f.at, emit)
		f.held = nil
		f.say(d, p, d.off, emit)
		return len(p)
	}
	if len(f.held) == 0 {
		k := bytes.IndexByte(p, '<')
		switch {
		case k < 0:
			k = len(p)
		case k == 0:
			f.held = append(f.held, p[0])
			return 1
		}
		f.say(d, p[:k], d.off, emit)
		return k
	}
	tag := append(f.held, p[0])
	if !strings.EqualFold(string(tag), f.shut[:len(tag)]) {
		f.say(d, f.held, f.at, emit)
		f.held = nil
		return 0
	}
	if f.held = tag; len(tag) == len(f.shut) {
		f.close(d, f.at, true, emit)
		f.state, f.held = frontBehind, nil
	}
	return 1
}

// say emits text of the thought, which begins with its first character that is no white space.
func (f *front) say(d *decoder, p []byte, at int64, emit func(messages.Event)) {
	if !f.open {
		n := len(p) - len(bytes.TrimLeft(p, white))
		p, at = p[n:], at+int64(n)
	}
	if len(p) == 0 {
		return
	}
	if !f.open {
		f.open = true
		emit(messages.Event{Kind: messages.EventUnitBegin, Unit: d.unit, UnitKind: messages.ThoughtUnit, Offset: at})
	}
	emit(messages.Event{Kind: messages.EventUnitText, Unit: d.unit, UnitKind: messages.ThoughtUnit, Text: p, Offset: at})
}

// close ends the thought; the next thought or the answer is the next unit.
func (f *front) close(d *decoder, at int64, complete bool, emit func(messages.Event)) {
	if !f.open {
		return
	}
	f.open = false
	emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: messages.ThoughtUnit, Offset: at, Complete: complete})
	d.unit++
}

// end settles a reply without an answer. What might have become a tag is the answer; white
// space alone is none. It is true when there is an answer after all.
func (f *front) end(d *decoder, emit func(messages.Event)) bool {
	switch {
	case f.state == frontBlank && !f.quiet, f.state != frontThought && len(f.mayBeTag()) > 0:
		f.release(d, emit)
		return true
	case f.state == frontThought:
		f.say(d, f.held, f.at, emit)
		f.close(d, d.off, false, emit)
	}
	d.front = nil
	return !f.quiet
}
