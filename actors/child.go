package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/supervisor"
)

// child is the actor of a turn's child: its work runs on a goroutine of its own,
// and the actor answers for the crash, so that the supervisor sees it. The actor's
// few messages are handled on the goroutine that sends them: waking one for each
// would cost a turn more than its whole bookkeeping.
//
//	accepts: *supervisor.Crash (fail with it)
//	sends:   nothing; the work posts to the session's inbox
type child struct{}

// spawnChild starts work under a new child of the session. The work begins when the
// session is done with the message at hand, on the same goroutine if nobody is
// quicker. It calls last right before it posts its last input, and returns then: the
// session goes on with that input on the work's goroutine. claim, if not nil, is false
// when nobody waits for the work any more: then its crash is nobody's either.
func (s *session) spawnChild(c actor.Context, work func(last func()), claim func() bool) *actor.PID {
	h := s.host
	var pid *actor.PID
	if a := s.air; a != nil && a.spare != nil {
		pid, a.spare = a.spare, nil
	} else {
		pid = c.Spawn(h.childProps)
	}
	h.work.Add(1)
	s.deferred = true
	h.pool.Defer(func(w *mailbox.Worker) {
		defer h.work.Done()
		supervisor.Guard(func() { work(w.Leaving) }, func(crash *supervisor.Crash) {
			if claim == nil || claim() {
				h.system.Root.Send(pid, crash)
			}
		})
	})
	return pid
}

// prepare does, while a reply that is acted on still streams, what the next action would
// have to wait for: its actor is spawned, and the records in front of its own are sealed.
func (s *session) prepare(c actor.Context) {
	a := s.air
	if s.deferred || s.dead != nil || a == nil || a.model == nil || s.machine.Phase() != turn.Generating || !s.ref.agent.Dialect.Traits().InStreamActions {
		return
	}
	if a.spare == nil {
		a.spare = c.Spawn(s.host.childProps)
	}
	s.seal()
}

// Receive implements actor.Actor.
func (child) Receive(c actor.Context) {
	if crash, ok := c.Message().(*supervisor.Crash); ok {
		panic(crash)
	}
}
