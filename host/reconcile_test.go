package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// A run that ended where this host did not see it, or whose session is gone, makes room once it
// seems to be in flight for long; one that is in flight does not.
func TestReconcile(t *testing.T) {
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.WithoutCancel(t.Context()))
	stuck := stuckModel{make(chan struct{}, 1)}
	open := func(id string, a *stile.Agent) *stile.Run {
		s, err := rt.Open(t.Context(), "t:u:"+id, a)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	ended := open("ended", &stile.Agent{Dialect: "plain", Model: scripted.New("one")})
	if _, err := ended.Decision(t.Context()); err != nil {
		t.Fatal(err)
	}
	open("runs", &stile.Agent{Dialect: "plain", Model: stuck})
	clock := noon()
	m := meterAt(t, clock, "")
	s := &Server{rt: rt, meter: m}
	runs := func() int {
		n, _, _ := m.used("t")
		return n
	}
	for _, id := range []string{"ended", "runs", "gone"} {
		done, over := m.submit("t:u:"+id, Limits{}, 100)
		if over != "" {
			t.Fatal(over)
		}
		done(1)
	}
	if s.reconcile(t.Context(), "t") || runs() != 3 {
		t.Errorf("%d runs are left of three that began just now", runs())
	}
	clock.at = clock.at.Add(staleRun + time.Second)
	if !s.reconcile(t.Context(), "t") || runs() != 1 {
		t.Errorf("%d runs are left, want that in flight", runs())
	}
}

// A user's budget is there again on the next day; what a session may use in its life is not.
func TestSpentBudgets(t *testing.T) {
	s := &Server{meter: meterAt(t, noon(), "")}
	for reason, again := range map[string]bool{
		stile.OverUserTokens: true, stile.OverUserCost: true, stile.OverSessionTokens: false, stile.OverSessionCost: false,
	} {
		var p *problem
		err := s.spent(&messages.Error{Code: messages.ErrQuota, Reason: reason})
		if !errors.As(err, &p) || p.Retryable != again || (p.retryAfter == 12*time.Hour) != again || p.Reason != reason {
			t.Errorf("%s: %+v", reason, err)
		}
	}
	if err := errors.New("another"); !errors.Is(s.spent(err), err) {
		t.Error("another error is changed")
	}
}
