package intake

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The intake of a process that may have 200 MB.
const testLimit = 200 << 20

func nothingQueued() int64 { return 0 }

func TestIntakeBounds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int64
		left  int64
	}{
		{"none", -1, 0},
		{"small", 100 << 20, 100 << 20 / 128},
		{"middle", 200 << 20, (100<<20 - largestReply) / replyCost},
		{"large", 4 << 30, (2<<30 - largestReply) / replyCost},
	} {
		in := New(tt.limit, nothingQueued, nothingQueued)
		if in.left != tt.left || in.bounded != (tt.limit > 0) {
			t.Errorf("%s: a budget of %d, bounded %v", tt.name, in.left, in.bounded)
		}
	}
}

// A reply beyond the budget waits, one goes on, and the others follow in their order.
func TestIntakeOneGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(testLimit, nothingQueued, nothingQueued)
		all := in.left
		leader := in.Begin()
		if !leader.Take(t.Context(), freeIntake+all) || in.left != 0 || in.leader != nil {
			t.Fatalf("what fits was not taken: %d left", in.left)
		}
		if !leader.Take(t.Context(), all) || in.leader != leader {
			t.Fatal("no reply goes beyond the budget")
		}
		short := in.Begin()
		if !short.Take(t.Context(), freeIntake) {
			t.Fatal("a short reply waits")
		}
		var order []int
		for i := range 3 {
			go func() {
				r := in.Begin()
				if r.Take(t.Context(), freeIntake+2*all) {
					order = append(order, i)
					r.End()
				}
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v went on beside the one that may", order)
		}
		gone, cancel := context.WithCancel(t.Context())
		go func() {
			if in.Begin().Take(gone, all+freeIntake) {
				t.Error("a reply that is cancelled has its bytes")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		leader.End()
		leader.End()
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[2] != 2 || in.left != all || in.leader != nil || len(in.waiting) != 0 {
			t.Errorf("order %v, %d of %d left, %d wait", order, in.left, all, len(in.waiting))
		}
		if leader.Take(t.Context(), freeIntake+1) {
			t.Error("a reply whose turn is over takes more")
		}
	})
}

// A journal that is slower than the models holds long replies up.
func TestIntakeWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queued atomic.Int64
		in := New(testLimit, queued.Load, nothingQueued)
		queued.Store(in.mostQueued + 1)
		var on atomic.Bool
		go func() { on.Store(in.Begin().Take(t.Context(), freeIntake+1)) }()
		time.Sleep(time.Minute)
		if on.Load() {
			t.Fatal("a long reply goes on while the journal is behind")
		}
		if !in.Begin().Take(t.Context(), freeIntake) {
			t.Fatal("a short reply waits for the journal")
		}
		queued.Store(in.mostQueued)
		time.Sleep(writtenAgain)
		synctest.Wait()
		if !on.Load() {
			t.Error("the journal has caught up, and the reply waits")
		}
	})
}

// Whatever replies take, give back and cancel: all end, at most one is beyond the budget,
// and the budget is whole at the end.
func TestIntakeRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	in := New(testLimit, nothingQueued, nothingQueued)
	all := in.left
	var most int64
	var done sync.WaitGroup
	for range 200 {
		pieces, piece, cut := 1+r.IntN(40), int64(1+r.IntN(int(all/10))), r.IntN(4) == 0
		done.Go(func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			reply := in.Begin()
			defer reply.End()
			if cut {
				go cancel(errors.New("cut"))
			}
			for range pieces {
				if !reply.Take(ctx, piece) {
					return
				}
				in.mu.Lock()
				over := -in.left
				if in.leader != nil {
					over -= in.leader.bytes
				}
				most = max(most, over)
				in.mu.Unlock()
			}
		})
	}
	done.Wait()
	if in.left != all || in.leader != nil || len(in.waiting) != 0 {
		t.Errorf("%d of %d left, %d wait", in.left, all, len(in.waiting))
	}
	if most > 0 {
		t.Errorf("replies that do not lead took %d bytes more than the budget", most)
	}
}

// A reply that goes beyond the budget waits until memory has room for it, not longer than some
// seconds, and looks again after a MiB; one within the budget waits for nothing.
func TestLeaderWaitsForMemory(t *testing.T) {
	const full = 1 << 40
	for name, c := range map[string]struct {
		live []int64 // as it is looked at
		n    int64
		wait time.Duration
	}{
		"room":                {[]int64{testLimit / 100 * leaderShare}, 8 << 20, 0},
		"room for its own":    {[]int64{testLimit/100*leaderShare + 8*replyCost<<20}, 8 << 20, 0},
		"room after a time":   {[]int64{full, full, 0}, 8 << 20, 3 * settleFirst},
		"never":               {[]int64{full}, 8 << 20, 31 * settleFirst},
		"within the budget":   {[]int64{full}, 1 << 20, 0},
		"a short one":         {[]int64{full}, freeIntake, 0},
		"a byte beyond a MiB": {[]int64{0, full, 0}, 8 << 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looked := 0
				in := New(testLimit, nothingQueued, func() int64 { looked++; return c.live[min(looked, len(c.live))-1] })
				s, began := in.Begin(), time.Now()
				if !s.Take(t.Context(), c.n) || !s.Take(t.Context(), 1) {
					t.Fatal("refused")
				}
				if got := time.Since(began); got != c.wait {
					t.Errorf("it waited %v, want %v", got, c.wait)
				}
				if name == "a byte beyond a MiB" {
					if s.Take(t.Context(), leaderStep); looked != 3 || time.Since(began) != settleFirst {
						t.Errorf("behind a MiB memory was looked at %d times, in %v", looked, time.Since(began))
					}
				}
				s.End()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if name == "never" && in.Begin().Take(ctx, c.n) {
					t.Error("a cancelled one went on")
				}
			})
		})
	}
}
