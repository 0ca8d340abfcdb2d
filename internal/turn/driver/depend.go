package driver

import (
	"slices"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// An action that was declared may wait for others. The plan decides when it waits no longer;
// the driver compares what the plan says after each step with what it said before, so that the
// shell can tell the action's actor.

// wait is a declared action that waits for others.
type wait struct {
	id string
	on []string // ids
}

// Met says that the action ID waits for On no longer: On has ended, or has begun and is
// fire_and_forget, so that ID may go on.
type Met struct{ ID, On string }

// Declares returns the id of the action that an effect declares in the turn in flight; ok is
// false for any other effect.
func (d *Driver) Declares(e turn.Effect) (id string, ok bool) {
	p, persists := e.(*turn.Persist)
	if !persists {
		return "", false
	}
	b, declares := p.Record.Body.(*messages.ActionDeclared)
	if !declares {
		return "", false
	}
	now, flying := d.machine.Flight()
	return b.ID, flying && now.Turn == p.Record.Turn
}

// Declared returns the ids of the actions that a declared action waits for. Met reports them
// one by one from then on.
func (d *Driver) Declared(id string) []string {
	on := d.machine.Waits(id)
	if len(on) > 0 {
		w := d.working()
		w.waits = append(w.waits, wait{id, on})
	}
	return on
}

// Met returns the dependencies that were met since the last call, in the order in which their
// users were declared. The shell asks after each step, before it performs the effects: an
// action's start comes after the last of its dependencies.
func (d *Driver) Met() (met []Met) {
	if d.work == nil || len(d.work.waits) == 0 || d.work.met == d.machine.Met() {
		return nil
	}
	w := d.work
	w.met = d.machine.Met()
	w.waits = slices.DeleteFunc(w.waits, func(of wait) bool {
		left := d.machine.Waits(of.id)
		for _, on := range of.on {
			if !slices.Contains(left, on) {
				met = append(met, Met{of.id, on})
			}
		}
		return len(left) == 0
	})
	for i := range w.waits { // an id that was not declared yet may be by now
		w.waits[i].on = d.machine.Waits(w.waits[i].id)
	}
	return met
}
