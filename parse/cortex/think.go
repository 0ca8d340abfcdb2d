package cortex

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Models show reasoning in tags of their own, such as <think>. It is read as a thought, whose
// content is data up to its closer, also drafts of blocks.

// reasoning is such a thought.
type reasoning struct {
	at int64
	// answer is the text from the first response at the start of a line on, nil without one: it
	// is the answer of the reply if the closer is missing.
	answer   []byte
	answerAt int64
	open     bool // its closer is missing, and answer is being read
}

// thinks reports whether such tags are thoughts.
func (d *decoder) thinks() bool { return d.second && d.forgives(parse.HabitThink) }

// endsThought reports whether the text so far may be a thought whose opener was in the prompt,
// so that a closer may follow: on a line of its own, or right after a sentence, not as a word.
func (d *decoder) endsThought() bool {
	t := d.top.text
	return len(t) > 0 && t[len(t)-1] != ' ' && t[len(t)-1] != '`' && t[len(t)-1] != '"'
}

func (d *decoder) beginReasoning(at int64) {
	d.forgave(parse.HabitThink, at)
	if !d.tag.SelfClosing() {
		d.state, d.think = inThink, reasoning{at: at}
	}
}

// inReasoning takes a tag in a reasoning: its closer, or the opener of a response.
func (d *decoder) inReasoning(p []byte, at int64) {
	if d.tag.Closing() {
		d.endUnit(at, true)
		d.state = inTop
		return
	}
	if d.think.answer == nil {
		d.think.answer, d.think.answerAt = []byte{}, at
	}
	d.text(p, at)
}

// reasoned takes a closer whose opener was in the prompt: the text before it is the thought.
func (d *decoder) reasoned(at int64) {
	d.segmentEnds(messages.ThoughtUnit, at)
	d.top.prose = false
	d.forgave(parse.HabitThink, at)
}

// unended ends a reasoning without a closer. A response in it is the answer; actions in it do
// not run.
func (d *decoder) unended(f messages.Finish) {
	d.endUnit(d.off, false)
	d.state = inTop
	if d.think.answer == nil || d.top.mended {
		d.fault(d.told(UnclosedThought, d.think.at))
		return
	}
	text, at := d.think.answer, d.think.answerAt
	d.think.answer, d.think.open = nil, true
	d.segment(text, at, true)
	d.finish(f)
}
