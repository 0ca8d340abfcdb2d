package turn

import (
	"slices"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// A tag rollback that waits for members is on record in the reply alone. When the turn goes on
// after a restart, the reply is read again and the tag with it. When the turn is ended instead,
// the tags that an earlier life had come to are found here, by what the records say had ended
// before them: the group is rolled back all the same.

// recallTags asks for the rollbacks whose tags an earlier life of an abandoned turn had come to.
// recs are the records of the turn before it was abandoned.
func (m *Machine) recallTags(recs []*messages.Record, evs []messages.Event) {
	if len(m.state.Open.Groups) == 0 || !slices.ContainsFunc(evs, func(ev messages.Event) bool { return ev.Kind == messages.EventRollback }) {
		return
	}
	w := newWay(beforeUnwinding(recs), m.flight.Turn)
	for i := range evs {
		ev := &evs[i]
		if ev.Kind == messages.EventStop && ev.Final || w.over {
			return
		}
		reached := w.reaches()
		if w.pass(ev); ev.Kind != messages.EventRollback || !reached {
			continue
		}
		if g := m.state.Open.group(ev.Block.Group); g != nil && g.Cause == "" {
			if m.flight.undo.asked == nil {
				m.flight.undo.asked = map[string]int{}
			}
			m.flight.undo.asked[g.ID] = len(g.Members)
		}
	}
}

// beforeUnwinding returns the records of a turn without those of restarts that began to end it.
func beforeUnwinding(recs []*messages.Record) []*messages.Record {
	n := slices.IndexFunc(recs, func(r *messages.Record) bool {
		b, ok := r.Body.(*messages.TurnRestored)
		return ok && b.Cause == messages.RestoreRollback
	})
	if n < 0 {
		return recs
	}
	for ; n > 0; n-- {
		switch b := recs[n-1].Body.(type) {
		case *messages.ActionEnded:
			if b.Reason == reasonCrash {
				continue
			}
		case *messages.BlockEnded:
			if b.Reason == reasonCrash {
				continue
			}
		}
		break
	}
	return recs[:n]
}

// way is how far the document of a turn was gone through, by its records.
type way struct {
	turn    int64
	ended   map[string]bool   // actions and blocks
	branch  map[string]string // of the blocks that were decided
	shown   map[string]bool   // complete units
	open    []spot
	waits   bool // a block at top level has not ended
	blocked bool // nor something that all behind it waits for
	over    bool // a final response in a block was shown
}

// spot is a block that is open on the way.
type spot struct {
	id, branch   string
	gates, holds bool // what follows the block waits for its end; what follows in its branch does
	blocked      bool // in its branch something that is waited for has not ended
}

func newWay(recs []*messages.Record, turn int64) *way {
	w := &way{turn: turn, ended: map[string]bool{}, branch: map[string]string{}, shown: map[string]bool{}}
	for _, r := range recs {
		if r.Turn != turn {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ActionEnded:
			w.ended[b.ID] = b.State != messages.ActionCancelled
		case *messages.BlockEnded:
			w.ended[b.ID] = b.State != messages.ActionCancelled
		case *messages.BlockDecided:
			w.branch[b.ID] = b.Branch
		case *messages.UnitText:
			w.shown[b.Unit] = b.Complete
		}
	}
	return w
}

// reaches reports whether the place was come to.
func (w *way) reaches() bool {
	return !w.blocked && !slices.ContainsFunc(w.open, func(s spot) bool { return s.blocked || w.branch[s.id] != s.branch })
}

// stop notes that what follows in the branch was not come to.
func (w *way) stop() {
	if n := len(w.open); n > 0 {
		w.open[n-1].blocked = true
	} else {
		w.blocked = true
	}
}

// pass goes past an event.
func (w *way) pass(ev *messages.Event) {
	top := &spot{}
	if n := len(w.open); n > 0 {
		top = &w.open[n-1]
	}
	switch ev.Kind {
	case messages.EventBlock:
		w.open = append(w.open, spot{id: ev.Block.ID, branch: plan.BranchThen, gates: ev.Block.Kind == kindParallel})
	case messages.EventBranch:
		top.branch, top.blocked = ev.Block.Branch, false
	case messages.EventBlockEnd:
		w.leave(*top)
	case messages.EventAction:
		if mode := ev.Action.Mode; mode == messages.ModeSync || mode == "" || ev.Action.Type == messages.TypeInternal {
			if top.gates = true; !w.ended[ev.Action.ID] {
				w.stop()
			}
		}
	case messages.EventRollback:
		top.holds = true
	case messages.EventFeed:
		w.blocked = w.blocked || w.waits
	case messages.EventUnitEnd:
		if ev.UnitKind != messages.ResponseUnit {
			return
		}
		top.holds = true
		switch shown := w.shown[messages.UnitID{Turn: w.turn, N: ev.Unit}.String()]; {
		case !shown:
			w.stop()
		case len(w.open) > 0:
			w.over = ev.Final
		}
	}
}

// leave goes past the end of a block.
func (w *way) leave(s spot) {
	if len(w.open) == 0 {
		return
	}
	w.open = w.open[:len(w.open)-1]
	ended := w.ended[s.id]
	if n := len(w.open); n > 0 {
		around := &w.open[n-1]
		around.gates, around.holds = around.gates || s.gates, around.holds || s.holds
		around.blocked = around.blocked || (s.gates || s.holds) && !ended
		return
	}
	w.waits = w.waits || !ended
	w.blocked = w.blocked || s.gates && !ended
}
