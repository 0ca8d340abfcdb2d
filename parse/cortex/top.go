package cortex

import (
	"bytes"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Text between blocks, from the second rendering on. It is held to the end of its segment,
// because its meaning depends on what follows: beside blocks it is a remark, which the user
// does not see; in a reply without blocks it is the answer.

// top is the text between blocks.
type top struct {
	text   []byte // of the segment, with its outer white space
	at     int64  // of its first byte
	fences fences
	inline inline
	mended bool // invalid UTF-8 was replaced: offsets in it are not exact
	prose  bool // an earlier segment has text outside code fences
	tagged bool // there was a block, or part of one, other than a thought
	later  []chunk
	inner  bool // the content of a fence is being read
}

// chunk is the content of a code fence that holds blocks.
type chunk struct {
	text []byte
	at   int64
}

// run takes text up to a "<" that may begin a tag, and returns how many bytes.
func (d *decoder) run(p []byte, at int64) (n int) {
	t := &d.top
	if len(t.text) == 0 {
		t.at = at
	}
	for ; n < len(p); n++ {
		if p[n] == '<' && !t.fences.open && !t.inline.open() && (n+1 == len(p) || p[n+1] == '/' || d.first[p[n+1]]) {
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
	words  bool // the line has words so far
	quoted bool // the line had words before its last backtick
	behind int  // bytes after that backtick
	marked bool // the first of them is "<"
}

// step takes the next byte.
func (l *inline) step(c byte) {
	switch {
	case c == '\n':
		*l = inline{}
	case c == '`':
		l.ticks, l.quoted, l.behind = l.ticks+1, l.words, 0
	default:
		if l.behind++; l.behind == 1 {
			l.marked = c == '<'
		}
		l.words = l.words || !isWhite(c)
	}
}

// open reports whether the next byte is in inline code after other words of its line: a
// sentence about `<action>` does not begin one.
func (l *inline) open() bool { return l.ticks%2 == 1 && l.quoted && (l.behind == 0 || l.marked) }

// hold takes text that belongs to no tag.
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

// segmentEnds emits the text before a block, which begins at end, as a unit of the kind.
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

// keepFences keeps the contents of fences that hold blocks: their meaning depends on the rest
// of the reply.
func (d *decoder) keepFences() {
	t := &d.top
	for _, f := range t.fences.all {
		if text := t.text[f.from:f.to]; !t.mended && (holds(text, tagAction) || holds(text, tagResponse)) {
			t.later = append(t.later, chunk{append([]byte(nil), text...), t.at + int64(f.from)})
		}
	}
}

// whole emits a text that ends at end as a unit, without its outer white space.
func (d *decoder) whole(kind messages.Kind, text []byte, at, end int64, final, complete bool) {
	core := trimLeft(text)
	at += int64(len(text) - len(core))
	if core = trimRight(core); len(core) == 0 {
		return
	}
	d.beginUnit(kind, at, final)
	d.emitText(core, at)
	d.closeUnit(end, final, complete)
}

// lastText decides what the text at the end of the reply is, and the fences of the reply.
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
		if foreign(text, fenced, d.warned) {
			d.fault(d.told(ForeignCall, at))
		}
		d.whole(messages.TextUnit, text, at, d.off, false, true)
	default:
		d.bare(f, text, at, fenced)
	}
}

// unwrap reads the blocks in code fences if the reply is nothing but fences: beside other text
// they may be meant as an example. Actions beside text are reported as errors; if the model was
// warned before (warned), the text is its answer. unwrap returns false if it has not decided
// about the text.
func (d *decoder) unwrap(f messages.Finish, text []byte, at int64) bool {
	t := &d.top
	actions := false
	for _, c := range t.later {
		actions = actions || holds(c.text, tagAction)
	}
	switch {
	case t.prose && actions && d.warned && !t.tagged:
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

// bare decides about the text of a reply without blocks. A complete text is the answer, unless
// it is a call in the format of another vendor.
func (d *decoder) bare(f messages.Finish, text []byte, at int64, fenced []codeFence) {
	complete := f == messages.FinishComplete || f == messages.FinishStop
	switch {
	case foreign(text, fenced, d.warned):
		d.whole(messages.TextUnit, text, at, d.off, false, true)
		d.fault(d.told(ForeignCall, at))
	case d.otherCase(text, at, fenced, complete):
	case d.forgives(parse.HabitBare) && complete:
		text = bytes.TrimSuffix(trimRight(text), strayEnd)
		d.forgave(parse.HabitBare, at)
		d.whole(messages.ResponseUnit, text, at, d.off, d.defaultFinal, true)
	case d.forgives(parse.HabitBare) && f == messages.FinishLength:
		d.whole(messages.ResponseUnit, text, at, d.off, false, false)
	default:
		d.whole(messages.TextUnit, text, at, d.off, false, complete)
	}
}

// strayEnd is the closer of an answer without an opener.
var strayEnd = []byte("</response>")

// told returns an error with the text that the model reads about it.
func (d *decoder) told(reason string, at int64) messages.ParseError {
	f := fault(reason, at)
	if text := cures[reason]; d.second && text != "" {
		f.Detail = reason + ": " + text
	}
	return f
}
