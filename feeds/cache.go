package feeds

import (
	"strconv"
	"sync"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// DefaultCacheBytes is how much a cache keeps.
const DefaultCacheBytes = 64 << 20

// A Value is the result of the last fetch of a feed.
type Value struct {
	JSON   string
	At     time.Time // when it was fetched
	Failed bool      // a refresh after it failed
	// Of a value of another host: where it comes from, and the tag under which that host knows
	// whether it has changed.
	Origin, Tag string

	given uint64 // which of the keeper's Puts it came by; 0 of a fetch
}

// A Cache has the last values of feeds and the texts of ingested files. It may lose any entry
// at any time, also a new one: a lost value is fetched again. It is safe for concurrent use,
// and must be closed.
type Cache struct {
	values *ristretto.Cache[string, cached]
}

// cached is what stands under a key: the value of a feed, or the text of a file.
type cached struct {
	value *place
	text  string
}

// place holds a value, so that another one of the same size can replace it without a call of
// the cache: with 100,000 values a second the cache's policy would be most of their cost. A
// holder of a place need not look it up again, which the cache would count as a use. A value
// that the cache loses is removed from its place.
type place struct {
	mu    sync.Mutex
	lost  bool
	value Value // zero once lost
}

// held returns the value of a place; ok is false for one that is nil or lost.
func (at *place) held() (v Value, ok bool) {
	if at == nil {
		return Value{}, false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.value, !at.lost
}

// take replaces the value of a place by another one of the same size, whose cost is the
// same. It is false when the cache has to be asked.
func (at *place) take(v Value) bool {
	if at == nil {
		return false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.lost || len(at.value.JSON) != len(v.JSON) {
		return false
	}
	at.value = v
	return true
}

// replace puts v in the place of a value of the same size, and returns what is there then: a value
// that a Put after the given number brought stays. ok is false when the cache has to be asked.
func (at *place) replace(v Value, puts uint64) (now Value, ok bool) {
	if at == nil {
		return v, false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	switch {
	case at.lost:
		return v, false
	case at.value.given > puts:
		return at.value, true
	case len(at.value.JSON) != len(v.JSON):
		return v, false
	}
	at.value = v
	return v, true
}

// lose drops the value, so that a place that is still held keeps nothing beyond the cache's
// bound.
func (at *place) lose() {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.lost, at.value = true, Value{}
}

// NewCache makes a cache that keeps about so many bytes; 0 is DefaultCacheBytes.
func NewCache(bytes int64) (*Cache, error) {
	if bytes == 0 {
		bytes = DefaultCacheBytes
	}
	// Counters are four bits: for ten times as many as there are values of 4 KiB.
	c, err := ristretto.NewCache(&ristretto.Config[string, cached]{
		NumCounters: max(1024, bytes/4096*10), MaxCost: bytes, BufferItems: 64,
		OnExit: func(v cached) {
			if v.value != nil {
				v.value.lose()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return &Cache{values: c}, nil
}

// Close ends the cache's goroutine. What is asked afterwards is not known.
func (c *Cache) Close() { c.values.Close() }

// Wait returns when what was put in before is there to be found, or was turned away.
func (c *Cache) Wait() { c.values.Wait() }

// perValue is what a value costs beside its text.
const perValue = 128

func (c *Cache) put(key string, v Value) {
	if !c.place(key).take(v) {
		c.set(key, v)
	}
}

// set stores a value, which is lost at once if the cache rejects it.
func (c *Cache) set(key string, v Value) *place {
	at := &place{value: v}
	if !c.values.Set(key, cached{value: at}, int64(len(key)+len(v.JSON)+perValue)) {
		at.lose()
	}
	return at
}

// place is where the value of a key is; nil when there is none.
func (c *Cache) place(key string) *place {
	v, _ := c.values.Get(key)
	return v.value
}

func (c *Cache) get(key string) (Value, bool) { return c.place(key).held() }

func (c *Cache) putText(key, text string) {
	c.values.Set(key, cached{text: text}, int64(len(key)+len(text)+perValue))
}

func (c *Cache) getText(key string) (string, bool) {
	v, ok := c.values.Get(key)
	return v.text, ok
}

func (c *Cache) drop(key string) { c.values.Del(key) }

// valueKey names the value of a feed. A version never comes again in a session, so a
// value that was fetched for an older definition is not found.
func valueKey(session string, e *Entry) string {
	return "v\x00" + session + "\x00" + e.ID + "\x00" + strconv.FormatUint(e.Version, 36)
}

// lateBy is how much later than its interval a refresh may come before the value it
// should have replaced counts as stale: the time a prompt would wait for it.
const lateBy = DefaultDeadline

// stale reports whether a value that is served is one that a refresh should have
// replaced.
func (e *Entry) stale(v Value, now time.Time) bool {
	return v.Failed || e.Trigger == Periodic && now.Sub(v.At) > e.Interval+lateBy
}

// served reports whether a value may stand in for one that could not be fetched.
func (e *Entry) served(v Value, now time.Time) bool {
	ttl := e.ServedFor()
	return ttl > 0 && now.Sub(v.At) <= ttl
}

// standsIn tells a feed whose last value, however old, stands in while it is fetched: an
// on-demand one of which nothing was said, and one of an agent, which takes its time.
func (e *Entry) standsIn() bool {
	return e.Trigger == OnDemand && (!e.HasTTL || e.Source.Kind == Agent)
}

// fresh reports whether a prompt takes a value as it is. An on-demand feed without
// cache_ttl is fetched for every prompt. A periodic one is not fetched by prompts as
// long as it has a value that may be shown, marked or not: that is for its ticks.
func (e *Entry) fresh(v Value, now time.Time) bool {
	return e.served(v, now) || e.Trigger == Periodic && !e.stale(v, now)
}
