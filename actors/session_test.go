package actors_test

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// What a session's actor does with the decisions of its driver: what goes to the journal
// when, who is answered, and what ends with whom.

// speaker is a model whose words a test gives, one at a time; it ends when the words are
// closed or nobody wants them.
type speaker struct {
	words chan string
	ended chan error // why the stream ended, nil at its end
}

func newSpeaker() *speaker { return &speaker{make(chan string), make(chan error, 9)} }

// Stream implements llm.Model.
func (m *speaker) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for {
			select {
			case word, more := <-m.words:
				if !more {
					m.ended <- nil
					yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
					return
				}
				if !yield(llm.Chunk{Text: []byte(word)}, nil) {
					m.ended <- errors.New("unwanted")
					return
				}
			case <-ctx.Done():
				m.ended <- context.Cause(ctx)
				yield(llm.Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// speaks is an agent with a speaker for its model.
func speaks(t *testing.T) (*compiled.Agent, *speaker) {
	t.Helper()
	a, m := agent(t, plain.Dialect{}), newSpeaker()
	a.Routes[0].Port = m
	return a, m
}

// acts is an agent of cortex that has one tool.
func acts(t *testing.T, class messages.Class, do func(context.Context) error) (*compiled.Agent, *speaker) {
	t.Helper()
	return calls(t, class, func(ctx context.Context, _ *tools.Call) error { return do(ctx) })
}

// calls is acts for a tool that looks at its call.
func calls(t *testing.T, class messages.Class, do func(context.Context, *tools.Call) error) (*compiled.Agent, *speaker) {
	t.Helper()
	a, m := agent(t, cortex.Dialect{}), newSpeaker()
	registry, err := catalog.New(tools.Tool{Name: "own.tool", Class: class, Run: func(ctx context.Context, call *tools.Call) (neuroscript.Value, error) {
		return neuroscript.Value{}, do(ctx, call)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Tools, err = registry.Apply(catalog.Policy{Allow: []string{"own.tool"}}); err != nil {
		t.Fatal(err)
	}
	a.Targets = catalog.NewTargets(a.Tools, neuroscript.Limits{})
	a.Rules.Target = a.Targets.Find
	a.Routes[0].Port = m
	return a, m
}

// host starts a host whose sessions never go to sleep by themselves and leave snapshots.
func host(t *testing.T, store journal.Store, every int64) *actors.Host {
	t.Helper()
	w := groupcommit.New(store, groupcommit.Options{})
	h := actors.New(actors.Config{
		MemoryLimit: -1, IdleTimeout: -1, SnapshotEvery: every,
		Store: store, Writer: w, Keys: noKeys{}, Observer: silent{}, SLog: slog.New(slog.DiscardHandler),
		Programs: neuroscript.NewCache(1 << 20), Rand: rand.Reader,
	})
	h.Start()
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		w.Close()
	})
	return h
}

func submit(t *testing.T, h *actors.Host, a *compiled.Agent) actors.Reply {
	t.Helper()
	rep, err := h.Submit(within(t), key, a, messages.Input{Text: "go", User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func ended(t *testing.T, rep actors.Reply) *messages.RunEnd {
	t.Helper()
	_, end, err := rep.End.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return end.Body.(*messages.RunEnd)
}

func head(t *testing.T, store journal.Store) journal.Head {
	t.Helper()
	head, err := store.Head(t.Context(), key.SID())
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// stores are those that answer at once, and those with a writer.
var stores = map[string]func() journal.Store{
	"at once": func() journal.Store { return memory.New() },
	"writer":  func() journal.Store { return batched{memory.New()} },
}

// Lazy records go when they have waited their time, each time anew, although a clock of the
// turn is due much later.
func TestLazyRecordsGoInTime(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				h := host(t, store, 0)
				a, m := speaks(t)
				a.Rules.Limits.TurnWall = time.Hour
				rep := submit(t, h, a)
				settle()
				for n := range 3 {
					before := head(t, store).Seq
					m.words <- "word "
					time.Sleep(turn.LazyHold - time.Millisecond)
					synctest.Wait()
					if seq := head(t, store).Seq; seq != before {
						t.Errorf("word %d: record %d went before its time", n, seq)
					}
					time.Sleep(2 * time.Millisecond)
					synctest.Wait()
					if seq := head(t, store).Seq; seq == before {
						t.Errorf("word %d did not go in its time", n)
					}
				}
				close(m.words)
				if end := ended(t, rep); end.Decision != messages.Done {
					t.Errorf("%+v", end)
				}
			})
		})
	}
}

// A clock of the turn rings in time, whatever else is due before.
func TestClocksRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t, memory.New(), 0)
		a, m := speaks(t)
		a.Rules.Limits.TurnWall = 10 * time.Second
		from := time.Now()
		rep := submit(t, h, a)
		m.words <- "word "
		if end := ended(t, rep); end.Decision != messages.Halt || end.Reason != messages.ErrTimeout {
			t.Errorf("%+v", end)
		}
		if took := time.Since(from); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it took %s", took)
		}
		if why := <-m.ended; messages.CodeOf(why) != messages.ErrCancelled {
			t.Errorf("the model's stream ended with %v", why)
		}
	})
}

// A flush has the lazy records on disk when it is answered, and does not wait for their time.
func TestFlushIsDurable(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				h := host(t, store, 0)
				a, m := speaks(t)
				rep := submit(t, h, a)
				settle()
				before := head(t, store).Seq
				m.words <- "word "
				synctest.Wait()
				from := time.Now()
				if err := h.Flush(within(t), key, a); err != nil {
					t.Fatal(err)
				}
				if seq := head(t, store).Seq; seq == before {
					t.Error("nothing is on disk")
				}
				if took := time.Since(from); took >= turn.LazyHold {
					t.Errorf("it took %s", took)
				}
				if err := h.Flush(within(t), key, a); err != nil { // nothing is left
					t.Fatal(err)
				}
				close(m.words)
				ended(t, rep)
			})
		})
	}
}

// A call that begins is shown at once to those who follow the session, and to nobody else.
func TestFollowersSeeCalls(t *testing.T) {
	for _, followed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			h := host(t, store, 0)
			goOn := make(chan struct{})
			a, m := acts(t, messages.ReadOnly, func(context.Context) error {
				<-goOn
				return nil
			})
			rep := submit(t, h, a)
			settle()
			if followed {
				sub := h.Hub().Subscribe(key.SID())
				defer sub.Close()
			}
			before := head(t, store).Seq
			m.words <- `<action id="a">{"name":"own.tool"}</action>`
			synctest.Wait()
			if went := head(t, store).Seq > before; went != followed {
				t.Errorf("followed %v: the call went to the journal: %v", followed, went)
			}
			close(goOn)
			m.words <- "<response>end</response>"
			close(m.words)
			if end := ended(t, rep); end.Decision != messages.Done {
				t.Errorf("%+v", end)
			}
		})
	}
}

// An owner that another host has superseded is told so: its callers, those who wait for a
// run, and its followers. The next request wakes a session that knows what the other wrote.
func TestSuperseded(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				one, two := host(t, store, 0), host(t, store, 0)
				a := agent(t, plain.Dialect{})
				ended(t, submit(t, one, a))
				ended(t, submit(t, two, a))
				sub := one.Hub().Subscribe(key.SID())
				_, err := one.Submit(within(t), key, a, messages.Input{Text: "late", User: "u"})
				if code := messages.CodeOf(err); code != messages.ErrFenced && code != messages.ErrJournal {
					t.Errorf("the loser is told %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for err = nil; err == nil; {
					_, _, err = sub.Next(ctx)
				}
				if code := messages.CodeOf(err); code != messages.ErrFenced && code != messages.ErrJournal {
					t.Errorf("its follower is told %v", err)
				}
				synctest.Wait()
				if n := one.Sessions(); n != 0 {
					t.Errorf("%d sessions of the loser are left", n)
				}
				before := head(t, store).Seq
				if end := ended(t, submit(t, one, a)); end.Decision != messages.Done {
					t.Errorf("%+v", end)
				}
				if after := head(t, store).Seq; after <= before {
					t.Errorf("the head is %d, and was %d", after, before)
				}
			})
		})
	}
}

// A session that is at work is not closed, not put to sleep, and not taken over by another
// agent; one that is idle is.
func TestAtWork(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				h := host(t, store, 0)
				a, m := speaks(t)
				rep := submit(t, h, a)
				settle()
				if n := h.Counters().InFlight.Load(); n != 1 {
					t.Errorf("%d runs at work, want 1", n)
				}
				if err := h.Close(within(t), key, a, "over"); messages.CodeOf(err) != messages.ErrBusy {
					t.Errorf("close: %v", err)
				}
				h.PutToSleep(key)
				other := agent(t, plain.Dialect{})
				if _, err := h.Open(within(t), key, other); err != nil {
					t.Fatal(err)
				}
				settle()
				if h.Sessions() != 1 || h.Agent(key.SID()) != a {
					t.Error("the session went, or has another agent")
				}
				close(m.words)
				if end := ended(t, rep); end.Decision != messages.Done {
					t.Errorf("%+v", end)
				}
				settle()
				if n := h.Counters().InFlight.Load(); n != 0 {
					t.Errorf("%d runs at work, want none", n)
				}
				if _, err := h.Open(within(t), key, other); err != nil {
					t.Fatal(err)
				}
				if h.Agent(key.SID()) != other {
					t.Error("an idle session keeps its agent")
				}
				h.PutToSleep(key)
				settle()
				if n := h.Sessions(); n != 0 {
					t.Errorf("%d sessions are awake", n)
				}
			})
		})
	}
}

// A session that was closed is gone: who opens its name gets another one. While its end is
// on the way to the journal it takes nothing.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gated{memory.New(), make(chan struct{})}
		h, a := host(t, store, 0), agent(t, plain.Dialect{})
		open := func() (inc messages.Incarnation) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				rep, err := h.Open(within(t), key, a)
				if err != nil {
					t.Error(err)
				}
				inc = rep.Inc
			}()
			synctest.Wait()
			select {
			case store.gate <- struct{}{}:
			default:
			}
			<-done
			return inc
		}
		first := open()
		closed := make(chan error, 1)
		go func() { closed <- h.Close(within(t), key, a, "over") }()
		synctest.Wait()
		if _, err := h.Submit(within(t), key, a, messages.Input{Text: "late", User: "u"}); messages.CodeOf(err) != messages.ErrBusy {
			t.Errorf("a submit meets the end: %v", err)
		}
		store.gate <- struct{}{}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := h.Sessions(); n != 0 {
			t.Errorf("%d closed sessions are awake", n)
		}
		if second := open(); second == first {
			t.Error("a closed session is opened again")
		}
	})
}

// A session leaves a snapshot when enough was recorded since the last, and wakes from it as
// it was.
func TestSnapshots(t *testing.T) {
	for every, want := range map[int64]bool{1: true, 1000: false} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			h, a := host(t, store, every), agent(t, plain.Dialect{})
			ended(t, submit(t, h, a))
			synctest.Wait()
			h.PutToSleep(key)
			synctest.Wait()
			at := head(t, store)
			snap, err := store.Snapshot(t.Context(), at.Inc)
			if got := err == nil; got != want || want && snap.Seq != at.Seq {
				t.Errorf("every %d records: a snapshot at %d, %v; the head is %d", every, snap.Seq, err, at.Seq)
			}
			rep := submit(t, h, a)
			if end := ended(t, rep); end.Decision != messages.Done || rep.Run != 2 || rep.Inc != at.Inc {
				t.Errorf("run %d ended %+v", rep.Run, end)
			}
		})
	}
}

// Requests that come while the session loads are answered in their order.
func TestRequestsWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: memory.New(), goOn: make(chan struct{})}
		h, a := host(t, store, 0), agent(t, plain.Dialect{})
		runs := make(chan int64, 5)
		for n := range cap(runs) {
			go func() {
				rep, err := h.Submit(within(t), key, a, messages.Input{Text: "go", User: "u", Policy: messages.Enqueue})
				if err != nil {
					t.Errorf("request %d: %v", n, err)
				}
				runs <- rep.Run
			}()
		}
		synctest.Wait()
		if n := len(runs); n > 0 {
			t.Errorf("%d were answered", n)
		}
		close(store.goOn)
		seen := map[int64]bool{}
		for range cap(runs) {
			seen[<-runs] = true
		}
		if len(seen) != cap(runs) || !seen[1] || !seen[5] {
			t.Errorf("runs %v", seen)
		}
		time.Sleep(time.Minute)
	})
}

// slow is a store whose heads are read when a test says so.
type slow struct {
	journal.Store
	goOn chan struct{}
}

func (s *slow) Head(ctx context.Context, sid string) (journal.Head, error) {
	<-s.goOn
	return s.Store.Head(ctx, sid)
}

// Whoever cancels a run ends its model and its actions, and hears of it when it is durable.
func TestCancelReachesChildren(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				h := host(t, store, 0)
				stopped := make(chan error, 1)
				a, m := acts(t, messages.Keyed, func(ctx context.Context) error {
					<-ctx.Done()
					stopped <- context.Cause(ctx)
					return ctx.Err()
				})
				rep := submit(t, h, a)
				m.words <- `<action id="a" mode="async">{"name":"own.tool"}</action>`
				settle()
				if _, err := h.Cancel(within(t), key, a, rep.Run, "ann"); err != nil {
					t.Fatal(err)
				}
				from := time.Now()
				if why := <-stopped; messages.CodeOf(why) != messages.ErrCancelled {
					t.Errorf("the tool is stopped with %v", why)
				}
				if why := <-m.ended; messages.CodeOf(why) != messages.ErrCancelled {
					t.Errorf("the model is stopped with %v", why)
				}
				if end := ended(t, rep); end.Reason != messages.ErrCancelled {
					t.Errorf("%+v", end)
				}
				if took := time.Since(from); took >= turn.CancelGrace {
					t.Errorf("the turn waited %s for children that had ended", took)
				}
			})
		})
	}
}

// A tool that breaks ends its turn, and the session goes on.
func TestToolBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t, memory.New(), 0)
		a, m := acts(t, messages.Keyed, func(context.Context) error { panic("the tool is broken") })
		rep := submit(t, h, a)
		m.words <- `<action id="a">{"name":"own.tool"}</action>`
		if end := ended(t, rep); end.Decision != messages.Halt || end.Reason != messages.ErrCrash {
			t.Errorf("%+v", end)
		}
		<-m.ended
		synctest.Wait()
		if n := h.Counters().Crashes.Load(); n != 0 {
			t.Errorf("the session restarted %d times", n)
		}
		b := agent(t, plain.Dialect{})
		if end := ended(t, submit(t, h, b)); end.Decision != messages.Done {
			t.Errorf("the next run: %+v", end)
		}
	})
}

// A run that a dead process left is taken up by the next request, and its caller's
// successor can wait for it.
func TestTakesUpWhatWasLeft(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := store()
				one, two := host(t, store, 0), host(t, store, 0)
				a, m := speaks(t)
				a.Rules.MaxTurns = 0
				rep := submit(t, one, a)
				m.words <- "word "
				settle()
				if err := one.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-m.ended
				b := agent(t, plain.Dialect{})
				wait := two.Hub().Await(key.SID(), rep.Run, nil)
				if _, err := two.Open(within(t), key, b); err != nil {
					t.Fatal(err)
				}
				_, end, err := wait.Wait(within(t))
				if err != nil || end.Body.(*messages.RunEnd).Decision != messages.Done {
					t.Errorf("%+v, %v", end, err)
				}
			})
		})
	}
}
