package tests

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// after is a model that answers after a while, unless it is cancelled.
func after(d time.Duration, m llm.Model) model {
	return func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			select {
			case <-time.After(d):
				m.Stream(ctx, req)(yield)
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			}
		}
	}
}

// Each clock of docs/spec/design.md §8 halts with ERR_TIMEOUT at its very moment, names
// itself, and cancels what runs; the session lives on.
func TestClocks(t *testing.T) {
	ended := make(chan time.Time, 8) // when a tool was told to stop
	for name, c := range map[string]struct {
		quotas func(*manifest.Quotas)
		model  func() llm.Model
		at     time.Duration
		turns  int64
		tool   bool
	}{
		"program_wall": {
			quotas: func(q *manifest.Quotas) { q.ProgramWall = 30 * time.Second },
			model:  func() llm.Model { return says(program("set x = tool.test.wait()", sayDone)) },
			at:     30 * time.Second, turns: 1, tool: true,
		},
		"generation_wall": {
			quotas: func(q *manifest.Quotas) { q.GenerationWall = 5 * time.Minute },
			model:  func() llm.Model { return stalls("comm") },
			at:     5 * time.Minute, turns: 1,
		},
		"turn_wall": {
			quotas: func(q *manifest.Quotas) { q.TurnWall = 70 * time.Second },
			model: func() llm.Model {
				return after(time.Minute, says(program("set x = tool.test.wait()", sayDone)))
			},
			at: 70 * time.Second, turns: 1, tool: true,
		},
		"run_wall": {
			quotas: func(q *manifest.Quotas) { q.RunWall = time.Hour },
			model: func() llm.Model {
				n := 0
				return model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
					n++
					return after(4*time.Minute+time.Second, says(program("emit "+string(rune('0'+n%10)), sayContinue)))(ctx, req)
				})
			},
			at: time.Hour, turns: 15,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended = make(chan time.Time, 8)
				wait := tool("test.wait", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
					v, err := waits(ctx, c)
					ended <- time.Now()
					return v, err
				})
				rt := start(t, stile.Config{})
				s := open(t, rt, "timed", agent(c.model(), func(m *manifest.Manifest) { c.quotas(&m.Quotas) }, wait))
				began := time.Now()
				o := ask(t, s, "go")
				wantHalt(t, o, messages.ErrTimeout, name)
				if took := time.Since(began); took < c.at || took > c.at+time.Millisecond {
					t.Errorf("halted after %s, want %s", took, c.at)
				}
				if o.Turns != c.turns {
					t.Errorf("halted in turn %d, want %d", o.Turns, c.turns)
				}
				if ctl := control(t, records(t, s), messages.ControlTimer); ctl.Name != name || ctl.Code != messages.ErrTimeout {
					t.Errorf("control %+v", ctl)
				}
				if n := metric(t, rt, "quota_breach_total", "kind", name); n != 1 {
					t.Errorf("%v breaches counted, want 1", n)
				}
				synctest.Wait()
				if c.tool {
					if at := <-ended; at.Sub(began) != c.at {
						t.Errorf("the tool was told after %s", at.Sub(began))
					}
				}
				if n := metric(t, rt, "orphans_total"); n != 0 {
					t.Errorf("%v orphans", n)
				}
				s = open(t, rt, "timed", agent(says(program(sayDone)), nil))
				if o := ask(t, s, "again"); o.Turn == nil {
					t.Error("the session did not go on")
				}
			})
		})
	}
}

// A tool's own time-out is a failed action, which the program may handle; an effect
// without an outcome is unknown.
func TestToolTimeout(t *testing.T) {
	handler := "on error as e do\nemit \"caught \" + e.code\nclear_error\nendon"
	for class, want := range map[messages.Class]messages.ActionState{
		messages.ReadOnly: messages.ActionFailed, messages.Effectful: messages.ActionUnknown, messages.Keyed: messages.ActionUnknown,
	} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := tool("test.slow", class, waits)
				slow.Timeout = 5 * time.Second
				rt := start(t, stile.Config{})
				s := open(t, rt, "timed", agent(says(program(handler, "set x = tool.test.slow()", sayDone)), nil, slow))
				began := time.Now()
				wantDone(t, ask(t, s, "go"))
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("took %s", took)
				}
				recs := records(t, s)
				ended := bodies[*messages.ActionEnded](recs)
				if len(ended) != 1 || ended[0].State != want || ended[0].Reason != "timeout" || ended[0].MS != 5000 {
					t.Fatalf("ended %+v", ended)
				}
				if got := texts(recs); len(got) != 1 || got[0] != "caught 21" {
					t.Errorf("emitted %q", got)
				}
			})
		})
	}
}

// A tool that ignores its context is left behind: the turn ends without it, it is
// counted as an orphan, and what it says later is dropped.
func TestOrphans(t *testing.T) {
	for class, c := range map[messages.Class]struct {
		state messages.ActionState
		took  time.Duration
	}{
		messages.ReadOnly:  {messages.ActionCancelled, 30 * time.Second},                    // nothing is lost with its answer
		messages.Effectful: {messages.ActionUnknown, 30*time.Second + 100*time.Millisecond}, // the grace of a tool
	} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				deaf := tool("test.deaf", class, func(context.Context, *tools.Call) (neuroscript.Value, error) {
					<-release
					return neuroscript.String("too late"), nil
				})
				rt := start(t, stile.Config{})
				s := open(t, rt, "deaf", agent(says(program("set x = tool.test.deaf()", sayDone)), nil, deaf))
				began := time.Now()
				wantHalt(t, ask(t, s, "go"), messages.ErrTimeout, "program_wall")
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				time.Sleep(soon)
				if n := metric(t, rt, "orphans_total"); n != 1 {
					t.Errorf("%v orphans, want 1", n)
				}
				before := len(records(t, s))
				close(release)
				synctest.Wait()
				recs := records(t, s)
				if len(recs) != before {
					t.Errorf("the late answer left %v", kinds(recs[before:]))
				}
				ended := bodies[*messages.ActionEnded](recs)
				if len(ended) != 1 || ended[0].State != c.state {
					t.Errorf("ended %+v, want %s", ended, c.state)
				}
				if n := rt.Counters().InFlight.Load(); n != 0 {
					t.Errorf("%d turns in flight", n)
				}
			})
		})
	}
}

// A pure tool that never ends holds its interpreter; the turn ends without it
// after a short grace.
func TestStuckInterpreter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := tools.Tool{Name: "test.stuck", Class: messages.Pure, Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			<-release
			return neuroscript.Value{}, nil
		}}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stuck", agent(says(program(`emit "before"`, "set x = tool.test.stuck()", sayDone)), nil, stuck))
		began := time.Now()
		wantHalt(t, ask(t, s, "go"), messages.ErrTimeout, "program_wall")
		if took := time.Since(began); took != 30*time.Second+250*time.Millisecond {
			t.Errorf("took %s", took)
		}
		synctest.Wait() // what is over is cleaned up after it was shown
		if n := metric(t, rt, "orphans_total"); n != 1 {
			t.Errorf("%v orphans, want 1", n)
		}
		late := rt.Counters().Late.Load()
		close(release)
		synctest.Wait()
		if n := rt.Counters().Late.Load() - late; n != 1 {
			t.Errorf("%d late answers dropped, want 1", n)
		}
	})
}

// The reply of a model that goes on after it was cancelled is dropped.
func TestLateReplyIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				yield(llm.Chunk{Text: []byte("early ")}, nil)
				time.Sleep(10 * time.Minute)
				yield(llm.Chunk{Text: []byte("late"), Finish: messages.FinishComplete}, nil)
			}
		})
		rt := start(t, stile.Config{})
		s := open(t, rt, "deaf", &stile.Agent{Dialect: "plain", Model: deaf})
		wantHalt(t, ask(t, s, "go"), messages.ErrTimeout, "generation_wall")
		time.Sleep(10 * time.Minute)
		recs := records(t, s)
		if n := rt.Counters().Late.Load(); n == 0 {
			t.Error("no late answer was counted")
		}
		if u := bodies[*messages.UnitText](recs); len(u) != 1 || u[0].Text != "early " || u[0].Complete || u[0].Final {
			t.Errorf("units %+v", u)
		}
		if r := bodies[*messages.ModelReply](recs); len(r) != 1 || r[0].Length != int64(len("early ")) || r[0].Finish != messages.FinishCancelled {
			t.Errorf("reply %+v", r)
		}
	})
}

// A clock that runs out while a session takes in what its model said at once is heard
// there, not behind it: here each look at the time costs a second, and none ends before
// everything was said.
func TestClocksCutWhatComesAtOnce(t *testing.T) {
	whole := strings.Repeat("</action>", 100_000)
	var looks atomic.Int64
	looks.Store(-1 << 40) // until the model has spoken they cost nothing
	began := time.Now()
	said := make(chan struct{})
	now := func() time.Time {
		n := looks.Add(1)
		if n > 0 {
			<-said
		}
		return began.Add(time.Duration(max(0, n)) * time.Second)
	}
	m := model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			looks.Store(0)
			close(said) // first: who passes the text on looks at the clock too
			yield(llm.Chunk{Text: []byte(whole), Finish: messages.FinishStop}, nil)
		}
	})
	a := streaming(nil)
	a.Model = m
	a.Manifest.Quotas.GenerationWall = 12 * time.Second
	rt := start(t, stile.Config{Now: now})
	s := open(t, rt, "stream", a)
	wantHalt(t, ask(t, s, "go"), messages.ErrTimeout, "generation_wall")
	replies := bodies[*messages.ModelReply](records(t, s))
	if len(replies) != 1 || replies[0].Length >= int64(len(whole)) {
		t.Errorf("the reply was taken to its end: %+v", replies)
	}
	replays(t, rt, a)
}

// A reply that is cut to shreds ends its turn, typed, and a replay says the same.
func TestUnitsOfAReply(t *testing.T) {
	for _, piece := range []string{`<response final="false">r</response>`, `<action id="`, "<thought>t</thought>"} {
		t.Run(piece, func(t *testing.T) {
			a := streaming(nil, strings.Repeat(piece, 2*turn.MaxUnits), "<response>done</response>")
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			wantHalt(t, ask(t, s, "go"), messages.ErrQuota, "units: over the limit of 4096 units a reply, in turn 1")
			if n := len(records(t, s)); n > turn.MaxUnits+40 {
				t.Errorf("%d records", n)
			}
			if o := ask(t, s, "again"); o.Decision != stile.Done {
				t.Errorf("the session goes on with %+v", o)
			}
			replays(t, rt, a)
		})
	}
}
