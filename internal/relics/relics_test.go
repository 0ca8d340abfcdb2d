package relics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A call has its own answer. One whose time is up leaves no place behind.
func TestWaiters(t *testing.T) {
	var w Waiters
	got := make(chan string, 2)
	posted := make(chan uint64, 2)
	for range 2 {
		go func() {
			result, err := w.Wait(t.Context(), func(handle uint64) { posted <- handle })
			if err != nil {
				t.Error(err)
			}
			got <- result
		}()
	}
	a, b := <-posted, <-posted
	w.Answer(&turn.AnswerRelic{Handle: a, Result: "a"})
	if r := <-got; r != "a" {
		t.Errorf("%q", r)
	}
	w.Answer(&turn.AnswerRelic{Handle: a, Result: "again"})
	w.Answer(&turn.AnswerRelic{Handle: b, Result: "b"})
	if r := <-got; r != "b" {
		t.Errorf("%q", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(messages.Errorf(messages.ErrTimeout, "over"))
	if _, err := w.Wait(ctx, func(uint64) {}); messages.CodeOf(err) != messages.ErrTimeout || w.all != nil {
		t.Errorf("%v, %d places", err, len(w.all))
	}
}

const kept = "t:u:s"

// scopes makes those of a host whose sessions answer a call by its number, from 1.
func scopes(t *testing.T, answer func(n int, call *turn.ScopeCall) (string, error)) (*Scopes, *memory.Store, *int) {
	t.Helper()
	store, calls := memory.New(), 0
	specimen.Must(t, store, specimen.Start(t, kept, 1).Batch(&messages.SessionOpened{}))
	return &Scopes{
		Store: store, Now: time.Now, Stopping: func() bool { return false },
		Agent: func(context.Context) (*compiled.Agent, error) { return &compiled.Agent{}, nil },
		Ask: func(_ context.Context, _ messages.SessionKey, _ *compiled.Agent, call *turn.ScopeCall) (string, error) {
			calls++
			return answer(calls, call)
		},
	}, store, &calls
}

func call(s *Scopes, t *testing.T, by Caller) (string, error) {
	t.Helper()
	by.SID, by.Inc = kept, specimen.Inc(1)
	if by.Epoch == 0 {
		by.Epoch = 1
	}
	return s.Keep(t.Context(), by, catalog.KeepCall{Scope: "user", Key: "k", Relic: "r", Args: "{}"})
}

// A call is made again while its session is elsewhere, and says then that it may be there.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, calls := scopes(t, func(n int, c *turn.ScopeCall) (string, error) {
			if c.Repeat != (n > 1) || c.By != kept {
				t.Errorf("call %d: %+v", n, c)
			}
			if n < 4 {
				return "", messages.Errorf(messages.ErrFenced, "elsewhere")
			}
			return "1", nil
		})
		if got, err := call(s, t, Caller{}); got != "1" || err != nil || *calls != 4 {
			t.Errorf("%q, %v after %d calls", got, err, *calls)
		}
	})
}

// A refusal is final, so is the end of the host, and calls have a bound.
func TestNotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			code     messages.Code
			stopping bool
			calls    int
		}{
			{messages.ErrDenied, false, 1},
			{messages.ErrCancelled, true, 1},
			{messages.ErrBusy, false, scopeTries},
		} {
			s, _, calls := scopes(t, func(int, *turn.ScopeCall) (string, error) { return "", messages.Errorf(tt.code, "no") })
			s.Stopping = func() bool { return tt.stopping }
			if _, err := call(s, t, Caller{}); messages.CodeOf(err) != tt.code || *calls != tt.calls {
				t.Errorf("%s: %v after %d calls", tt.code, err, *calls)
			}
		}
	})
}

// What an earlier attempt wrote is its result; one of another call, or of before the caller, is not.
func TestRepeat(t *testing.T) {
	for _, tt := range []struct {
		key   string
		found bool
	}{{"k", true}, {"other", false}} {
		s, store, calls := scopes(t, func(int, *turn.ScopeCall) (string, error) { return "anew", nil })
		key, _ := messages.SessionKey{Tenant: "t", User: "u", ID: "s"}.Relics("user")
		specimen.Must(t, store, specimen.Start(t, key.SID(), 2).Batch(&messages.SessionOpened{}, &messages.RelicChanged{Key: tt.key, Result: "before"}))
		got, err := call(s, t, Caller{Repeat: true})
		if err != nil || (got == "before") != tt.found || (*calls == 0) != tt.found {
			t.Errorf("%s: %q, %v after %d calls", tt.key, got, err, *calls)
		}
	}
}

// An owner that was superseded changes nothing; a look needs no owner and opens no session.
func TestSuperseded(t *testing.T) {
	s, _, calls := scopes(t, func(int, *turn.ScopeCall) (string, error) { return "1", nil })
	s.Store = superseded{s.Store.(*memory.Store)}
	if _, err := call(s, t, Caller{}); messages.CodeOf(err) != messages.ErrFenced || *calls != 0 {
		t.Errorf("%v after %d calls", err, *calls)
	}
	if _, err := call(s, t, Caller{Reads: true}); *calls != 0 || messages.CodeOf(err) == messages.ErrFenced {
		t.Errorf("a look: %v after %d calls", err, *calls)
	}
	s.Agent = nil
	if _, err := call(s, t, Caller{}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("without an agent: %v", err)
	}
}

// superseded is a store whose sessions have gone to another host.
type superseded struct{ *memory.Store }

func (s superseded) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	head, err := s.Store.HeadOf(ctx, inc)
	head.Epoch += 5
	return head, err
}
