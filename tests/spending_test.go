package tests

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
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
