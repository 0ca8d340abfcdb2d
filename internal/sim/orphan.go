package sim

import (
	"fmt"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Orphans: child sessions whose action has ended, by a restart of which they were not told.
// A shell that wakes one asks the parent's records, as the shells do; whether the answer was
// right is read once more from what a stranger knows of the parent.

// orphaned reports whether the run that a session is in is one for an action that has ended.
func (w *world) orphaned(c *client, state *turn.State) bool {
	if c.parent == nil || !driver.HasChildRun(state) {
		return false
	}
	_, recs, err := journal.Load(bg, w.disk, w.named(c.parent.SID).incarnation())
	if err != nil {
		w.violated("chain", "%v", err)
	}
	var parent turn.State
	for _, r := range recs {
		if err := parent.Apply(r); err != nil {
			w.violated("projection", "%v", err)
		}
	}
	return driver.Orphaned(c.parent, &parent)
}

// disown cancels the run of a child that no action waits for, and checks that no other orphan
// goes on.
func (s *shell) disown() {
	w, link := s.host.w, s.client.parent
	if s.orphan && !s.dead && !w.adopts {
		w.stats.Orphaned++
		s.step(&turn.Cancel{By: driver.Unawaited(link), Run: driver.ChildRun})
	}
	if a := s.audit; link != nil && !s.dead && a.waiting[driver.ChildRun] && a.cancelled[driver.ChildRun] == 0 && !w.named(link.SID).history.awaits(link) {
		w.violated("family", "session %s is woken and goes on, and action %s of turn %d of its parent has ended", s.client.sid, link.Action, link.Turn)
	}
}

// awaits reports whether an action that a child session is of has begun and not ended.
func (a *audit) awaits(link *messages.ParentLink) bool {
	c := a.call(link.Turn, link.Action)
	return c != nil && c.attempts > 0 && !c.ended
}

// wanted finds a child that is cancelled as an orphan while its action waits for it.
func (w *world) wanted(c *client, b *messages.Control) error {
	if c.parent == nil || b.What != messages.ControlCancel || !driver.IsUnawaited(b.By) {
		return nil
	}
	if w.named(c.parent.SID).history.awaits(c.parent) {
		return fmt.Errorf("cancelled by %s, and it is waited for", b.By)
	}
	return nil
}
