package actors

import (
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/feedvalues"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// action is the actor of one action, from its declaration to its end. It has the gate's hook
// asked, makes the attempts one after the other, and ends each exactly once: by its target, by
// its time, by a cancel or by a crash. What follows an attempt is the plan's decision.
//
//	accepts             in state
//	*family             spawned: whose it is
//	*declared           new: which action it is, and what it waits for
//	*dependencyEnded    declared: the plan lets it go on, as far as that one goes
//	*turn.AskGate       declared: the gate's hook is asked
//	*turn.StartAction   declared, and between two attempts
//	*begin              the same, for one that is internal or detached
//	*turn.CancelAction  any; means something during an attempt
//	*turn.ActionEnded   during an attempt: the end goes to the session
//	*crashed            the hook or an attempt: it fails
//	*stopChild           any: it ends with its attempt
//
// An action of a turn that was restored is declared by its first message.
type action struct {
	*family
	*declared
	now  *oneAttempt // nil when none is under way
	left bool
}

// declared says that an action is there, in the turn of that context.
type declared struct {
	id    string
	turn  context.Context
	run   int64    // the ordinal of the run; 0 when none is open
	waits []string // the actions that this one waits for
}

// dependencyEnded says that an action does not wait for another one any more.
type dependencyEnded struct{ id string }

// begin begins an attempt. variables and feeds are those of the session, for an internal action.
type begin struct {
	*turn.StartAction
	under     context.Context // ends with the turn, or with the host for a detached action
	variables map[string]string
	feeds     *feedvalues.Values
}

// crashed says that the work of a child has crashed, and what that is to the session.
type crashed struct {
	*supervisor.Crash
	what *turn.ChildDown
}

var errTurnStopped = messages.Errorf(messages.ErrCancelled, "the turn is stopped")

// Receive implements actor.Actor.
func (a *action) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *family:
		a.family = msg
	case *declared:
		a.declared = msg
	case *dependencyEnded:
		a.waits = slices.DeleteFunc(a.waits, func(id string) bool { return id == msg.id })
	case *turn.AskGate:
		a.judge(c.Self(), msg)
	case *turn.StartAction:
		a.begin(c.Self(), begin{StartAction: msg, under: a.turn})
	case *begin:
		a.begin(c.Self(), *msg)
	case *turn.CancelAction:
		if a.now != nil {
			a.now.Cancel(errTurnStopped)
		}
	case *turn.ActionEnded:
		a.now = nil
		a.box.Post(msg)
		if a.left {
			c.Stop(c.Self())
		}
	case *crashed:
		down(msg.Crash, msg.what)
	case *stopChild:
		a.left = true
		switch {
		case a.now == nil:
			c.Stop(c.Self())
		case msg.why != nil:
			a.now.Cancel(msg.why)
		}
	}
}

// oneAttempt is an attempt of an action's actor.
type oneAttempt struct {
	*family
	attempt.Attempt
	action *actor.PID
	feeds  *feedvalues.Values // of the session when the action began, for an internal action
}

// Ended implements attempt.Session.
func (t *oneAttempt) Ended(end *turn.ActionEnded) { t.tell(t.action, end) }

// Piece implements attempt.Session.
func (t *oneAttempt) Piece(s *attempt.Sink, in *turn.ActionChunk) { t.box.postPiece(s, in) }

func (a *action) begin(self *actor.PID, msg begin) {
	t := &oneAttempt{family: a.family, action: self, feeds: msg.feeds}
	t.Begin(msg.under, &a.host.attempts, t, attempt.Work{
		Start: msg.StartAction, Agent: a.agent, SID: a.sid, Inc: a.inc, Epoch: a.epoch, Ordinal: a.run,
		Variables: msg.variables, OnFeeds: msg.feeds != nil,
	})
	a.now, a.waits = t, nil
	a.work(self, t.Run, func(crash *supervisor.Crash) any {
		if !t.Claim() {
			return nil // its end was posted
		}
		return &crashed{crash, &turn.ChildDown{Ident: t.Start.Ident, Child: turn.ChildAction, ID: t.Start.ID, Attempt: t.Start.Attempt}}
	})
}

// judge asks the gate's hook, which is foreign code: it may take its time, panic, or end its
// goroutine.
func (a *action) judge(self *actor.PID, e *turn.AskGate) {
	q := tools.Request{SID: a.sid, Tool: e.Name, Class: e.Class, ArgsDigest: e.ArgsDigest, JSON: e.Args, State: e.State, Keep: e.Keep}
	if v, err := neuroscript.FromJSON([]byte(e.Args)); err == nil {
		q.Args, _ = v.AsList()
	}
	f := a.family
	f.host.run(func() {
		supervisor.Guard(func() { f.box.Post(f.judged(e, f.agent.Gate.Decide(q))) }, func(crash *supervisor.Crash) {
			f.tell(self, &crashed{crash, &turn.ChildDown{Ident: e.Ident, Child: turn.ChildGate, ID: e.ID, Detail: "the gate's hook: "}})
		})
	})
}

// judged is the gate's answer for the machine. A question says what it is about.
func (f *family) judged(e *turn.AskGate, v catalog.Verdict) *turn.Judged {
	in := &turn.Judged{Ident: e.Ident, ID: e.ID, Answer: v.Answer, By: v.By, Reason: v.Reason, Record: v.By != catalog.ByDefault}
	if v.Answer == messages.GateConfirm {
		in.Basis = f.agent.Basis(f.sid, e.Type, e.Name)
	}
	return in
}

// The session's side: which actor is whose.

// declare spawns the actor of an action that the machine has declared.
func (s *session) declare(c actor.Context, id string) {
	s.actionOf(c, id, s.drive.Declared(id))
}

// actionOf finds the actor of an action of the turn in flight, or spawns it.
func (s *session) actionOf(c actor.Context, id string, waits []string) *actor.PID {
	if pid := s.turnRun.actions[id]; pid != nil {
		return pid
	}
	pid := s.turnRun.spare
	if s.turnRun.spare = nil; pid == nil {
		pid = s.spawnAction(c)
	}
	s.tell(pid, &declared{id: id, turn: s.turnRun.ctx, run: s.openRun(), waits: waits})
	if s.turnRun.actions == nil {
		s.turnRun.actions = map[string]*actor.PID{}
	}
	s.turnRun.actions[id] = pid
	return pid
}

// openRun is the ordinal of the run in flight, or 0.
func (s *session) openRun() int64 {
	if open := s.machine.State().Open; open != nil {
		return open.Run
	}
	return 0
}

// dependenciesMet tells actors which actions they need not wait for any more.
func (s *session) dependenciesMet() {
	for _, met := range s.drive.Met() {
		if pid := s.turnRun.actions[met.ID]; pid != nil {
			s.tell(pid, &dependencyEnded{met.On})
		}
	}
}

// askGate asks the rules of the gate here, and its hook by way of the action's actor.
func (s *session) askGate(c actor.Context, e *turn.AskGate) {
	gate := s.ref.Agent.Gate
	if !gate.Foreign() { // the rules look at the name alone, and are ours
		s.input(s.judged(e, gate.Decide(tools.Request{Tool: e.Name})))
		return
	}
	s.tell(s.actionOf(c, e.ID, nil), e)
}

// detachedID names an action that outlives its turn.
type detachedID struct {
	turn.Ident
	id string
}

// startAction begins an attempt of an action. A detached one ends with the session at the
// latest.
func (s *session) startAction(c actor.Context, e *turn.StartAction) {
	s.deferred = true
	switch {
	case e.Detached:
		s.tell(s.detach(c, detachedID{e.Ident, e.ID}), &begin{StartAction: e, under: s.host.ctx})
	case e.Type == messages.TypeInternal:
		s.keepFeeds(c)
		// The variables are a value: changes give another.
		s.tell(s.actionOf(c, e.ID, nil), &begin{StartAction: e, under: s.turnRun.ctx, variables: s.machine.State().Variables, feeds: s.feedValues()})
	default:
		s.tell(s.actionOf(c, e.ID, nil), e)
	}
}

// detach takes the actor of an action out of its turn; one of a turn before is spawned.
func (s *session) detach(c actor.Context, id detachedID) *actor.PID {
	pid := s.detached[id]
	if pid == nil && s.drive.InTurn(id.Ident) {
		pid = s.turnRun.actions[id.id]
		delete(s.turnRun.actions, id.id)
	}
	if pid == nil {
		pid = s.spawnAction(c)
		s.tell(pid, &declared{id: id.id, turn: s.host.ctx, run: s.openRun()})
	}
	if s.detached == nil {
		s.detached = map[detachedID]*actor.PID{}
	}
	s.detached[id] = pid
	return pid
}

// endDetached releases the actors of detached actions: all of them, or those whose end the
// machine has.
func (s *session) endDetached(all bool) {
	for id, pid := range s.detached {
		if all || !s.machine.Runs(id.Ident, id.id) {
			s.tell(pid, &stopChild{why: tools.ErrLetGo})
			delete(s.detached, id)
		}
	}
}

// running finds the actor of an action; nil when it has none.
func (s *session) running(id turn.Ident, action string) *actor.PID {
	if s.drive.InTurn(id) && s.turnRun.actions[action] != nil {
		return s.turnRun.actions[action]
	}
	return s.detached[detachedID{id, action}]
}
