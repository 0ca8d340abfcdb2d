package feeds

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Defaults of a Keeper with their sources.
const (
	DefaultDeadline     = 2 * time.Second  // of a prompt's fetches together, streaming.md §7.2
	DefaultFetchTimeout = 30 * time.Second // of one fetch; a prompt that gave up on it leaves it running
	DefaultWorkers      = 64               // fetches of periodic feeds at once
	MaxValueBytes       = 8 << 20          // of a fetched value; `value` of design.md §8
)

// Reasons of fetches that failed.
const (
	ReasonValueTooLarge = "value_too_large"
	ReasonInvalidJSON   = "invalid_json"
	ReasonNeeds         = "feed_failed" // a feed it needs failed, is disabled or is gone
	ReasonBackOff       = "back_off"    // it crashed, and is not restarted yet
	ReasonDisabled      = "disabled"    // it crashed too often, and is not restarted
	ReasonClosed        = "closed"
	ReasonTimeout       = "timeout"
)

// A Fetcher calls the tools, relics, workflows and models of a session. src has its
// references resolved. The answer is one JSON value. It is called by many goroutines,
// and returns soon after ctx is done: a feed is never fetched twice at a time, so a
// deaf fetch keeps its feed as it is. A panic in it counts as a crash of the feed, and so
// does runtime.Goexit.
type Fetcher interface {
	Fetch(ctx context.Context, src Source) (json string, err error)
}

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

// A Session is whose feeds are fetched, and with what.
type Session struct {
	Key     string       // unique in the host and for ever: the incarnation
	Fetcher Fetcher      // nil fails sources other than internal and ingest
	Ingest  *Ingester    // nil fails ingest sources
	Facts   func() Facts // of internal sources; nil is none. Called by many goroutines
}

// A Keeper fetches the feeds of all sessions of a host. It is safe for many
// goroutines. Close it.
type Keeper struct {
	cfg      Config
	cache    *Cache
	ownCache bool
	wheel    *Wheel
	ctx      context.Context // of all fetches; ends at Close
	stop     context.CancelFunc
	running  sync.WaitGroup // fetches and workers

	mu       sync.Mutex
	closed   bool
	flights  map[string]*flight
	sessions map[string]*active
	queue    []Due // for workers
	workers  int
	stats    Stats
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

// Stats gives the counts so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	s := k.stats
	s.InFlight = len(k.flights)
	k.mu.Unlock()
	s.Periodic, s.Dropped = k.wheel.Len()
	return s
}

// active is a session between Sync and Stop.
type active struct {
	session Session
	set     Set
	crashes map[string]Crashes // by valueKey
}

// Counter is what counts tokens.
func (k *Keeper) Counter() Counter { return k.cfg.Counter }

// NewKeeper makes a keeper without sessions.
func NewKeeper(cfg Config) (*Keeper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	k := &Keeper{cfg: cfg, cache: cfg.Cache, flights: map[string]*flight{}, sessions: map[string]*active{}}
	if k.cache == nil {
		var err error
		if k.cache, err = NewCache(0); err != nil {
			return nil, err
		}
		k.ownCache = true
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.wheel = NewWheel(k.enqueue)
	return k, nil
}

// Close cancels all fetches and returns when they are over. Feeds that are asked for
// afterwards fail. Closing twice is allowed.
func (k *Keeper) Close() {
	k.mu.Lock()
	first := !k.closed
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.wheel.Close()
	k.running.Wait()
	if first && k.ownCache {
		k.cache.Close()
	}
}

// Sync has the periodic feeds of a session tick as its set says: new ones are fetched
// now, those with another interval or source begin anew, those that are gone stop.
// Crashes of its feeds, periodic or not, are remembered between the first Sync and
// Stop. The calls of one session are made one after the other.
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
	was := a.set
	a.session, a.set = s, set
	for key := range a.crashes { // of feeds that are gone
		if !set.hasKey(s.Key, key) {
			delete(a.crashes, key)
		}
	}
	k.mu.Unlock()

	ticks := func(e *Entry) bool { return e.Trigger == Periodic && !e.Disabled }
	for i := range was.entries {
		old := &was.entries[i]
		if now, ok := set.Get(old.ID); ticks(old) && (!ok || !ticks(&now)) {
			k.wheel.Remove(s.Key, old.ID)
		}
	}
	for i := range set.entries {
		e := &set.entries[i]
		if !ticks(e) {
			continue
		}
		old, ok := was.Get(e.ID)
		if !ok || !ticks(&old) || old.Interval != e.Interval || old.Version != e.Version {
			k.wheel.Add(s.Key, e.ID, e.Interval)
		}
	}
}

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
	delete(k.sessions, session)
	k.mu.Unlock()
}

// Forget drops the values of a set's feeds, as when a session is erased.
func (k *Keeper) Forget(session string, set Set) {
	for i := range set.entries {
		k.cache.drop(valueKey(session, &set.entries[i]))
	}
}

// Value gives what is kept of a feed, for Call.Value.
func (k *Keeper) Value(session string, e Entry) (Value, bool) {
	return k.cache.get(valueKey(session, &e))
}

// Status tells of a feed: what is kept of it, and whether that is older than it should
// be.
func (k *Keeper) Status(session string, e Entry) (v Value, known, stale bool) {
	v, known = k.Value(session, e)
	return v, known, !known || e.stale(v, k.now()) || !e.served(v, k.now()) && e.Trigger == OnDemand && e.ServedFor() > 0
}

// Put gives a feed a value from outside, as a fetch would have: it stands until the
// next one replaces it, and is served as long as its cache_ttl says. Errors are
// ERR_CONFIG: no such feed, disabled, no JSON; ERR_QUOTA over MaxValueBytes.
func (k *Keeper) Put(session string, set Set, id, value string) error {
	i := set.at(id)
	switch {
	case i < 0:
		return fail(messages.ErrConfig, ReasonFeedNotFound, "%q is no feed", clip(id))
	case set.entries[i].Disabled:
		return fail(messages.ErrConfig, ReasonDisabled, "%s is disabled", id)
	case len(value) > MaxValueBytes:
		return fail(messages.ErrQuota, ReasonValueTooLarge, "%d bytes, more than %d", len(value), MaxValueBytes)
	case !jsontext.Value(value).IsValid():
		return fail(messages.ErrConfig, ReasonInvalidJSON, "the value is no JSON")
	}
	k.cache.put(valueKey(session, &set.entries[i]), Value{JSON: value, At: k.now()})
	k.cache.Wait()
	return nil
}

// Prompt gives the elements of a prompt in the order of the set. Feeds whose value is
// old enough are fetched side by side, after those they refer to, all under one
// deadline; what is not there by then shows an older value or none (streaming.md
// §7.2). Late fetches go on for the next prompt. It does not fail: elements say what
// went wrong.
func (k *Keeper) Prompt(ctx context.Context, s Session, set Set) []Element {
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
			v, known, err := k.await(ctx, s.Key, e, f)
			out = append(out, k.element(e, v, known, err))
		}
	}
	return out
}

// Get gives one feed now, as for get_context_feed or the first use of $id: fetched if
// its value is too old or refresh is set, for as long as ctx lasts. known tells whether
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
	return k.element(e, v, known, err), v, known, true
}

// enqueue takes what is due from the wheel.
func (k *Keeper) enqueue(batch []Due) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	// A feed is in the queue once at most: it is not due again before its ticket is
	// done.
	k.queue = append(k.queue, batch...)
	for want := min(len(k.queue), k.cfg.Workers); k.workers < want; k.workers++ {
		k.running.Add(1)
		go k.work()
	}
}

// work fetches what is due until nothing is.
func (k *Keeper) work() {
	defer k.running.Done()
	gone := true
	defer func() {
		if gone { // a source has ended this goroutine: another one goes on
			k.running.Add(1)
			go k.work()
		}
	}()
	for {
		k.mu.Lock()
		if k.closed || len(k.queue) == 0 {
			k.queue = nil
			k.workers--
			k.mu.Unlock()
			gone = false
			return
		}
		d := k.queue[0]
		k.queue[0] = Due{}
		k.queue = k.queue[1:]
		a := k.sessions[d.Session]
		if a == nil { // it has gone
			k.mu.Unlock()
			k.wheel.Done(d.Ticket, time.Time{})
			continue
		}
		s, set := a.session, a.set
		k.mu.Unlock()
		k.tick(d, a, s, set)
	}
}

// tick fetches one feed that is due and says so to the wheel when it has landed.
func (k *Keeper) tick(d Due, a *active, s Session, set Set) {
	i := set.at(d.Feed)
	if i < 0 {
		k.wheel.Done(d.Ticket, time.Time{})
		return
	}
	e := &set.entries[i]
	key := valueKey(d.Session, e)
	at := k.cache.place(key)
	var c Crashes
	gone := true
	defer func() {
		if gone {
			c = k.crashes(a, key)
		}
		if c.Disabled() {
			k.wheel.Remove(d.Session, d.Feed)
			return
		}
		k.wheel.Done(d.Ticket, c.Next())
	}()
	switch v, ok := at.value(); {
	case ok && !v.Failed && k.now().Sub(v.At) < Tick:
		// A prompt that came first has fetched it: that was this start's fetch.
	case len(e.needs) == 0:
		c = k.here(a, s, e, key, at, set.rules.Env)
	default:
		<-k.round(s, set).want(i, true).done
		c = k.crashes(a, key)
	}
	gone = false
}

// crashes gives those of a feed.
func (k *Keeper) crashes(a *active, key string) Crashes {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.crashes[key]
}
