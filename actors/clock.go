package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// clock keeps everything that the driver has due on one time.Timer, which exists only while
// something is. Disarming does not touch the timer; an alarm that finds nothing due just
// sets it anew.
type clock struct {
	timer *time.Timer
	armed time.Time // when the timer rings; zero when it does not
}

// alarm says that the timer rang.
type alarm struct{ of *session }

// ring makes the timer ring when the driver has something due, or before.
func (s *session) ring() {
	t := s.drive.Wake()
	if t.IsZero() || s.dead != nil {
		return
	}
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

// rang feeds the machine what is due, sends lazy records that have waited long enough, and
// arms the timer for what is left.
func (s *session) rang(c actor.Context) {
	if s.dead != nil || s.machine == nil || s.clock == nil {
		return
	}
	s.clock.armed = time.Time{}
	now := s.host.cfg.Now()
	for _, in := range s.drive.Due(now) {
		s.step(c, in)
	}
	if s.drive.Overdue(now) {
		s.send(c)
		s.resume(c)
	}
	s.ring()
	s.checkIdle()
}
