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

// A Keeper has what the feeds of all sessions of a host share: the cache of their values, the
// wheel, and the goroutines of fetches. What it knows of the sessions is which of their fetches
// still run while they sleep. It is safe for concurrent use, and must be closed.
type Keeper struct {
	cfg      Config
	cache    *Cache
	ownCache bool
	wheel    *Wheel
	workers  workers         // run what is due
	ctx      context.Context // of all fetches; ends at Close
	stop     context.CancelFunc
	running  sync.WaitGroup // fetches and workers
	watches  watches

	fetches, merged, ended, failed, crashed, disabled, late atomic.Int64 // as in Stats

	given sync.Mutex    // a value from outside is put into the cache, or a fetch looks whether one was
	puts  atomic.Uint64 // values from outside so far

	mu     sync.Mutex
	closed bool
	left   map[string]*Fetch // by valueKey: that run while their session sleeps
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
	ended := k.ended.Load() // first: no fetch ends that has not begun
	s := Stats{
		Fetches: k.fetches.Load(), Merged: k.merged.Load(), Failed: k.failed.Load(), Crashed: k.crashed.Load(),
		Disabled: k.disabled.Load(), Late: k.late.Load(),
	}
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
	k := &Keeper{cfg: cfg, cache: cfg.Cache, left: map[string]*Fetch{}}
	if k.cache == nil {
		var err error
		if k.cache, err = NewCache(0); err != nil {
			return nil, err
		}
		k.ownCache = true
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.workers = workers{keeper: k, most: cfg.Workers}
	k.wheel = NewWheel(tick)
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
	k.workers.close()
	k.wheel.Close()
	k.running.Wait()
	if first && k.ownCache {
		k.cache.Close()
	}
}

// tick hands what is due to the actors of its sessions, feeds of one session together.
func tick(due []Due) {
	for len(due) > 0 {
		c := due[0].client
		n := 1
		for n < len(due) && due[n].client == c {
			n++
		}
		m := &Starts{of: make([]start, n)}
		for i := range m.of {
			m.of[i] = start{due[i].Feed, due[i].Ticket}
		}
		c.post(m)
		due = due[n:]
	}
}

func (k *Keeper) now() time.Time { return k.cfg.Internals.now() }

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

// Put sets the value of a feed from outside, as a fetch would: it stands until the next fetch that
// begins replaces it, and is served as long as its cache_ttl says. Errors are
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
	k.given.Lock()
	k.cache.Wait() // behind a new value that is not there yet the cache would turn this one away
	k.cache.put(valueKey(session, &set.entries[i]), Value{JSON: value, At: k.now(), given: k.puts.Add(1)})
	k.cache.Wait()
	k.given.Unlock()
	k.watches.changed(valueKey(session, &set.entries[i]))
	return nil
}
