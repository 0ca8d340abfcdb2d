package turn

import "github.com/seed14be6753/stile/messages"

// Outbox keeps the order contract of design.md §2: it holds every effect back
// until the journal has acknowledged the record the effect needs, and shows each
// record to subscribers exactly when it is durable. Shells and the simulator use
// the same one. It is not safe for concurrent use.
//
// Invariant: held is sorted by position; acked ≤ every position in held.
type Outbox struct {
	acked int64
	held  []Effect
}

// NewOutbox starts at the restored head: records up to acked are durable.
func NewOutbox(acked int64) Outbox { return Outbox{acked: acked} }

// Acked is the highest acknowledged position.
func (o *Outbox) Acked() int64 { return o.acked }

// Idle tells that nothing waits for the journal.
func (o *Outbox) Idle() bool { return len(o.held) == 0 }

// Add takes the effects of one Step and appends to ready those that may happen
// now. A Persist is always ready, and its record's publication is queued.
func (o *Outbox) Add(effects, ready []Effect) []Effect {
	for _, e := range effects {
		if p, ok := e.(*Persist); ok {
			ready = append(ready, e)
			o.hold(&Publish{After: p.Record.Seq, Update: messages.Update{Record: p.Record}})
			continue
		}
		if e.after() > o.acked {
			o.hold(e)
			continue
		}
		ready = append(ready, e)
	}
	return ready
}

// hold inserts e behind everything of its position or a lower one. Effects come
// almost always in order, so the search starts at the end.
func (o *Outbox) hold(e Effect) {
	i := len(o.held)
	for i > 0 && o.held[i-1].after() > e.after() {
		i--
	}
	o.held = append(o.held, nil)
	copy(o.held[i+1:], o.held[i:])
	o.held[i] = e
}

// Ack says that every record up to seq is durable and appends to ready what
// waited for it. A lower or repeated seq is ignored.
func (o *Outbox) Ack(seq int64, ready []Effect) []Effect {
	if seq <= o.acked {
		return ready
	}
	o.acked = seq
	n := 0
	for n < len(o.held) && o.held[n].after() <= seq {
		ready = append(ready, o.held[n])
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
