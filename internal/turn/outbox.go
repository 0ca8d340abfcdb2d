package turn

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Outbox keeps the order contract of docs/spec/design.md §2: it holds every effect back until
// the journal has acknowledged the record that the effect needs, and shows each record to
// subscribers exactly when it is durable. It is not safe for concurrent use.
//
// A cancel overtakes what it cancels: an OpenModel, StartAction or RunProgram that is still
// held when its CancelModel, CancelAction or StopProgram comes, or that comes in the same
// Step, is withdrawn, so that nothing begins after it was asked to stop.
//
// Invariant: held is sorted by position; acked < every position in held;
// shown ≤ acked.
type Outbox struct {
	acked int64
	shown int64 // the last record handed out for publication
	held  []Effect
}

// NewOutbox returns an outbox for a session whose records up to acked are durable.
func NewOutbox(acked int64) Outbox { return Outbox{acked: acked, shown: acked} }

// Acked returns the highest acknowledged position.
func (o *Outbox) Acked() int64 { return o.acked }

// Idle reports whether no effect waits for the journal.
func (o *Outbox) Idle() bool { return len(o.held) == 0 }

// Add takes the effects of one Step and appends to ready those that may happen now. A Persist
// is always ready; the publication of its record is held until the record is durable.
func (o *Outbox) Add(effects, ready []Effect) []Effect {
	before := len(ready)
	for _, e := range effects {
		switch e := e.(type) {
		case *Persist:
			ready = append(ready, e)
			e.shown = Publish{After: e.Record.Seq, Update: messages.Update{Record: e.Record}}
			o.hold(&e.shown)
			continue
		case *CancelModel:
			o.withdraw(&ready, before, func(h Effect) bool { s, ok := h.(*OpenModel); return ok && s.Ident == e.Ident })
			o.withdraw(&ready, before, func(h Effect) bool { // the feeds of the prompt; those that actions name are still wanted
				s, ok := h.(*FetchFeeds)
				return ok && s.Ident == e.Ident && len(s.Names) == 0
			})
		case *StopProgram:
			if o.withdraw(&ready, before, func(h Effect) bool { s, ok := h.(*RunProgram); return ok && s.Ident == e.Ident }) {
				ready = append(ready, &StopProgram{Ident: e.Ident, Code: e.Code, Withdrawn: true})
				continue
			}
		case *CancelAction:
			if o.withdraw(&ready, before, func(h Effect) bool {
				s, ok := h.(*StartAction)
				return ok && s.Ident == e.Ident && s.ID == e.ID
			}) {
				ready = append(ready, &CancelAction{Ident: e.Ident, ID: e.ID, Withdrawn: true})
				continue
			}
		}
		if e.after() > o.acked {
			o.hold(e)
			continue
		}
		ready = append(ready, o.release(e))
	}
	return ready
}

// heldAtOnce is the first capacity of held: enough for a short turn.
const heldAtOnce = 12

// hold inserts e after all effects of its position or a lower one. Effects almost always come
// in order, so the search starts at the end.
func (o *Outbox) hold(e Effect) {
	if o.held == nil {
		o.held = make([]Effect, 0, heldAtOnce)
	}
	i := len(o.held)
	for i > 0 && o.held[i-1].after() > e.after() {
		i--
	}
	o.held = append(o.held, nil)
	copy(o.held[i+1:], o.held[i:])
	o.held[i] = e
}

// withdraw removes the effect that matches from held, or from ready after the first before
// ones. It reports whether there was one.
func (o *Outbox) withdraw(ready *[]Effect, before int, match func(Effect) bool) bool {
	if i := slices.IndexFunc(o.held, match); i >= 0 {
		o.held = slices.Delete(o.held, i, i+1)
		return true
	}
	if i := slices.IndexFunc((*ready)[before:], match); i >= 0 {
		*ready = slices.Delete(*ready, before+i, before+i+1)
		return true
	}
	return false
}

// release stamps an effect on its way out. The id of a delta names the last record that was
// published before it, which in a large batch is not the last one acknowledged.
func (o *Outbox) release(e Effect) Effect {
	if p, ok := e.(*Publish); ok {
		if p.Update.Record != nil {
			o.shown = p.Update.Record.Seq
		} else if p.Update.Delta != nil {
			p.Update.Delta.Seq = o.shown
		}
	}
	return e
}

// Ack notes that every record up to seq is durable, and appends to ready the effects that
// waited for it. A lower or repeated seq is ignored.
func (o *Outbox) Ack(seq int64, ready []Effect) []Effect {
	if seq <= o.acked {
		return ready
	}
	o.acked = seq
	n := 0
	for n < len(o.held) && o.held[n].after() <= seq {
		ready = append(ready, o.release(o.held[n]))
		n++
	}
	rest := copy(o.held, o.held[n:])
	clear(o.held[rest:])
	o.held = o.held[:rest]
	if rest == 0 {
		o.held = nil // an idle session keeps no buffer
	}
	return ready
}
