package actors

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// attendance is what an awake session has of feeds: while it lasts, its periodic feeds
// tick on the host's wheel.
type attendance struct {
	set   feeds.Set
	who   feeds.Session
	at    *whereabouts
	ticks bool  // the keeper knows of the session
	seen  int64 // the latest change of the session's feeds that set has
}

// whereabouts says which turn a session is in, to internal sources.
type whereabouts struct{ run, turn atomic.Int64 }

// attending is the attendance of a session; it is made when it is first needed, so
// that a session without feeds does not pay for it.
func (s *session) attending() *attendance {
	if s.feeds == nil {
		s.attend()
	}
	return s.feeds
}

// attend begins to keep the session's feeds.
func (s *session) attend() {
	at, agent, sid := &whereabouts{}, s.ref.agent, s.ref.sid
	opened := time.Unix(s.inc.Time().UnixTime())
	facts := func() feeds.Facts {
		return feeds.Facts{
			Session: feeds.SessionFacts{ID: sid, Run: at.run.Load(), Turn: at.turn.Load(), Opened: opened}, Agent: agent.Feeds.Agent,
		}
	}
	s.feeds = &attendance{at: at, who: feeds.Session{
		Key: s.inc.String(), Facts: facts, Ingest: agent.Feeds.Ingest, Peers: agent.Feeds.Peers, Env: agent.Feeds.Environment,
		Fetcher: &fetcher{host: s.host, agent: agent, sid: sid, inc: s.inc, epoch: s.sealer.Epoch(), self: s.box.pid},
	}}
	s.syncFeeds()
}

// followFeeds takes over what records have changed.
func (s *session) followFeeds() {
	switch changed := s.machine.State().Feeds.Changed; {
	case s.feeds != nil && s.feeds.seen != changed:
		s.syncFeeds()
	case s.feeds == nil && changed != 0:
		s.attend()
	}
}

// syncFeeds takes over the set as the manifest and the session's records have it.
func (s *session) syncFeeds() {
	f, state := s.feeds, &s.machine.State().Feeds
	f.seen = state.Changed
	edits := make([]feeds.Edit, len(state.Edits))
	for i, e := range state.Edits {
		edits[i] = feeds.Edit{ID: e.ID, Added: e.Added, Gone: e.Gone, Spec: e.Spec, Since: e.Since}
	}
	set, err := s.ref.agent.Feeds.Set.With(edits, state.Cleared)
	if err != nil { // another release wrote them
		s.host.log.Error("the feeds that the model made cannot be read; those of the manifest are used", zap.String("SID", s.ref.sid), zap.Error(err))
		set = s.ref.agent.Feeds.Set
	}
	f.set = set
	if keeper := s.host.cfg.Feeds; keeper != nil && (f.ticks || f.set.Len() > 0) {
		f.ticks = true
		keeper.Sync(f.who, f.set)
	}
}

// doFeeds does an internal action on feeds (docs/spec/streaming.md §7.4). What it changes counts
// when its end is recorded.
func (a *attempt) doFeeds(ctx context.Context, name, args string) (string, error) {
	keeper := a.host.cfg.Feeds
	call := feeds.Call{Name: name, Params: args, Permission: a.agent.Feeds.Permission, Now: a.host.cfg.Now()}
	if keeper != nil {
		keeper.Settle() // what the prompt has just fetched is there to be found
		call.Counter = keeper.Counter()
		call.Value = func(e feeds.Entry) (feeds.Value, bool) { return keeper.Value(a.feeds.who.Key, e) }
	}
	out, err := a.set.Do(call)
	if err != nil {
		reason := feeds.FailureReason(err)
		if reason == feeds.ReasonFeedLimit {
			a.host.cfg.Observer.LimitReached(messages.LimitFeeds, 1)
		}
		return "", tools.Refuse(reason, err.Error())
	}
	if out.Fetch != "" {
		_, v, known, _ := keeper.Get(ctx, a.feeds.who, a.set, out.Fetch, true)
		e, _ := a.set.Get(out.Fetch)
		return feeds.GetResult(e, v, known, a.host.cfg.Now(), call.Counter), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.change = out.Change()
	}
	return out.Result, nil
}

// dismiss ends it. Values stay in the cache for the next activation.
func (s *session) dismiss() {
	if f := s.feeds; f != nil && f.ticks {
		f.ticks = false
		s.host.cfg.Feeds.Stop(f.who.Key)
	}
}

// FeedState is what is known of a feed of a session.
type FeedState struct {
	ID       string
	Trigger  string // on_demand or periodic
	Source   string // its kind, and what is called: "tool git.log", "internal system_clock"
	Interval time.Duration
	Added    bool // by the model
	Disabled bool
	Pinned   bool
	Updated  time.Time // of the value that is kept; zero for none
	Stale    bool      // there is none, or a refresh should have replaced it
	Value    string    // JSON, before limits; "" for none
	Reason   string    // why its last fetch failed, in words; "" when it did not
	// Failure is why Session.FeedValues has no value: failed, timeout, too_large, or forwarded
	// for one that comes from another host.
	Failure string
}

func (s *session) feedStates() []FeedState {
	var all []FeedState
	f := s.attending()
	for _, e := range f.set.Entries() {
		st := FeedState{
			ID: e.ID, Trigger: string(e.Trigger), Source: e.Source.Shown(),
			Interval: e.Interval, Added: e.Added, Disabled: e.Disabled, Pinned: e.Pinned, Stale: true,
		}
		if keeper := s.host.cfg.Feeds; keeper != nil {
			v, known, stale := keeper.Status(f.who.Key, e)
			if st.Stale = stale; known {
				st.Updated, st.Value = v.At, v.JSON
			}
			st.Reason = keeper.Reason(f.who.Key, e)
		}
		all = append(all, st)
	}
	return all
}

// feedAsk is what a fetch of a session's feeds needs, away from its goroutine.
type feedAsk struct {
	who feeds.Session
	set feeds.Set
}

// FeedValues returns feeds of a session by their ids, each with a value that a prompt would
// take now: what is too old is fetched, for as long as ctx lasts. Feeds that are not there, or
// are disabled, are left out. first is false for a value that goes on to a further host: then
// what comes from another one is not given. It wakes the session.
func (h *Host) FeedValues(ctx context.Context, key messages.SessionKey, agent *Agent, ids []string, first bool) ([]FeedState, Reply, error) {
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opFeeds})
	if err != nil || rep.feeds == nil || h.cfg.Feeds == nil {
		return nil, rep, err
	}
	states := map[string]FeedState{}
	for _, st := range rep.Feeds {
		states[st.ID] = st
	}
	var all []FeedState
	for _, id := range ids {
		st, ok := states[id]
		if !ok || st.Disabled {
			continue
		}
		if !first && rep.feeds.set.Forwards(id) {
			st.Value, st.Failure = "", feeds.ReasonForwarded
			all = append(all, st)
			continue
		}
		el, v, known, ok := h.cfg.Feeds.Get(ctx, rep.feeds.who, rep.feeds.set, id, false)
		if !ok {
			continue
		}
		st.Value, st.Updated, st.Stale, st.Reason = v.JSON, v.At, el.Stale, el.Reason
		if !known {
			st.Value, st.Updated, st.Stale, st.Failure = "", time.Time{}, true, el.Error
		}
		all = append(all, st)
	}
	return all, rep, nil
}

// AwaitFeeds returns when the value of one of the feeds is another one than in states, or when
// ctx ends. It wakes the session, which may sleep again meanwhile.
func (h *Host) AwaitFeeds(ctx context.Context, key messages.SessionKey, agent *Agent, states []FeedState) error {
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opFeeds})
	if err != nil || rep.feeds == nil || h.cfg.Feeds == nil {
		return err
	}
	seen := map[string]string{}
	for i := range states {
		seen[states[i].ID] = states[i].Value
	}
	return h.cfg.Feeds.Await(ctx, rep.feeds.who.Key, rep.feeds.set, seen)
}

// fetchFeeds gets what a turn asks for, on a goroutine of the pool: the keeper bounds
// how long a prompt waits, the turn's end how long a reference does.
func (s *session) fetchFeeds(e *turn.FetchFeeds) {
	f := s.attending()
	f.at.run.Store(e.Run)
	f.at.turn.Store(e.Turn)
	ctx, h, box, agent, sid, inc, who, set := s.air.ctx, s.host, s.box, s.ref.agent, s.ref.sid, s.inc, f.who, f.set
	h.run(func() {
		in := &turn.FeedsReady{Ident: e.Ident, Names: e.Names}
		supervisor.Guard(func() {
			if len(e.Names) == 0 {
				in.Feeds = slices.Concat(h.instructionsFeed(ctx, agent, sid, inc, who, e.Instructions), h.profileFeed(ctx, agent, sid), h.promptFeeds(ctx, who, set))
				return
			}
			for _, name := range e.Names {
				in.Feeds = append(in.Feeds, h.feed(ctx, agent, who, set, name))
			}
		}, func(crash *supervisor.Crash) {
			h.log.Error("fetching feeds crashed", zap.String("SID", who.Key), zap.ByteString("stack", crash.Stack))
			in.Feeds = nil
			for _, name := range e.Names {
				in.Feeds = append(in.Feeds, messages.Feed{ID: name, Error: feeds.ErrorFailed, Reason: "fetching it crashed"})
			}
		})
		box.Post(in)
	})
}

// profileFeed is what a prompt has of its user, if anything is known. A failure is
// recorded, and no client sees it.
func (h *Host) profileFeed(ctx context.Context, agent *Agent, sid string) []messages.Feed {
	if agent.Profile == nil {
		return nil
	}
	fd := messages.Feed{ID: messages.ProfileFeed}
	var err error
	if fd.Value, err = agent.Profile(ctx, sid); err != nil {
		h.log.Warn("the profile of a user cannot be read", zap.String("SID", sid), zap.Error(err))
		fd.Value, fd.Error, fd.Reason = "", feeds.ErrorFailed, "the profile cannot be read"
	} else if fd.Value == "" {
		return nil
	}
	return []messages.Feed{fd}
}

func (h *Host) promptFeeds(ctx context.Context, who feeds.Session, set feeds.Set) []messages.Feed {
	if h.cfg.Feeds == nil {
		return nil
	}
	els := h.cfg.Feeds.Prompt(ctx, who, set)
	out := make([]messages.Feed, len(els))
	if ctx.Err() == nil && slices.ContainsFunc(els, func(el feeds.Element) bool { return el.Late }) {
		h.cfg.Observer.LimitReached(messages.LimitFeedDeadline, 1)
	}
	for i := range els {
		if els[i].Cause != nil {
			h.log.Info("a feed is not fresh", zap.String("feed", els[i].ID), zap.String("session", who.Key), zap.Error(els[i].Cause))
		}
		out[i] = els[i].Feed()
		charge(who, &out[i])
	}
	return out
}

// feed gets one feed, or a variable of the environment.
func (h *Host) feed(ctx context.Context, agent *Agent, who feeds.Session, set feeds.Set, id string) messages.Feed {
	if name, ok := strings.CutPrefix(id, messages.EnvironmentFeed); ok {
		if agent.Feeds.Environment != nil {
			if v, ok := agent.Feeds.Environment(name); ok {
				quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(v, "\ufffd"))
				return messages.Feed{ID: id, Value: string(quoted)}
			}
		}
		return messages.Feed{ID: id, Error: feeds.ErrorFailed, Reason: name + " is not set"}
	}
	if h.cfg.Feeds != nil {
		if el, _, _, ok := h.cfg.Feeds.Get(ctx, who, set, id, false); ok {
			fd := el.Feed()
			charge(who, &fd)
			return fd
		}
	}
	return messages.Feed{ID: id, Error: feeds.ErrorFailed, Reason: "there is no such feed, or it is disabled"}
}

// fetcher calls what feeds name as their sources. There is no ledger of it: a feed reads,
// and no person can be asked about it, so a source that the gate does not simply approve
// is denied.
type fetcher struct {
	host  *Host
	agent *Agent
	sid   string
	inc   messages.Incarnation
	epoch int64
	self  *actor.PID // the session

	mu    sync.Mutex
	spent map[string]messages.Budget // by feed: used by agents for prompts, and not counted to a run
}

// spend remembers what an agent used for a feed.
func (f *fetcher) spend(feed string, used messages.Budget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spent == nil {
		f.spent = map[string]messages.Budget{}
	}
	f.spent[feed] = f.spent[feed].Plus(used)
}

// charge counts to a turn what agents used for a feed since the last turn that had it.
func (f *fetcher) charge(fd *messages.Feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := f.spent[fd.ID]
	fd.Tokens, fd.CostUSD = used.Tokens, used.CostUSD
	delete(f.spent, fd.ID)
}

// charge is that of the session's fetcher, if the feed is an agent's.
func charge(who feeds.Session, fd *messages.Feed) {
	if f, ok := who.Fetcher.(*fetcher); ok {
		f.charge(fd)
	}
}

// Fetch implements feeds.Fetcher.
func (f *fetcher) Fetch(ctx context.Context, src feeds.Source) (string, error) {
	typ, targets := messages.ActionType(src.Kind), f.agent.Targets
	class, ok := targets.Find(typ, src.Name)
	if !ok {
		return "", messages.Errorf(messages.ErrConfig, "%s %s is not available", typ, src.Name)
	}
	digest := sha256.Sum256([]byte(src.Params))
	v := f.agent.Gate.Decide(tools.Request{SID: f.sid, Tool: src.Name, Class: class, ArgsDigest: digest})
	if v.Answer != messages.GateApprove {
		return "", messages.Errorf(messages.ErrDenied, "%s of %s %s: a feed cannot wait for anybody", v.Answer, typ, src.Name)
	}
	if d := targets.Timeout(typ, src.Name); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, messages.Errorf(messages.ErrTimeout, "the source's time is up"))
		defer cancel()
	}
	// No two fetches are the same call to a service that heeds keys.
	key := sha256.Sum256(fmt.Appendf(nil, "feed\n%s\n%s\n%s\n%x\n%d", f.inc, typ, src.Name, digest, f.host.cfg.Now().UnixNano()))
	call := &tools.Call{
		SID: f.sid, Inc: f.inc, ID: "feed", Name: src.Name, Key: base64.RawURLEncoding.EncodeToString(key[:]), Epoch: f.epoch, Attempt: 1,
		Host: catalog.Host{Session: load.Outputs{Store: f.host.cfg.Store}, Keep: f.keep},
	}
	patience := overrunGrace
	if src.Kind == feeds.Agent {
		patience = max(patience, targets.Grace(typ, src.Name))
		call.Host.Feed = &catalog.FeedCall{ID: src.Feed, Fresh: src.Fresh}
		call.Budget = messages.Budget{Tokens: src.Tokens, CostUSD: src.CostUSD}
		if src.Counts {
			call.Spend = func(used messages.Budget) { f.spend(src.Feed, used) }
		}
	}
	type answer struct {
		value string
		err   error
		crash *supervisor.Crash
	}
	done := make(chan answer, 1)
	f.host.run(func() {
		supervisor.Guard(func() {
			value, err := targets.Do(ctx, call, typ, src.Params)
			done <- answer{value: value, err: err}
		}, func(crash *supervisor.Crash) { done <- answer{crash: crash} })
	})
	take := func(a answer) (string, error) {
		if a.crash != nil {
			panic(a.crash) // the keeper counts it, and restarts the feed with back-off
		}
		if a.err != nil {
			_, text := catalog.Failure(a.err)
			return "", &messages.Error{Code: messages.ErrActionsRuntime, Reason: "failed", Detail: text, Cause: a.err}
		}
		return a.value, nil
	}
	select {
	case a := <-done:
		return take(a)
	case <-ctx.Done():
	}
	grace := time.NewTimer(patience)
	defer grace.Stop()
	select {
	case a := <-done:
		return take(a)
	case <-grace.C:
		f.host.cfg.Observer.Orphan()
		f.host.log.Warn("a feed's source overran its time and was left behind", zap.String("SID", f.sid), zap.String("source", src.Name))
		return "", context.Cause(ctx)
	}
}
