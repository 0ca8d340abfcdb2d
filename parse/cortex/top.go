package cortex

import (
	"bytes"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Text between blocks, from the second rendering on. It is held to the end of its segment,
// because what it is depends on what follows: a remark beside blocks, which the user does
// not see, or, in a reply without any, the answer.

// top is that text.
type top struct {
	text   []byte // of the segment, its outer white space too
	at     int64  // of its first byte
	fences fences
	inline inline
	mended bool // bytes that are no character were replaced: places in it are not exact
	prose  bool // an earlier segment has text outside of code fences
	tagged bool // there was a block, or a part of one, that is no thought
	later  []chunk
	inner  bool // a fence's content is read
}

// chunk is the content of a code fence that holds blocks.
type chunk struct {
	text []byte
	at   int64
}

// run takes text up to a "<" that may begin a tag, and tells how much.
func (d *decoder) run(p []byte, at int64) (n int) {
	t := &d.top
	if len(t.text) == 0 {
		t.at = at
	}
	for ; n < len(p); n++ {
		if p[n] == '<' && !t.fences.open && !t.inline.open() && (n+1 == len(p) || p[n+1] == '/' || first[p[n+1]]) {
			break
		}
		t.text = append(t.text, p[n])
		if !t.inner {
			t.fences.step(t.text, len(t.text)-1)
			t.inline.step(t.text[len(t.text)-1])
		}
	}
	return n
}

// inline follows inline code in a line of text.
type inline struct {
	ticks  int  // backticks of the line
	said   bool // words in front
	quotes bool // words in front of the last backtick
	behind int  // bytes behind it
	marked bool // the first of them is "<"
}

// step takes the next byte.
func (l *inline) step(c byte) {
	switch {
	case c == '\n':
		*l = inline{}
	case c == '`':
		l.ticks, l.quotes, l.behind = l.ticks+1, l.said, 0
	default:
		if l.behind++; l.behind == 1 {
			l.marked = c == '<'
		}
		l.said = l.said || !isWhite(c)
	}
}

// open reports whether a mark that comes next stands in inline code behind other words of its
// line: `<action>` in a sentence is spoken of, and not written.
func (l *inline) open() bool { return l.ticks%2 == 1 && l.quotes && (l.behind == 0 || l.marked) }

// hold takes text that is no tag.
func (d *decoder) hold(p []byte, at int64) {
	t := &d.top
	if len(t.text) == 0 {
		t.at = at
	}
	for _, c := range p {
		t.text = append(t.text, c)
		if !t.inner {
			t.fences.step(t.text, len(t.text)-1)
			t.inline.step(t.text[len(t.text)-1])
		}
	}
}

// segmentEnds gives out the text in front of a block, which begins at end, as a unit of a kind.
func (d *decoder) segmentEnds(kind messages.Kind, end int64) {
	t := &d.top
	if len(t.text) == 0 {
		t.fences.line = lineOther
		return
	}
	if !t.inner {
		t.fences.finish(t.text)
		t.prose = t.prose || t.fences.prose(t.text)
		d.keepFences()
	}
	d.whole(kind, t.text, t.at, end, false, true)
	t.text, t.fences, t.inline = t.text[:0], fences{line: lineOther}, inline{}
}

// keepFences puts the contents of fences that hold blocks aside: what they are depends on
// the rest of the reply.
func (d *decoder) keepFences() {
	t := &d.top
	for _, f := range t.fences.all {
		if text := t.text[f.from:f.to]; !t.mended && (holds(text, tagAction) || holds(text, tagResponse)) {
			t.later = append(t.later, chunk{append([]byte(nil), text...), t.at + int64(f.from)})
		}
	}
}

// whole makes a unit of a text, without its outer white space, that ends at end.
func (d *decoder) whole(kind messages.Kind, text []byte, at, end int64, final, complete bool) {
	core := trimLeft(text)
	at += int64(len(text) - len(core))
	if core = trimRight(core); len(core) == 0 {
		return
	}
	d.beginUnit(kind, at, final)
	d.say(core, at)
	d.closeUnit(end, final, complete)
}

// lastText judges the text that the reply ends in, and the fences it had.
func (d *decoder) lastText(f messages.Finish) {
	t := &d.top
	t.fences.finish(t.text)
	t.prose = t.prose || t.fences.prose(t.text)
	d.keepFences()
	text, at, fenced := t.text, t.at, t.fences.all
	t.text = nil
	switch {
	case len(t.later) > 0 && d.unwrap(f, text, at):
	case len(trim(text)) == 0:
	case t.tagged:
		if foreign(text, fenced, d.asked) {
			d.fault(d.told(ForeignCall, at))
		}
		d.whole(messages.TextUnit, text, at, d.off, false, true)
	default:
		d.bare(f, text, at, fenced)
	}
}

// unwrap reads the blocks in code fences, when there is nothing but fences around: a reply
// that has text besides may mean them as an example. Actions of such a reply are told; of
// one that says the same again the text is its answer.
func (d *decoder) unwrap(f messages.Finish, text []byte, at int64) bool {
	t := &d.top
	actions := false
	for _, c := range t.later {
		actions = actions || holds(c.text, tagAction)
	}
	switch {
	case t.prose && actions && d.asked && !t.tagged:
		return false
	case t.prose && actions || !d.forgives(parse.HabitFence):
		d.whole(messages.TextUnit, text, at, d.off, false, true)
		for _, c := range t.later {
			d.fault(d.told(FencedBlock, c.at))
		}
		return true
	}
	t.inner = true
	for _, c := range t.later {
		d.forgave(parse.HabitFence, c.at)
		d.segment(c.text, c.at, true)
		d.finish(f)
	}
	return true
}

// bare judges the text of a reply without a block. When it is complete it is the answer,
// unless it is a call in the form of another house.
func (d *decoder) bare(f messages.Finish, text []byte, at int64, fenced []codeFence) {
	complete := f == messages.FinishComplete || f == messages.FinishStop
	switch {
	case foreign(text, fenced, d.asked):
		d.whole(messages.TextUnit, text, at, d.off, false, true)
		d.fault(d.told(ForeignCall, at))
	case d.otherCase(text, at, fenced, complete):
	case d.forgives(parse.HabitBare) && complete:
		text = bytes.TrimSuffix(trimRight(text), strayEnd)
		d.forgave(parse.HabitBare, at)
		d.whole(messages.ResponseUnit, text, at, d.off, d.unsaid, true)
	case d.forgives(parse.HabitBare) && f == messages.FinishLength:
		d.whole(messages.ResponseUnit, text, at, d.off, false, false)
	default:
		d.whole(messages.TextUnit, text, at, d.off, false, complete)
	}
}

// strayEnd is the end of an answer whose beginning has no tag.
var strayEnd = []byte("</response>")

// told is an error with what the model is to know of it.
func (d *decoder) told(reason string, at int64) messages.ParseError {
	f := fault(reason, at)
	if text := cures[reason]; d.second && text != "" {
		f.Detail = reason + ": " + text
	}
	return f
}
