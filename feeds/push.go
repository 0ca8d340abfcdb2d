package feeds

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Push: a remote feed with push is fetched when the peer says that its value has changed, for
// as long as its session is awake. While the peer can be heard, the value at hand is fresh; when
// it cannot, the feed is fetched as any other.

// A subscription is to the changes of one remote feed. The nil one hears nothing.
type subscription struct {
	cancel context.CancelFunc
	hears  atomic.Bool // the peer answered the last request
}

// heard reports whether the value at hand is fresh because the peer would have said otherwise.
func (sub *subscription) heard() bool { return sub != nil && sub.hears.Load() }

func (sub *subscription) end() {
	if sub != nil {
		sub.cancel()
	}
}

// subscribe begins or ends the subscription of a feed, as its definition has it.
func (f *States) subscribe(s *state) {
	e, k := s.entry, f.client.keeper
	p, ok := e.Source.Peer()
	switch pushed := ok && p.Push && !e.Disabled && f.client.session.Peers != nil; {
	case !pushed:
		s.changes.end()
		s.changes = nil
	case s.changes == nil:
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.closed {
			return
		}
		ctx, cancel := context.WithCancel(k.ctx)
		s.changes = &subscription{cancel: cancel}
		k.running.Add(1)
		go k.hear(ctx, s.changes, f.client, e)
	}
}

// hear asks the peer for changes until ctx ends, once in BackOffFirst at most. A peer that does
// not answer, or whose changes bring nothing new, is asked again with the pauses of a feed that
// crashes.
func (k *Keeper) hear(ctx context.Context, sub *subscription, c *Client, e *Entry) {
	defer k.running.Done()
	key, pause := c.key(e), BackOffFirst
	for ctx.Err() == nil {
		v, _ := k.cache.get(key)
		begun := time.Now()
		changed, err := c.session.Peers.Wait(ctx, e.Source, v.Tag)
		heard := err == nil
		if heard && changed {
			now, fetched := c.refetch(ctx, e.ID)
			heard = fetched && now.Tag != "" && now.Tag != v.Tag
		}
		sub.hears.Store(heard)
		rest := BackOffFirst - time.Since(begun)
		if heard {
			pause = BackOffFirst
		} else {
			rest, pause = pause, min(2*pause, BackOffMost)
		}
		if rest > 0 {
			timer := time.NewTimer(rest)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// watches are the callers of Await, by valueKey of what they wait for.
type watches struct {
	any atomic.Int64 // callers

	mu      sync.Mutex
	waiting map[string][]chan struct{} // each with room for one
}

// changed tells those who wait for a feed that its value is another one.
func (w *watches) changed(key string) {
	if w.any.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.waiting[key] {
		select {
		case c <- struct{}{}:
		default: // it was told already
		}
	}
}

func (w *watches) add(keys []string) (c chan struct{}) {
	c = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.any.Add(1)
	if w.waiting == nil {
		w.waiting = map[string][]chan struct{}{}
	}
	for _, key := range keys {
		w.waiting[key] = append(w.waiting[key], c)
	}
	return c
}

func (w *watches) remove(keys []string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.any.Add(-1)
	for _, key := range keys {
		if w.waiting[key] = slices.DeleteFunc(w.waiting[key], func(o chan struct{}) bool { return o == c }); len(w.waiting[key]) == 0 {
			delete(w.waiting, key)
		}
	}
}

// Await returns when the value that is kept of one of the feeds is another one than seen, by id,
// or when ctx ends. It fetches nothing. Ids that are no feeds are passed over.
func (k *Keeper) Await(ctx context.Context, session string, set Set, seen map[string]string) error {
	var keys, values []string
	for id, value := range seen {
		if e, ok := set.Get(id); ok {
			keys, values = append(keys, valueKey(session, &e)), append(values, value)
		}
	}
	c := k.watches.add(keys)
	defer k.watches.remove(keys, c)
	for {
		for i, key := range keys {
			if v, _ := k.cache.get(key); v.JSON != values[i] {
				return nil
			}
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		case <-k.ctx.Done():
			return k.ctx.Err()
		}
	}
}
