package actors

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/directory"
	"github.com/seed14be6753/stile/internal/history"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/resume"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
)

// session is the shell of one turn machine.
//
//	accepts                 in state
//	*loaded                 loading
//	*request                any; kept in order while loading
//	*inbox                  ready: inputs of the children
//	*acked                  ready: the journal's answer
//	*alarm                  ready: a clock, or the lazy records' limit
//	*history.CaughtUp       ready: the reply has read the journal
//	*relicRead              any: a feed looks at a relic
//	*feedAnswer             ready: the actor of the feeds answers a request
//	*sleep                  ready and idle
//	*supervisor.Failure     ready: a child crashed
//
//	sends: *sessionOver and passed-on *request to the root, updates to the hub,
//	batches to the journal's writer.
//
// One value lives for one activation: a restart makes a new one, which reads the
// head again and writes under a higher epoch.
type session struct {
	host *Host
	ref  *directory.Session // nil until Started

	// loading
	waiting []*request

	// ready
	*family
	machine  *turn.Machine
	sealer   *journal.Sealer
	drive    driver.Driver
	replay   *token.ReplaySet
	inc      messages.Incarnation
	snapped  int64 // seq of the last snapshot known
	box      *inbox
	over     bool  // the root takes the session out: what arrives is passed on to it
	deferred bool  // a child's work was put off until the message at hand is done
	working  bool  // counted in the host's InFlight
	dead     error // loading failed or the journal refused: nothing more is done

	asks    map[uint64]*request
	last    uint64
	turnRun *turnRun        // the turn in flight
	history history.Session // what prompts are made of
	// feeds are the session's while it is awake; nil before a turn or a client needs them.
	feeds *sessionFeeds
	// detached are the actors of actions that no turn waits for.
	detached map[detachedID]*actor.PID
	clock    *clock // of what the driver has due; nil without any
}

// loaded brings what the journal knows.
type loaded struct {
	of *session
	load.Session
	err error
}

// acked is the journal's answer to a batch.
type acked struct {
	of  *session
	at  journal.Anchor // the batch's last record
	err error
}

var errSessionStopped = messages.Errorf(messages.ErrCancelled, "the session has stopped")

// sleep asks an idle session to retire.
type sleep struct{}

// Receive implements actor.Actor.
func (s *session) Receive(c actor.Context) {
	if s.deferred { // a child's work waits for this goroutine, which goes on
		s.deferred = false
		s.host.pool.RunDeferred()
	}
	switch msg := c.Message().(type) {
	case *actor.Started:
		s.started(c)
	case *request:
		if s.ref != nil {
			s.host.dir.Arrived(s.ref, &msg.transit)
		}
		s.requested(c, msg)
	case *loaded:
		s.ready(c, msg)
	case *inbox:
		if msg == s.box {
			s.drain(c)
		}
	case *acked:
		if msg.of == s {
			s.acknowledged(c, msg.at, msg.err)
		}
	case *alarm:
		if msg.of == s {
			s.rang(c)
		}
	case *history.CaughtUp:
		s.history.Caught(msg)
	case *relicRead:
		s.readRelic(msg)
	case *feedAnswer:
		s.feedAnswered(c, msg)
	case *sleep:
		s.sleepIfIdle(c)
	case *supervisor.Failure:
		s.childFailed(c, msg)
	case *actor.Restarting:
		s.host.counters.Crashes.Add(1)
		s.stop(messages.Errorf(messages.ErrCrash, "the session restarts from its journal"))
	case *actor.Stopping:
		if s.machine != nil && s.drive.Busy() {
			s.host.cfg.Observer.Abandoned(s.inc)
		}
		s.stop(s.host.cfg.Leases.Why(errSessionStopped))
	case *actor.Stopped:
		// The actor library keeps stopped children in the slack of a slice until new
		// ones take their place: what it keeps must not hold a session.
		*s = session{host: s.host, over: true, dead: errSessionStopped}
	case *actor.Terminated:
		s.childEnded(c, msg.Who)
	default:
		s.host.log.Warn("session: unknown message", zap.String("pid", c.Self().Id), zap.String("type", typeName(msg)))
	}
}

// started begins loading. Nothing here can fail: a panic in Started would use up
// the restarts at once.
func (s *session) started(c actor.Context) {
	s.ref = s.host.dir.Who(c.Self().Id)
	if s.ref == nil || s.ref.Removed() { // it was told to sleep meanwhile; the root stops the actor
		s.over = true
		return
	}
	s.box = newInbox(s.host.system, c.Self())
	self, h, ref := c.Self(), s.host, s.ref // the goroutine may outlive what is in s
	h.run(func() {
		supervisor.Guard(func() {
			msg := &loaded{of: s}
			if msg.err = h.cfg.Leases.Claim(h.ctx, ref.Key); msg.err != nil {
				h.system.Root.Send(self, msg)
				return
			}
			msg.Session, msg.err = h.loader.Session(h.ctx, ref.Key, ref.Agent)
			h.system.Root.Send(self, msg)
		}, func(crash *supervisor.Crash) {
			h.log.Error("loading a session panicked", zap.String("SID", ref.SID), zap.ByteString("stack", crash.Stack))
			h.system.Root.Send(self, &loaded{of: s, err: messages.Errorf(messages.ErrCrash, "%s", supervisor.Detail(crash))})
		})
	})
}

// ready takes over what was loaded, settles what a dead process left, and answers
// those who waited.
func (s *session) ready(c actor.Context, msg *loaded) {
	if msg.of != s || s.machine != nil {
		return
	}
	if msg.err != nil {
		s.dead = msg.err
		for _, req := range s.waiting {
			req.answer(Reply{Err: msg.err})
		}
		s.waiting = nil
		s.host.cfg.Leases.Owe(s.ref.SID)
		s.host.hub.Fail(s.ref.SID, msg.err) // after a restart a caller may wait for a run
		s.close(c)
		return
	}
	s.inc, s.snapped = msg.Head.Inc, 0
	signed := s.ref.Agent.Receipts
	if stated := msg.State.Signed.String(); stated != "" { // what the opening promises is kept, whatever the manifest says now
		signed = journal.Receipts(stated)
	}
	s.sealer = journal.NewSealer(journal.SealerConfig{
		Head: msg.Head, Rand: s.host.cfg.Rand, Signer: s.host.cfg.Receipts, Receipts: signed,
	})
	s.family = &family{host: s.host, agent: s.ref.Agent, box: s.box, sid: s.ref.SID, inc: s.inc, epoch: s.sealer.Epoch()}
	if sessions := s.ref.Agent.Sessions; sessions != nil {
		s.family.talk = s.host.talks.New(talk.Config(*sessions))
	}
	s.replay = token.NewReplaySet(s.ref.Agent.ReplayCap, s.ref.Agent.ReplayTTL)
	s.machine = turn.New(turn.Config{Key: s.ref.Key, SID: s.ref.SID, Inc: s.inc, Rules: s.ref.Agent.Rules}, msg.State, s.host.cfg.Rand)
	s.history = s.host.histories.Of(s.inc, s.ref.Agent)
	s.drive = driver.New(s.machine, msg.Head.Seq)
	if s.ref.Agent.Feeds.Set.Len() > 0 {
		s.keepFeeds(c)
	}
	s.followFeeds(c)
	if s.machine.Unsettled() {
		s.step(c, msg.Settle)
	}
	for _, run := range slices.Backward(msg.Orphans) { // what waits, before it can begin
		s.step(c, &turn.Cancel{By: msg.Orphan, Run: run})
	}
	waiting := s.waiting
	s.waiting = nil
	for _, req := range waiting {
		s.requested(c, req)
	}
	s.checkIdle()
}

// requested handles a message from outside.
func (s *session) requested(c actor.Context, req *request) {
	switch {
	case s.over && s.feeds != nil && s.feeds.actor != nil: // until it has ended
		s.waiting = append(s.waiting, req)
		return
	case s.over:
		c.Send(s.host.root, req)
		return
	case s.dead != nil:
		req.answer(Reply{Err: s.dead})
		return
	case s.machine == nil:
		if len(s.waiting) >= messages.QueueLimit*4 {
			req.refuse(messages.ErrBusy, "the session is still loading")
			return
		}
		s.waiting = append(s.waiting, req)
		return
	}
	if s.machine.State().Closed { // its end is on the way to the journal
		req.refuse(messages.ErrBusy, "the session is being closed")
		return
	}
	if s.otherAgent(req) || req.op == opScope && req.scoped.Head > s.machine.State().Seq && !s.busy() { // another host has gone on with it
		s.snapshot()
		s.close(c)
		c.Send(s.host.root, req)
		return
	}
	s.ref.Busy()
	switch req.op {
	case opOpen:
		switch seq := s.machine.State().Seq; {
		case seq == 0:
			s.step(c, &turn.Open{Handle: s.expect(req), Name: s.ref.Agent.Name, Receipts: string(s.ref.Agent.Receipts)})
		case s.drive.DurableSeq() == 0: // another one is creating it
			for _, e := range s.drive.Hold(&turn.Answer{After: 1, Handle: s.expect(req), Seq: 1}) {
				s.perform(c, e)
			}
		default:
			req.answer(Reply{Inc: s.inc, Seq: seq})
		}
	case opSubmit:
		if s.machine.State().Seq == 0 {
			s.step(c, &turn.Open{Name: s.ref.Agent.Name, Parent: req.parent, Receipts: string(s.ref.Agent.Receipts)})
		}
		s.step(c, &turn.Submit{Handle: s.expect(req), Input: req.input})
	case opCancel:
		s.step(c, &turn.Cancel{Handle: s.expect(req), Run: req.run, By: req.by})
	case opApprove:
		word := *req.word
		word.Handle = s.expect(req)
		if a := s.machine.State().Asked(word.Approval); a != nil {
			word.Basis = s.ref.Agent.Basis(s.ref.SID, a.Type, a.Name)
		}
		s.step(c, &word)
	case opApprovals:
		req.answer(Reply{Inc: s.inc, Seq: s.machine.State().Seq, Approvals: turn.ApprovalsOf(s.machine.State())})
	case opExpire:
		s.step(c, &turn.Expire{})
		req.answer(Reply{Inc: s.inc, Seq: s.machine.State().Seq})
	case opFeeds, opIngest:
		s.askFeeds(c, req)
	case opDescribe:
		about := *req.about
		about.Handle = s.expect(req)
		s.step(c, &about)
	case opScope:
		if s.machine.State().Seq == 0 {
			s.step(c, &turn.Open{Name: s.ref.Agent.Name, Receipts: string(s.ref.Agent.Receipts)})
		}
		call := *req.scoped
		call.Handle = s.expect(req)
		s.step(c, &call)
	case opFlush:
		s.flushFor(c, req)
	case opClose:
		s.step(c, &turn.Close{Handle: s.expect(req), Reason: req.by})
	}
	s.checkIdle()
	s.closed(c)
}

// closed lets go of a session whose end is on disk: who comes from now on gets another
// one of its name.
func (s *session) closed(c actor.Context) {
	if s.machine != nil && s.dead == nil && !s.over && s.machine.State().Closed && !s.busy() {
		s.close(c)
	}
}

// otherAgent reports whether a request comes for another agent than the one this activation
// was made for, and that nothing keeps the session from going on under that one: a
// turn ends under the rules it began with.
func (s *session) otherAgent(req *request) bool {
	return req.agent != nil && req.agent != s.ref.Agent && (req.op == opOpen || req.op == opSubmit) &&
		s.machine.State().Seq > 0 && s.machine.Phase() == turn.Idle && !s.busy()
}

// expect keeps a request until the machine answers its handle.
func (s *session) expect(req *request) uint64 {
	if s.asks == nil {
		s.asks = map[uint64]*request{}
	}
	s.last++
	s.asks[s.last] = req
	return s.last
}

// drain feeds the machine what the children posted.
func (s *session) drain(c actor.Context) {
	if s.machine == nil || s.dead != nil {
		s.box.take(nil)
		return
	}
	inputs := s.box.take(s.drive.Spare())
	s.step(c, inputs...)
	s.drive.Recycle(inputs)
	s.prepare(c)
	s.checkIdle()
}

// childFailed turns the failure of a child into the input that the child has made of it. The
// strategy has stopped the child. A defect of the child itself is one of the session: it is
// restarted from its journal.
func (s *session) childFailed(c actor.Context, f *supervisor.Failure) {
	if s.machine == nil || s.dead != nil {
		return
	}
	switch in := f.For.(type) {
	case *turn.ChildDown:
		s.host.log.Error("a child of a turn crashed", zap.String("SID", s.ref.SID), zap.Int64("turn_index", in.Turn),
			zap.String("child", string(in.Child)), zap.String("action", in.ID), zap.String("panic", in.Detail), zap.ByteString("stack", f.Stack))
		s.step(c, in)
	case *turn.ProgramEnd:
		s.step(c, in)
	default:
		panic(&supervisor.Crash{Panic: f.Panic, Stack: f.Stack})
	}
	s.checkIdle()
}

// step lets the machine decide and does what it says, until nothing is left that
// can be done without waiting.
func (s *session) step(c actor.Context, inputs ...turn.Input) {
	if s.dead != nil || s.lost(c) || !s.drive.Begin(inputs...) {
		return
	}
	defer s.drive.End()
	for op := s.drive.Next(s.followed()); op != driver.Idle; op = s.drive.Next(s.followed()) {
		if op == driver.Send {
			s.send(c)
			continue
		}
		late := s.machine.Dropped()
		stepped, err := s.drive.Step(s.host.cfg.Now())
		if err != nil {
			// A broken invariant: the supervisor restarts the session from its
			// journal, and the turn is settled there.
			panic(err)
		}
		s.host.counters.Late.Add(s.machine.Dropped() - late)
		if !s.drive.Resting() {
			s.count(true) // before anybody hears of the run
		}
		s.followFeeds(c)
		s.dependenciesMet()
		for _, e := range stepped.Ready {
			s.perform(c, e)
		}
	}
	s.ring()
}

// count records whether a run of the session is at work.
func (s *session) count(working bool) {
	switch {
	case working == s.working:
		return
	case working:
		s.host.counters.InFlight.Add(1)
	default:
		s.host.counters.InFlight.Add(-1)
	}
	s.working = working
}

// checkIdle tells the idle wheel whether there is something to do, and drops
// what an idle session does not need.
func (s *session) checkIdle() {
	if s.machine == nil || s.dead != nil {
		return
	}
	if s.drive.Resting() {
		if s.machine.Phase() == turn.Suspended {
			s.talk.Rest(resume.ReasonSuspended)
		}
		s.endTurn(errTurnOver) // after the decision was shown: no caller waits while children stop
		if s.drive.Told() {
			s.count(false) // every caller was told
		}
	}
	if len(s.detached) > 0 {
		s.endDetached(false)
	}
	if s.busy() {
		s.ref.Busy()
		return
	}
	s.asks = nil
	s.history.Rest()
	s.drive.Rest()
	s.box.rest()
	s.stopClock()
	s.ref.IdleSince(s.host.cfg.Now())
}

func (s *session) busy() bool { return s.drive.Busy() || len(s.detached) > 0 || len(s.asks) > 0 }

// sleepIfIdle puts an idle session to sleep: a snapshot is left, the root forgets the
// actor and stops it, and what still arrives is passed on to the root.
func (s *session) sleepIfIdle(c actor.Context) {
	if s.over || s.machine == nil || s.dead != nil || s.busy() {
		return
	}
	s.snapshot()
	s.close(c)
}

// close says that this activation is over, when its feeds have ended: the next one begins
// behind them.
func (s *session) close(c actor.Context) {
	s.over = true
	s.endTalk()
	if !s.stopFeeds() {
		c.Send(s.host.root, &sessionOver{ref: s.ref})
	}
}

// childEnded goes on with the end of an activation whose feeds have ended.
func (s *session) childEnded(c actor.Context, child *actor.PID) {
	if !s.over || s.feeds == nil || !child.Equal(s.feeds.actor) {
		return
	}
	s.feeds = nil
	s.close(c)
	for _, req := range s.waiting {
		c.Send(s.host.root, req)
	}
	s.waiting = nil
}

// endTalk ends the conversation with the provider: it is of this activation.
func (s *session) endTalk() {
	if s.family != nil {
		s.talk.Close()
	}
}

// snapshot leaves the state beside the log when enough was appended since the
// last one. It is droppable, so a failure is only logged.
func (s *session) snapshot() {
	state := s.machine.State()
	if state.Seq-s.snapped < s.host.cfg.SnapshotEvery {
		return
	}
	b, err := turn.EncodeState(state)
	if err != nil {
		s.host.log.Warn("snapshot", zap.String("SID", s.ref.SID), zap.Error(err))
		return
	}
	h, inc, head := s.host, s.inc, s.sealer.Head()
	h.run(func() {
		ctx, cancel := context.WithTimeout(h.ctx, 10*time.Second)
		defer cancel()
		if err := h.loader.Snapshot(ctx, inc, head, b); err != nil && h.ctx.Err() == nil {
			h.log.Warn("snapshot", zap.Error(err))
		}
	})
}

// stop ends everything this activation started and answers everyone who
// waits for it. A panic here would resurrect the actor.
func (s *session) stop(why *messages.Error) {
	supervisor.Guard(func() {
		if s.ref != nil {
			s.host.hub.Forget(s.ref.SID)
		}
		if s.box != nil {
			s.box.close()
		}
		s.stopClock()
		s.stopFeeds()
		s.feeds = nil
		s.count(false)
		s.endTurn(tools.ErrLetGo)
		s.endDetached(true)
		s.endTalk()
		for _, req := range s.asks {
			req.answer(Reply{Err: why})
		}
		for _, req := range s.waiting {
			req.answer(Reply{Err: why})
		}
		s.asks, s.waiting = nil, nil
		if s.dead == nil {
			s.dead = why
		}
		s.drive.Stop()
	}, func(crash *supervisor.Crash) {
		s.host.log.Error("releasing a session panicked", zap.String("SID", s.ref.SID), zap.ByteString("stack", crash.Stack))
	})
}
