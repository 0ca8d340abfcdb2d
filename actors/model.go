package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/history"
	"github.com/seed14be6753/stile/internal/reply"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// model is the actor of a turn's reply: it has one reply read, holds the stream back when the
// session asks for that, and hands over the reply's end.
//
//	accepts             in state
//	*readReply          new: it is read
//	*turn.HoldModel     reading
//	*turn.CancelModel   reading
//	*replied            reading: the end goes to the session
//	*crashed            reading: it fails
//	*stopChild           any: it ends with its reply
type model struct {
	reply *readReply
	read  bool // to its end
	left  bool
}

// readReply has a reply read. It is the reply's way to the session.
type readReply struct {
	*family
	reply.Reply
	handoff mailbox.Handoff // of the reader's goroutine
}

// Post implements reply.Inbox.
func (r *readReply) Post(in ...turn.Input) { r.box.Post(in...) }

// Offer implements reply.Inbox.
func (r *readReply) Offer(in ...turn.Input) { r.box.handOff(&r.handoff, in...) }

// Inline implements reply.Inbox.
func (r *readReply) Inline() {
	if r.handoff.Inline() {
		r.host.pool.RunDeferred() // what the session put off until this goroutine is done
	}
}

// replied says that the reply was read.
type replied struct{}

var errReplyUnwanted = messages.Errorf(messages.ErrCancelled, "the reply is not wanted any more")

// Receive implements actor.Actor.
func (m *model) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *readReply:
		m.reply = msg
		self := c.Self()
		msg.work(self, func(last func()) {
			msg.Run()
			last()
			msg.tell(self, &replied{})
		}, func(crash *supervisor.Crash) any {
			return &crashed{crash, &turn.ChildDown{Ident: msg.Prompt.Open.Ident, Child: turn.ChildModel}}
		})
	case *turn.HoldModel:
		m.reply.Hold(msg.Hold)
	case *turn.CancelModel:
		m.reply.Cancel(errReplyUnwanted)
	case *replied:
		m.read = true
		m.reply.Hurry()
		if m.left {
			c.Stop(c.Self())
		}
	case *crashed:
		down(msg.Crash, msg.what)
	case *stopChild:
		if m.left = true; m.read {
			c.Stop(c.Self())
		}
	}
}

// openModel spawns the model of a turn. What its reply takes of memory is free when the turn is
// over.
func (s *session) openModel(c actor.Context, e *turn.OpenModel) {
	share := s.host.intake.Begin()
	context.AfterFunc(s.turnRun.ctx, share.End)
	view := s.history.View(e.Turn)
	from := history.Reader{
		Store: s.host.cfg.Store, Agent: s.ref.Agent, SID: s.ref.SID, Inc: s.inc, Open: e, Durable: s.durable(),
		View: view, CatchUp: s.history.CatchUp(view), Share: share,
	}
	if from.CatchUp != nil {
		box := s.box
		from.Caught = func(msg *history.CaughtUp) { box.system.Root.Send(box.pid, msg) }
	}
	r := &readReply{family: s.family}
	r.Talk = s.talk
	r.Begin(s.turnRun.ctx, &s.host.replies, r, from)
	s.turnRun.model = c.Spawn(s.host.childProps.model)
	s.deferred = true
	s.tell(s.turnRun.model, r)
}
