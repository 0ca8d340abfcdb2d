package actors

import (
	"github.com/asynkron/protoactor-go/actor"

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
// session goes on with that input on the work's goroutine.
func (s *session) spawnChild(c actor.Context, work func(last func())) *actor.PID {
	h := s.host
	pid := c.Spawn(h.childProps)
	h.work.Add(1)
	s.deferred = true
	h.pool.Defer(func(w *worker) {
		defer h.work.Done()
		supervisor.Guard(func() { work(w.leaving) }, func(crash *supervisor.Crash) { h.system.Root.Send(pid, crash) })
	})
	return pid
}

// Receive implements actor.Actor.
func (child) Receive(c actor.Context) {
	if crash, ok := c.Message().(*supervisor.Crash); ok {
		panic(crash)
	}
}
