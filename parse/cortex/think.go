package cortex

import (
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Reasoning that a model shows in a tag of its own, such as <think>: a thought, whose
// content is data up to its closer, drafts of blocks too.

// reasoning is such a thought.
type reasoning struct {
	at int64
	// answer is what stands in it from the first response at the start of a line on, nil
	// without one: when the closer is missing, that is the reply's.
	answer   []byte
	answerAt int64
	open     bool // its closer is missing, and its answer is read
}

// thinks reports whether such tags are thoughts.
func (d *decoder) thinks() bool { return d.second && d.forgives(parse.HabitThink) }

// endsThought reports whether a closer may stand behind the text so far, whose opener stood
// in the prompt: on a line of its own, or right behind a sentence, and not as a word.
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

// reasoned takes a closer whose opener stood in the prompt: the text in front of it was
// the thought.
func (d *decoder) reasoned(at int64) {
	d.segmentEnds(messages.ThoughtUnit, at)
	d.top.prose = false
	d.forgave(parse.HabitThink, at)
}

// unended ends a reasoning without a closer. A response in it is the answer; an action is
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
