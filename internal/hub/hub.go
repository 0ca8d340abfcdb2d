// Package hub publishes the updates of sessions to their subscribers.
//
// Invariants:
//   - a publisher never waits for a subscriber: an update that does not fit a bounded queue is
//     dropped and said to be missing, and is read from the journal;
//   - what was published before a subscription is not told again, but for the text that is
//     shown and has no record yet, and for the first records of what is in flight, to whom
//     they are news.
//
// It does not read the journal, and knows no actors.
package hub

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/seed14be6753/stile/messages"
)

// Hub passes the updates of sessions to their subscribers. It is independent of the actors, so a
// subscriber keeps no session awake and a slow one delays none: a subscriber reads updates that
// it did not fetch in time from the journal. The hub keeps shown text that has no record yet,
// so that a late or returning subscriber gets it as well. All methods are safe for concurrent
// use.
type Hub struct {
	seed   maphash.Seed
	shards [64]hubShard
}

type hubShard struct {
	mu    sync.Mutex
	subs  map[string][]*Subscription
	waits map[string][]*Waiter
	// grown is the shown text of the turn in flight that no record has yet.
	grown map[string]grown
	// results is the shown text of results that grow; nil before the first.
	results map[string][]grownResult
	// looked counts the units of shown text that were looked at: a test bounds it.
	looked int
	begun  map[string]begun
	// closed refuses new ones.
	closed bool
}

// New makes an empty hub.
func New() *Hub {
	h := &Hub{seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].subs = map[string][]*Subscription{}
		h.shards[i].waits = map[string][]*Waiter{}
		h.shards[i].grown = map[string]grown{}
		h.shards[i].begun = map[string]begun{}
	}
	return h
}

func (h *Hub) shard(sid string) *hubShard {
	return &h.shards[maphash.String(h.seed, sid)%uint64(len(h.shards))]
}

// subscriptionLimit bounds the updates a subscription holds; beyond it updates are
// dropped here: records are read from the journal then, and text by Grown.
const subscriptionLimit = 256

// ErrStopped ends subscriptions and waits when the host stops.
var ErrStopped = errors.New("hub: the host has stopped")

// Subscription is one subscriber's queue. Next may be called from one goroutine
// at a time; Close from any.
type Subscription struct {
	hub    *Hub
	sid    string
	wake   chan struct{}
	mu     sync.Mutex
	queue  []messages.Update
	missed bool // records were dropped: read the journal
	closed bool
	err    error // why it ended, instead of ErrStopped
}

// Subscribe registers for the updates of sid from now on. Before them come deltas with the shown
// text that has no record yet.
func (h *Hub) Subscribe(sid string) *Subscription {
	s, _ := h.subscribe(sid, func(sh *hubShard) ([]messages.Update, bool) { return sh.shown(sid), true })
	return s
}

// SubscribeBehind is Subscribe for a reader that has the session's records up to seq and no text
// of units without a record. whole reports whether the published records after seq come first,
// so that the reader need not read the journal.
func (h *Hub) SubscribeBehind(sid string, inc messages.Incarnation, seq int64) (s *Subscription, whole bool) {
	return h.subscribe(sid, func(sh *hubShard) ([]messages.Update, bool) {
		shown := sh.shown(sid)
		if all, whole := sh.begun[sid].behind(inc, seq, shown); whole {
			return all, true
		}
		return shown, false
	})
}

// subscribe registers, with the updates that first returns from the shard.
func (h *Hub) subscribe(sid string, first func(*hubShard) ([]messages.Update, bool)) (_ *Subscription, whole bool) {
	s := &Subscription{hub: h, sid: sid, wake: make(chan struct{}, 1)}
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		s.closed = true
		s.signal()
		return s, false
	}
	sh.subs[sid] = append(sh.subs[sid], s)
	if s.queue, whole = first(sh); len(s.queue) > 0 {
		s.signal()
	}
	return s, whole
}

// Followed reports whether sid has a subscriber.
func (h *Hub) Followed(sid string) bool {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.subs[sid]) > 0
}

// Grown returns the shown text of sid that has no record yet, one delta for each unit.
func (h *Hub) Grown(sid string) []messages.Update {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.shown(sid)
}

// Close ends the subscription and wakes Next.
func (s *Subscription) Close() {
	sh := s.hub.shard(s.sid)
	sh.mu.Lock()
	list := sh.subs[s.sid]
	for i, o := range list {
		if o == s {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(sh.subs, s.sid)
	} else {
		sh.subs[s.sid] = list
	}
	sh.mu.Unlock()
	s.end(nil)
}

func (s *Subscription) end(err error) {
	s.mu.Lock()
	s.closed = true
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Subscription) push(u messages.Update) {
	s.mu.Lock()
	if len(s.queue) >= subscriptionLimit {
		s.missed = true
	} else {
		s.queue = append(s.queue, u)
	}
	s.mu.Unlock()
	s.signal()
}

// tell is push for what may be lost.
func (s *Subscription) tell(u messages.Update) {
	s.mu.Lock()
	fits := len(s.queue) < subscriptionLimit/2
	if fits {
		s.queue = append(s.queue, u)
	}
	s.mu.Unlock()
	if fits {
		s.signal()
	}
}

// Next waits for updates, and returns all that are queued. Pieces of one text that were queued
// together are one piece. missed reports whether updates were dropped after them. The error is
// ErrStopped, the failure of the session's journal, or the context's error, which takes
// precedence over queued updates, so that a slow reader gets it too.
func (s *Subscription) Next(ctx context.Context) (batch []messages.Update, missed bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		s.mu.Lock()
		batch, missed = s.queue, s.missed
		s.queue, s.missed = nil, false
		closed, cause := s.closed, s.err
		s.mu.Unlock()
		if len(batch) > 0 || missed {
			return joined(batch), missed, nil
		}
		if closed {
			if cause != nil {
				return nil, false, cause
			}
			return nil, false, ErrStopped
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// joined joins consecutive deltas of one text in place, so that a slow subscriber needs one write
// where a fast one needs many.
func joined(batch []messages.Update) []messages.Update {
	out := batch[:0]
	for i := 0; i < len(batch); {
		n := 1
		for i+n < len(batch) && continues(batch[i+n-1].Delta, batch[i+n].Delta) {
			n++
		}
		u := batch[i]
		if n > 1 {
			u.Delta = concat(batch[i : i+n])
		}
		out, i = append(out, u), i+n
	}
	return out
}

// continues reports whether b follows a in the text of one unit.
func continues(a, b *messages.Delta) bool {
	return a != nil && b != nil && !a.Retract && !b.Retract && a.Kind != messages.KindProgress && a.Run == b.Run && a.Unit == b.Unit && a.Kind == b.Kind && a.Action == b.Action &&
		b.Off-int64(len(b.Text)) == a.Off
}

// concat returns one delta with the text of several, which it does not change because other
// subscribers share them.
func concat(pieces []messages.Update) *messages.Delta {
	d := *pieces[len(pieces)-1].Delta
	var text strings.Builder
	for _, u := range pieces {
		text.WriteString(u.Delta.Text)
	}
	d.Text = text.String()
	return &d
}

// Hearer gets a run's records as they are published, in their order. Take is called under the
// hub's lock and must be fast.
type Hearer interface{ Take(*messages.Record) }

// Waiter waits for the end of one run.
type Waiter struct {
	hub     *Hub
	sid     string
	run     int64
	done    chan struct{}
	decided *messages.Record
	ended   *messages.Record
	hears   Hearer
	err     error
}

// Await registers for the end of a run of sid. Register before reading the journal: otherwise
// the end may come in between and be missed. hears, unless it is nil, gets the run's records
// that the hub still has, and then the new ones.
func (h *Hub) Await(sid string, run int64, hears Hearer) *Waiter {
	w := &Waiter{hub: h, sid: sid, run: run, hears: hears, done: make(chan struct{})}
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		w.err = ErrStopped
		close(w.done)
		return w
	}
	for _, r := range sh.begun[sid] {
		w.hear(r)
	}
	sh.waits[sid] = append(sh.waits[sid], w)
	return w
}

func (w *Waiter) hear(r *messages.Record) {
	if w.hears != nil && r.Run == w.run {
		w.hears.Take(r)
	}
}

// Heard returns the Hearer of Await once Wait has returned the end; nil if some records of the
// run were not published here.
func (w *Waiter) Heard() Hearer { return w.hears }

// Wait returns the records turn.decided (nil when the run ended without a turn) and run.end. It
// is safe for concurrent use, before and after the end. The end of ctx leaves the waiter
// registered.
func (w *Waiter) Wait(ctx context.Context) (decided, ended *messages.Record, err error) {
	select {
	case <-w.done:
		return w.decided, w.ended, w.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Cancel unregisters the waiter.
func (w *Waiter) Cancel() {
	sh := w.hub.shard(w.sid)
	sh.mu.Lock()
	sh.drop(w)
	sh.mu.Unlock()
}

func (sh *hubShard) drop(w *Waiter) {
	list := sh.waits[w.sid]
	for i, o := range list {
		if o == w {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(sh.waits, w.sid)
	} else {
		sh.waits[w.sid] = list
	}
}

// Publish passes an update of sid to its subscribers and waiters. It never blocks.
func (h *Hub) Publish(sid string, u messages.Update) {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, s := range sh.subs[sid] {
		s.push(u)
	}
	if u.Delta != nil {
		sh.grow(sid, u.Delta)
	} else {
		sh.settle(sid, u.Record)
		sh.settleResult(sid, u.Record)
		sh.begin(sid, u.Record)
	}
	waits := sh.waits[sid]
	if len(waits) == 0 || u.Record == nil {
		return
	}
	for _, w := range waits {
		w.hear(u.Record)
	}
	switch u.Record.Body.(type) {
	case *messages.TurnDecided:
		for _, w := range waits {
			if w.run == u.Record.Run {
				w.decided = u.Record
			}
		}
	case *messages.RunEnd:
		for i := len(waits) - 1; i >= 0; i-- {
			if w := waits[i]; w.run == u.Record.Run {
				w.ended = u.Record
				close(w.done)
				sh.drop(w)
			}
		}
	}
}

// Tell passes progress of an action to the subscribers of sid: nothing keeps it, and a
// subscriber whose queue is half full does not get it. It never blocks.
func (h *Hub) Tell(sid string, d *messages.Delta) {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, s := range sh.subs[sid] {
		s.tell(messages.Update{Delta: d})
	}
}

// Fail ends the subscriptions and waiters of one session with an error of its journal: nothing
// is published until the session is opened again.
func (h *Hub) Fail(sid string, err error) {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, s := range sh.subs[sid] {
		s.end(err)
	}
	for _, w := range sh.waits[sid] {
		w.err = err
		close(w.done)
	}
	delete(sh.subs, sid)
	delete(sh.waits, sid)
	delete(sh.grown, sid)
	delete(sh.results, sid)
	delete(sh.begun, sid)
}

// Close ends every subscription and waiter and refuses new ones.
func (h *Hub) Close() {
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		sh.closed = true
		for _, list := range sh.subs {
			for _, s := range list {
				s.end(nil)
			}
		}
		for _, list := range sh.waits {
			for _, w := range list {
				w.err = ErrStopped
				close(w.done)
			}
		}
		clear(sh.subs)
		clear(sh.waits)
		clear(sh.grown)
		clear(sh.results)
		clear(sh.begun)
		sh.mu.Unlock()
	}
}

// Subscribed lists the sessions that have a subscriber.
func (h *Hub) Subscribed() (sids []string) {
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		for sid := range sh.subs {
			sids = append(sids, sid)
		}
		sh.mu.Unlock()
	}
	return sids
}

// Stir makes the subscribers of a session read the journal, which may have records that were not
// published here.
func (h *Hub) Stir(sid string) {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, s := range sh.subs[sid] {
		s.mu.Lock()
		s.missed = true
		s.mu.Unlock()
		s.signal()
	}
}
