package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// model is the actor of a turn's reply: it has one reply read, holds the stream back when the
// session asks for that, and hands over the reply's end.
//
//	accepts             in state
//	*reply              new: it is read
//	*turn.HoldModel     reading
//	*turn.CancelModel   reading
//	*replied            reading: the end goes to the session
//	*crashed            reading: it fails
//	*released           any: it ends with its reply
type model struct {
	reply *reply
	read  bool // to its end
	left  bool
}

// replied says that the reply was read.
type replied struct{}

var errReplyUnwanted = messages.Errorf(messages.ErrCancelled, "the reply is not wanted any more")

// Receive implements actor.Actor.
func (m *model) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *reply:
		m.reply = msg
		self := c.Self()
		msg.work(self, func(last func()) {
			defer msg.cancel(nil)
			msg.run()
			last()
			msg.tell(self, &replied{})
		}, func(crash *supervisor.Crash) any {
			return &crashed{crash, &turn.ChildDown{Ident: msg.open.Ident, Child: turn.ChildModel}}
		})
	case *turn.HoldModel:
		m.reply.gate.set(msg.Hold)
	case *turn.CancelModel:
		m.reply.cancel(errReplyUnwanted)
	case *replied:
		m.read = true
		m.reply.hurry()
		if m.left {
			c.Stop(c.Self())
		}
	case *crashed:
		down(msg.Crash, msg.what)
	case *released:
		if m.left = true; m.read {
			c.Stop(c.Self())
		}
	}
}

// openModel spawns the model of a turn. What its reply takes of memory is free when the turn is
// over.
func (s *session) openModel(c actor.Context, e *turn.OpenModel) {
	view := s.view(e.Turn)
	r := &reply{family: s.family, open: e, durable: s.durable(), view: view, catch: s.catchUp(view), taken: s.host.intake.Begin()}
	r.ctx, r.cancel = context.WithCancelCause(s.air.ctx)
	context.AfterFunc(s.air.ctx, r.taken.End)
	s.air.model = c.Spawn(s.host.childProps.model)
	s.deferred = true
	s.tell(s.air.model, r)
}
