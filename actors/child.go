package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/pool"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// The children of a session are actors: model, interpreter and action, each in a file of that
// name. A child handles its messages on the goroutine that sends them: a goroutine that is woken
// for each costs a turn more than its whole bookkeeping. So a child never blocks either. Foreign
// code runs on a goroutine of the pool, and what it comes to is a message to the child:
//
//	session ─ typed messages ─▶ child ─ work ─▶ pool
//	   ▲                         │ ▲              │
//	   └──── inputs, by inbox ───┘ └─ end, Crash ─┘
//	   ▲                         │
//	   └── Failure ◀ strategy ◀──┘ a panic: Crash or Breach
//
// A child whose turn is over stays until its work has ended, and is stopped then.

// family is what the children of a session know of it. It is never changed.
type family struct {
	host  *Host
	agent *Agent
	box   *inbox
	sid   string
	inc   messages.Incarnation
	epoch int64
	talk  *talk.Talk // with the provider; nil for none
}

// stopChild says that the session goes on without a child, which ends with its work.
type stopChild struct {
	why  *messages.Error // not nil: the child's work is cancelled
	over bool            // the child's turn has ended, and not only its activation
}

// childProps make the children of sessions.
type childProps struct{ model, interpreter, action, feed *actor.Props }

func newChildProps(h *Host) childProps {
	props := func(make func() actor.Actor) *actor.Props {
		return actor.PropsFromProducer(make, actor.WithMailbox(mailbox.NewLeaf), actor.WithDispatcher(mailbox.OnTheSpot{}))
	}
	return childProps{
		model:       props(func() actor.Actor { return &model{} }),
		interpreter: props(func() actor.Actor { return &interpreter{} }),
		action:      props(func() actor.Actor { return &action{} }),
		feed:        props(func() actor.Actor { return &feed{host: h} }),
	}
}

// tell sends a child a message, which it handles before tell returns, or another goroutine that
// is in its mailbox.
func (f *family) tell(child *actor.PID, msg any) { f.host.system.Root.Send(child, msg) }

// work runs the work of a child. It begins when the session is done with the message at hand,
// on the session's goroutine if no other is quicker. It calls last right before it hands over
// its end, and returns then: the session goes on with that end on the work's goroutine.
//
// crashed makes the message of a crash, and is called by the work's goroutine. nil drops it.
func (f *family) work(child *actor.PID, work func(last func()), crashed func(*supervisor.Crash) any) {
	h := f.host
	h.work.Add(1)
	h.pool.Defer(func(w *pool.Worker) {
		defer h.work.Done()
		supervisor.Guard(func() { work(w.Returning) }, func(crash *supervisor.Crash) {
			if msg := crashed(crash); msg != nil {
				f.tell(child, msg)
			}
		})
	})
}

// down fails an actor because its work has crashed: the strategy stops it and tells the session.
func down(crash *supervisor.Crash, what *turn.ChildDown) {
	what.Detail += supervisor.Detail(crash)
	crash.For = what
	panic(crash)
}

func (s *session) spawnAction(c actor.Context) *actor.PID {
	pid := c.Spawn(s.host.childProps.action)
	s.tell(pid, s.family)
	return pid
}

// prepare does, while a reply that is acted on still streams, what the next action would
// have to wait for: its actor is spawned, and the records in front of its own are sealed.
func (s *session) prepare(c actor.Context) {
	a := s.turnRun
	if s.deferred || s.dead != nil || a == nil || a.model == nil || s.machine.Phase() != turn.Generating || !s.ref.Agent.Dialect.Traits().InStreamActions {
		return
	}
	if a.spare == nil {
		a.spare = s.spawnAction(c)
	}
	s.seal()
}
