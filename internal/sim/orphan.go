package sim

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Orphans: child sessions whose action has ended, by a restart that nobody could tell them
// of. Who wakes one asks the parent's records, as the shells do; whether the answer was
// right is read once more from what a stranger knows of the parent.

// childRun is the run that an action has begun in its child session.
const childRun = 1

// forNobody ends what cancels a child say of themselves when its action has ended.
const forNobody = ", which is not waited for any more"

// nobody is who cancels such a child.
func nobody(link *messages.ParentLink) string {
	return "action " + link.Action + " of " + link.SID + forNobody
}

// orphaned tells whether the run that a session is in is one for an action that has ended.
func (w *world) orphaned(c *client, state *turn.State) bool {
	open := state.Open != nil && state.Open.Run == childRun && state.Open.Cancel == nil
	for _, q := range state.Queue {
		open = open || q.Run == childRun
	}
	if c.parent == nil || !open {
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
	return !parent.Awaits(c.parent.Turn, c.parent.Action)
}

// disown cancels the run of a child that nobody waits for, and checks that no other goes on
// for nobody.
func (s *shell) disown() {
	w, link := s.host.w, s.client.parent
	if s.orphan && !s.dead && !w.adopts {
		w.stats.Orphaned++
		s.step(&turn.Cancel{By: nobody(link), Run: childRun})
	}
	if a := s.audit; link != nil && !s.dead && a.waiting[childRun] && a.cancelled[childRun] == 0 && !w.named(link.SID).history.awaits(link) {
		w.violated("family", "session %s is woken and goes on, and action %s of turn %d of its parent has ended", s.client.sid, link.Action, link.Turn)
	}
}

// awaits tells whether an action that a child session is of has begun and not ended.
func (a *audit) awaits(link *messages.ParentLink) bool {
	c := a.call(link.Turn, link.Action)
	return c != nil && c.attempts > 0 && !c.ended
}

// wanted finds a child that is cancelled as nobody's while its action waits for it.
func (w *world) wanted(c *client, b *messages.Control) error {
	if c.parent == nil || b.What != messages.ControlCancel || !strings.HasSuffix(b.By, forNobody) {
		return nil
	}
	if w.named(c.parent.SID).history.awaits(c.parent) {
		return fmt.Errorf("cancelled by %s, and it is waited for", b.By)
	}
	return nil
}
