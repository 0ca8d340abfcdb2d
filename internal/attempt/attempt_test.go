package attempt

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session keeps what an attempt hands over.
type session struct {
	mu      sync.Mutex
	ends    []*turn.ActionEnded
	pieces  []string
	sinks   []*Sink
	orphans int
	lost    bool // the lease of the host
	shown   []*messages.Delta
}

func (s *session) Ended(end *turn.ActionEnded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

func (s *session) Piece(from *Sink, in *turn.ActionChunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces, s.sinks = append(s.pieces, in.Text), append(s.sinks, from)
}

// ended counts the ends so far.
func (s *session) ended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends)
}

// take takes the pieces that were posted.
func (s *session) take() {
	s.mu.Lock()
	sinks := s.sinks
	s.sinks = nil
	s.mu.Unlock()
	for _, from := range sinks {
		from.Taken()
	}
}

func (*session) Keep(_ context.Context, start *turn.StartAction, k catalog.KeepCall) (string, error) {
	return `"` + start.ID + k.Key + `"`, nil
}

func (*session) Feeds(context.Context, string, string) (string, *messages.FeedChange, error) {
	return "1", &messages.FeedChange{}, nil
}

// begin makes an attempt of own.tool. change may change agent and work.
func begin(t *testing.T, do func(context.Context, *tools.Call) (neuroscript.Value, error), change func(*compiled.Agent, *Work)) (*Attempt, *session) {
	t.Helper()
	registry, err := catalog.New(tools.Tool{Name: "own.tool", Class: messages.Effectful, Run: do})
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: []string{"own.tool"}})
	if err != nil {
		t.Fatal(err)
	}
	a := &compiled.Agent{Tools: set, Targets: catalog.NewTargets(set, neuroscript.Limits{})}
	w := Work{Agent: a, SID: "t:u:s", Start: &turn.StartAction{
		Ident: turn.Ident{Turn: 3, Nonce: "n"}, ID: "a", Attempt: 2, Name: "own.tool", Type: messages.TypeTool, Args: "{}", Class: messages.Effectful,
	}}
	if change != nil {
		change(a, &w)
	}
	s, r := &session{}, &Attempt{}
	r.Begin(t.Context(), &Env{
		Now: time.Now, Log: zap.NewNop(), Orphan: func() { s.orphans++ }, Held: func() bool { return !s.lost }, Followed: func(string) bool { return true },
		Tell: func(_ string, d *messages.Delta) { s.shown = append(s.shown, d) },
	}, s, w)
	return r, s
}

func nothing() {}

// An attempt ends as its target says, with what is known of it.
func TestEnds(t *testing.T) {
	value := func(v string) func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			time.Sleep(20 * time.Millisecond)
			c.Audit(messages.Audit{What: "did"})
			c.Spend(messages.Budget{Tokens: 7})
			return neuroscript.String(v), nil
		}
	}
	fail := func(err error) func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.Value{}, err }
	}
	for _, tt := range []struct {
		name   string
		do     func(context.Context, *tools.Call) (neuroscript.Value, error)
		change func(*compiled.Agent, *Work)
		state  messages.ActionState
		reason string
		result string
	}{
		{"ok", value("v"), nil, messages.ActionOK, "", `"v"`},
		{"of a program", value("v"), func(_ *compiled.Agent, w *Work) { w.Start.Type, w.Start.Args = "", "[]" }, messages.ActionOK, "", `"v"`},
		{"error", fail(errors.New("no")), nil, messages.ActionFailed, "error", ""},
		{"refused", fail(tools.Refuse("not_today", "no")), nil, messages.ActionFailed, "not_today", ""},
		{"unsettled", fail(&tools.Unsettled{Reason: "the line broke"}), nil, messages.ActionUnknown, "lost", ""},
		{"unknown target", value("v"), func(_ *compiled.Agent, w *Work) { w.Start.Name = "other" }, messages.ActionFailed, "unavailable", ""},
		{"unknown tool", value("v"), func(_ *compiled.Agent, w *Work) { w.Start.Type, w.Start.Name = "", "other" }, messages.ActionFailed, "unavailable", ""},
		{"bad arguments", value("v"), func(_ *compiled.Agent, w *Work) { w.Start.Type, w.Start.Args = "", "{" }, messages.ActionFailed, "arguments", ""},
		{"another basis", value("v"), func(_ *compiled.Agent, w *Work) { w.Start.Basis = "{}" }, messages.ActionFailed, "changed", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, s := begin(t, tt.do, tt.change)
			last := 0
			a.Run(func() { last++ })
			if len(s.ends) != 1 || last != 1 {
				t.Fatalf("%s: %d ends, last called %d times", tt.name, len(s.ends), last)
			}
			end := s.ends[0]
			if end.State != tt.state || end.Reason != tt.reason || tt.result != "" && end.Result != tt.result || end.ID != "a" || end.Attempt != 2 || end.Turn != 3 {
				t.Errorf("%s: %+v", tt.name, end)
			}
			if tt.state == messages.ActionOK && (end.MS != 20 || len(end.Audits) != 1 || end.Used.Tokens != 7) {
				t.Errorf("%s: it took %d ms, audits %v, used %+v", tt.name, end.MS, end.Audits, end.Used)
			}
			if a.Claim() {
				t.Errorf("%s: it can end again", tt.name)
			}
		})
	}
}

// A tool whose time is up has a moment to return; one that does not is left behind, and what it
// says then is dropped.
func TestTimeIsUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		heeds   bool
		cancel  bool
		state   messages.ActionState
		orphans int
	}{
		{"deaf", false, false, messages.ActionUnknown, 1},
		{"heeds", true, false, messages.ActionUnknown, 0},
		{"cancelled", true, true, messages.ActionUnknown, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var call *tools.Call
			a, s := begin(t, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				call = c
				if tt.heeds {
					<-ctx.Done()
					return neuroscript.Value{}, context.Cause(ctx)
				}
				time.Sleep(time.Hour)
				return neuroscript.String("late"), nil
			}, func(_ *compiled.Agent, w *Work) { w.Start.Deadline = time.Now().Add(time.Minute) })
			from := time.Now()
			var took time.Duration
			done := make(chan struct{})
			go func() {
				a.Run(nothing)
				close(done)
			}()
			if tt.cancel {
				synctest.Wait()
				a.Cancel(messages.Errorf(messages.ErrCancelled, "stop"))
			}
			for took = 0; took < 2*time.Minute && s.ended() == 0; took = time.Since(from) {
				time.Sleep(OverrunGrace / 2)
				synctest.Wait()
			}
			call.Audit(messages.Audit{What: "too late"})
			call.Spend(messages.Budget{Tokens: 9})
			<-done
			if len(a.audits) != 0 || a.used.Tokens != 0 {
				t.Errorf("%s: what came too late is kept: %v, %+v", tt.name, a.audits, a.used)
			}
			if len(s.ends) != 1 {
				t.Fatalf("%s: %d ends", tt.name, len(s.ends))
			}
			if end := s.ends[0]; end.State != tt.state || s.orphans != tt.orphans || len(end.Audits) != 0 || end.Used.Tokens != 0 {
				t.Errorf("%s: %+v, %d orphans", tt.name, end, s.orphans)
			}
			if bound := time.Minute + 2*OverrunGrace; took > bound || tt.cancel && took > time.Second {
				t.Errorf("%s: it took %s", tt.name, took)
			}
		})
	}
}

// What stands around a call gives its end, if that is one.
func TestAround(t *testing.T) {
	for _, tt := range []struct {
		name   string
		around func(own *messages.ActionEnded) *messages.ActionEnded
		state  messages.ActionState
		reason string
		last   bool
	}{
		{"as it is", func(own *messages.ActionEnded) *messages.ActionEnded { return own }, messages.ActionOK, "", false},
		{"another", func(*messages.ActionEnded) *messages.ActionEnded {
			return &messages.ActionEnded{State: messages.ActionFailed, Reason: "mine"}
		}, messages.ActionFailed, "mine", true},
		{"none", func(*messages.ActionEnded) *messages.ActionEnded { return nil }, messages.ActionFailed, "result", false},
		{"skipped", func(*messages.ActionEnded) *messages.ActionEnded {
			return &messages.ActionEnded{State: messages.ActionSkipped}
		}, messages.ActionFailed, "result", false},
		{"no JSON", func(*messages.ActionEnded) *messages.ActionEnded {
			return &messages.ActionEnded{State: messages.ActionOK, Result: "{"}
		}, messages.ActionFailed, "result", false},
	} {
		a, s := begin(t, func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.String("v"), nil },
			func(a *compiled.Agent, w *Work) {
				w.Start.Type, w.Start.Args = "", "[]"
				a.Around = func(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded {
					if call.Name != "own.tool" || call.Type != messages.TypeTool || call.Class != messages.Effectful {
						t.Errorf("around %+v", call)
					}
					return tt.around(do(ctx))
				}
			})
		a.Run(nothing)
		if end := s.ends[0]; end.State != tt.state || end.Reason != tt.reason || end.Last != tt.last {
			t.Errorf("%s: %+v", tt.name, end)
		}
	}
}

// Progress is shown now and then, and its end at once.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var report func(done, total int64, text string)
		a, s := begin(t, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			report = c.Host.Progress
			for i := range int64(10) {
				report(i, 10, strings.Repeat("x", 2*progressBytes))
				time.Sleep(progressEvery / 4)
			}
			report(10, 10, "")
			return neuroscript.Value{}, nil
		}, nil)
		a.Run(nothing)
		report(11, 10, "late")
		if len(s.shown) != 4 || s.shown[3].Off != 10 || len(s.shown[0].Text) > progressBytes+len("…") || s.shown[0].Action != "a" {
			t.Errorf("%d times, at last %+v", len(s.shown), s.shown[len(s.shown)-1])
		}
	})
}

// The pieces of a result go together, in order, whole characters, at most so many that the session
// has not taken, and none behind the end.
func TestSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var emitted atomic.Int64
		a, s := begin(t, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			if err := c.Sink(ctx, "é"[:1]); err != nil {
				return neuroscript.Value{}, err
			}
			if err := c.Sink(ctx, "é"[1:]+"."); err != nil {
				return neuroscript.Value{}, err
			}
			time.Sleep(2 * sinkPause)
			for range 2 * sinkChunks {
				if err := c.Sink(ctx, "x"); err != nil {
					return neuroscript.Value{}, err
				}
				emitted.Add(1)
			}
			return neuroscript.Value{}, nil
		}, func(_ *compiled.Agent, w *Work) { w.Start.Stream = true })
		done := make(chan struct{})
		go func() {
			a.Run(nothing)
			close(done)
		}()
		time.Sleep(time.Minute)
		if n := emitted.Load(); n >= sinkChunks || s.ended() != 0 {
			t.Errorf("%d pieces were taken from the tool while the session took none", n)
		}
		for range 1000 { // far longer than it takes
			if s.ended() > 0 {
				break
			}
			s.take()
			time.Sleep(sinkPause)
		}
		a.Cancel(errors.New("over"))
		<-done
		if got, want := strings.Join(s.pieces, ""), "é."+strings.Repeat("x", 2*sinkChunks); got != want {
			t.Errorf("%q", got)
		}
		for _, p := range s.pieces {
			if strings.ToValidUTF8(p, "?") != p {
				t.Errorf("%q is no text", p)
			}
		}
		if err := a.sink.emit(t.Context(), "late"); !errors.Is(err, tools.ErrEnded) {
			t.Errorf("behind the end: %v", err)
		}
	})
}

// What an action asks of its session names the action, and what it changes comes with its end.
func TestAsksItsSession(t *testing.T) {
	a, s := begin(t, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		h := c.Host
		kept, err := h.Keep(ctx, catalog.KeepCall{Key: "k"})
		if err != nil || kept != `"ak"` {
			t.Errorf("kept %q, %v", kept, err)
		}
		_, err = h.Feeds(ctx, "feed.remove", "{}")
		return neuroscript.Value{}, err
	}, func(_ *compiled.Agent, w *Work) { w.OnFeeds = true })
	a.Run(nothing)
	if s.ends[0].Feed == nil || s.ends[0].State != messages.ActionOK {
		t.Errorf("%+v", s.ends[0])
	}
}

// A host that has lost its lease, since the session had the attempt begin, does not call the target.
// What an attempt before it did is not known, so neither is this one's end.
func TestLeaseIsLost(t *testing.T) {
	for class, state := range map[messages.Class]messages.ActionState{
		messages.ReadOnly: messages.ActionCancelled, messages.Effectful: messages.ActionUnknown,
	} {
		called := false
		r, s := begin(t, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			called = true
			return neuroscript.Value{}, nil
		}, func(_ *compiled.Agent, w *Work) { w.Start.Class = class })
		s.lost = true
		r.Run(nothing)
		if called {
			t.Errorf("%s: the target is called", class)
		}
		if len(s.ends) != 1 || s.ends[0].State != state || s.ends[0].Reason != "cancelled" {
			t.Errorf("%s: it ends with %+v", class, s.ends)
		}
	}
}

// Deadlines are by the clock of the environment, which in a cluster is the database's: an attempt has the
// time up to its deadline there, also at a host whose own clock is a day ahead or late.
func TestDeadlineByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-25 * time.Hour, 25 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			there := func() time.Time { return time.Now().Add(-ahead) }
			r, s := begin(t, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
				<-ctx.Done()
				return neuroscript.Value{}, ctx.Err()
			}, func(_ *compiled.Agent, w *Work) { w.Start.Deadline = there().Add(time.Minute) })
			r.env.Now = there
			r.Run(nothing)
			if took := time.Since(begun); took < time.Minute || took > time.Minute+OverrunGrace || s.ended() != 1 || s.ends[0].Reason != "timeout" {
				t.Errorf("with a clock %s ahead it took %s, and has the ends %+v", ahead, took, s.ends)
			}
		})
	}
}
