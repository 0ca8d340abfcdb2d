package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/supervisor"
)

// child is the actor of a turn's child: its work runs on a goroutine of its own,
// and the actor answers for the crash, so that the supervisor sees it.
//
//	accepts: *supervisor.Crash (fail with it)
//	sends:   nothing; the work posts to the session's inbox
type child struct{}

// spawnChild starts work under a new child of the session. The work begins beside
// the actor, not after its first message: nothing of the actor is needed until a
// crash is reported.
func (h *Host) spawnChild(c actor.Context, work func()) *actor.PID {
	pid := c.Spawn(h.childProps)
	h.run(func() {
		supervisor.Guard(work, func(crash *supervisor.Crash) { h.system.Root.Send(pid, crash) })
	})
	return pid
}

// Receive implements actor.Actor.
func (child) Receive(c actor.Context) {
	if crash, ok := c.Message().(*supervisor.Crash); ok {
		panic(crash)
	}
}
