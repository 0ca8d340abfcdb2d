package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/feedvalues"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// feed is the actor of a session's feeds: it alone has their states, while the session is awake.
// The wheel ticks it when feeds are due, clients ask it for values, and the goroutines of fetches
// tell it how these ended. The crash of a fetch fails the actor; the strategy lets it go on, and
// the state of that one feed begins anew.
//
//	accepts               in state
//	*feeds.States         new: whose feeds they are
//	*feedSet              the session's feeds are others now
//	*feeds.Starts         feeds are due
//	*feeds.Want           a prompt, an action or a client of the host asks for values
//	*feeds.Fetch          a fetch has ended
//	*supervisor.Failure   after a crash: its feed begins anew
//	*feedQuestion         the session answers a request
//	*stopChild             any: it ends
//
// It waits for nothing: values are fetched and waited for on other goroutines.
type feed struct {
	host   *Host
	states *feeds.States
}

type feedSet struct{ feeds.Set }

// feedQuestion is a request that the session passes on, by its handle: to list the feeds, or to
// give one a value.
type feedQuestion struct {
	session *actor.PID
	handle  uint64
	of      *session // whose handle it is; the actor does not look at it
	put     bool
	id      string // for put
	value   string
}

// feedAnswer answers a feedQuestion.
type feedAnswer struct {
	*feedQuestion
	feeds []feedvalues.State
	err   error
}

// feedCrash is the crash of a fetch. It concerns one feed.
type feedCrash struct{ fetch *feeds.Fetch }

// Part implements supervisor.Part.
func (c *feedCrash) Part() string { return "feed " + c.fetch.Feed() }

// Receive implements actor.Actor.
func (f *feed) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *feeds.States:
		f.states = msg
	case *feedSet:
		f.states.Sync(msg.Set)
	case *feeds.Starts:
		f.states.Start(msg)
	case *feeds.Want:
		f.states.Want(msg)
	case *feeds.Fetch:
		if p := f.states.Crashed(msg); p != nil {
			panic(crashOfFeed(msg, p))
		}
		f.states.Ended(msg)
	case *supervisor.Failure:
		f.restart(msg)
	case *feedQuestion:
		c.Send(msg.session, f.answer(msg))
	case *stopChild:
		f.stop()
		c.Stop(c.Self())
	case *actor.Stopping:
		f.stop()
	}
}

// crashOfFeed is what the actor panics with when a fetch has crashed.
func crashOfFeed(x *feeds.Fetch, p *feeds.PanicError) *supervisor.Crash {
	crash := &supervisor.Crash{Panic: p.Value, Stack: p.Stack, For: &feedCrash{fetch: x}}
	if foreign, ok := p.Value.(*supervisor.Crash); ok { // of the goroutine of a tool
		crash.Panic, crash.Stack = foreign.Panic, foreign.Stack
	}
	return crash
}

// restart begins anew the feed that a failure of the actor is about.
func (f *feed) restart(msg *supervisor.Failure) {
	if crash, ok := msg.For.(*feedCrash); ok && f.states != nil {
		f.host.log.Error("the source of a feed crashed", zap.String("feed", crash.fetch.Feed()), zap.String("session", f.states.Client().Session()),
			zap.String("panic", supervisor.Detail(msg.Panic)), zap.ByteString("stack", msg.Stack))
		f.states.Restart(crash.fetch)
	}
}

// stop ends the feeds. A panic here would resurrect the actor.
func (f *feed) stop() {
	if f.states == nil {
		return
	}
	supervisor.Guard(f.states.Stop, func(crash *supervisor.Crash) {
		f.host.log.Error("stopping the feeds of a session panicked", zap.ByteString("stack", crash.Stack))
	})
}

// answer does what the session asks for.
func (f *feed) answer(q *feedQuestion) *feedAnswer {
	a := &feedAnswer{feedQuestion: q}
	keeper := f.host.cfg.Feeds
	if q.put {
		a.err = keeper.Put(f.states.Client().Session(), f.states.Set(), q.id, q.value)
		return a
	}
	a.feeds = feedvalues.List(keeper, f.states)
	return a
}

// The session's side.

// sessionFeeds are what an awake session has of its feeds.
type sessionFeeds struct {
	set    feeds.Set
	turn   *turnAt
	actor  *actor.PID        // nil for a session without feeds
	client *feeds.Client     // of the actor; nil without one
	calls  *feedvalues.Calls // nil without an actor
	seen   int64             // the latest change of the session's feeds that set has
}

// turnAt says which turn a session is in, to internal sources.
type turnAt struct{ run, index atomic.Int64 }

// keepFeeds returns the feeds of the session; they are made when they are first needed, so that
// a session without feeds does not pay for them.
func (s *session) keepFeeds(c actor.Context) *sessionFeeds {
	if s.feeds == nil {
		s.feeds = &sessionFeeds{turn: &turnAt{}}
		s.syncFeeds(c)
	}
	return s.feeds
}

func (s *session) spawnFeeds(c actor.Context) {
	f, agent, sid := s.feeds, s.ref.Agent, s.ref.SID
	at, opened := f.turn, time.Unix(s.inc.Time().UnixTime())
	facts := func() feeds.Facts {
		return feeds.Facts{
			Session: feeds.SessionFacts{ID: sid, Run: at.run.Load(), Turn: at.index.Load(), Opened: opened}, Agent: agent.Feeds.Agent,
		}
	}
	f.actor = c.Spawn(s.host.childProps.feed)
	system, pid := s.host.system, f.actor
	f.calls = s.host.feeds.NewCalls(s.whoseFeeds(), s.look())
	states := s.host.cfg.Feeds.Open(feeds.Session{
		Key: s.inc.String(), Facts: facts, Ingest: agent.Feeds.Ingest, Peers: agent.Feeds.Peers, Env: agent.Feeds.Environment, Fetcher: f.calls,
	}, func(msg any) { system.Root.Send(pid, msg) })
	f.client = states.Client()
	s.tell(pid, states)
}

// followFeeds takes over what records have changed.
func (s *session) followFeeds(c actor.Context) {
	switch changed := s.machine.State().Feeds.Changed; {
	case s.feeds != nil && s.feeds.seen != changed:
		s.syncFeeds(c)
	case s.feeds == nil && changed != 0:
		s.keepFeeds(c)
	}
}

// syncFeeds takes over the set as the manifest and the session's records have it.
func (s *session) syncFeeds(c actor.Context) {
	f, state := s.feeds, &s.machine.State().Feeds
	f.seen = state.Changed
	edits := make([]feeds.Edit, len(state.Edits))
	for i, e := range state.Edits {
		edits[i] = feeds.Edit{ID: e.ID, Added: e.Added, Gone: e.Gone, Spec: e.Spec, Since: e.Since}
	}
	of := s.ref.Agent.Feeds.Set
	set, err := of.With(edits, state.Cleared)
	if err != nil { // another release wrote them
		s.host.log.Error("the feeds that the model made cannot be read; those of the manifest are used", zap.String("SID", s.ref.SID), zap.Error(err))
		set = of
	}
	f.set = set
	// Instructions may name a feed of the manifest that the model has removed.
	if f.actor == nil && s.host.cfg.Feeds != nil && set.Len()+of.Len() > 0 {
		s.spawnFeeds(c)
	}
	if f.actor != nil {
		s.tell(f.actor, &feedSet{set})
	}
}

// askFeeds passes a request on to the actor of the feeds; feedAnswered answers it.
func (s *session) askFeeds(c actor.Context, req *request) {
	f, keeper := s.keepFeeds(c), s.host.cfg.Feeds
	if f.actor != nil {
		s.tell(f.actor, &feedQuestion{session: c.Self(), handle: s.expect(req), of: s, put: req.op == opIngest, id: req.feed, value: req.value})
		return
	}
	rep := s.feedReply(nil)
	switch {
	case req.op == opFeeds:
	case keeper == nil:
		rep.Err = messages.Errorf(messages.ErrConfig, "this host keeps no feeds")
	default:
		rep.Err = keeper.Put(s.inc.String(), f.set, req.feed, req.value) // there is no such feed
	}
	req.answer(rep)
}

// feedAnswered answers a request that was passed on.
func (s *session) feedAnswered(c actor.Context, a *feedAnswer) {
	req := s.asks[a.handle]
	if a.of != s || req == nil {
		return
	}
	delete(s.asks, a.handle)
	rep := s.feedReply(a.feeds)
	rep.Err = a.err
	req.answer(rep)
	s.checkIdle()
	s.closed(c)
}

// feedReply is the answer to a request about feeds.
func (s *session) feedReply(all []feedvalues.State) Reply {
	return Reply{Inc: s.inc, Seq: s.machine.State().Seq, Feeds: all, values: s.feedValues()}
}

// stopFeeds ends the actor of the feeds, and reports whether there is one; *actor.Terminated
// says that it has ended. Values stay in the cache for the next activation.
func (s *session) stopFeeds() bool {
	if s.feeds == nil || s.feeds.actor == nil {
		return false
	}
	s.tell(s.feeds.actor, &stopChild{})
	return true
}

// Feeds implements attempt.Session (docs/spec/streaming.md §7.4).
func (t *oneAttempt) Feeds(ctx context.Context, name, args string) (string, *messages.FeedChange, error) {
	return t.host.feeds.Do(ctx, t.feeds, name, args)
}

func (s *session) whoseFeeds() feedvalues.Session {
	return feedvalues.Session{Agent: s.ref.Agent, SID: s.ref.SID, Inc: s.inc, Epoch: s.sealer.Epoch()}
}

// feedValues is what other goroutines get the values of the session's feeds from.
func (s *session) feedValues() *feedvalues.Values {
	return &feedvalues.Values{Session: s.whoseFeeds(), Client: s.feeds.client, Calls: s.feeds.calls, Set: s.feeds.set}
}

// FeedValues returns feeds of a session by their ids, each with a value that a prompt would
// take now: what is too old is fetched, for as long as ctx lasts. Feeds that are not there, or
// are disabled, are left out. first is false for a value that goes on to a further host: then
// what comes from another one is not given. It wakes the session.
func (h *Host) FeedValues(ctx context.Context, key messages.SessionKey, agent *Agent, ids []string, first bool) ([]feedvalues.State, Reply, error) {
	got := map[string]feedvalues.State{}
	for n, left := 1, ids; ; n++ {
		rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opFeeds})
		if err != nil {
			return nil, rep, err
		}
		// The session may go to sleep between its answer and the look at a feed. Feeds that were got
		// before are not fetched again.
		all, asleep := rep.values.Fresh(ctx, rep.Feeds, left, first)
		for i := range all {
			got[all[i].ID] = all[i]
		}
		if left = asleep; len(left) > 0 && n < maxHops {
			continue
		}
		all = nil
		for _, id := range ids {
			if st, ok := got[id]; ok {
				all = append(all, st)
			}
		}
		return all, rep, nil
	}
}

// AwaitFeeds returns when the value of one of the feeds is another one than in states, or when
// ctx ends. It wakes the session, which may sleep again meanwhile.
func (h *Host) AwaitFeeds(ctx context.Context, key messages.SessionKey, agent *Agent, states []feedvalues.State) error {
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opFeeds})
	if err != nil || h.cfg.Feeds == nil {
		return err
	}
	seen := map[string]string{}
	for i := range states {
		seen[states[i].ID] = states[i].Value
	}
	return h.cfg.Feeds.Await(ctx, rep.Inc.String(), rep.values.Set, seen)
}

// fetchFeeds gets what a turn asks for, on a goroutine of the pool.
func (s *session) fetchFeeds(c actor.Context, e *turn.FetchFeeds) {
	f := s.keepFeeds(c)
	f.turn.run.Store(e.Run)
	f.turn.index.Store(e.Turn)
	ctx, h, box, from := s.turnRun.ctx, s.host, s.box, s.feedValues()
	h.run(func() { box.Post(h.feeds.Ready(ctx, from, e)) })
}
