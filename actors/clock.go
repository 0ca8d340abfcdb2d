package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/turn"
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

// schedule feeds the machine a Due at its time. What the turn's end leaves of it is
// dropped there.
func (s *session) schedule(e *turn.Schedule) {
	box, due := s.box, &turn.Due{Ident: e.Ident, ID: e.ID, Attempt: e.Attempt}
	if !s.aboard(e.Ident) {
		return
	}
	t := time.AfterFunc(max(0, e.At.Sub(s.host.cfg.Now())), func() { box.post(due) })
	context.AfterFunc(s.air.ctx, func() { t.Stop() })
}

// alarm says that the timer rang.
type alarm struct{ of *session }

func (s *session) setTimer(e *turn.SetTimer) {
	if s.clock == nil {
		s.clock = &clock{}
	}
	k := s.clock
	k.at[e.Clock], k.gen[e.Clock] = e.At, e.Gen
	s.ring(e.At)
}

func (s *session) stopTimer(c turn.Clock) {
	if s.clock != nil {
		s.clock.at[c] = time.Time{}
	}
}

// ring makes the timer ring at t or before.
func (s *session) ring(t time.Time) {
	if s.clock == nil {
		s.clock = &clock{}
	}
	k := s.clock
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

// stopClock releases the timer.
func (s *session) stopClock() {
	if s.clock != nil && s.clock.timer != nil {
		s.clock.timer.Stop()
	}
	s.clock = nil
}

// rang feeds the machine the clocks that ran out, sends lazy records that are
// due, and arms the timer for what is left.
func (s *session) rang(c actor.Context) {
	if s.dead != nil || s.machine == nil || s.clock == nil {
		return
	}
	s.clock.armed = time.Time{}
	now := s.host.cfg.Now()
	for _, in := range s.ringing(now) {
		s.step(c, in)
	}
	if l := s.out; s.dead == nil && l != nil && !l.due.IsZero() && !l.due.After(now) {
		if s.flush(c) {
			s.resume(c)
		}
	}
	s.rearm()
	s.settleDown()
}

// ringing are the clocks that have run out, each once.
func (s *session) ringing(now time.Time) (all []turn.Input) {
	k := s.clock
	if k == nil {
		return nil
	}
	for id, at := range k.at {
		if !at.IsZero() && !at.After(now) {
			k.at[id] = time.Time{}
			all = append(all, &turn.Timer{Clock: turn.Clock(id), Gen: k.gen[id]})
		}
	}
	return all
}

// chime has the machine hear of clocks that ran out before the next piece of a reply: their
// alarm may be a message behind very many. Other inputs may be about to set them: what a
// session restores begins with clocks of its life before.
func (s *session) chime() {
	k := s.clock
	if k == nil || k.armed.IsZero() {
		return
	}
	if now := s.host.cfg.Now(); now.After(k.armed) {
		for _, in := range s.ringing(now) {
			s.input(in)
		}
	}
}

// rearm sets the timer to the nearest of what is due.
func (s *session) rearm() {
	if s.dead != nil {
		return
	}
	if k := s.clock; k != nil {
		for _, at := range k.at {
			if !at.IsZero() {
				s.ring(at)
			}
		}
	}
	if l := s.out; l != nil && !l.due.IsZero() {
		s.ring(l.due)
	}
}
