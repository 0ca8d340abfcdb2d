package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
)

// turnRun is the turn in flight as the shell sees it: its children and the context
// that ends with it.
type turnRun struct {
	turn.Ident
	ctx     context.Context
	cancel  context.CancelCauseFunc
	model   *actor.PID // nil for none, as those below
	program *actor.PID
	actions map[string]*actor.PID // by id
	spare   *actor.PID            // of the next action
}

// startTurn makes room for the turn that the driver has begun.
func (s *session) startTurn() {
	s.stopChildren(errTurnOver)
	id, _ := s.drive.Turn()
	ctx, cancel := context.WithCancelCause(s.host.ctx)
	s.turnRun = &turnRun{Ident: id, ctx: ctx, cancel: cancel}
}

var errTurnOver = messages.Errorf(messages.ErrCancelled, "the turn is over")

// endTurn lets go of the turn whose children the session has.
func (s *session) endTurn(why *messages.Error) {
	s.stopChildren(why)
	s.drive.EndTurn()
}

// stopChildren stops what still runs for a turn that is over, or that this activation does
// not go on with (tools.ErrLetGo). Late answers are dropped by the machine.
func (s *session) stopChildren(why *messages.Error) {
	a := s.turnRun
	if a == nil {
		return
	}
	s.turnRun = nil
	s.history.EndTurn()
	a.cancel(why)
	id, flying := s.machine.Flight()
	end := &stopChild{over: !flying || id != a.Ident}
	for _, pid := range []*actor.PID{a.model, a.program} {
		if pid != nil {
			s.tell(pid, end)
		}
	}
	for _, pid := range a.actions {
		s.tell(pid, end)
	}
	if a.spare != nil {
		s.host.system.Root.Stop(a.spare)
	}
}

// perform does one effect. It never waits; what the effect brings about comes
// back as an input.
func (s *session) perform(c actor.Context, e turn.Effect) {
	switch s.drive.Take(e) {
	case driver.Nothing:
		return
	case driver.BeginTurn:
		s.startTurn()
	}
	switch e := e.(type) {
	case *turn.Persist:
		s.history.Remember(e)
		if id, ok := s.drive.Declares(e); ok && s.drive.InTurn(s.drive.Flight()) {
			s.declare(c, id)
		}
		if b, asks := e.Record.Body.(*messages.ModelRequest); asks && len(e.Blobs) > 0 {
			s.host.histories.Systems.Keep(s.inc, b.System)
		}
	case *turn.Publish:
		s.publish(e)
	case *turn.Answer:
		s.answer(e)
	case *turn.FetchFeeds:
		s.fetchFeeds(c, e)
	case *turn.OpenModel:
		s.openModel(c, e)
	case *turn.CancelModel:
		s.pass(s.turnRun.model, e)
	case *turn.RunProgram:
		s.runProgram(c, e)
	case *turn.StopProgram:
		s.pass(s.turnRun.program, e)
	case *turn.AskGate:
		s.askGate(c, e)
	case *turn.StartAction:
		s.startAction(c, e)
	case *turn.CancelAction:
		s.pass(s.running(e.Ident, e.ID), e)
	case *turn.HoldModel:
		if e.Hold {
			s.host.cfg.Observer.LimitReached(messages.LimitGateBuffer, 1)
		}
		s.pass(s.turnRun.model, e)
	case turn.Reached:
		s.host.cfg.Observer.LimitReached(e.Limit, e.N)
	case turn.RolledBack:
		s.host.cfg.Observer.RolledBack(e.Outcome)
	case *turn.EndChildren:
		h, sid, inc := s.host, s.ref.SID, s.inc
		h.run(func() { h.waker.EndChildren(sid, inc, e) })
	case *turn.AnswerCall:
		s.pass(s.turnRun.program, e)
	case *turn.AnswerRelic:
		s.box.waiting().Answer(e)
	case *turn.Verify:
		s.verify(e)
	case *turn.Schedule: // the driver keeps it
	default:
		s.host.log.Error("an effect that the session does not know", zap.String("type", typeName(e)))
	}
}

// pass passes an effect on to the child that it is for, if there is one.
func (s *session) pass(child *actor.PID, e turn.Effect) {
	if child != nil {
		s.tell(child, e)
	}
}

// input queues what an effect brought about at once; the step loop takes it.
func (s *session) input(in turn.Input) { s.drive.Queue(in) }

func (s *session) publish(e *turn.Publish) {
	u := e.Update
	if u.Record == nil {
		s.host.hub.Publish(s.ref.SID, u)
		return
	}
	s.host.cfg.Observer.ObserveRecord(s.ref.Agent.Name, u.Record)
	if b, ok := u.Record.Body.(*messages.TurnSuspended); ok {
		if until, err := time.Parse(time.RFC3339Nano, b.Until); err == nil {
			s.host.waker.Suspended(until)
		}
	}
	// Before the hub: who sees the end of a run can wait for what is learned of it.
	if told := s.ref.Agent.Ended; told != nil && u.Record.Body.Kind() == messages.KindRunEnd {
		told(s.ref.SID, u.Record)
	}
	s.host.hub.Publish(s.ref.SID, u)
}

// heardBytes bounds what is kept of a run's texts for its submitter, so that most answers are
// given without a look at the journal. A longer one is read back.
const heardBytes = 16 << 10

func (s *session) answer(e *turn.Answer) {
	req, ok := s.asks[e.Handle]
	if !ok {
		return
	}
	delete(s.asks, e.Handle)
	rep := Reply{Inc: s.inc, Run: e.Run, Seq: e.Seq, Joined: e.Joined, Merged: e.Merged, result: e.Result, Err: e.Err}
	if req.op == opSubmit && e.Err == nil && !e.Joined {
		rep.End = s.host.hub.Await(s.ref.SID, e.Run, &answer.Account{Most: heardBytes})
	}
	req.answer(rep)
}

// verify judges the candidate lines of a turn.
func (s *session) verify(e *turn.Verify) {
	now := s.host.cfg.Now()
	scope := token.Scope{SID: s.ref.SID, TurnIndex: e.Turn, Nonce: e.Nonce}
	s.input(&turn.Verified{Ident: e.Ident, Checks: token.VerifyLines(e.Out, scope, s.host.cfg.Keys.TokenKeys(now), s.replay, s.ref.Agent.TokenPolicy(), now)})
}
