package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/turn"
)

// clock keeps all timers of a session on one time.Timer, which exists only while
// something is due: the machine's clocks and the limit of the lazy records.
// Disarming a clock does not touch the timer; an alarm that finds nothing due
// just sets it anew.
type clock struct {
	timer *time.Timer
	armed time.Time // when the timer rings; zero when it does not
	at    [turn.NumClocks]time.Time
	gen   [turn.NumClocks]uint64
}

// alarm says that the timer rang.
type alarm struct{ of *session }

func (k *clock) set(s *session, e *turn.SetTimer) {
	k.at[e.Clock], k.gen[e.Clock] = e.At, e.Gen
	k.wake(s, e.At)
}

func (k *clock) clear(c turn.Clock) { k.at[c] = time.Time{} }

// wake makes the timer ring at t or before.
func (k *clock) wake(s *session, t time.Time) {
	if !k.armed.IsZero() && !t.Before(k.armed) {
		return
	}
	k.armed = t
	d := max(0, t.Sub(s.host.cfg.Now()))
	if k.timer != nil {
		k.timer.Reset(d)
		return
	}
	system, self, msg := s.host.system, s.box.pid, &alarm{of: s}
	k.timer = time.AfterFunc(d, func() { system.Root.Send(self, msg) })
}

// stop releases the timer.
func (k *clock) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
	*k = clock{}
}

// rang feeds the machine the clocks that ran out, sends lazy records that are
// due, and arms the timer for what is left.
func (s *session) rang(c actor.Context) {
	if s.dead != nil || s.machine == nil {
		return
	}
	s.clock.armed = time.Time{}
	now := s.host.cfg.Now()
	for id := range turn.NumClocks {
		if at := s.clock.at[id]; !at.IsZero() && !at.After(now) {
			s.clock.at[id] = time.Time{}
			s.step(c, &turn.Timer{Clock: id, Gen: s.clock.gen[id]})
		}
	}
	if s.dead == nil && !s.out.due.IsZero() && !s.out.due.After(now) {
		if s.flush(c) {
			s.resume(c)
		}
	}
	if s.dead == nil {
		for id := range turn.NumClocks {
			if at := s.clock.at[id]; !at.IsZero() {
				s.clock.wake(s, at)
			}
		}
		if !s.out.due.IsZero() {
			s.clock.wake(s, s.out.due)
		}
	}
	s.settleDown()
}
