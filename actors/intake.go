package actors

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How much of the process's memory limit replies under way may take.
const (
	// replyCost is what a byte of a reply takes of memory until its turn is over: the
	// decoder's text, the record, its encoding, what followers are shown, the store's copy.
	// Measured: 55 to 75 MB for a reply of 8 MiB.
	replyCost = 8
	// freeIntake is what every reply may take without asking. Most replies are shorter.
	freeIntake = 16 << 10
	// largestReply is what the longest reply takes.
	largestReply = replyCost * 8 << 20
	// recovered is what a host that starts takes for each session while it recovers it:
	// as much as the longest reply, which its journal may have as pieces.
	recovered = 8 << 20
	// writtenAgain is how often a reply that waits for the journal looks again.
	writtenAgain = 10 * time.Millisecond
)

// intake bounds the bytes of replies that a host with a memory limit takes in at once.
// Without it a few long replies side by side are the end of a process in a container, and
// of all its sessions.
//
// Every reply has freeIntake bytes. What goes beyond that comes out of one budget, and goes
// back when the turn is over. A reply that finds the budget used up waits: its stream is
// left unread. One reply at a time, the one that has waited longest, goes beyond the budget,
// so that always one ends and others follow.
//
// Safe for concurrent use.
type intake struct {
	// queued is how many bytes wait for the journal. A journal that is slower than the
	// models holds all replies up beyond mostQueued.
	queued     func() int64
	mostQueued int64

	mu      sync.Mutex
	bounded bool
	left    int64 // of the budget; below 0 by what the leader has taken
	leader  *taken
	waiting []*waiter
}

type waiter struct {
	reply   *taken
	n, cost int64         // bytes, and how many of them are the budget's
	granted chan struct{} // closed when the bytes are the reply's
}

// taken is what one reply has of an intake.
type taken struct {
	of    *intake
	bytes int64 // under of.mu beyond freeIntake
	given bool  // back; no more is taken
}

// newIntake makes the intake of a process with a memory limit in bytes; 0 bounds nothing.
func newIntake(limit int64, queued func() int64) *intake {
	if limit <= 0 {
		return &intake{}
	}
	return &intake{bounded: true, queued: queued, mostQueued: limit / 64, left: max(limit/128, (limit/2-largestReply)/replyCost)}
}

// reply begins a reply.
func (in *intake) reply() *taken { return &taken{of: in} }

// take takes n bytes more, and waits until they fit or ctx ends. It reports whether the
// bytes are the reply's. One goroutine of a reply calls it.
func (t *taken) take(ctx context.Context, n int64) bool {
	in := t.of
	if !in.bounded || t.bytes+n <= freeIntake {
		t.bytes += n
		return true
	}
	if !in.written(ctx) {
		return false
	}
	in.mu.Lock()
	cost := max(t.bytes+n, freeIntake) - max(t.bytes, freeIntake)
	switch {
	case t.given:
		in.mu.Unlock()
		return false
	case in.leader == nil && len(in.waiting) == 0 && in.left < cost:
		in.leader = t
		fallthrough
	case in.leader == t || len(in.waiting) == 0 && in.left >= cost:
		in.grant(t, n, cost)
		in.mu.Unlock()
		return true
	}
	w := &waiter{reply: t, n: n, cost: cost, granted: make(chan struct{})}
	in.waiting = append(in.waiting, w)
	in.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
		in.mu.Lock()
		defer in.mu.Unlock()
		in.waiting = slices.DeleteFunc(in.waiting, func(o *waiter) bool { return o == w })
		in.next()
		return false
	}
}

// written waits until the journal has caught up, or ctx ends. It looks again every
// writtenAgain: the journal has no signal for it, and this is rare.
func (in *intake) written(ctx context.Context) bool {
	for in.queued() > in.mostQueued {
		if !sleepFor(ctx, writtenAgain) {
			return false
		}
	}
	return true
}

// grant books n bytes to t, and cost of them to the budget. in.mu is held.
func (in *intake) grant(t *taken, n, cost int64) {
	t.bytes += n
	in.left -= cost
}

// giveBack returns what the reply has. A second call does nothing.
func (t *taken) giveBack() {
	in := t.of
	if !in.bounded {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if t.given {
		return
	}
	t.given = true
	in.left += max(0, t.bytes-freeIntake)
	if in.leader == t {
		in.leader = nil
	}
	in.next()
}

// next lets those on that fit, the longest waiting first. The first of those that do not
// becomes the leader where there is none. in.mu is held.
func (in *intake) next() {
	for len(in.waiting) > 0 {
		w := in.waiting[0]
		if in.left < w.cost {
			if in.leader != nil {
				return
			}
			in.leader = w.reply
		}
		in.grant(w.reply, w.n, w.cost)
		in.waiting = in.waiting[1:]
		close(w.granted)
	}
}
