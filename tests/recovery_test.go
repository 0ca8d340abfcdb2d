package tests

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// life is one process: a runtime on a journal that outlives it.
type life struct {
	t   *testing.T
	cfg stile.Config
	rt  *stile.Runtime
}

func (l *life) begin() *stile.Runtime {
	l.t.Helper()
	rt, err := stile.New(context.Background(), l.cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.rt = rt
	return rt
}

func (l *life) end() {
	l.t.Helper()
	if err := l.rt.Close(context.Background()); err != nil {
		l.t.Fatal(err)
	}
}

// onJournals runs a test on a journal in memory, in a bubble, and on SQLite.
func onJournals(t *testing.T, test func(t *testing.T, l *life)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			keys, err := stile.GenerateKeys(stile.Config{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, &life{t: t, cfg: stile.Config{Store: memory.New(), Keys: keys}})
		})
	})
	t.Run("memory+writer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			keys, err := stile.GenerateKeys(stile.Config{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, &life{t: t, cfg: stile.Config{Store: quiet{memory.New()}, Keys: keys}})
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		test(t, &life{t: t, cfg: stile.Config{Dir: t.TempDir()}})
	})
}

// entered is a tool that says that it runs, and then waits for its end.
func entered(name string, class messages.Class, in chan<- struct{}) tools.Tool {
	return tool(name, class, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		in <- struct{}{}
		return waits(ctx, c)
	})
}

// A turn that the end of the process cut off while the model still spoke is settled
// by the next one: HALT with ERR_CRASH, marked as resumed. Its reply is sealed, the
// run goes on in a fresh turn, which is told why.
func TestClosedWhileModelSpeaks(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		spoke := make(chan struct{})
		m := stalls("command\n emit \"half")
		s := open(t, l.begin(), "cut", agent(signals(m, spoke), nil))
		run := submit(t, s, "go")
		<-spoke
		l.end()
		rec := &recorder{Model: says(program(`emit "whole"`, sayDone))}
		s = open(t, l.begin(), "cut", agent(rec, nil))
		defer l.end()
		o := decision(t, s.Run(run.Ordinal()))
		wantDone(t, o)
		if o.Turns != 2 || o.Turn.TurnIndex != 2 || o.Turn.Resumed {
			t.Errorf("the run took %d turns and ended in turn %d, resumed %v, want 2 and 2", o.Turns, o.Turn.TurnIndex, o.Turn.Resumed)
		}
		if got := prompt(rec.requests()[0]); !contains(got, "restarted") {
			t.Errorf("the fresh turn is not told what happened:\n%s", got)
		}
		decided := bodies[*messages.TurnDecided](records(t, s))
		if len(decided) != 2 || decided[0].Reason != messages.ErrCrash || !decided[0].Resumed {
			t.Fatalf("decisions %+v", decided)
		}
		if got := texts(records(t, s)); len(got) != 1 || got[0] != "whole" {
			t.Errorf("emitted %q", got)
		}
	})
}

// Under recovery: halt the run ends with the settlement.
func TestRecoveryHalt(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		halting := func(m *manifest.Manifest) { m.Loop.Recovery = messages.RecoverHalt }
		spoke := make(chan struct{})
		s := open(t, l.begin(), "cut", agent(signals(stalls("x"), spoke), halting))
		run := submit(t, s, "go")
		<-spoke
		l.end()
		rec := &recorder{Model: says(program(sayDone))}
		s = open(t, l.begin(), "cut", agent(rec, halting))
		defer l.end()
		o := decision(t, s.Run(run.Ordinal()))
		wantHalt(t, o, messages.ErrCrash, "restarted")
		if !o.Turn.Resumed || o.Turns != 1 {
			t.Errorf("resumed %v after %d turns", o.Turn.Resumed, o.Turns)
		}
		if n := len(rec.requests()); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// A run that crashes every process it meets is given up after three settlements.
func TestSettlementsAreBounded(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var run *stile.Run
		for i := range 4 {
			spoke := make(chan struct{})
			s := open(t, l.begin(), "cursed", agent(signals(stalls("x"), spoke), nil))
			switch i {
			case 0:
				run = submit(t, s, "go")
				fallthrough
			case 1, 2:
				<-spoke
			case 3:
				o := decision(t, s.Run(run.Ordinal()))
				wantHalt(t, o, messages.ErrCrash)
				if n := len(bodies[*messages.TurnDecided](records(t, s))); n != 3 {
					t.Errorf("%d turns were decided, want 3", n)
				}
			}
			l.end()
		}
	})
}

// Runs that wait in the queue when the process ends are run by the next one, in
// order, and their idempotency keys are still known.
func TestQueueSurvivesTheProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		spoke := make(chan struct{})
		s := open(t, l.begin(), "queued", agent(signals(stalls("x"), spoke), nil))
		submit(t, s, "one")
		submit(t, s, "two", stile.IdempotencyKey("second"))
		submit(t, s, "three")
		<-spoke
		l.end()
		a := agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), nil)
		s = open(t, l.begin(), "queued", a)
		defer l.end()
		again := submit(t, s, "two", stile.IdempotencyKey("second"))
		if !again.Joined() || again.Ordinal() != 2 {
			t.Errorf("the repeated submit became run %d, joined %v", again.Ordinal(), again.Joined())
		}
		wantDone(t, decision(t, s.Run(3)))
		if got := texts(records(t, s)); len(got) != 3 || got[0] != "one" || got[1] != "two" || got[2] != "three" {
			t.Errorf("emitted %q", got)
		}
	})
}

// A key that named an input takes no other one, whatever the policy, and the run goes on
// untouched; the same input joins it. The next process knows that, too.
func TestKeyOfAnotherInput(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		key := stile.IdempotencyKey("k")
		tried := func(s *stile.Session) {
			t.Helper()
			for _, p := range []messages.Policy{"", stile.Reject, stile.Enqueue, stile.Interrupt, stile.Rollback, stile.Merge, stile.Debounce} {
				var e *stile.Error
				if _, err := s.Submit(t.Context(), "another", key, stile.Policy(p)); !errors.As(err, &e) || e.Code != messages.ErrConflict || e.Reason != stile.ReasonKeyReused {
					t.Errorf("another input under %q: %v", p, err)
				}
				if again := submit(t, s, "one", key, stile.Policy(p)); !again.Joined() || again.Ordinal() != 1 {
					t.Errorf("the same input under %q became run %d, joined %v", p, again.Ordinal(), again.Joined())
				}
			}
		}
		spoke := make(chan struct{})
		s := open(t, l.begin(), "keyed", agent(signals(stalls("x"), spoke), nil))
		submit(t, s, "one", key)
		<-spoke
		tried(s)
		l.end()
		s = open(t, l.begin(), "keyed", agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), nil))
		defer l.end()
		tried(s)
		wantDone(t, decision(t, s.Run(1)))
		tried(s)
		if n := len(bodies[*messages.Input](records(t, s))); n != 1 {
			t.Errorf("%d inputs were accepted", n)
		}
	})
}

// A cancel that was answered is not forgotten with the process: the run is not
// resumed.
func TestCancelSurvivesTheProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		in := make(chan struct{}, 1)
		hold := make(chan struct{})
		deaf := tool("test.deaf", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			in <- struct{}{}
			<-hold
			return neuroscript.Value{}, nil
		})
		a := agent(says(program(`set x = tool.test.deaf()`, sayDone)), nil, deaf)
		s := open(t, l.begin(), "cancelled", a)
		run := submit(t, s, "go")
		<-in
		if err := run.Cancel(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() { closed <- l.rt.Close(context.Background()) }()
		for s.Flush(t.Context()) == nil { // until the session has stopped
			runtime.Gosched()
		}
		close(hold)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		s = open(t, l.begin(), "cancelled", a)
		defer l.end()
		wantHalt(t, decision(t, s.Run(run.Ordinal())), messages.ErrCancelled, "ada")
	})
}

// Everything that happened in several lives verifies and replays to the same
// hashes.
func TestSeveralLivesReplay(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		for range 2 {
			spoke := make(chan struct{})
			s := open(t, l.begin(), "lives", agent(signals(stalls("x"), spoke), nil))
			if len(stored(t, s)) == 1 { // session.opened
				submit(t, s, "go")
			}
			<-spoke
			l.end()
		}
		a := agent(says(program(`emit "x"`, sayDone)), nil)
		s := open(t, l.begin(), "lives", a)
		defer l.end()
		wantDone(t, decision(t, s.Run(1)))
		rep, err := l.rt.Replay(t.Context(), "lives", a)
		if err != nil {
			t.Fatal(err)
		}
		recs := stored(t, s)
		if rep.Head != recs[len(recs)-1].Hash {
			t.Errorf("replayed to %s, the head is %s", rep.Head, recs[len(recs)-1].Hash)
		}
		v, err := l.rt.Archive().Verify(t.Context(), s.Incarnation(), stile.VerifyOptions{})
		if err != nil || !v.OK() {
			t.Errorf("%+v %v", v, err)
		}
	})
}

// Two processes on one journal: the one that lost the session stops with
// ERR_FENCED or a stale head and shows nothing more of it.
func TestSupersededRuntimeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := stile.Config{Store: store, Keys: keys}
		a := agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), func(m *manifest.Manifest) { m.Loop.NoProgressN = 1000 })
		old := open(t, start(t, cfg), "taken", a)
		wantDone(t, ask(t, old, "one"))
		fresh := open(t, start(t, cfg), "taken", a)
		wantDone(t, ask(t, fresh, "two"))
		_, err = old.Submit(t.Context(), "three")
		if c := messages.CodeOf(err); c != messages.ErrFenced && c != messages.ErrJournal {
			t.Fatalf("the old owner answered %v", err)
		}
		time.Sleep(soon)
		if got := texts(stored(t, fresh)); len(got) != 2 {
			t.Errorf("the journal holds %q", got)
		}
		// It has read the head again, so it may take the session back.
		wantDone(t, ask(t, old, "four"))
		head, err := store.Head(t.Context(), old.SID())
		if err != nil || head.Epoch != 3 {
			t.Errorf("epoch %d, %v; want 3", head.Epoch, err)
		}
	})
}
