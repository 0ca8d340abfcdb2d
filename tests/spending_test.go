package tests

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// talker says yes to everything, for 40 tokens and 300 millionths of a dollar.
func talker(t *testing.T) *stile.Agent {
	t.Helper()
	m, err := scripted.Parse("yes.jsonl", []byte(`{"match": {"re2": "(?s).*"}, "chunks": [{"text": "Yes."}], "usage": {"input": 30, "output": 10, "cost_micro_usd": 300}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Dialect: "plain", Model: m}
}

type spender struct {
	t   *testing.T
	mu  sync.Mutex
	now time.Time
	dir string
	rt  *stile.Runtime
}

func (s *spender) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(time.Millisecond)
	return s.now
}

func (s *spender) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *spender) start(l stile.Spending) {
	s.t.Helper()
	if s.rt != nil {
		if err := s.rt.Close(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.rt = start(s.t, stile.Config{Dir: s.dir, Now: s.clock, Spending: l})
}

// say submits and gives how it ended, or the reason of a refusal.
func (s *spender) say(name string) string {
	s.t.Helper()
	ses := open(s.t, s.rt, name, talker(s.t))
	run, err := ses.Submit(s.t.Context(), "well?")
	if err != nil {
		var e *stile.Error
		if !errors.As(err, &e) || e.Code != messages.ErrQuota {
			s.t.Fatal(err)
		}
		return e.Reason
	}
	o, err := run.Decision(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(o.Decision) + string(o.Reason)
}

func (s *spender) want(name string, want ...string) {
	s.t.Helper()
	for i, w := range want {
		if got := s.say(name); got != w {
			s.t.Errorf("%s, submit %d: %s, want %s", name, i+1, got, w)
		}
	}
}

func TestSpendingOfUsers(t *testing.T) {
	s := &spender{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	l := stile.Spending{UserTokensPerDay: 80}
	s.start(l)
	s.want("acme:ann:a", "DONE")
	s.want("acme:ann:b", "DONE", stile.OverUserTokens) // of all her sessions
	s.want("acme:bob:a", "DONE")                       // another user
	s.want("other:ann:a", "DONE")                      // of another tenant
	s.start(l)                                         // which forgets nothing
	s.want("acme:ann:a", stile.OverUserTokens)
	s.want("acme:bob:a", "DONE", stile.OverUserTokens)
	s.pass(24 * time.Hour)
	s.want("acme:ann:a", "DONE", "DONE", stile.OverUserTokens)
	s.start(stile.Spending{UserCostPerDay: 1000}) // 600 are used
	s.want("acme:ann:a", "DONE", "HALTERR_QUOTA", stile.OverUserCost)
	s.start(stile.Spending{UserTokensPerDay: 1000})
	s.want("acme:ann:a", "DONE")
}

func TestSpendingOfSessions(t *testing.T) {
	s := &spender{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 4, 23, 59, 0, 0, time.UTC)}
	l := stile.Spending{SessionTokens: 100}
	s.start(l)
	s.want("ada", "DONE", "DONE")
	s.pass(24 * time.Hour) // no day gives a session more
	s.start(l)
	s.want("ada", "HALTERR_QUOTA", stile.OverSessionTokens) // 20 were left for a run of 40
	s.want("eve", "DONE")
	s.start(stile.Spending{SessionCostMicroUSD: 900})
	s.want("ada", stile.OverSessionCost)
}

// Submits at once get what was left before any of them, and no more.
func TestSpendingAtOnce(t *testing.T) {
	s := &spender{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	s.start(stile.Spending{UserTokensPerDay: 120})
	var all sync.WaitGroup
	for i := range 8 {
		name := "acme:ann:" + string(rune('a'+i))
		all.Go(func() { s.say(name) })
	}
	all.Wait()
	s.want("acme:ann:z", stile.OverUserTokens)
	s.pass(24 * time.Hour)
	s.want("acme:ann:z", "DONE")
}

// forks makes a fork with an input, and gives how its run ended, or the reason of a refusal.
func (s *spender) forks(name string, at int64, as string) string {
	s.t.Helper()
	h, err := s.rt.ForkInput(s.t.Context(), name, at, as, "well, again?")
	if err != nil {
		var e *stile.Error
		if !errors.As(err, &e) || e.Code != messages.ErrQuota {
			s.t.Fatal(err)
		}
		if _, err := s.rt.Archive().Head(s.t.Context(), as); !stile.IsNotFound(err) {
			s.t.Errorf("the fork %s is refused, and is there: %v", as, err)
		}
		return e.Reason
	}
	o, err := open(s.t, s.rt, as, talker(s.t)).Run(h.Run + 1).Decision(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(o.Decision) + string(o.Reason)
}

func (s *spender) wantFork(name string, at int64, as, want string) {
	s.t.Helper()
	if got := s.forks(name, at, as); got != want {
		s.t.Errorf("the fork of %s at %d is %s, want %s", name, at, got, want)
	}
}

// A fork that begins a run is bound as a submit is, and counts as one: for its user, with what the
// user's other sessions have used.
func TestSpendingOfUsersWhoFork(t *testing.T) {
	s := &spender{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	l := stile.Spending{UserTokensPerDay: 80}
	s.start(l)
	s.want("acme:ann:a", "DONE", "DONE")
	s.wantFork("acme:ann:a", 1, "acme:ann:b", stile.OverUserTokens)
	s.wantFork("acme:ann:a", 1, "acme:bob:b", "DONE") // another user's
	s.want("acme:bob:b", "DONE", stile.OverUserTokens)
	s.pass(24 * time.Hour)
	s.wantFork("acme:ann:a", 2, "acme:ann:b", "DONE")
	s.want("acme:ann:b", "DONE", stile.OverUserTokens)
	s.start(l)
	s.wantFork("acme:ann:b", 0, "acme:ann:c", stile.OverUserTokens)
	s.pass(24 * time.Hour)
	s.want("acme:ann:a", "DONE")
	for _, as := range []string{"acme:ann:d", "acme:ann:e"} {
		if _, err := s.rt.Fork(t.Context(), "acme:ann:a", 0, as); err != nil {
			t.Fatal(err)
		}
	}
	s.start(l) // copies were used once
	s.wantFork("acme:ann:d", 0, "acme:ann:f", "DONE")
	s.wantFork("acme:ann:d", 0, "acme:ann:g", stile.OverUserTokens)
}

// For the session of a fork counts what it takes over, and no more: a fork from before a run has
// what was left there.
func TestSpendingOfForks(t *testing.T) {
	s := &spender{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	s.start(stile.Spending{SessionTokens: 100})
	s.want("ada", "DONE", "DONE", "HALTERR_QUOTA", stile.OverSessionTokens)
	s.wantFork("ada", 1, "first", "DONE")
	s.want("first", "DONE", "HALTERR_QUOTA", stile.OverSessionTokens)
	s.wantFork("ada", 3, "third", "HALTERR_QUOTA") // 20 were left
	s.want("third", stile.OverSessionTokens)
	s.start(stile.Spending{SessionTokens: 80})
	s.wantFork("ada", 3, "none", stile.OverSessionTokens)
	s.want("none", "DONE", "DONE", stile.OverSessionTokens) // of the refused fork nothing is counted
	s.wantFork("ada", 2, "second", "DONE")
	s.want("second", stile.OverSessionTokens)
}

// A fork that the journal refuses has used nothing, of its user and of its name.
func TestSpendingOfAForkThatFails(t *testing.T) {
	var full atomic.Bool
	store := &refusing{Store: memory.New(), refuse: func(*journal.Batch) bool { return full.Load() }}
	s := &spender{t: t, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	s.rt = start(t, stile.Config{Store: store, Now: s.clock, Spending: stile.Spending{SessionTokens: 80, UserTokensPerDay: 160}})
	s.want("acme:ann:a", "DONE", "DONE")
	full.Store(true)
	for range 3 {
		if _, err := s.rt.ForkInput(t.Context(), "acme:ann:a", 2, "acme:ann:b", "well, again?"); messages.CodeOf(err) != messages.ErrCancelled {
			t.Fatal(err)
		}
	}
	full.Store(false)
	s.want("acme:ann:b", "DONE", "DONE", stile.OverUserTokens)
}
