package feeds

import (
	"sync"
	"time"
)

// BatchSize is the most that a wheel hands over in one call.
const BatchSize = 256

// keepDue is how many feeds that are due at once are looked up before they are handed
// over, and how much room for them is kept.
const keepDue = 4096

// A Wheel delivers periodic feeds when they are due, with one goroutine and one timer for all
// feeds of all sessions of a host (docs/spec/design.md §4), and none while no feed is periodic.
// It delivers due feeds in batches; an interval is from start to start, and a start that comes
// while the one before is not Done is dropped. It keeps names alone: a receiver must ignore a
// feed that does not exist any more.
//
// It is safe for concurrent use, and must be closed.
type Wheel struct {
	deliver func([]Due)
	origin  time.Time

	mu      sync.Mutex
	slots   *slots
	armed   int64 // the tick the timer is set to; 0 is none
	closed  bool
	waiting []Due         // started by Add, not handed over yet
	wake    chan struct{} // of one place: look again
	ended   chan struct{} // closed when the goroutine is gone; nil while there is none
}

// NewWheel makes a wheel that hands over by calling deliver, from one goroutine. A
// deliver that takes long makes the batches after it late. The batch is deliver's
// during the call only. From deliver every method but Close may be called.
func NewWheel(deliver func([]Due)) *Wheel {
	// On the wall clock's grid, but by the monotonic clock from there on, and a tick
	// before now: no tick of a feed is 0.
	now := time.Now()
	origin := now.Add(-time.Duration(now.UnixNano()%int64(Tick)) - Tick)
	return &Wheel{deliver: deliver, slots: newSlots(), origin: origin, wake: make(chan struct{}, 1)}
}

// tick is the last tick that has come by a time.
func (w *Wheel) tick(t time.Time) int64 { return int64(t.Sub(w.origin) / Tick) }

// tickAfter is the first tick that is not before a time.
func (w *Wheel) tickAfter(t time.Time) int64 { return int64((t.Sub(w.origin) + Tick - 1) / Tick) }

// Add starts a feed: it is due now, and then every interval, which is rounded up to
// whole ticks. A feed that is there begins anew with the interval given.
func (w *Wheel) Add(session, feed string, interval time.Duration) {
	w.add(session, feed, nil, interval)
}

// add starts a feed that is handed over together with the client of its session.
func (w *Wheel) add(session, feed string, c *Client, interval time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	now := time.Now()
	if w.ended == nil { // and so the wheel is empty
		w.slots.advance(w.tick(now), nil, keepDue)
		w.ended = make(chan struct{})
		go w.turn(w.ended)
	}
	ticks := max(1, int64((interval+Tick-1)/Tick))
	w.waiting = append(w.waiting, w.slots.add(session, feed, c, ticks, w.tickAfter(now)))
	w.poke()
}

// Remove ends a feed. What was handed over is still the receiver's.
func (w *Wheel) Remove(session, feed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots.remove(session, feed)
	w.poke()
}

// RemoveSession ends all feeds of a session, as when it passivates.
func (w *Wheel) RemoveSession(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots.removeSession(session)
	w.poke()
}

// Done ends a delivered start. With a time, the feed is due then instead, and its interval
// counts from there. A ticket of a feed that was started again or removed since changes
// nothing.
func (w *Wheel) Done(t Ticket, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next.IsZero() {
		w.slots.done(t, 0)
		return
	}
	w.slots.done(t, w.tickAfter(next))
	if tick, ok := w.slots.next(); ok && (w.armed == 0 || tick < w.armed) {
		w.poke()
	}
}

// Len counts the feeds on the wheel; dropped the starts that were dropped so far.
func (w *Wheel) Len() (feeds int, dropped int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slots.count, w.slots.dropped
}

// Close stops the wheel and returns when deliver is not running and will not be
// called again. Closing twice is allowed.
func (w *Wheel) Close() {
	w.mu.Lock()
	w.closed = true
	ended := w.ended
	w.poke()
	w.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// poke has the goroutine look again.
func (w *Wheel) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// turn is the wheel's goroutine. It ends when the wheel is closed or empty.
func (w *Wheel) turn(ended chan struct{}) {
	defer close(ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	batch := make([]Due, 0, BatchSize)
	var due []Due
	for {
		w.mu.Lock()
		if w.closed || w.slots.count == 0 && len(w.waiting) == 0 {
			if w.ended == ended {
				w.ended = nil
			}
			w.mu.Unlock()
			return
		}
		due = append(due[:0], w.waiting...)
		w.waiting = nil
		now := time.Now()
		due = w.slots.advance(w.tick(now), due, keepDue)
		w.armed = 0
		if len(due) == 0 {
			if tick, ok := w.slots.next(); ok {
				w.armed = tick
				timer.Reset(w.origin.Add(time.Duration(tick) * Tick).Sub(now))
			}
		}
		w.mu.Unlock()
		if len(due) == 0 {
			select {
			case <-timer.C:
			case <-w.wake:
			}
			continue
		}
		for rest := due; len(rest) > 0; {
			n := min(len(rest), BatchSize)
			batch = append(batch[:0], rest[:n]...)
			rest = rest[n:]
			if w.stopped() {
				break
			}
			w.deliver(batch)
		}
		// Names of feeds that are gone are not kept, nor the room that a burst took.
		clear(due)
		clear(batch[:cap(batch)])
		if cap(due) > keepDue {
			due = nil
		}
	}
}

func (w *Wheel) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}
