package wake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked notes what a waker asked of sessions.
type asked struct {
	mu     sync.Mutex
	all    []string
	at     []time.Time
	beside int // at work now
	most   int
}

func (a *asked) note(what string, key messages.SessionKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all, a.at = append(a.all, what+" "+key.SID()), append(a.at, time.Now())
	a.beside++
	a.most = max(a.most, a.beside)
}

func (a *asked) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beside--
}

// waker makes one whose sessions note what is asked of them, and take a while.
func waker(store journal.Store, boot Boot, takes time.Duration) (*Waker, *asked) {
	var a asked
	ask := func(what string) func(context.Context, messages.SessionKey, *compiled.Agent) error {
		return func(_ context.Context, key messages.SessionKey, _ *compiled.Agent) error {
			a.note(what, key)
			defer a.done()
			time.Sleep(takes)
			if key.ID == "bad" {
				return errors.New("bad")
			}
			return nil
		}
	}
	return New(Config{
		Store: store, Intake: intake.New(-1, nil, nil), Log: zap.NewNop(), Now: time.Now, Alone: true, Boot: boot,
		Agent: func(_ context.Context, h *journal.Head) (*compiled.Agent, error) {
			switch h.SID {
			case "t:u:unknown":
				return nil, nil
			case "t:u:lost":
				return nil, errors.New("no manifest")
			}
			return &compiled.Agent{}, nil
		},
		Open: ask("open"), Expire: ask("expire"),
		Cancel: func(ctx context.Context, key messages.SessionKey, agent *compiled.Agent, run int64, by string) error {
			if key.ID == "far" {
				a.note(fmt.Sprint("cancel ", run), key)
				return lease.Refuse(key.SID(), lease.Host{Address: "there"})
			}
			return ask("cancel for "+by+",")(ctx, key, agent)
		},
	}), &a
}

// add begins a session with a run that is open.
func add(t *testing.T, store journal.Store, sid string, n int, parent *messages.ParentLink, more ...messages.Body) {
	t.Helper()
	bodies := []messages.Body{&messages.SessionOpened{Parent: parent}, &messages.Input{Text: "go"}, &messages.RunBegin{}, &messages.TurnBegin{Nonce: "n"}}
	specimen.Must(t, store, specimen.Start(t, sid, n).Batch(append(bodies, more...)...))
}

// The scan takes up what is open, page by page, as fast and as much at once as it may.
func TestBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for n := range 10 {
			add(t, store, fmt.Sprintf("t:u:s%d", n), n, nil)
		}
		for n, id := range []string{"bad", "lost", "unknown"} {
			add(t, store, "t:u:"+id, 20+n, nil)
		}
		specimen.Must(t, store, specimen.Start(t, "t:u:idle", 30).Batch(&messages.SessionOpened{}))
		w, a := waker(store, Boot{On: true, Concurrency: 2, PerSecond: 10, Page: 3}, 150*time.Millisecond)
		w.Start()
		rep, err := w.Report(t.Context())
		if want := (Report{Found: 13, Settled: 10, NoAgent: 1, Failed: 2}); rep != want || err != nil {
			t.Errorf("%+v, %v; want %+v", rep, err, want)
		}
		if a.most != 2 || len(a.all) != 11 || slices.Contains(a.all, "open t:u:idle") {
			t.Errorf("%d at once: %v", a.most, a.all)
		}
		for i, at := range a.at[1:] {
			if gap := at.Sub(a.at[i]); gap < 100*time.Millisecond && a.at[i].Sub(a.at[0]) < time.Duration(i)*100*time.Millisecond {
				t.Errorf("session %d begins %s behind the one before", i+1, gap)
			}
		}
		w.Stop()
		w.Wait()
	})
}

// Nothing is woken where another process may run the sessions, or where no agent can be found.
func TestNotAlone(t *testing.T) {
	for _, change := range []func(*Config){func(c *Config) { c.Alone = false }, func(c *Config) { c.Agent = nil }} {
		store := memory.New()
		add(t, store, "t:u:s", 1, nil)
		w, a := waker(store, Boot{On: true}, 0)
		change(&w.Config)
		w = New(w.Config)
		w.Start()
		w.Wait()
		if rep, _ := w.Report(t.Context()); rep != (Report{}) || len(a.all) != 0 {
			t.Errorf("%+v, %v", rep, a.all)
		}
		w.Stop()
	}
}

// unlisted is a store whose sessions cannot be listed.
type unlisted struct{ *memory.Store }

func (unlisted) Sessions(context.Context, journal.Query) ([]journal.Head, error) {
	return nil, errors.New("busy")
}

func TestBootCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := waker(unlisted{memory.New()}, Boot{On: true}, 0)
		from := time.Now()
		w.Start()
		if _, err := w.Report(t.Context()); err == nil || time.Since(from) != (tries-1)*time.Second {
			t.Errorf("%v after %s", err, time.Since(from))
		}
		w.Stop()
		w.Wait()
	})
}

// One timer rings for all questions, those that are asked later included.
func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		from := time.Now()
		until := func(d time.Duration) *messages.TurnSuspended {
			return &messages.TurnSuspended{Until: from.Add(d).UTC().Format(time.RFC3339Nano)}
		}
		add(t, store, "t:u:later", 1, nil, until(time.Hour))
		add(t, store, "t:u:over", 2, nil, until(-time.Second))
		w, a := waker(store, Boot{}, 0)
		w.Start()
		time.Sleep(time.Minute)
		add(t, store, "t:u:soon", 3, nil, until(10*time.Minute))
		w.Suspended(from.Add(10 * time.Minute))
		time.Sleep(2 * time.Hour)
		w.Stop()
		w.Wait()
		if want := []string{"expire t:u:over", "expire t:u:soon", "expire t:u:later"}; !slices.Equal(a.all, want) {
			t.Errorf("%v, want %v", a.all, want)
		}
		for i, d := range []time.Duration{0, 10 * time.Minute, time.Hour} {
			if got := a.at[i].Sub(from); got != d {
				t.Errorf("%s after %s, want %s", a.all[i], got, d)
			}
		}
	})
}

// What an action left open in child sessions is ended: its own runs, and no other's.
func TestEndChildren(t *testing.T) {
	store := memory.New()
	inc := specimen.Inc(1)
	link := func(turnIndex int64, action string) *messages.ParentLink {
		return &messages.ParentLink{SID: "t:u:p", Incarnation: inc.String(), Turn: turnIndex, Action: action}
	}
	add(t, store, "t:u:p", 1, nil)
	add(t, store, "t:u:p.a", 2, link(3, "a"))
	add(t, store, "t:u:p.step", 3, link(3, "a/2"))
	add(t, store, "t:u:p.b", 4, link(3, "b"))
	add(t, store, "t:u:p.before", 5, link(2, "a"))
	add(t, store, "t:u:p.own", 6, nil)
	add(t, store, "t:u:elsewhere", 7, link(3, "a"))
	specimen.Must(t, store, specimen.Start(t, "t:u:p.idle", 8).Batch(&messages.SessionOpened{Parent: link(3, "a")}))
	w, a := waker(store, Boot{}, 0)
	w.EndChildren("t:u:p", inc, &turn.EndChildren{Turn: 3, ID: "a", SID: "t:u:elsewhere"})
	w.Stop()
	if len(a.all) != 3 {
		t.Errorf("%v", a.all)
	}
	for _, want := range []string{"t:u:p.a", "t:u:elsewhere", "t:u:p.step"} {
		if !slices.ContainsFunc(a.all, func(s string) bool { return strings.HasSuffix(s, " "+want) }) {
			t.Errorf("%s goes on: %v", want, a.all)
		}
	}
}

// The run of a child is cancelled by the host that runs it; one that does not run it any more, or does not
// answer, is looked for again, for some time.
func TestCancelChild(t *testing.T) {
	moved := &messages.Error{Code: messages.ErrBusy, Reason: lease.ReasonElsewhere}
	denied := messages.Errorf(messages.ErrDenied, "not in flight")
	broken := errors.New("broken")
	run := messages.ChildLink{SID: "t:u:far", Incarnation: "i", Run: 7}
	for _, c := range []struct {
		name string
		says []error // the last one from then on
		want error
		asks int
	}{
		{"at once", []error{nil}, nil, 1},
		{"it has ended", []error{denied}, nil, 1},
		{"it has moved", []error{moved, moved, nil}, nil, 3},
		{"it is broken", []error{moved, broken}, broken, 2},
		{"no host has it", []error{moved}, moved, int(cancelPatience/cancelPause) + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, a := waker(memory.New(), Boot{}, 0)
				defer w.Stop()
				asks := 0
				w.CancelAt = func(ctx context.Context, owner lease.Host, of messages.ChildLink) error {
					if _, bound := ctx.Deadline(); !bound || owner.Address != "there" || of != run {
						t.Errorf("%s is asked to cancel %+v, bounded: %v", owner.Address, of, bound)
					}
					asks++
					return c.says[min(asks, len(c.says))-1]
				}
				err := w.CancelChild(t.Context(), messages.SessionKey{Tenant: "t", User: "u", ID: "far"}, nil, run, "by")
				if !errors.Is(err, c.want) || asks != c.asks || len(a.all) != asks || a.all[0] != "cancel 7 t:u:far" {
					t.Errorf("%v behind %d asks, and %v here", err, asks, a.all)
				}
			})
		})
	}
}
