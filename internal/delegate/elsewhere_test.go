package delegate

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noKeys is a key ring for a dialect that mints nothing.
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

// leases are those of several hosts.
type leases struct {
	mu      sync.Mutex
	of      map[string]string // host by SID
	refused int
}

// held are the leases as one host sees them.
type held struct {
	*leases
	host string
}

func (h held) Claim(_ context.Context, sid string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if has := h.of[sid]; has != "" && has != h.host {
		h.refused++
		return lease.Refuse(sid, lease.Host{ID: uuid.New(), Address: has})
	}
	h.of[sid] = h.host
	return nil
}

func (h held) GiveUp(sid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[sid] == h.host {
		delete(h.of, sid)
	}
}

func (held) Owe(string) {}
func (held) Held() bool { return true }

// start runs a host on a journal that others use until the test ends.
func start(t *testing.T, store journal.Store, l *leases, name string) *actors.Host {
	w := groupcommit.New(store, groupcommit.Options{})
	h := actors.New(actors.Config{
		Store: store, Writer: w, Keys: noKeys{}, Observer: silent{}, SLog: slog.New(slog.DiscardHandler),
		Programs: neuroscript.NewCache(1 << 20), Rand: rand.Reader, Leases: membership.Guard{Leases: held{l, name}},
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

// slow is a model that says nothing until it is stopped, or until there is an answer.
type slow chan string

// Stream implements llm.Model.
func (m slow) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		select {
		case text := <-m:
			yield(llm.Chunk{Text: []byte(text), Finish: messages.FinishComplete}, nil)
		case <-ctx.Done():
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		}
	}
}

func agent(t *testing.T, m llm.Model) *compiled.Agent {
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
		Name: "writer", Dialect: plain.Dialect{}, Tools: set, Receipts: journal.ReceiptsOff,
		Routes: []compiled.Route{{Provider: "p", Model: "m", Port: m}},
		Rules: &turn.Rules{
			Dialect: plain.Dialect{}.Name(), Judge: plain.Dialect{}, MaxTurns: 1, Recovery: messages.RecoverResume, OnPanic: messages.PanicHalt,
			Durability: turn.Checkpoint, Provider: "p", Model: "m",
		},
	}
}

// An action whose child another host runs is cancelled: so is the child's run, by that host, once. The
// action ends as it does where one host runs both, or unknown where no host says that the run is
// cancelled, or has ended.
func TestStoppedElsewhere(t *testing.T) {
	errMoved := &messages.Error{Code: messages.ErrBusy, Reason: lease.ReasonElsewhere, Detail: "not here"}
	for name, c := range map[string]struct {
		at    func(n int) error // what the other host says to cancel n, from 1; nil is that it does it
		asked int
		want  string
	}{
		"it does":                {func(int) error { return nil }, 1, "ceased"},
		"it has just moved":      {func(n int) error { return map[bool]error{true: errMoved}[n < 3] }, 3, "ceased"},
		"it has ended meanwhile": {func(int) error { return errEnds }, 1, "answered"},
		"it refuses":             {func(int) error { return errors.New("no") }, 1, "cannot be stopped"},
		"it is not to be had":    {func(int) error { return errMoved }, 152, "cannot be stopped"},
		"it takes a while":       {func(int) error { return errSlow }, 1, "ceased"},
		"it does not end":        {func(int) error { return errLate }, 1, "may still run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, l := memory.New(), &leases{of: map[string]string{}}
				ours, theirs := start(t, store, l, "ours"), start(t, store, l, "theirs")
				m := make(slow)
				worker := agent(t, m)
				key := messages.SessionKey{Tenant: "t", User: "u", ID: "p"}
				rep, err := ours.Open(t.Context(), key, worker)
				if err != nil {
					t.Fatal(err)
				}
				parent := driver.Parent{Key: key, SID: key.SID(), Inc: rep.Inc.String()}
				child, link, _ := parent.Child(1, "a", "writer", "the key", 0)
				run, err := theirs.SubmitChild(t.Context(), child, worker, link, messages.Input{Text: "write", User: "u", Key: "the key", Policy: messages.Enqueue})
				if err != nil {
					t.Fatal(err)
				}
				asked := 0
				ours.Waker().CancelAt = func(ctx context.Context, owner lease.Host, of messages.ChildLink) error {
					asked++
					if want := (messages.ChildLink{SID: child.SID(), Incarnation: run.Inc.String(), Run: 1}); of != want || owner.Address != "theirs" {
						t.Errorf("%s is asked to cancel %+v, not %+v", owner.Address, of, want)
					}
					switch err := c.at(asked); {
					case errors.Is(err, errEnds):
						m <- "a poem"
						return nil
					case errors.Is(err, errLate):
						return nil
					case errors.Is(err, errSlow):
						time.AfterFunc(time.Second, func() { _, _ = theirs.Cancel(t.Context(), child, worker, of.Run, driver.Canceller(&link)) })
						return nil
					case err != nil:
						return err
					}
					_, err := theirs.Cancel(ctx, child, worker, of.Run, driver.Canceller(&link))
					return err
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				got := ""
				r := &Runner{Host: ours, Store: store}
				go func() {
					var err error
					got, err = r.Delegate(ctx, &compiler.Agent{Actor: worker}, &tools.Call{
						SID: key.SID(), Turn: 1, ID: "a", Name: "writer", Key: "the key", Attempt: 2, Host: catalog.Host{Child: func(messages.ChildLink) {}},
					}, `{"message":"write"}`)
					ended <- err
				}()
				synctest.Wait()
				cancel(messages.Errorf(messages.ErrCancelled, "the caller has enough"))
				err = <-ended
				ceased, text := (*tools.Ceased)(nil), "answered "+got
				if errors.As(err, &ceased) {
					text = "ceased"
				} else if err != nil {
					text = err.Error()
				}
				if !strings.Contains(text, c.want) || asked != c.asked {
					t.Errorf("it ends %q behind %d cancels, want %q and %d", text, asked, c.want, c.asked)
				}
			})
		})
	}
}

// What the other host does in place of the cancel.
var (
	errEnds = errors.New("the run ends")
	errSlow = errors.New("the run ends in a second")
	errLate = errors.New("the run goes on")
)
