// Package hub is the publisher: updates of sessions to whoever follows them.
//
// Invariants:
//   - a publisher never waits for a subscriber: what does not fit into a bounded queue is
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

// Hub hands the updates of sessions to their subscribers.
// It is keyed by session and lives apart from the actors, so a subscriber keeps
// no session awake and a slow one holds none up: what a subscriber does not fetch
// in time it reads back from the journal. Of text that is shown and not yet in a record
// it keeps what was shown, so that whoever comes late, or again, gets that as well.
// All methods are safe for concurrent use.
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
	missed bool // records were dropped: catch up from the journal
	closed bool
	err    error // why it ended, instead of ErrStopped
}

// Subscribe registers for what sid publishes from now on. In front of it come deltas
// with the text that is shown and has no record yet.
func (h *Hub) Subscribe(sid string) *Subscription {
	s, _ := h.subscribe(sid, func(sh *hubShard) ([]messages.Update, bool) { return sh.shown(sid), true })
	return s
}

// SubscribeBehind is Subscribe for who has the session's records up to seq and no text
// of units without a record. whole reports whether the records behind seq come first, as far
// as they are published: there is nothing to read from the journal.
func (h *Hub) SubscribeBehind(sid string, inc messages.Incarnation, seq int64) (s *Subscription, whole bool) {
	return h.subscribe(sid, func(sh *hubShard) ([]messages.Update, bool) {
		shown := sh.shown(sid)
		if all, whole := sh.begun[sid].behind(inc, seq, shown); whole {
			return all, true
		}
		return shown, false
	})
}

// subscribe registers with what the shard has for a beginning.
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

// Grown gives the text of sid that is shown and has no record yet, a delta a unit.
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

// Next waits for updates. Text that came up in pieces while nobody fetched it is one
// piece. missed reports whether updates were dropped behind them. It ends with ErrStopped,
// with the failure of the session's journal, or with the context's error, which goes
// before all that is queued: a reader that is slower than the publisher hears of it too.
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

// joined makes one delta of those that follow one another, in place: whoever is behind
// catches up with one write where those who are not take many.
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

// continues reports whether b is what follows a in the text of its unit.
func continues(a, b *messages.Delta) bool {
	return a != nil && b != nil && !a.Retract && !b.Retract && a.Run == b.Run && a.Unit == b.Unit && a.Kind == b.Kind &&
		b.Off-int64(len(b.Text)) == a.Off
}

// concat is one delta with the text of several, which stay as they are: others read them.
func concat(pieces []messages.Update) *messages.Delta {
	d := *pieces[len(pieces)-1].Delta
	var text strings.Builder
	for _, u := range pieces {
		text.WriteString(u.Delta.Text)
	}
	d.Text = text.String()
	return &d
}

// Hearer is told a run's records as they are published, in their order, under the hub's
// lock: it does little with each.
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

// Await registers for the end of a run of sid. Register before the journal is
// asked, or the end may slip through between. What hears, unless it is nil, is told the
// run's records from here on, behind those of its beginning that the hub still has.
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

// Heard gives what was told the run's records, once Wait has given its end; nil when some
// were not published here.
func (w *Waiter) Heard() Hearer { return w.hears }

// Wait gives the records turn.decided (nil when the run ended without a turn)
// and run.end. Any number of goroutines may wait, before or after the end; a
// context that ends leaves the waiter registered.
func (w *Waiter) Wait(ctx context.Context) (decided, ended *messages.Record, err error) {
	select {
	case <-w.done:
		return w.decided, w.ended, w.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Cancel forgets the waiter.
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

// Publish hands an update of sid to whoever waits for it. It never blocks.
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

// Fail ends the subscriptions and waiters of one session: its journal refused, so
// nothing will be published until it is opened again.
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

// Stir says to the subscribers of a session that there may be records which nobody
// published here: they read the journal.
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
