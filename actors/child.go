package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/supervisor"
)

// child is the actor of a turn's child: it runs its work on a goroutine of its
// own and answers for its crash, so that the supervisor sees it.
//
//	accepts: *actor.Started (begin), *supervisor.Crash (fail with it)
//	sends:   what the work posts to the session's inbox
type child struct {
	host *Host
	work func()
}

// spawnChild starts work under a new child of the session.
func (h *Host) spawnChild(c actor.Context, work func()) *actor.PID {
	return c.Spawn(actor.PropsFromProducer(func() actor.Actor { return &child{host: h, work: work} },
		actor.WithMailbox(actor.UnboundedLockfree())))
}

// Receive implements actor.Actor.
func (k *child) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		self := c.Self()
		k.host.work.Go(func() {
			if crash := supervisor.Guard(k.work); crash != nil {
				k.host.system.Root.Send(self, crash)
			}
		})
	case *supervisor.Crash:
		panic(msg)
	}
}
