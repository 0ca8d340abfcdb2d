package feeds

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Defaults of a Keeper with their sources.
const (
	DefaultDeadline     = 2 * time.Second  // of a prompt's fetches together, docs/spec/streaming.md §7.2
	DefaultFetchTimeout = 30 * time.Second // of one fetch; a prompt that gave up on it leaves it running
	AgentTimeout        = 5 * time.Minute  // of one fetch from an agent, where FetchTimeout is not longer
	DefaultWorkers      = 64               // fetches of periodic feeds at once
	MaxValueBytes       = 8 << 20          // of a fetched value; `value` of docs/spec/design.md §8
)

// Reasons of fetches that failed.
const (
	ReasonValueTooLarge = "value_too_large"
	ReasonInvalidJSON   = "invalid_json"
	ReasonTransform     = "transform"   // a step of its transform failed
	ReasonNeeds         = "feed_failed" // a feed it needs failed, is disabled or is gone
	ReasonBackOff       = "back_off"    // it crashed, and is not restarted yet
	ReasonDisabled      = "disabled"    // it crashed too often, and is not restarted
	ReasonClosed        = "closed"
	ReasonTimeout       = "timeout"
)

// A Fetcher calls the tools, relics, workflows and models of a session. The references of src
// are resolved; the result is one JSON value. It must be safe for concurrent use, and return
// soon after ctx is done: a feed is never fetched twice at a time, so a fetch that ignores ctx
// blocks its feed. A panic in it counts as a crash of the feed, and so does runtime.Goexit.
type Fetcher interface {
	Fetch(ctx context.Context, src Source) (json string, err error)
}

// Peers gets the values of remote sources: feeds of other hosts. tag is that of the value at
// hand, "" for none; same reports that the value has not changed. It is used by many goroutines
// and returns soon after ctx is done. Failures have a reason of those below.
type Peers interface {
	Fetch(ctx context.Context, src Source, tag string) (v Value, same bool, err error)
	// Wait returns when the value is another one than that of tag, or after a while with
	// changed false.
	Wait(ctx context.Context, src Source, tag string) (changed bool, err error)
}

// Reasons of remote fetches that failed (docs/spec/extensions.md §10), and ReasonTimeout.
const (
	ReasonUnauthenticated = "unauthenticated" // the peer does not take the token
	ReasonNotFound        = "not_found"       // there is no such feed, or what answers is no stile host
	ReasonTooLarge        = "too_large"
	ReasonForwarded       = "forwarded" // the peer has the value from another host itself
)

// Config makes a Keeper. The zero value has the defaults.
type Config struct {
	Cache        *Cache // nil makes one, which the keeper closes
	Internals    Internals
	Counter      Counter // of max_tokens; nil is CodePoints
	Deadline     time.Duration
	FetchTimeout time.Duration
	Workers      int
}

func (c *Config) validate() error {
	switch {
	case c.Deadline < 0:
		return refuse("Deadline", ReasonBadValue, "%s is below 0", c.Deadline)
	case c.FetchTimeout < 0:
		return refuse("FetchTimeout", ReasonBadValue, "%s is below 0", c.FetchTimeout)
	case c.Workers < 0:
		return refuse("Workers", ReasonBadValue, "%d is below 0", c.Workers)
	}
	if c.Deadline == 0 {
		c.Deadline = DefaultDeadline
	}
	if c.FetchTimeout == 0 {
		c.FetchTimeout = DefaultFetchTimeout
	}
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if c.Counter == nil {
		c.Counter = CodePoints{}
	}
	return nil
}

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

// A Keeper fetches the feeds of all sessions of a host. It is safe for concurrent use, and
// must be closed.
type Keeper struct {
	cfg      Config
	cache    *Cache
	ownCache bool
	wheel    *Wheel
	ctx      context.Context // of all fetches; ends at Close
	stop     context.CancelFunc
	running  sync.WaitGroup // fetches and workers

	crew    crew // fetches what is due
	fetches atomic.Int64
	merged  atomic.Int64
	ended   atomic.Int64 // fetches

	mu       sync.Mutex
	closed   bool
	runways  map[string]*runway // by valueKey: in the air, of feeds that do not tick
	sessions map[string]*active
	stats    Stats

	watches watches
}

// Stats counts what a keeper did since it was made, for metrics.
type Stats struct {
	Fetches  int64 // begun
	Merged   int64 // times a feed was wanted while it was being fetched
	Failed   int64 // fetches that gave no value, crashes included
	Crashed  int64
	Disabled int64 // feeds given up after crashes
	Late     int64 // feeds that a prompt or call did not wait for
	Dropped  int64 // starts of periodic feeds dropped because one still ran
	Periodic int   // feeds on the wheel now
	InFlight int   // fetches now
}

// Stats returns the counts so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	s := k.stats
	k.mu.Unlock()
	ended := k.ended.Load() // first: no flight ends that has not begun
	s.Fetches, s.Merged = k.fetches.Load(), k.merged.Load()
	s.InFlight = int(s.Fetches - ended)
	s.Periodic, s.Dropped = k.wheel.Len()
	return s
}

// Counter is what counts tokens.
func (k *Keeper) Counter() Counter { return k.cfg.Counter }

// NewKeeper makes a keeper without sessions.
func NewKeeper(cfg Config) (*Keeper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	k := &Keeper{cfg: cfg, cache: cfg.Cache, runways: map[string]*runway{}, sessions: map[string]*active{}}
	if k.cache == nil {
		var err error
		if k.cache, err = NewCache(0); err != nil {
			return nil, err
		}
		k.ownCache = true
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.crew = crew{k: k, most: cfg.Workers}
	k.wheel = NewWheel(k.crew.take)
	return k, nil
}

// Close cancels all fetches and returns when they have ended. Later fetches fail. Close may be
// called twice.
func (k *Keeper) Close() {
	k.mu.Lock()
	first := !k.closed
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.crew.dismiss()
	k.wheel.Close()
	k.running.Wait()
	if first && k.ownCache {
		k.cache.Close()
	}
}

// Sync starts, changes and stops the periodic feeds of a session by its set: a new feed is
// fetched now, one with another interval or source is started again, a removed one stops.
// Crashes of its feeds, periodic or not, are counted between the first Sync and Stop. Calls for
// one session must not be concurrent.
func (k *Keeper) Sync(s Session, set Set) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	a, ok := k.sessions[s.Key]
	if !ok {
		a = &active{}
		k.sessions[s.Key] = a
	}
	var was Set
	if a.synced != nil {
		was = a.set
	}
	a.synced = &synced{s, set}
	for key := range a.crashes { // of feeds that are gone
		if !set.hasKey(s.Key, key) {
			delete(a.crashes, key)
		}
	}
	for key := range a.reasons {
		if !set.hasKey(s.Key, key) {
			delete(a.reasons, key)
		}
	}
	k.settle(a)
	k.subscribe(a)
	runways := a.runways
	k.mu.Unlock()

	for i := range was.entries {
		old := &was.entries[i]
		if now, ok := set.Get(old.ID); old.ticks() && (!ok || !now.ticks()) {
			k.wheel.Remove(s.Key, old.ID)
		}
	}
	for _, r := range runways {
		e := r.entry
		old, ok := was.Get(e.ID)
		if !ok || !old.ticks() || old.Interval != e.Interval || old.Version != e.Version {
			k.wheel.add(s.Key, e.ID, r, e.Interval)
		}
	}
}

// ticks reports whether a feed is fetched at intervals.
func (e *Entry) ticks() bool { return e.Trigger == Periodic && !e.Disabled }

func (s *Set) hasKey(session, key string) bool {
	for i := range s.entries {
		if valueKey(session, &s.entries[i]) == key {
			return true
		}
	}
	return false
}

// Stop ends the ticking of a session's feeds and forgets their crashes, as when the
// session passivates. Values stay in the cache as long as it keeps them.
func (k *Keeper) Stop(session string) {
	k.wheel.RemoveSession(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.sessions[session]; a != nil {
		for _, r := range a.runways {
			k.leave(r)
		}
		for _, sub := range a.subscriptions {
			sub.cancel()
		}
		delete(k.sessions, session)
	}
}

// Forget drops the values of a set's feeds, as when a session is erased.
func (k *Keeper) Forget(session string, set Set) {
	for i := range set.entries {
		k.cache.drop(valueKey(session, &set.entries[i]))
	}
}

// Value returns what is kept of a feed, for Call.Value.
func (k *Keeper) Value(session string, e Entry) (Value, bool) {
	return k.cache.get(valueKey(session, &e))
}

// Settle returns when all values that were fetched before it are there for Value.
func (k *Keeper) Settle() { k.cache.Wait() }

// Status returns the last value of a feed, whether there is one, and whether it is older than
// it should be.
func (k *Keeper) Status(session string, e Entry) (v Value, known, stale bool) {
	v, known = k.Value(session, e)
	return v, known, !known || e.stale(v, k.now()) || !e.served(v, k.now()) && e.Trigger == OnDemand && e.ServedFor() > 0
}

// Reason returns why the last fetch of a feed failed (Why); "" when it did not, or when the
// session is not kept: between Stop and Sync.
func (k *Keeper) Reason(session string, e Entry) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.sessions[session]; a != nil {
		return a.reasons[valueKey(session, &e)]
	}
	return ""
}

// Put sets the value of a feed from outside, as a fetch would: it stands until the
// next one replaces it, and is served as long as its cache_ttl says. Errors are
// ERR_NOT_FOUND: no such feed; ERR_CONFLICT: disabled; ERR_INVALID: no JSON; ERR_QUOTA over
// MaxValueBytes; ERR_CONFIG: a step of its transform failed.
func (k *Keeper) Put(session string, set Set, id, value string) error {
	i := set.at(id)
	switch {
	case i < 0:
		return fail(messages.ErrNotFound, ReasonFeedNotFound, "%q is no feed", shortened(id))
	case set.entries[i].Disabled:
		return fail(messages.ErrConflict, ReasonDisabled, "%s is disabled", id)
	case len(value) > MaxValueBytes:
		return fail(messages.ErrQuota, ReasonValueTooLarge, "%d bytes, more than %d", len(value), MaxValueBytes)
	case !jsontext.Value(value).IsValid():
		return fail(messages.ErrInvalid, ReasonInvalidJSON, "the value is no JSON")
	}
	if steps := set.entries[i].Transform; steps != "" {
		var err error
		if value, err = transformed(steps, value); err != nil {
			return err
		}
	}
	k.cache.put(valueKey(session, &set.entries[i]), Value{JSON: value, At: k.now()})
	k.cache.Wait()
	k.watches.changed(valueKey(session, &set.entries[i]))
	return nil
}

// Prompt returns the elements of a prompt in the order of the set. Feeds whose value is too old
// are fetched concurrently, after those they refer to, all under one deadline, or an earlier
// one of their own; a feed that is late has an older value or none (docs/spec/streaming.md
// §7.2). Late fetches go on for the next prompt. Prompt does not fail: elements have the errors.
func (k *Keeper) Prompt(ctx context.Context, s Session, set Set) []Element {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Deadline)
	defer cancel()
	r := k.round(s, set)
	for i := range set.entries {
		if !set.entries[i].Disabled {
			r.want(i, false)
		}
	}
	out := make([]Element, 0, len(set.entries))
	for i := range set.entries {
		if f := r.flights[i]; f != nil {
			e := &set.entries[i]
			own, done := ctx, context.CancelFunc(func() {})
			if e.Deadline > 0 {
				own, done = context.WithDeadline(ctx, begun.Add(e.Deadline))
			}
			v, known, err := k.await(own, s.Key, e, f)
			done()
			out = append(out, k.element(s.Key, e, v, known, err))
		}
	}
	return out
}

// Get returns one feed now, as for get_context_feed or the first use of $id: fetched if
// its value is too old or refresh is set, for as long as ctx lasts. known reports whether
// there is a value; ok whether there is a feed by that id which is not disabled.
func (k *Keeper) Get(ctx context.Context, s Session, set Set, id string, refresh bool) (el Element, v Value, known, ok bool) {
	i := set.at(id)
	if i < 0 || set.entries[i].Disabled {
		return Element{}, Value{}, false, false
	}
	r := k.round(s, set)
	f := r.want(i, refresh)
	e := &set.entries[i]
	v, known, err := k.await(ctx, s.Key, e, f)
	return k.element(s.Key, e, v, known, err), v, known, true
}
