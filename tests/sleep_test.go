package tests

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// An idle session leaves memory and comes back where it was.
func TestIdleSessionSleepsAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		rt := start(t, stile.Config{Store: store, IdleTimeout: time.Minute})
		a := agent(says(program(`emit "turn"`, sayDone)), nil)
		s := open(t, rt, "sleeper", a)
		wantDone(t, ask(t, s, "one"))
		if n := rt.SessionsInMemory(); n != 1 {
			t.Fatalf("%d sessions awake, want 1", n)
		}
		if n := metric(t, rt, "sessions"); n != 1 {
			t.Errorf("the gauge says %v sessions, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 {
			t.Fatalf("%d sessions awake after the idle time, want 0", n)
		}
		if n := metric(t, rt, "sessions"); n != 0 {
			t.Errorf("the gauge says %v sessions, want 0", n)
		}
		if _, err := store.Snapshot(t.Context(), s.Incarnation()); err == nil {
			t.Error("a session with few records left a snapshot")
		}
		o := ask(t, s, "two")
		wantDone(t, o)
		if o.Turn.TurnIndex != 2 {
			t.Errorf("turn_index is %d after waking, want 2", o.Turn.TurnIndex)
		}
	})
}

// A session with many records leaves a snapshot, and what it wakes up from is the
// same as what the whole log gives.
func TestSnapshotOfSleepingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		rt := start(t, stile.Config{Store: store, IdleTimeout: time.Minute})
		a := agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), nil)
		s := open(t, rt, "sleeper", a)
		const runs = 40 // over 256 records
		for i := range runs {
			r := submit(t, s, fmt.Sprint("text ", i), stile.IdempotencyKey(fmt.Sprint("key ", i)))
			wantDone(t, decision(t, r))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 {
			t.Fatalf("%d sessions awake, want 0", n)
		}
		snap, err := store.Snapshot(t.Context(), s.Incarnation())
		if err != nil {
			t.Fatal(err)
		}
		if recs := stored(t, s); snap.Seq != int64(len(recs)) || snap.Hash != recs[len(recs)-1].Hash {
			t.Errorf("the snapshot is of record %d, the last is %d", snap.Seq, len(recs))
		}
		again := submit(t, s, "text 39", stile.IdempotencyKey("key 39"))
		if !again.Joined() || again.Ordinal() != runs {
			t.Errorf("the key of the snapshot gave run %d, joined %v", again.Ordinal(), again.Joined())
		}
		if o := ask(t, s, "more"); o.Turn.TurnIndex != runs+1 {
			t.Errorf("turn_index is %d, want %d", o.Turn.TurnIndex, runs+1)
		}
	})
}

// A snapshot that cannot be trusted is passed over for the log.
func TestDamagedSnapshotIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		rt := start(t, stile.Config{Store: store, IdleTimeout: time.Minute})
		s := open(t, rt, "sleeper", agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), nil))
		for i := range 40 {
			wantDone(t, ask(t, s, fmt.Sprint("text ", i)))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		snap, err := store.Snapshot(t.Context(), s.Incarnation())
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"", "{", `{"seq":1}`, string(snap.State[:len(snap.State)/2])} {
			damaged := snap
			damaged.State = []byte(state)
			if err := store.PutSnapshot(t.Context(), s.Incarnation(), damaged); err != nil {
				t.Fatal(err)
			}
			wantDone(t, ask(t, s, "wake "+state))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		if o := ask(t, s, "last"); o.Turn.TurnIndex != 45 {
			t.Errorf("turn_index is %d, want 45", o.Turn.TurnIndex)
		}
	})
}

// What is at work stays in memory, however long it takes.
func TestBusySessionStaysAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{IdleTimeout: time.Second})
		s := open(t, rt, "busy", agent(stalls(""), nil))
		r := submit(t, s, "go")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 1 {
			t.Fatalf("%d sessions awake during a turn, want 1", n)
		}
		wantHalt(t, decision(t, r), messages.ErrTimeout, "generation_wall")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 {
			t.Errorf("%d sessions awake after it, want 0", n)
		}
	})
}

// A subscriber keeps no session awake, and gets what comes after it woke.
func TestSubscriberHoldsNothingAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{IdleTimeout: time.Minute})
		s := open(t, rt, "watched", agent(says(program(sayDone)), nil))
		var decided []int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for u, err := range s.Events(t.Context(), 0) {
				if err != nil {
					return
				}
				if u.Record != nil && u.Record.Body.Kind() == messages.KindTurnDecided {
					decided = append(decided, u.Record.Turn)
					if len(decided) == 2 {
						return
					}
				}
			}
		}()
		ask(t, s, "one")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 {
			t.Fatalf("%d sessions awake under a subscriber, want 0", n)
		}
		ask(t, s, "two")
		<-done
		if len(decided) != 2 || decided[0] != 1 || decided[1] != 2 {
			t.Errorf("the subscriber saw the decisions of turns %v", decided)
		}
	})
}

// A submit that meets a session on its way out is never lost: it is answered, and
// its run decided. The idle time is so short that nearly every submit races.
func TestSubmitRacingSleep(t *testing.T) {
	const sessions, submits = 16, 40
	rt := start(t, stile.Config{IdleTimeout: time.Microsecond})
	a := &stile.Agent{Dialect: "plain", Model: says("yes")}
	var wg sync.WaitGroup
	for i := range sessions {
		s := open(t, rt, fmt.Sprint("racer-", i), a)
		for range 2 {
			wg.Go(func() {
				for range submits {
					r, err := s.Submit(t.Context(), "go")
					if err != nil {
						t.Error(err)
						return
					}
					if o, err := r.Decision(t.Context()); err != nil || o.Decision != stile.Done {
						t.Errorf("%v %v", o, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for i := range sessions {
		s := open(t, rt, fmt.Sprint("racer-", i), a)
		if n := len(bodies[*messages.TurnDecided](stored(t, s))); n != 2*submits {
			t.Errorf("session %d decided %d turns, want %d", i, n, 2*submits)
		}
	}
}
