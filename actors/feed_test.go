package actors_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// sources are the tools of an agent's feeds, and when each was called.
type sources struct {
	begun time.Time
	mu    sync.Mutex
	calls map[string][]time.Duration
	does  map[string]func() (string, error) // instead of counting
}

func (s *sources) run(_ context.Context, call *tools.Call) (neuroscript.Value, error) {
	s.mu.Lock()
	s.calls[call.Name] = append(s.calls[call.Name], time.Since(s.begun))
	n, does := len(s.calls[call.Name]), s.does[call.Name]
	s.mu.Unlock()
	if does == nil {
		return neuroscript.String(fmt.Sprint(call.Name, n)), nil
	}
	v, err := does()
	return neuroscript.String(v), err
}

func (s *sources) set(name string, does func() (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does[name] = does
}

// called returns when a source was called, from its nth call on.
func (s *sources) called(name string, n int) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[name][n:])
}

// fed runs a host whose agent has feeds, each of the tool of its name, until the test ends.
func fed(t *testing.T, internals feeds.Internals, specs ...feeds.Spec) (h *actors.Host, a *compiled.Agent, s *sources, logged *observer.ObservedLogs) {
	t.Helper()
	s = &sources{begun: time.Now(), calls: map[string][]time.Duration{}, does: map[string]func() (string, error){}}
	a = agent(t, plain.Dialect{})
	var all []tools.Tool
	var names []string
	for _, spec := range specs {
		a.Rules.Feeds = append(a.Rules.Feeds, spec.ID)
		if spec.Source.Type == "tool" {
			all = append(all, tools.Tool{Name: spec.Source.Name, Class: messages.ReadOnly, Run: s.run})
			names = append(names, spec.Source.Name)
		}
	}
	registry, err := catalog.New(all...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: names})
	if err != nil {
		t.Fatal(err)
	}
	a.Targets = catalog.NewTargets(set, neuroscript.Limits{})
	if a.Feeds.Set, err = feeds.NewSet(specs, feeds.Rules{}); err != nil {
		t.Fatal(err)
	}
	keeper, err := feeds.NewKeeper(feeds.Config{Internals: internals})
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.InfoLevel)
	store := memory.New()
	w := groupcommit.New(store, groupcommit.Options{})
	h = actors.New(actors.Config{
		MemoryLimit: -1, IdleTimeout: -1, Store: store, Writer: w, Keys: noKeys{}, Observer: silent{}, SLog: slog.New(slog.DiscardHandler),
		Log: zap.New(core), Programs: neuroscript.NewCache(1 << 20), Rand: rand.Reader, Feeds: keeper,
	})
	h.Start()
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		keeper.Close()
		w.Close()
		time.Sleep(2 * time.Second) // the library keeps a goroutine a while after a dead letter
	})
	return h, a, s, logged
}

// ofTool is a feed of the tool of its name.
func ofTool(id string, seconds int64) feeds.Spec {
	spec := feeds.Spec{ID: id, Type: "on_demand", Source: feeds.SourceSpec{Type: "tool", Name: "own." + id}}
	if seconds > 0 {
		spec.Type, spec.Interval = "periodic", &seconds
	}
	return spec
}

// shows returns what is known of the feeds of the session.
func shows(t *testing.T, h *actors.Host, a *compiled.Agent) map[string]string {
	t.Helper()
	states, err := h.FeedStates(within(t), key, a)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, st := range states {
		all[st.ID] = st.Value + " " + st.Reason
	}
	return all
}

// A source that panics fails the actor of the session's feeds. Its supervisor lets that go on:
// the feed begins anew behind a pause and is given up within its budget, while every other keeps
// its interval, its value, and what it knows of its own failures.
func TestFeedCrashRestartsItsFeedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a, s, logged := fed(t, feeds.Internals{}, ofTool("well", 5), ofTool("boom", 60), ofTool("shaky", 60), ofTool("down", 5), ofTool("asked", 0))
		s.set("own.boom", func() (string, error) { panic("boom") })
		s.set("own.shaky", func() (string, error) { panic("shaky") })
		s.set("own.down", func() (string, error) { return "", errors.New("down") })
		if _, err := h.Open(within(t), key, a); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.set("own.shaky", nil) // from its third call on
		time.Sleep(time.Hour - 3*time.Second)
		if _, err := run(t, h, a); err != nil { // its prompt fetches what has no value
			t.Fatal(err)
		}
		seconds := func(at ...time.Duration) (all []time.Duration) {
			for _, d := range at {
				all = append(all, d*time.Second)
			}
			return all
		}
		for name, want := range map[string][]time.Duration{
			"own.boom":  seconds(0, 1, 3, 7, 15, 31),
			"own.shaky": seconds(0, 1, 3, 63, 123),
			"own.well":  seconds(0, 5, 10, 15, 20),
			"own.down":  seconds(0, 5, 10, 15, 20),
		} {
			got := s.called(name, 0)
			for i := range want {
				if i >= len(got) || (got[i]-want[i]).Abs() > feeds.Tick {
					t.Errorf("%s was called at %v, want %v", name, got[:min(len(got), len(want))], want)
					break
				}
			}
			if name == "own.boom" && len(got) != len(want) {
				t.Errorf("it was called again when it was given up: %v", got)
			}
		}
		if n := len(s.called("own.well", 0)); n != 720 {
			t.Errorf("a feed beside the crashes was fetched %d times in an hour, want 720", n)
		}
		synctest.Wait() // the cache has the value that the prompt fetched
		for id, want := range map[string]string{
			"well": `"own.well720" `, "boom": " the source crashed", "shaky": `"own.shaky62" `, "down": " down", "asked": `"own.asked1" `,
		} {
			if got := shows(t, h, a)[id]; got != want {
				t.Errorf("%s shows %q, want %q", id, got, want)
			}
		}
		crashes := logged.FilterMessage("the source of a feed crashed")
		if n, m := crashes.FilterField(zap.String("feed", "boom")).Len(), crashes.FilterField(zap.String("feed", "shaky")).Len(); n != 6 || m != 2 {
			t.Errorf("%d and %d crashes are logged", n, m)
		}
		if n, m := h.Counters().Crashes.Load(), h.Children(); n != 0 || m != 1 {
			t.Errorf("the session crashed %d times; it has %d children, want the actor of its feeds", n, m)
		}
	})
}

// A session without feeds has no actor for them, one with feeds has one while it is awake, and
// one that sleeps has none.
func TestFeedActorLivesWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a, s, _ := fed(t, feeds.Internals{}, ofTool("tick", 10))
		bare := agent(t, plain.Dialect{})
		want := func(children int, when string) {
			t.Helper()
			synctest.Wait()
			if n := h.Children(); n != children {
				t.Errorf("%s: %d children of sessions, want %d", when, n, children)
			}
		}
		if _, err := h.Open(within(t), messages.SessionKey{Tenant: "t", User: "u", ID: "bare"}, bare); err != nil {
			t.Fatal(err)
		}
		want(0, "without feeds")
		if _, err := run(t, h, a); err != nil {
			t.Fatal(err)
		}
		want(1, "with feeds")
		h.PutToSleep(key)
		want(0, "asleep")
		if h.Sessions() != 1 {
			t.Errorf("%d sessions are in memory, want the one without feeds", h.Sessions())
		}
		before := len(s.called("own.tick", 0))
		time.Sleep(time.Minute)
		if n := len(s.called("own.tick", before)); n != 0 {
			t.Errorf("%d fetches while the session sleeps", n)
		}
		due := make(chan struct{}) // what was due meanwhile is fetched behind the look
		s.set("own.tick", func() (string, error) { <-due; return "2", nil })
		if got := shows(t, h, a)["tick"]; got != `"own.tick1" ` { // and wakes it
			t.Errorf("the value of before is %q", got)
		}
		want(1, "awake again")
		close(due)
	})
}

// A session whose feeds are busy when it goes to sleep ends behind them, and what comes meanwhile
// is for its next activation, in order.
func TestSessionEndsBehindItsFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold atomic.Pointer[chan struct{}]
		busy := make(chan struct{}, 100)
		h, a, s, _ := fed(t, feeds.Internals{Now: func() time.Time {
			if c := hold.Load(); c != nil {
				busy <- struct{}{}
				<-*c
			}
			return time.Now()
		}}, ofTool("tick", 10))
		if _, err := run(t, h, a); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		held := make(chan struct{})
		hold.Store(&held)
		time.Sleep(10 * time.Second)
		<-busy // the actor decides what is due, on the wheel's goroutine
		h.PutToSleep(key)
		var answered []string
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				rep, err := h.Submit(within(t), key, a, messages.Input{Text: fmt.Sprint(i), User: "u"})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answered = append(answered, fmt.Sprint(i, " ", rep.Run))
			})
			synctest.Wait()
		}
		if h.Sessions() != 1 || len(answered) != 0 {
			t.Errorf("%d sessions, %q are answered before the feeds have ended", h.Sessions(), answered)
		}
		hold.Store(nil)
		close(held)
		all.Wait()
		slices.Sort(answered)
		if want := []string{"0 2", "1 3", "2 4"}; !slices.Equal(answered, want) {
			t.Errorf("answered %q, want %q", answered, want)
		}
		synctest.Wait()
		if n := h.Children(); n != 1 {
			t.Errorf("%d children, want the feeds of the second activation", n)
		}
		before := len(s.called("own.tick", 0))
		time.Sleep(time.Minute + time.Second)
		if n := len(s.called("own.tick", before)); n != 6 {
			t.Errorf("%d fetches in a minute, want 6", n)
		}
	})
}

// Values and lists are asked for from outside of a session that falls asleep all the time.
func TestFeedsOfASessionThatFallsAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a, s, _ := fed(t, feeds.Internals{}, ofTool("slow", 0), ofTool("tick", 10))
		s.set("own.slow", func() (string, error) { time.Sleep(time.Second); return "late", nil })
		if _, err := run(t, h, a); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(310 * time.Millisecond): // never at the end of a call of slow
				}
				h.TryToSleep(key)
			}
		})
		for range 20 {
			got, _, err := h.FeedValues(within(t), key, a, []string{"slow", "tick", "none"}, true)
			if err != nil || len(got) != 2 || got[0].Value != `"late"` || got[1].Value == "" {
				t.Fatalf("%+v, %v", got, err)
			}
			synctest.Wait() // a start of tick that is due may ask its source behind what is given
			if err := h.IngestFeed(within(t), key, a, "tick", `"given"`); err != nil {
				t.Fatal(err)
			}
			if got := shows(t, h, a)["tick"]; got != `"given" ` {
				t.Fatalf("tick shows %q", got)
			}
		}
		close(stop)
		all.Wait()
		for _, id := range []string{"", "none"} { // no feed
			if err := h.IngestFeed(within(t), key, a, id, "1"); messages.CodeOf(err) != messages.ErrNotFound {
				t.Errorf("%q has a value: %v", id, err)
			}
			if got, _, err := h.FeedValues(within(t), key, a, []string{id}, true); err != nil || len(got) != 0 {
				t.Errorf("%q: %v, %v", id, got, err)
			}
		}
	})
}
