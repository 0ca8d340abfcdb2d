package driver

import (
	"cmp"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Duty is what an effect leaves to the shell.
type Duty int

// The duties.
const (
	Nothing   Duty = iota // the driver has done it, or its turn is over
	Perform               // perform it
	BeginTurn             // end the children of the turn before, make room for the effect's turn, and perform it
)

// String is the duty's name.
func (y Duty) String() string { return [...]string{"nothing", "perform", "begin turn"}[y] }

// Take does the driver's part of an effect and says what is left of it. An effect of a turn
// counts while the shell has that turn's children. Those that begin something make room for a
// turn that was restored: it has a new nonce, and its work is not that of the life before.
func (d *Driver) Take(e turn.Effect) Duty {
	if d.stopped {
		return Nothing
	}
	switch e := e.(type) {
	case *turn.Persist:
		w := d.working()
		w.add(e, w.now)
		if _, ok := d.Declares(e); ok { // its actor is one of the turn's children
			return cmp.Or(d.restored(d.Flight()), Perform)
		}
	case turn.Hurry:
		if w := d.work; d.Held() > 0 {
			w.eager = true
		}
		return Nothing
	case *turn.SetTimer:
		d.working().set(e)
		return Nothing
	case *turn.StopTimer:
		if d.work != nil {
			d.work.stop(e.Clock)
		}
		return Nothing
	case *turn.Schedule:
		return d.schedule(e)
	case *turn.FetchFeeds:
		if len(e.Names) == 0 { // those of a prompt come before it
			return d.begin(e.Ident)
		}
		return d.restored(e.Ident)
	case *turn.OpenModel:
		if d.InTurn(e.Ident) { // the feeds of its prompt were fetched
			return Perform
		}
		return d.begin(e.Ident)
	case *turn.RunProgram:
		return d.restored(e.Ident)
	case *turn.StartAction:
		if e.Detached {
			return Perform
		}
		return d.restored(e.Ident)
	case *turn.AskGate:
		return d.restored(e.Ident)
	case *turn.CancelModel:
		return d.only(e.Ident)
	case *turn.HoldModel:
		return d.only(e.Ident)
	case *turn.AnswerCall:
		return d.only(e.Ident)
	case *turn.StopProgram:
		if e.Withdrawn { // it never ran
			d.Queue(&turn.ProgramEnd{Ident: e.Ident, Code: e.Code})
			return Nothing
		}
		return d.only(e.Ident)
	case *turn.CancelAction:
		if e.Withdrawn { // it never began
			d.Queue(&turn.ActionEnded{Ident: e.Ident, ID: e.ID, State: messages.ActionCancelled, Reason: "cancelled"})
			return Nothing
		}
	}
	return Perform
}

// InTurn reports whether the shell has the children of a turn.
func (d *Driver) InTurn(id turn.Ident) bool { return d.begun && d.turn == id }

// Turn is the turn that the shell has children of; ok is false when there is none.
func (d *Driver) Turn() (id turn.Ident, ok bool) { return d.turn, d.begun }

// EndTurn says that the shell has let go of its turn's children. Further attempts that were
// scheduled for the turn are dropped.
func (d *Driver) EndTurn() {
	d.begun = false
	if d.work != nil {
		d.work.schedules, d.work.waits = nil, nil
	}
}

// Flight is the turn that the machine has in flight; the zero Ident between turns.
func (d *Driver) Flight() turn.Ident {
	id, _ := d.machine.Flight()
	return id
}

// begin makes room for a turn.
func (d *Driver) begin(id turn.Ident) Duty {
	d.EndTurn()
	d.turn, d.begun = id, true
	return BeginTurn
}

// only performs what belongs to the turn whose children the shell has.
func (d *Driver) only(id turn.Ident) Duty {
	if d.InTurn(id) {
		return Perform
	}
	return Nothing
}

// restored is only, and makes room for the turn that the machine has in flight.
func (d *Driver) restored(id turn.Ident) Duty {
	if now, ok := d.machine.Flight(); !d.InTurn(id) && ok && now == id {
		return d.begin(id)
	}
	return d.only(id)
}

// schedule keeps a further attempt until its time.
func (d *Driver) schedule(e *turn.Schedule) Duty {
	duty := d.restored(e.Ident)
	if duty == Nothing {
		return Nothing
	}
	w := d.working()
	w.schedules = append(w.schedules, *e)
	if duty == BeginTurn {
		return BeginTurn // and nothing is left of the effect itself
	}
	return Nothing
}
