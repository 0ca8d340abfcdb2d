package actors_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What an embedder can see is tested in tests/. Here is what the facade keeps from
// happening, such as a dialect that breaks.

// noKeys is a key ring for dialects that mint nothing.
type noKeys struct{}

func (noKeys) TokenSigner(time.Time) token.Signer   { return nil }
func (noKeys) TokenFallback(time.Time) token.Signer { return nil }
func (noKeys) TokenKeys(time.Time) token.KeySource  { return nil }

// silent observes nothing.
type silent struct{}

func (silent) ObserveRecord(string, *messages.Record) {}
func (silent) ModelCalled(telemetry.ModelCall)        {}
func (silent) ModelAsked(string, int64)               {}
func (silent) ModelSession(string, string)            {}
func (silent) SessionAwake()                          {}
func (silent) SessionAsleep()                         {}
func (silent) Abandoned(messages.Incarnation)         {}
func (silent) FallbackMint()                          {}
func (silent) Orphan()                                {}
func (silent) ReceiptMissing()                        {}
func (silent) LimitReached(string, int)               {}
func (silent) RolledBack(string)                      {}

var key = messages.SessionKey{Tenant: "t", User: "u", ID: "i"}

// start runs a host on a journal in memory until the test ends.
func start(t *testing.T, store journal.Store) *actors.Host { return startWithin(t, store, -1) }

// startWithin is start for a process that may have limit bytes of memory.
func startWithin(t *testing.T, store journal.Store, limit int64) *actors.Host {
	t.Helper()
	w := groupcommit.New(store, groupcommit.Options{})
	h := actors.New(actors.Config{
		MemoryLimit: limit,
		Store:       store, Writer: w, Keys: noKeys{}, Observer: silent{}, SLog: slog.New(slog.DiscardHandler),
		Programs: neuroscript.NewCache(1 << 20), Rand: rand.Reader,
	})
	h.Start()
	t.Cleanup(func() {
		for range 2 { // stopping twice is fine
			if err := h.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
		w.Close()
	})
	return h
}

type says string

func (m says) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: []byte(m), Finish: messages.FinishComplete}, nil)
	}
}

// agent speaks a dialect, with a model that says hello.
func agent(t *testing.T, d parse.Dialect) *compiled.Agent {
	t.Helper()
	registry, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return &compiled.Agent{
		Name: "tested", Dialect: d, Tools: set, Receipts: journal.ReceiptsOff,
		Routes: []compiled.Route{{Provider: "p", Model: "m", Port: says("hello")}},
		Rules: &turn.Rules{
			Dialect: d.Name(), Judge: d, MaxTurns: 1, Recovery: messages.RecoverResume, OnPanic: messages.PanicHalt,
			Durability: turn.Checkpoint, Provider: "p", Model: "m",
		},
	}
}

// within is a context for a bubble, where time passes at once: what never comes fails in an
// hour of it.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// run submits and waits for the end.
func run(t *testing.T, h *actors.Host, a *compiled.Agent) (*messages.RunEnd, error) {
	t.Helper()
	ctx := within(t)
	rep, err := h.Submit(ctx, key, a, messages.Input{Text: "go", User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	_, ended, err := rep.End.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return ended.Body.(*messages.RunEnd), nil
}

// decoder breaks in one of its calls.
type decoder struct {
	parse.Decoder
	push, end func(emit func(messages.Event))
}

func (d decoder) Push(p []byte, emit func(messages.Event)) {
	if d.push != nil {
		d.push(emit)
	}
	d.Decoder.Push(p, emit)
}

func (d decoder) End(f messages.Finish, emit func(messages.Event)) {
	if d.end != nil {
		d.end(emit)
	}
	d.Decoder.End(f, emit)
}

// faulty is the plain dialect, broken in one place.
type faulty struct {
	plain.Dialect
	fresh, render, decide, digest func()
	push, end                     func(emit func(messages.Event))
}

func call(f func()) {
	if f != nil {
		f()
	}
}

func (f faulty) NewDecoder(i messages.TurnInfo) parse.Decoder {
	call(f.fresh)
	return decoder{f.Dialect.NewDecoder(i), f.push, f.end}
}

func (f faulty) Render(p messages.Projection) []messages.Message {
	call(f.render)
	return f.Dialect.Render(p)
}

func (f faulty) Decide(fs messages.Facts) messages.Verdict {
	call(f.decide)
	return f.Dialect.Decide(fs)
}

func (f faulty) Digest(fs messages.Facts) (out, scr []byte) {
	call(f.digest)
	return f.Dialect.Digest(fs)
}

// What breaks in the reading of a reply halts the turn; the session's actor does
// not even notice.
func TestParserBreaks(t *testing.T) {
	boom := func() { panic("the parser is broken") }
	nonsense := func(kind messages.EventKind) func(func(messages.Event)) {
		return func(emit func(messages.Event)) { emit(messages.Event{Kind: kind, UnitKind: messages.ResponseUnit}) }
	}
	for name, f := range map[string]faulty{
		"panic in NewDecoder":   {fresh: boom},
		"panic in Render":       {render: boom},
		"panic in Push":         {push: func(func(messages.Event)) { boom() }},
		"panic in End":          {end: func(func(messages.Event)) { boom() }},
		"text outside a unit":   {push: nonsense(messages.EventUnitText)},
		"a unit ends unbegun":   {push: nonsense(messages.EventUnitEnd)},
		"a unit inside another": {end: nonsense(messages.EventUnitBegin)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, memory.New())
				for range 2 {
					end, err := run(t, h, agent(t, f))
					if err != nil || end.Decision != messages.Halt || end.Reason != messages.ErrCrash || end.Detail == "" {
						t.Errorf("the run ended %+v, %v", end, err)
					}
				}
				synctest.Wait() // what is over is cleaned up after it was shown
				if n := h.Counters().Crashes.Load(); n != 0 {
					t.Errorf("the session restarted %d times", n)
				}
				if n := h.Counters().InFlight.Load(); n != 0 {
					t.Errorf("%d turns in flight", n)
				}
			})
		})
	}
}

// What breaks the session's own actor, such as a dialect's judgement, restarts it
// from the journal: the turn is settled, the run tried again and, when that does
// not help, given up.
func TestSessionBreaks(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "twice": 2, "for ever": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := times
				boom := func() {
					if left--; left >= 0 {
						panic("no judgement")
					}
				}
				store := memory.New()
				h := start(t, store)
				end, err := run(t, h, agent(t, faulty{decide: boom}))
				if err != nil {
					t.Fatal(err)
				}
				want := messages.Done
				if times > turn.MaxSettlements {
					want = messages.Halt
				}
				if end.Decision != want || want == messages.Halt && end.Reason != messages.ErrCrash {
					t.Errorf("the run ended %s(%s), want %s", end.Decision, end.Reason, want)
				}
				if n, want := h.Counters().Crashes.Load(), int64(min(times, turn.MaxSettlements)); n != want {
					t.Errorf("the session restarted %d times, want %d", n, want)
				}
				left = 0
				if end, err = run(t, h, agent(t, faulty{})); err != nil || end.Decision != messages.Done {
					t.Errorf("the next run ended %+v, %v", end, err)
				}
				head, err := store.Head(t.Context(), key.SID())
				if err != nil || head.Open || head.Queued != 0 {
					t.Errorf("head %+v, %v", head, err)
				}
			})
		})
	}
}

// broken is a store that cannot be read.
type broken struct{ journal.Store }

var errBroken = journal.Fail(journal.ReasonCorrupt, nil, "not what was written")

func (broken) Head(context.Context, string) (journal.Head, error) { return journal.Head{}, errBroken }

// panics is a store with a bug.
type panics struct{ journal.Store }

func (panics) Head(context.Context, string) (journal.Head, error) { panic("the store is broken") }

// A session that cannot be loaded answers with the reason, each time anew.
func TestLoadingFails(t *testing.T) {
	for name, c := range map[string]struct {
		store journal.Store
		want  messages.Code
	}{"error": {broken{memory.New()}, messages.ErrJournal}, "panic": {panics{memory.New()}, messages.ErrCrash}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, c.store)
				for range 3 {
					if _, err := h.Open(t.Context(), key, agent(t, plain.Dialect{})); messages.CodeOf(err) != c.want {
						t.Errorf("open: %v", err)
					}
				}
				synctest.Wait()
				if n := h.Sessions(); n != 0 {
					t.Errorf("%d sessions are kept", n)
				}
			})
		})
	}
}

// gated is a store whose commits wait.
type gated struct {
	journal.Store
	gate chan struct{}
}

func (*gated) Immediate() bool { return false }

func (g *gated) Commit(batches []journal.Batch) []error {
	<-g.gate
	return g.Store.Commit(batches)
}

// Whoever opens a session that another one is creating hears of it when it is durable,
// and not before.
func TestOpenWhileCreating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gated{memory.New(), make(chan struct{})}
		h, a := start(t, store), agent(t, plain.Dialect{})
		answered := make(chan messages.Incarnation, 3)
		for range cap(answered) {
			go func() {
				rep, err := h.Open(t.Context(), key, a)
				if err != nil {
					t.Error(err)
				}
				answered <- rep.Inc
			}()
		}
		synctest.Wait()
		if n := len(answered); n > 0 {
			t.Errorf("%d heard of a session that is nowhere", n)
		}
		close(store.gate)
		synctest.Wait()
		head, err := store.Head(t.Context(), key.SID())
		if err != nil || head.Seq != 1 {
			t.Fatalf("head %+v, %v", head, err)
		}
		for range cap(answered) {
			if inc := <-answered; inc != head.Inc {
				t.Errorf("opened %s, which is not %s", inc, head.Inc)
			}
		}
	})
}

// pieces says so many pieces of 1 KiB, waits for goOn, and says as many more.
type pieces struct {
	n    int
	goOn chan struct{}
	said atomic.Int64
}

func (m *pieces) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for i := range 2 * m.n {
			if i == m.n {
				select {
				case <-m.goOn:
				case <-ctx.Done():
					yield(llm.Chunk{}, ctx.Err())
					return
				}
			}
			if m.said.Add(1); !yield(llm.Chunk{Text: bytes.Repeat([]byte("x"), 1024)}, nil) {
				return
			}
		}
		yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	}
}

// Where memory is short one long reply is read at a time; a short one is not held up, and
// a long one goes on when the turn of the one before is over.
func TestLongRepliesWithinMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startWithin(t, memory.New(), 1<<20) // its budget is 8 KiB
		submit := func(id string, m llm.Model) actors.Reply {
			a := agent(t, plain.Dialect{})
			a.Routes[0].Port = m
			rep, err := h.Submit(t.Context(), messages.SessionKey{Tenant: "t", User: "u", ID: id}, a, messages.Input{Text: "go", User: "u"})
			if err != nil {
				t.Fatal(err)
			}
			return rep
		}
		done := func(rep actors.Reply) {
			_, end, err := rep.End.Wait(t.Context())
			if err != nil || end.Body.(*messages.RunEnd).Decision != messages.Done {
				t.Fatalf("%+v, %v", end, err)
			}
		}
		first, second := &pieces{n: 100, goOn: make(chan struct{})}, &pieces{n: 100, goOn: make(chan struct{})}
		close(second.goOn)
		one := submit("first", first)
		time.Sleep(2 * time.Second) // it waits for memory, which this process has more of than 1 MiB, and goes on all the same
		synctest.Wait()
		two := submit("second", second)
		synctest.Wait()
		if n := first.said.Load(); n != 100 {
			t.Errorf("%d KiB of the first reply were read, which no other holds up", n)
		}
		if n := second.said.Load(); n != 17 {
			t.Errorf("%d KiB of the second reply were read; 16 are free, and one waits", n)
		}
		done(submit("short", says("hello")))
		close(first.goOn)
		done(one)
		done(two)
	})
}

// A session is told to sleep while it is at work, as when the wheel looked a moment too early. It
// stays, and its run ends as if nothing had been said.
func TestBusySessionStaysAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := start(t, memory.New()), agent(t, plain.Dialect{})
		m := &pieces{n: 1, goOn: make(chan struct{})}
		a.Routes[0].Port = m
		rep, err := h.Submit(within(t), key, a, messages.Input{Text: "go", User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the model holds its reply back
		h.PutToSleep(key)
		synctest.Wait()
		if !h.Awake(key.SID()) {
			t.Error("the session sleeps in the middle of a turn")
		}
		close(m.goOn)
		_, ended, err := rep.End.Wait(within(t))
		if err != nil || ended.Body.(*messages.RunEnd).Decision != messages.Done {
			t.Fatalf("%+v %v", ended, err)
		}
		h.PutToSleep(key)
		synctest.Wait()
		if h.Awake(key.SID()) {
			t.Error("a session without work stays awake")
		}
	})
}

// After Stop everything answers with a typed error, and nothing hangs.
func TestAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, memory.New())
		a := agent(t, plain.Dialect{})
		if _, err := h.Open(t.Context(), key, a); err != nil {
			t.Fatal(err)
		}
		sub := h.Hub().Subscribe(key.SID())
		wait := h.Hub().Await(key.SID(), 7, nil)
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Submit(t.Context(), key, a, messages.Input{Text: "x"}); messages.CodeOf(err) != messages.ErrCancelled {
			t.Errorf("submit: %v", err)
		}
		if _, _, err := sub.Next(t.Context()); !errors.Is(err, hub.ErrStopped) {
			t.Errorf("the subscription ended with %v", err)
		}
		if _, _, err := wait.Wait(t.Context()); !errors.Is(err, hub.ErrStopped) {
			t.Errorf("the waiter ended with %v", err)
		}
		if _, _, err := h.Hub().Await(key.SID(), 7, nil).Wait(t.Context()); !errors.Is(err, hub.ErrStopped) {
			t.Errorf("a late waiter ended with %v", err)
		}
		if _, _, err := h.Hub().Subscribe(key.SID()).Next(t.Context()); !errors.Is(err, hub.ErrStopped) {
			t.Errorf("a late subscription ended with %v", err)
		}
	})
}

// A request for a session nobody opened names what is missing.
func TestNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, memory.New())
		if _, err := h.Cancel(t.Context(), key, nil, 0, "ada"); messages.CodeOf(err) != messages.ErrNotFound {
			t.Errorf("%v", err)
		}
	})
}

// late is a store that answers when nobody wants to know any more, and badly.
type late struct{ journal.Store }

func (late) Head(ctx context.Context, _ string) (journal.Head, error) {
	<-ctx.Done()
	panic("the store is broken")
}

// A session that is stopped while it loads takes nothing with it.
func TestStopWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, late{memory.New()})
		answered := make(chan error, 1)
		go func() {
			_, err := h.Open(t.Context(), key, agent(t, plain.Dialect{}))
			answered <- err
		}()
		synctest.Wait()
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; messages.CodeOf(err) != messages.ErrCancelled {
			t.Errorf("the one who waited got %v", err)
		}
	})
}

// A session that has got work meanwhile does not go to sleep, however late the
// call to sleep comes.
func TestBusySessionIsNotPutToSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, memory.New())
		hold := make(chan struct{})
		a := agent(t, plain.Dialect{})
		a.Routes[0].Port = held{hold}
		rep, err := h.Submit(t.Context(), key, a, messages.Input{Text: "go", User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		h.PutToSleep(key)
		synctest.Wait()
		if n := h.Sessions(); n != 1 {
			t.Errorf("%d sessions awake during a turn", n)
		}
		close(hold)
		_, ended, err := rep.End.Wait(t.Context())
		if err != nil || ended.Body.(*messages.RunEnd).Turns != 1 {
			t.Errorf("the run ended %+v, %v", ended, err)
		}
		synctest.Wait()
		h.PutToSleep(key)
		synctest.Wait()
		if n := h.Sessions(); n != 0 {
			t.Errorf("%d sessions awake that were put to sleep", n)
		}
	})
}

// held is a model that answers when it may.
type held struct{ until chan struct{} }

func (m held) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	<-m.until
	return says("hello").Stream(ctx, req)
}
