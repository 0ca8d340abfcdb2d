package driver

import (
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
)

// clocks are the machine's, as it has set them.
type clocks struct {
	at  [turn.NumClocks]time.Time // zero for one that does not run
	gen [turn.NumClocks]uint64
}

func (k *clocks) set(e *turn.SetTimer) { k.at[e.Clock], k.gen[e.Clock] = e.At, e.Gen }

func (k *clocks) stop(c turn.Clock) { k.at[c] = time.Time{} }

// late reports whether a clock ran out before now.
func (k *clocks) late(now time.Time) bool {
	for _, at := range k.at {
		if !at.IsZero() && at.Before(now) {
			return true
		}
	}
	return false
}

// due stops the clocks that have run out and appends an input for each.
func (k *clocks) due(now time.Time, all []turn.Input) []turn.Input {
	for id, at := range k.at {
		if !at.IsZero() && !at.After(now) {
			k.at[id] = time.Time{}
			all = append(all, &turn.Timer{Clock: turn.Clock(id), Gen: k.gen[id]})
		}
	}
	return all
}

// Running reports whether a clock runs.
func (d *Driver) Running(c turn.Clock) bool { return d.work != nil && !d.work.at[c].IsZero() }

// Due takes what is due: the clocks that have run out in their order, then the further
// attempts whose time has come, each once.
func (d *Driver) Due(now time.Time) (all []turn.Input) {
	w := d.work
	if w == nil || d.stopped {
		return nil
	}
	all = w.clocks.due(now, nil)
	w.schedules = slices.DeleteFunc(w.schedules, func(s turn.Schedule) bool {
		if s.At.After(now) {
			return false
		}
		all = append(all, &turn.Due{Ident: s.Ident, ID: s.ID, Attempt: s.Attempt})
		return true
	})
	return all
}

// Wake is when something is due next: a clock, a further attempt or the lazy records. It is
// zero when nothing is.
func (d *Driver) Wake() (at time.Time) {
	w := d.work
	if w == nil || d.stopped {
		return at
	}
	at = earlier(at, w.buffer.due)
	for _, t := range w.at {
		at = earlier(at, t)
	}
	for i := range w.schedules {
		at = earlier(at, w.schedules[i].At)
	}
	return at
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
