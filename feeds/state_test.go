package feeds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// noon is a time that no clock gave.
var noon = time.Date(2024, 6, 15, 12, 0, 0, 0, time.UTC)

// crashed returns the crashes of a feed after so many, each at the earliest time.
func crashed(n int) *Crashes {
	var c Crashes
	for at := noon; n > 0; n-- {
		c = c.Crashed(at)
		at = c.Next()
	}
	return &c
}

// What is done when a feed is wanted, and when it is due, follows from its state, the value at
// hand and the time.
func TestStateDecides(t *testing.T) {
	each, kept, ticks := Entry{Definition: Definition{Trigger: OnDemand}}, Entry{Definition: Definition{Trigger: OnDemand, TTL: time.Minute, HasTTL: true}},
		Entry{Definition: Definition{Trigger: Periodic, Interval: time.Minute}}
	remote := each
	remote.Source.Kind = Remote
	hears := &subscription{}
	hears.hears.Store(true)
	forgiven := crashed(1).Succeeded()
	for name, c := range map[string]struct {
		state  state
		age    time.Duration // of the value at hand; negative for none
		failed bool          // a refresh after it
		want   step          // by a prompt
		force  step          // by get_context_feed with refresh
		due    step          // by the wheel
	}{
		"no value":                        {state{entry: &each}, -1, false, stepBegin, stepBegin, stepBegin},
		"each prompt fetches":             {state{entry: &each}, 0, false, stepBegin, stepBegin, stepTake},
		"a moment old":                    {state{entry: &each}, 1, false, stepBegin, stepBegin, stepTake},
		"within its time":                 {state{entry: &kept}, time.Minute, false, stepTake, stepBegin, stepBegin},
		"behind its time":                 {state{entry: &kept}, time.Minute + 1, false, stepBegin, stepBegin, stepBegin},
		"of this tick":                    {state{entry: &ticks}, Tick - 1, false, stepTake, stepBegin, stepTake},
		"of this tick, and failed since":  {state{entry: &ticks}, Tick - 1, true, stepTake, stepBegin, stepBegin},
		"of the tick before":              {state{entry: &ticks}, Tick, false, stepTake, stepBegin, stepBegin},
		"late":                            {state{entry: &ticks}, time.Minute + lateBy + 1, false, stepTake, stepBegin, stepBegin},
		"out of date":                     {state{entry: &ticks}, staleIntervals*time.Minute + 1, false, stepBegin, stepBegin, stepBegin},
		"a fetch runs":                    {state{entry: &ticks, fetch: &Fetch{}}, -1, false, stepJoin, stepJoin, stepJoin},
		"a fetch runs beside a value":     {state{entry: &kept, fetch: &Fetch{}}, time.Second, false, stepTake, stepJoin, stepJoin},
		"crashed":                         {state{entry: &ticks, crashes: crashed(1)}, -1, false, stepRefuse, stepRefuse, stepRefuse},
		"crashed beside a value":          {state{entry: &kept, crashes: crashed(1)}, time.Second, false, stepRefuse, stepRefuse, stepRefuse},
		"given up":                        {state{entry: &kept, crashes: crashed(BackOffTimes + 1)}, time.Second, false, stepRefuse, stepRefuse, stepRefuse},
		"crashed before its last success": {state{entry: &kept, crashes: &forgiven}, time.Second, false, stepTake, stepBegin, stepBegin},
		"a peer that is heard":            {state{entry: &remote, changes: hears}, time.Hour, false, stepTake, stepBegin, stepBegin},
		"a peer that is not":              {state{entry: &remote, changes: &subscription{}}, time.Hour, false, stepBegin, stepBegin, stepBegin},
		"no peer":                         {state{entry: &remote}, time.Hour, false, stepBegin, stepBegin, stepBegin},
	} {
		v, known := Value{At: noon.Add(-c.age), Failed: c.failed}, c.age >= 0
		if got := c.state.wanted(v, known, false, noon); got != c.want {
			t.Errorf("%s: a prompt decides %d, want %d", name, got, c.want)
		}
		if got := c.state.wanted(v, known, true, noon); got != c.force {
			t.Errorf("%s: a refresh decides %d, want %d", name, got, c.force)
		}
		if got := c.state.due(v, known, noon); got != c.due {
			t.Errorf("%s: a start decides %d, want %d", name, got, c.due)
		}
	}
}

// The end of a fetch changes the crashes and the reason of its feed, and what the wheel is told.
func TestStateAfterAFetch(t *testing.T) {
	boom := &PanicError{Value: "boom"}
	later := noon.Add(BackOffWindow + time.Hour)
	for name, c := range map[string]struct {
		crashes *Crashes
		reason  string
		now     time.Time
		err     error
		next    time.Time
		off     bool // the wheel does not start it any more
		givenUp bool
		why     string
		empty   bool
	}{
		"a value":                            {nil, "", noon, nil, time.Time{}, false, false, "", true},
		"a value after a failure":            {nil, "not today", noon, nil, time.Time{}, false, false, "", true},
		"a failure":                          {nil, "", noon, refuse("", ReasonUnreachable, "not today"), time.Time{}, false, false, "not today", false},
		"a crash":                            {nil, "", noon, boom, noon.Add(BackOffFirst), false, false, "the source crashed", false},
		"a second crash":                     {crashed(1), "", noon.Add(time.Second), boom, noon.Add(3 * time.Second), false, false, "the source crashed", false},
		"a failure between crashes":          {crashed(1), "", noon.Add(time.Second), errors.New("no"), noon.Add(time.Second), false, false, "", false},
		"a value after a crash":              {crashed(1), "", noon.Add(time.Second), nil, time.Time{}, false, false, "", false},
		"a value long after a crash":         {crashed(1), "", later, nil, time.Time{}, false, false, "", true},
		"one crash too many":                 {crashed(BackOffTimes), "", noon.Add(time.Minute), boom, noon.Add(31 * time.Second), true, true, "the source crashed", false},
		"a value of a fetch begun before it": {crashed(BackOffTimes + 1), "", noon.Add(time.Minute), nil, noon.Add(31 * time.Second), true, false, "", false},
		"the crash of a feed it needs":       {nil, "", noon, failCause(ReasonNeeds, boom, "needs a"), time.Time{}, false, false, "needs a: the source crashed", false},
	} {
		s := state{entry: &Entry{}, fetch: &Fetch{}, crashes: c.crashes, reason: c.reason}
		if got := s.ended(c.now, c.err); got != c.givenUp {
			t.Errorf("%s: given up %v", name, got)
		}
		if at, off := s.next(); !at.Equal(c.next) || off != c.off {
			t.Errorf("%s: the next start is at %s, off %v; want %s, %v", name, at, off, c.next, c.off)
		}
		if s.fetch != nil || s.reason != c.why || s.empty() != c.empty {
			t.Errorf("%s: %+v, want the reason %q, empty %v", name, s, c.why, c.empty)
		}
	}
}

// An end that is too late to count, of a fetch that is not the feed's any more, changes nothing.
func TestEndOfAnotherFetch(t *testing.T) {
	k, err := NewKeeper(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	f := k.Open(Session{Key: "s"}, func(any) {})
	defer f.Stop()
	f.Sync(setOf(t, onDemand("a", "")))
	late := &Fetch{client: f.client, state: f.feeds[0], entry: f.feeds[0].entry, err: &PanicError{}}
	if f.Crashed(late) != nil {
		t.Error("the crash of another fetch fails the feed")
	}
	f.Ended(late)
	if !f.feeds[0].empty() {
		t.Errorf("%+v", f.feeds[0])
	}
}

// A client whose session has stopped is told so, also when it asked before; one that gives up is
// answered.
func TestClientOfASessionThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeeper(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		f := k.Open(Session{Key: "s"}, func(any) {}) // its actor never gets to a message
		set := setOf(t, onDemand("a", ""), onDemand("b", ""))
		f.Sync(set)
		begun := time.Now()
		els := f.Client().Prompt(t.Context(), set)
		if took := time.Since(begun); seen(els) != "a=!timeout b=!timeout" || took != DefaultDeadline {
			t.Errorf("%s after %s", seen(els), took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := make(chan Element)
		go func() {
			el, _, _, _ := f.Client().Get(ctx, set, "b", false)
			asked <- el
		}()
		synctest.Wait()
		f.Stop()
		f.Stop()
		if el := <-asked; el.Error != ErrorFailed || !errors.Is(el.Cause, ErrStopped) {
			t.Errorf("%+v", el)
		}
		if el, _, _, ok := f.Client().Get(ctx, set, "a", false); !ok || !errors.Is(el.Cause, ErrStopped) {
			t.Errorf("%v, %+v", ok, el)
		}
		f.Sync(set)
		f.Start(&Starts{})
		if len(f.feeds) != 0 || f.Reason("a") != "" {
			t.Error("feeds begin behind the stop")
		}
	})
}

// A manifest that changes under what its model made may leave references in a circle: then these
// feeds fail, however they are asked for.
func TestReferencesInACircle(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		set, err := setOf(t, periodic("a", 5), onDemand("b", ""), onDemand("c", "")).With([]Edit{
			{ID: "a", Spec: `{"id":"a","type":"periodic","interval":5,"source":{"type":"tool","name":"a","params":"{\"x\":\"$b\"}"}}`},
			{ID: "b", Spec: `{"id":"b","source":{"type":"tool","name":"b","params":"{\"x\":\"$a\"}"}}`},
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		k.Sync(s, set)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSeen(t, k, s, set, "a=!failed b=!failed c=c1")
		if f.count("a")+f.count("b") != 0 {
			t.Errorf("calls %v", f.calls)
		}
	})
}

// A start that waits for a worker does not run when its feed is gone, and a caller that wants
// its feed does not wait for one; nor does a feed that refers to it.
func TestStartsThatWait(t *testing.T) {
	bubble(t, Config{Workers: 1}, func(t *testing.T, k *host, s Session, f *script) {
		calls := func() (n int) {
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, c := range f.calls {
				n += c
			}
			return n
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			f.set(name, after(time.Second, `"v"`))
		}
		set := setOf(t, periodic("a", 60), periodic("b", 60), periodic("c", 60), periodic("d", 60))
		k.Sync(s, set)
		if n := calls(); n != 1 {
			t.Fatalf("one worker began %d fetches", n)
		}
		begun := time.Now()
		wantSeen(t, k, s, set, "a=v b=v c=v d=v")
		if took := time.Since(begun); took != time.Second || calls() != 4 {
			t.Errorf("a prompt waited %s for %d fetches", took, calls())
		}
		time.Sleep(59*time.Second + Tick) // all are due
		if n := calls(); n != 5 {
			t.Fatalf("one worker began %d fetches", n-4)
		}
		k.Sync(s, Set{})
		time.Sleep(time.Minute)
		k.Sync(s, set)
		calls()
		k.Stop(s.Key)
		time.Sleep(time.Minute)
		if n := calls(); n != 6 {
			t.Errorf("%d fetches of feeds that are gone", n-5)
		}
		refers := periodic("a", 60)
		refers.Source.Params = `{"x":"$b"}`
		k.Sync(s, setOf(t, periodic("d", 60), refers, periodic("b", 60)))
		time.Sleep(3 * time.Second)
		if n := calls(); n != 9 {
			t.Errorf("%d fetches within three seconds, want d, and a behind b", n-6)
		}
		if st := k.Stats(); st.InFlight != 0 || st.Dropped != 0 {
			t.Errorf("%+v", st)
		}
	})
}
