package actors_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools"
)

// leases are those of a host whose lease a test ends. Nothing but Held says that it is over: a
// member tells the host so a moment later.
type leases struct {
	mu      sync.Mutex
	over    bool
	refused error
	claimed []string
	given   []string
	owed    []string
}

func (l *leases) Claim(_ context.Context, sid string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed = append(l.claimed, sid)
	return l.refused
}

func (l *leases) GiveUp(sid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = append(l.given, sid)
}

func (l *leases) Owe(sid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = append(l.owed, sid)
}

func (l *leases) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}

func (l *leases) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// leaves observes which turns a host lets go of.
type leaves struct {
	silent
	mu  sync.Mutex
	inc []messages.Incarnation
}

func (l *leaves) Abandoned(inc messages.Incarnation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inc = append(l.inc, inc)
}

func (l *leaves) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inc)
}

// leased is a host that asks those leases.
func leased(t *testing.T, store journal.Store, l *leases, watch actors.Observer) *actors.Host {
	t.Helper()
	w := groupcommit.New(store, groupcommit.Options{})
	h := actors.New(actors.Config{
		MemoryLimit: -1, IdleTimeout: -1, Leases: membership.Guard{Leases: l},
		Store: store, Writer: w, Keys: noKeys{}, Observer: watch, SLog: slog.New(slog.DiscardHandler),
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

func noLease(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Code == messages.ErrBusy && e.Reason == lease.ReasonNoLease
}

// waits is a store whose commits wait, once they are told to.
type waits struct {
	journal.Store
	mu   sync.Mutex
	gate chan struct{}
}

func (*waits) Immediate() bool { return false }

func (h *waits) hold() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = make(chan struct{})
	return h.gate
}

func (h *waits) Commit(batches []journal.Batch) []error {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return h.Store.Commit(batches)
}

// A host whose lease has ended shows nothing more and begins nothing more, at whatever step of a
// turn that was: another host may be at it by now.
func TestLeaseEndsInATurn(t *testing.T) {
	const call = `<action id="a">{"name":"own.tool"}</action><response>end</response>`
	for _, c := range []struct {
		name string
		// goes has the turn go on when the lease is over. The commits that wait for the gate were
		// on their way before.
		goes  func(m *speaker, gate chan struct{})
		until func(m *speaker, store *waits) (gate chan struct{}) // which step the turn has reached by then
	}{
		{
			name:  "the model speaks",
			until: func(m *speaker, _ *waits) chan struct{} { m.words <- "<thought>one"; return nil },
			goes:  func(m *speaker, _ chan struct{}) { m.words <- " two</thought>" },
		},
		{
			name:  "the model calls a tool",
			until: func(m *speaker, _ *waits) chan struct{} { m.words <- "<thought>one"; return nil },
			goes:  func(m *speaker, _ chan struct{}) { m.words <- "</thought>" + call },
		},
		{
			name: "the start of a tool is on its way to the journal",
			until: func(m *speaker, store *waits) chan struct{} {
				gate := store.hold()
				m.words <- "<thought>one</thought>" + call
				return gate
			},
			goes: func(_ *speaker, gate chan struct{}) { close(gate) },
		},
		{
			name:  "the model ends",
			until: func(m *speaker, _ *waits) chan struct{} { m.words <- "<thought>one</thought>"; return nil },
			goes:  func(m *speaker, _ chan struct{}) { close(m.words) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, l := &waits{Store: memory.New()}, &leases{}
				watch := &leaves{}
				h := leased(t, store, l, watch)
				begun := make(chan struct{}, 1)
				a, m := acts(t, messages.Effectful, func(context.Context) error {
					begun <- struct{}{}
					return nil
				})
				rep := submit(t, h, a)
				settle()
				sub := h.Hub().Subscribe(key.SID())
				defer sub.Close()
				gate := c.until(m, store)
				settle()
				if _, _, err := sub.Next(within(t)); err != nil {
					t.Fatalf("what comes before: %v", err)
				}
				before := head(t, store).Seq
				l.end()
				c.goes(m, gate)
				settle()
				for {
					shown, _, err := sub.Next(within(t))
					if err != nil {
						if !noLease(err) {
							t.Errorf("its followers are told %v", err)
						}
						break
					}
					t.Errorf("its followers are shown %+v", shown)
				}
				if _, _, err := rep.End.Wait(within(t)); !noLease(err) {
					t.Errorf("who waits for the run is told %v", err)
				}
				if err := <-m.ended; err == nil && c.name != "the model ends" {
					t.Error("the model goes on")
				}
				if len(begun) > 0 {
					t.Error("a tool is begun")
				}
				if seq := head(t, store).Seq; seq != before && gate == nil {
					t.Errorf("the journal had %d records, and has %d", before, seq)
				}
				if n := watch.count(); n != 1 {
					t.Errorf("the host let go of %d turns, and had one", n)
				}
				if len(l.claimed) != 1 || l.claimed[0] != key.SID() || len(l.given) != 1 || l.given[0] != key.SID() {
					t.Errorf("claimed %v, given up %v", l.claimed, l.given)
				}
			})
		})
	}
}

// What a tool says of itself while it runs goes by no step of its session, and is not shown either.
func TestLeaseEndsInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		h := leased(t, memory.New(), l, silent{})
		goOn := make(chan struct{})
		a, m := calls(t, messages.ReadOnly, func(ctx context.Context, call *tools.Call) error {
			call.Progress(1, 2, "before")
			select {
			case <-goOn:
				call.Progress(2, 2, "after")
				<-ctx.Done()
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		submit(t, h, a)
		settle()
		sub := h.Hub().Subscribe(key.SID())
		defer sub.Close()
		m.words <- `<action id="a">{"name":"own.tool"}</action>`
		settle()
		shown := func() (texts []string) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for {
				updates, _, err := sub.Next(ctx)
				if err != nil {
					return texts
				}
				for _, u := range updates {
					if u.Delta != nil && u.Delta.Kind == messages.KindProgress {
						texts = append(texts, u.Delta.Text)
					}
				}
			}
		}
		if got := shown(); len(got) != 1 {
			t.Errorf("before the end of the lease followers are shown %q", got)
		}
		l.end()
		close(goOn)
		if got := shown(); len(got) != 0 {
			t.Errorf("behind the end of the lease followers are shown %q", got)
		}
		close(m.words)
	})
}

// A request that comes when the lease is over is told so, and so is one whose input is on its way to
// the journal. Nothing of it is answered as if it were durable.
func TestLeaseEndsInASubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, l := &waits{Store: memory.New()}, &leases{}
		h := leased(t, store, l, silent{})
		a, m := speaks(t)
		if _, err := h.Open(within(t), key, a); err != nil {
			t.Fatal(err)
		}
		gate := store.hold()
		answers := make(chan error, 2)
		ask := func() {
			_, err := h.Submit(within(t), key, a, messages.Input{Text: "go", User: "u"})
			answers <- err
		}
		go ask()
		synctest.Wait()
		l.end()
		close(gate)
		if err := <-answers; !noLease(err) {
			t.Errorf("the submit on its way: %v", err)
		}
		l.refused = lease.Lost()
		go ask()
		if err := <-answers; !noLease(err) {
			t.Errorf("the next one: %v", err)
		}
		settle()
		select {
		case m.words <- "word":
			t.Error("the model is asked")
		default:
		}
	})
}

// A session is this host's before it is loaded, and not loaded if it is another's.
func TestClaimBeforeLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{refused: lease.Refuse(key.SID(), lease.Host{Address: "other:1"})}
		h := leased(t, refusing{memory.New()}, l, silent{})
		a := agent(t, plain.Dialect{})
		_, err := h.Open(within(t), key, a)
		if owner, ok := lease.Owner(err); !ok || owner.Address != "other:1" {
			t.Errorf("%v", err)
		}
	})
}

// A session whose journal refuses what it appends has stopped in the middle, and one that cannot be
// loaded too: both are looked at again.
func TestStoppedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		h := leased(t, &denying{Store: memory.New()}, l, silent{})
		if _, err := h.Open(within(t), key, agent(t, plain.Dialect{})); err == nil {
			t.Error("the journal takes what it denies")
		}
		settle()
		l.mu.Lock()
		defer l.mu.Unlock()
		onlyOwed(t, l.owed)
	})
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		h := leased(t, refusing{memory.New()}, l, silent{})
		if _, err := h.Open(within(t), key, agent(t, plain.Dialect{})); err == nil {
			t.Error("the session is loaded")
		}
		settle()
		l.mu.Lock()
		defer l.mu.Unlock()
		onlyOwed(t, l.owed)
	})
}

// onlyOwed wants that session and no other. It is there more than once where a request reached an
// activation that was stopping already: that request is passed on to the next one, which fails too.
func onlyOwed(t *testing.T, owed []string) {
	t.Helper()
	if sids := slices.Compact(slices.Clone(owed)); len(sids) != 1 || sids[0] != key.SID() {
		t.Errorf("looked at again are %v", owed)
	}
}

// denying is a store that takes nothing.
type denying struct{ journal.Store }

func (*denying) Commit(batches []journal.Batch) []error {
	errs := make([]error, len(batches))
	for i := range errs {
		errs[i] = journal.Fail(journal.ReasonStaleHead, nil, "denied")
	}
	return errs
}

var errLoaded = errors.New("the session is loaded")

// refusing is a store of which nothing can be loaded.
type refusing struct{ journal.Store }

func (refusing) Head(context.Context, string) (journal.Head, error) { return journal.Head{}, errLoaded }
