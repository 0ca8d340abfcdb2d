package reply

import (
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// group joins the texts of a reply that came together. Where text is shown only once its
// bytes are durable, each piece that is posted costs a record and a commit. So the first
// piece goes at once, and pieces within holdBack of it wait and become one: in the order of
// their arrival, at most turn.LazyBytes, and no longer than until the reply says something
// other than text. Without the bound a commit would grow with the speed of the model.
//
// A group is not safe for concurrent use.
type group struct {
	posted time.Time     // when a text was posted last
	own    *turn.Decoded // the held text whose slices are the group's to append to
}

// waits reports whether a text that comes now waits for others. n is how many bytes are held.
func (g *group) waits(now time.Time, n int) bool {
	return n < turn.LazyBytes && now.Sub(g.posted) < holdBack
}

// join adds an input to those held. It appends a piece of the reply to the text in front of it.
func (g *group) join(held []turn.Input, in turn.Input) []turn.Input {
	d, ok := in.(*turn.Decoded)
	if !ok || len(held) == 0 {
		return append(held, in)
	}
	last, ok := held[len(held)-1].(*turn.Decoded)
	if !ok || !shows(last) {
		return append(held, in)
	}
	if last != g.own { // its bytes are the model's
		one := *last
		one.Bytes, one.Events = slices.Clone(last.Bytes), slices.Clone(last.Events)
		last, g.own = &one, &one
		held[len(held)-1] = last
	}
	last.Bytes = append(last.Bytes, d.Bytes...)
	for _, ev := range d.Events {
		if n := len(last.Events); ev.Kind == messages.EventUnitText && n > 0 && last.Events[n-1].Kind == ev.Kind && last.Events[n-1].Unit == ev.Unit {
			last.Events[n-1].Text = append(last.Events[n-1].Text, ev.Text...)
		} else {
			last.Events = append(last.Events, ev)
		}
	}
	if d.Usage != (messages.Usage{}) {
		last.Usage, last.CostMicroUSD, last.Unpriced = d.Usage, d.CostMicroUSD, d.Unpriced
	}
	return held
}

// bytesHeld is how many bytes of the reply the inputs have.
func bytesHeld(held []turn.Input) (n int) {
	for _, in := range held {
		if d, ok := in.(*turn.Decoded); ok {
			n += len(d.Bytes)
		}
	}
	return n
}
