package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/workload"
)

// fake is a target that does as a test says.
type fake func(ctx context.Context, r *Request, w Watcher) (string, error)

func (fake) Name() string { return "fake" }

func (f fake) Do(ctx context.Context, r *Request, w Watcher) (string, error) { return f(ctx, r, w) }

func (fake) Usage(context.Context) measure.Usage {
	u := measure.Unknown()
	u.RSS, u.Commits = 1000, 7
	return u
}

func even(rate float64, length time.Duration) *workload.Workload {
	return &workload.Workload{
		Seed: 1, Sessions: 4, Arrivals: workload.Arrivals{Rate: rate, For: workload.Duration(length), Process: workload.Even},
		Agents: []workload.Agent{{Name: "a", Tokens: 1, TokenBytes: 1}}, Jobs: []workload.Job{{Name: "j", Agent: "a", Weight: 1}},
	}
}

func run(ctx context.Context, w *workload.Workload, t Target, o Options) measure.Round {
	all := w.Schedule()
	return Run(ctx, w, all, t, measure.NewRecorder(len(all)), o)
}

// whole checks that each planned submit has exactly one fate.
func whole(t *testing.T, r measure.Round) {
	t.Helper()
	var sum int64
	for _, n := range r.Fates {
		sum += n
	}
	if sum != r.Planned {
		t.Errorf("%d submits were planned, %d have a fate: %v", r.Planned, sum, r.Fates)
	}
}

// A target that takes one submit at a time stalls for a second. The submits that were due in that
// second waited for it, and their times say so, although each took a millisecond once it began.
func TestStallIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := make(chan struct{}, 1) // a mutex would hold the bubble's clock
		n := 0
		r := run(t.Context(), even(100, 4*time.Second), fake(func(_ context.Context, _ *Request, w Watcher) (string, error) {
			one <- struct{}{}
			defer func() { <-one }()
			w.Accepted()
			if n++; n == 150 {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Millisecond)
			w.Texts(1, 1)
			return "DONE", nil
		}), Options{})
		whole(t, r)
		end := r.Times[measure.End]
		if end.Count != 399 || end.P50 > 2000 {
			t.Errorf("%+v", end)
		}
		// 100 of 399 submits were due while it stalled, and waited half a second on average.
		if end.P90 < 550_000 || end.Max < 995_000 {
			t.Errorf("p90 %d µs, max %d µs: the stall is hidden", end.P90, end.Max)
		}
		if late := r.Times[measure.Late]; late.Max > 1 {
			t.Errorf("arrivals were late by %d µs: the target slowed them down", late.Max)
		}
		if r.Seconds < 3.99 || r.Seconds > 5.2 || r.Peak < 100 || r.Series[1].InFlight < 40 {
			t.Errorf("%v s, at most %d in flight, %+v", r.Seconds, r.Peak, r.Series)
		}
	})
}

func TestFates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), even(10, 6*time.Second+time.Millisecond), fake(func(ctx context.Context, r *Request, w Watcher) (string, error) {
			switch r.N % 6 {
			case 0:
				w.Accepted()
				return "HALT/ERR_QUOTA", nil
			case 1:
				return "", &Refusal{Why: "429 RATE"}
			case 2:
				return "", &Failure{Kind: "connection reset", Err: errors.New("no")}
			case 3:
				<-ctx.Done()
				return "", ctx.Err()
			case 4:
				return "", errors.New("something else")
			}
			w.Resumed(3, r.N%12 == 5)
			return "DONE", nil
		}), Options{Timeout: time.Second})
		whole(t, r)
		if r.Fates[measure.Ended] != 20 || r.Fates[measure.Refused] != 10 || r.Fates[measure.Failed] != 20 || r.Fates[measure.TimedOut] != 10 {
			t.Errorf("%v", r.Fates)
		}
		if r.Why[measure.Ended]["HALT/ERR_QUOTA"] != 10 || r.Why[measure.Refused]["429 RATE"] != 10 || r.Why[measure.Failed]["connection reset"] != 10 || r.Why[measure.TimedOut]["no end in 1s"] != 10 {
			t.Errorf("%v", r.Why)
		}
		if s := r.Streams; s.Cuts != 30 || s.Same != 5 || s.Different != 5 {
			t.Errorf("%+v", s)
		}
		if r.Usage.RSS != 1000 || r.Usage.PeakRSS != 1000 || r.Usage.Commits != 0 || r.Usage.CPUMicros != -1 {
			t.Errorf("%+v", r.Usage)
		}
	})
}

func TestTooManyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), even(100, time.Second), fake(func(context.Context, *Request, Watcher) (string, error) {
			time.Sleep(10 * time.Second)
			return "DONE", nil
		}), Options{InFlight: 20})
		whole(t, r)
		if r.Fates[measure.Ended] != 20 || r.Fates[measure.Dropped] != 79 || r.Peak != 20 {
			t.Errorf("%v, at most %d", r.Fates, r.Peak)
		}
	})
}

func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2550*time.Millisecond, cancel)
		begun := time.Now()
		r := run(ctx, even(10, time.Hour), fake(func(ctx context.Context, r *Request, _ Watcher) (string, error) {
			if r.N < 24 {
				return "DONE", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}), Options{Grace: 3 * time.Second, Timeout: time.Hour})
		whole(t, r)
		if r.Fates[measure.Ended] != 24 || r.Why[measure.Left]["in flight"] != 1 || r.Fates[measure.Left] != r.Planned-24 {
			t.Errorf("%v %v", r.Fates, r.Why)
		}
		if took := time.Since(begun); took != 5550*time.Millisecond {
			t.Errorf("it took %s to stop", took)
		}
	})
}

func TestSessionsAndDraws(t *testing.T) {
	w := even(100, 100*time.Millisecond)
	w.Agents[0].Approval, w.Agents[0].Approve = true, workload.Dist{Kind: workload.Exponential, Mean: workload.Duration(time.Second)}
	seen := func() (sessions map[string]int, approve time.Duration) {
		sessions = map[string]int{}
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			run(t.Context(), w, fake(func(_ context.Context, r *Request, _ Watcher) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				sessions[r.Session]++
				approve += r.Approve
				if n, ok := workload.Number(r.Input); !ok || n != r.N {
					t.Errorf("submit %d has the input %q", r.N, r.Input)
				}
				return "DONE", nil
			}), Options{Prefix: "p-"})
		})
		return sessions, approve
	}
	sessions, approve := seen()
	if len(sessions) != 4 || sessions["p-a-0"] != 3 {
		t.Errorf("%v", sessions)
	}
	if _, again := seen(); again != approve || approve == 0 {
		t.Errorf("persons take %s, then %s", approve, again)
	}
	w.Sessions = 0
	if sessions, _ := seen(); len(sessions) != 9 {
		t.Errorf("%v", sessions)
	}
}
