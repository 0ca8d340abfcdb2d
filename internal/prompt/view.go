package prompt

import "github.com/seed14be6753/stile/messages"

// View is what a turn's prompt is made of beside feeds and tools. It is immutable.
type View struct {
	d     Historian
	turn  int64
	whole bool
	past  texts               // finished runs
	pages *pages              // of the session's prompts
	now   messages.Projection // of the run in flight
	told  []texts             // of now's turns, as far as they are known
}

// Whole reports whether nothing was left out in front but what the window leaves out.
func (v *View) Whole() bool { return v.whole }

// texts are those of past runs and then of this one's turns; nil behind the last.
func (v *View) texts(i int) *texts {
	if i == 0 {
		return &v.past
	}
	if i--; i < len(v.told) {
		return &v.told[i]
	}
	return nil
}

// Assemble is Assemble of what the records project to. Of spec Pass, Last, Rendering, SID, Tools,
// Primer, Feeds and FeedsLast are looked at.
func (v *View) Assemble(spec Spec) []messages.Message {
	p := v.now
	p.SID, p.Turn, p.Pass, p.Last, p.Rendering, p.Tools, p.Primer = spec.SID, v.turn, spec.Pass, spec.Last, spec.Rendering, spec.Tools, spec.Primer
	p.Feeds, p.FeedsLast = spec.Feeds, spec.FeedsLast
	return assemble(v.d, p, v.past.messages, v.d.Render(p))
}
