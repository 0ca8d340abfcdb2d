package feeds

import (
	"slices"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A Session is a session with feeds, and the sources of their values.
type Session struct {
	Key     string       // unique in the host and for ever: the incarnation
	Fetcher Fetcher      // nil fails sources other than internal and ingest
	Ingest  *Ingester    // nil fails ingest sources
	Peers   Peers        // nil fails remote sources
	Facts   func() Facts // of internal sources; nil is none. Called by many goroutines
	// Env reads a variable for internal sources; nil is Internals.Env. Called by many
	// goroutines.
	Env func(name string) (string, bool)
}

// States are those of the feeds of one session while it is awake: which of them are fetched,
// which have crashed, and why the last fetch of each failed. They belong to one actor, which
// calls their methods with the messages that it receives, and so have no lock. What is shared
// between sessions is the Keeper's.
//
//	message   method    from
//	*Starts   Start     the wheel: feeds are due
//	*Want     Want      a Client: values are asked for
//	*Fetch    Ended     the goroutine of a fetch that is over
//
// A fetch that crashed is a failure of the actor (Crashed): it panics with it, and calls Restart
// when its supervisor has let it go on. That begins the state of this feed anew and touches no
// other.
type States struct {
	client *Client
	set    Set
	feeds  []*state // by entry of set
	// others are those of feeds that set does not have: an older set asked for them, or a fetch
	// of them still runs.
	others  []*state
	stopped bool
}

// Open makes the states of a session that wakes, without feeds before Sync. post delivers a
// message to their actor, from any goroutine. They must be stopped.
func (k *Keeper) Open(s Session, post func(msg any)) *States {
	return &States{client: &Client{keeper: k, session: s, post: post, stopped: make(chan struct{})}}
}

// Client is what others ask the session's feeds by.
func (f *States) Client() *Client { return f.client }

// Set returns the feeds of the last Sync.
func (f *States) Set() Set { return f.set }

// Starts says that feeds of a session are due.
type Starts struct{ of []start }

// start is one of a feed.
type start struct {
	feed   string
	ticket Ticket
}

// A Want asks for feeds of a session: which fetches there are to wait for.
type Want struct {
	set   *Set   // nil is the session's own
	id    string // "" is all that are enabled
	force bool
	reply chan []wanted // has room for the answer
}

// wanted is a feed that was asked for.
type wanted struct {
	entry  *Entry
	result *result
	reason string // why the last fetch failed
}

// Sync takes over the session's feeds: a new periodic feed is fetched now, one with another
// interval or source is started again, a removed one stops. A feed that stays keeps its state.
func (f *States) Sync(set Set) {
	if f.stopped {
		return
	}
	wheel, session := f.client.keeper.wheel, f.client.session.Key
	before, was := slices.Concat(f.feeds, f.others), f.set
	f.set, f.feeds, f.others = set, make([]*state, len(set.entries)), nil
	for i := range set.entries {
		e := &set.entries[i]
		if n := slices.IndexFunc(before, func(s *state) bool { return s.is(e) }); n >= 0 {
			f.feeds[i] = before[n]
			before = slices.Delete(before, n, n+1)
			f.feeds[i].entry = e
		} else {
			f.feeds[i] = f.newState(e)
		}
		if s := f.feeds[i]; !e.ticks() && s.fetch.drop() {
			s.fetch, s.start = nil, Ticket{}
		}
		f.subscribe(f.feeds[i])
	}
	for _, s := range before {
		s.changes.end()
		if s.changes = nil; s.fetch != nil && !s.fetch.drop() {
			f.others = append(f.others, s)
		}
	}
	for i := range was.entries {
		old := &was.entries[i]
		if now, ok := set.Get(old.ID); old.ticks() && (!ok || !now.ticks()) {
			wheel.Remove(session, old.ID)
		}
	}
	for i := range set.entries {
		e := &set.entries[i]
		old, ok := was.Get(e.ID)
		if e.ticks() && (!ok || !old.ticks() || old.Interval != e.Interval || old.Version != e.Version) {
			wheel.add(session, e.ID, f.client, e.Interval)
		}
	}
}

// ticks reports whether a feed is fetched at intervals.
func (e *Entry) ticks() bool { return e.Trigger == Periodic && !e.Disabled }

// Stop ends the ticking of the feeds and forgets their crashes, as when the session goes to
// sleep. Values stay in the cache as long as it keeps them, and a fetch that runs goes on for
// the next activation. Stopping twice is allowed.
func (f *States) Stop() {
	if f.stopped {
		return
	}
	f.stopped = true
	f.client.keeper.wheel.RemoveSession(f.client.session.Key)
	for _, s := range slices.Concat(f.feeds, f.others) {
		s.changes.end()
		if s.fetch != nil {
			f.client.keeper.keepFetch(s.fetch)
		}
	}
	f.feeds, f.others = nil, nil
	close(f.client.stopped)
}

// newState makes the state of a feed. A fetch that an earlier activation left running is its.
func (f *States) newState(e *Entry) *state {
	s := &state{entry: e}
	s.fetch = f.client.keeper.adopt(f.client, s)
	return s
}

// state finds that of a feed, or makes one.
func (f *States) state(e *Entry) *state {
	for _, all := range [...][]*state{f.feeds, f.others} {
		for _, s := range all {
			if s.is(e) {
				return s
			}
		}
	}
	s := f.newState(e)
	f.others = append(f.others, s)
	return s
}

// value returns what is kept of a feed. One that ticks has its place at hand.
func (f *States) value(s *state) (Value, bool) {
	if s.entry.ticks() {
		if v, ok := s.at.held(); ok {
			return v, true
		}
	}
	if at := f.client.keeper.cache.place(f.client.key(s.entry)); at != nil {
		s.at = at
	}
	return s.at.held() // at hand, and not lost: the cache is about to take it
}

// Start starts feeds that are due.
func (f *States) Start(m *Starts) {
	if f.stopped {
		return
	}
	k := f.client.keeper
	now := k.now()
	for _, t := range m.of {
		i := f.set.at(t.feed)
		if i < 0 || !f.set.entries[i].ticks() { // removed since, and its ticket with it
			continue
		}
		s := f.feeds[i]
		v, known := f.value(s)
		switch s.due(v, known, now) {
		case stepTake:
			k.wheel.Done(t.ticket, time.Time{})
		case stepRefuse:
			f.done(s, t.ticket)
		case stepJoin:
			k.merged.Add(1)
			s.start = t.ticket
		case stepBegin:
			r := f.round(&f.set, now)
			if x, err := r.fetch(s, i); err != nil {
				f.done(s, t.ticket)
			} else if s.start = t.ticket; s.entry.Source.Kind != Agent {
				k.workers.take(x)
			} else if x.claim() && !k.begin(x) { // a worker would be kept from other feeds for minutes
				s.fetch = nil
			}
		}
	}
}

// done tells the wheel that a start is over, and when the next one may be after a crash.
func (f *States) done(s *state, t Ticket) {
	if at, off := s.next(); off {
		f.client.keeper.wheel.Remove(f.client.session.Key, s.entry.ID)
	} else {
		f.client.keeper.wheel.Done(t, at)
	}
}

// Want answers with the fetches to wait for. They run, or have ended.
func (f *States) Want(m *Want) {
	if f.stopped {
		return // the client has been told
	}
	set := m.set
	if set == nil {
		set = &f.set
	}
	r := f.round(set, f.client.keeper.now())
	var all []wanted
	for i := range set.entries {
		if e := &set.entries[i]; !e.Disabled && (m.id == "" || m.id == e.ID) {
			all = append(all, wanted{entry: e, result: r.want(i, m.force), reason: f.state(e).reason})
		}
	}
	m.reply <- all
	f.forget()
}

// forget lets go of the states of other feeds that say nothing.
func (f *States) forget() {
	f.others = slices.DeleteFunc(f.others, (*state).empty)
}

// Crashed returns the panic with which a fetch of a feed has ended; nil for any other end, and
// for a fetch that is not the feed's any more.
func (f *States) Crashed(x *Fetch) *PanicError {
	if f.stopped || x.state.fetch != x {
		return nil
	}
	return crashOf(x.err)
}

// Restart begins the state of a feed anew after a crash: it is fetched again behind a pause, or
// given up when it crashed too often (Crashes).
func (f *States) Restart(x *Fetch) { f.Ended(x) }

// Ended takes the end of a fetch, and tells those who wait for it.
func (f *States) Ended(x *Fetch) {
	s := x.state
	if f.stopped || s.fetch != x {
		return
	}
	s.at = x.at
	if s.ended(x.value.At, x.err) {
		f.client.keeper.disabled.Add(1)
	}
	if t := s.start; t != (Ticket{}) {
		s.start = Ticket{}
		f.done(s, t)
	}
	x.result.end(x.value, x.err)
	if len(f.others) > 0 {
		f.forget()
	}
}

// Reason returns why the last fetch of a feed of the session failed (Why); "" when it did not.
func (f *States) Reason(id string) string {
	if i := f.set.at(id); i >= 0 && !f.stopped {
		return f.feeds[i].reason
	}
	return ""
}

// A round is one look at a set: every feed in it is decided once, so that those which
// refer to another see what the prompt shows of it.
type round struct {
	*States
	set     *Set
	now     time.Time
	results []*result // by entry; made for the first
}

func (f *States) round(set *Set, now time.Time) *round { return &round{States: f, set: set, now: now} }

// want returns the result of a feed: one that is there if the value at hand is fresh
// enough and none is forced. It goes no deeper than a set is long.
func (r *round) want(i int, force bool) *result {
	if r.results != nil && r.results[i] != nil {
		return r.results[i]
	}
	return r.keepResult(i, r.decide(i, force))
}

// keepResult keeps the result of a feed for the round.
func (r *round) keepResult(i int, is *result) *result {
	if r.results == nil {
		r.results = make([]*result, len(r.set.entries))
	}
	r.results[i] = is
	return is
}

func (r *round) decide(i int, force bool) *result {
	e := &r.set.entries[i]
	s := r.state(e)
	v, known := r.value(s)
	switch s.wanted(v, known, force, r.now) {
	case stepTake:
		return resultOf(v, nil)
	case stepRefuse:
		return resultOf(Value{}, s.refusal())
	case stepJoin:
		if !s.fetch.claim() {
			r.client.keeper.merged.Add(1)
			return s.fetch.awaited()
		}
	case stepBegin:
		x, err := r.fetch(s, i)
		if err != nil {
			return resultOf(Value{}, err)
		}
		x.claim()
	}
	// A fetch that is waited for does not wait for a worker.
	x := s.fetch
	is := x.awaited()
	if !r.client.keeper.begin(x) {
		s.fetch = nil
		is.end(Value{}, fail(messages.ErrCancelled, ReasonClosed, "the host stops"))
	}
	return is
}

// errCycle is what a feed gets of one that refers to it. Sets have none but where a manifest
// has changed under what its model had made.
var errCycle = fail(messages.ErrConfig, ReasonFeedCycle, "it refers to itself")

// fetch makes the fetch of a feed, which others run. Those that it refers to are wanted.
func (r *round) fetch(s *state, i int) (*Fetch, error) {
	e := &r.set.entries[i]
	x := &Fetch{client: r.client, owner: r.client, state: s, entry: e, at: s.at, env: r.set.rules.Env}
	if len(e.needs) > 0 {
		r.keepResult(i, resultOf(Value{}, errCycle)) // until it is known
	}
	for _, name := range e.needs {
		j := r.set.at(name)
		if j < 0 || r.set.entries[j].Disabled {
			return nil, fail(messages.ErrConfig, ReasonNeeds, "needs %s: it is gone or disabled", name)
		}
		x.needs = append(x.needs, dependency{&r.set.entries[j], r.want(j, false)})
	}
	s.fetch = x
	return x, nil
}
