// Package intake bounds how many bytes of replies a process with a memory limit takes in at once.
//
// Invariants:
//   - at most one share, the leader's, goes beyond the budget, so one always ends and others
//     follow;
//   - what a share took is back when it ended, once;
//   - shares are served in the order in which they began to wait.
//
// It reads no reply: the cost of a byte is an estimate, and the reader asks before it reads. What is
// alive of the process's memory is a function that it is given (LiveHeap).
package intake

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
	// Recovered is what a host that starts takes for each session while it recovers it:
	// as much as the longest reply, which its journal may have as pieces.
	Recovered = 8 << 20
	// leaderShare of the limit may be alive, in percent, beside the reply that goes beyond the
	// budget: what the one before has left, such as the answers to those who wait for it, is to
	// go first. It is looked at once for each leaderStep bytes.
	leaderShare = 30
	leaderStep  = 1 << 20
	// settles is how often memory is looked at, in growing intervals from settleFirst on, before
	// the reply goes on all the same.
	settles     = 5
	settleFirst = 50 * time.Millisecond
	// writtenAgain is how often a reply that waits for the journal looks again.
	writtenAgain = 10 * time.Millisecond
)

// Intake is the budget of a host. Without one a few long replies side by side are the end of a
// process in a container, and of all its sessions.
//
// Every reply has freeIntake bytes. What goes beyond that comes out of one budget, and goes
// back when the turn is over. A reply that finds the budget used up waits: its stream is
// left unread. One reply at a time, the one that has waited longest, goes beyond the budget,
// so that always one ends and others follow.
//
// Safe for concurrent use.
type Intake struct {
	// queued is how many bytes wait for the journal. A journal that is slower than the
	// models holds all replies up beyond mostQueued.
	queued     func() int64
	mostQueued int64
	// live is how much of the process's memory is alive.
	live     func() int64
	mostLive int64

	mu      sync.Mutex
	bounded bool
	left    int64 // of the budget; below 0 by what the leader has taken
	leader  *Share
	waiting []*waiter
}

type waiter struct {
	reply   *Share
	n, cost int64         // bytes, and how many of them are the budget's
	granted chan struct{} // closed when the bytes are the reply's
}

// Share is what one reply has of an intake.
type Share struct {
	of    *Intake
	bytes int64 // under of.mu beyond freeIntake
	given bool  // back; no more is taken
	led   int64 // bytes beyond the budget for which memory was looked at; of the goroutine that takes
}

// New makes the intake of a process with a memory limit in bytes; 0 bounds nothing.
// queued is how many bytes wait for the journal, and live how much memory is alive.
func New(limit int64, queued, live func() int64) *Intake {
	if limit <= 0 {
		return &Intake{}
	}
	return &Intake{bounded: true, queued: queued, mostQueued: limit / 64, live: live, mostLive: limit / 100 * leaderShare, left: max(limit/128, (limit/2-largestReply)/replyCost)}
}

// Begin begins a share, which has nothing yet.
func (in *Intake) Begin() *Share { return &Share{of: in} }

// Take takes n bytes more, and waits until they fit or ctx ends. It reports whether the
// bytes are the reply's. One goroutine of a reply calls it.
func (s *Share) Take(ctx context.Context, n int64) bool {
	if !s.take(ctx, n) {
		return false
	}
	return s.bytes < s.led || !s.of.leads(s) || s.lead(ctx)
}

// leads reports whether a share goes beyond the budget.
func (in *Intake) leads(s *Share) bool {
	if !in.bounded || s.bytes <= freeIntake {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.leader == s
}

// lead waits until what was before has left memory, for some seconds at most, or ctx ends: the
// process's own limit is near when two long replies are in memory, the one that is read and the
// one that is told.
func (s *Share) lead(ctx context.Context) bool {
	most := s.of.mostLive + replyCost*s.bytes
	s.led = s.bytes + leaderStep
	pause := settleFirst
	for range settles {
		if s.of.live() <= most {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
		pause *= 2
	}
	return true
}

func (s *Share) take(ctx context.Context, n int64) bool {
	in := s.of
	if !in.bounded || s.bytes+n <= freeIntake {
		s.bytes += n
		return true
	}
	if !in.written(ctx) {
		return false
	}
	in.mu.Lock()
	cost := max(s.bytes+n, freeIntake) - max(s.bytes, freeIntake)
	switch {
	case s.given:
		in.mu.Unlock()
		return false
	case in.leader == nil && len(in.waiting) == 0 && in.left < cost:
		in.leader = s
		fallthrough
	case in.leader == s || len(in.waiting) == 0 && in.left >= cost:
		in.grant(s, n, cost)
		in.mu.Unlock()
		return true
	}
	w := &waiter{reply: s, n: n, cost: cost, granted: make(chan struct{})}
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
func (in *Intake) written(ctx context.Context) bool {
	for in.queued() > in.mostQueued {
		select {
		case <-time.After(writtenAgain):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// grant books n bytes to s, and cost of them to the budget. in.mu is held.
func (in *Intake) grant(s *Share, n, cost int64) {
	s.bytes += n
	in.left -= cost
}

// End gives back what the reply has. A second call does nothing.
func (s *Share) End() {
	in := s.of
	if !in.bounded {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.given {
		return
	}
	s.given = true
	in.left += max(0, s.bytes-freeIntake)
	if in.leader == s {
		in.leader = nil
	}
	in.next()
}

// next lets those on that fit, the longest waiting first. The first of those that do not
// becomes the leader where there is none. in.mu is held.
func (in *Intake) next() {
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
