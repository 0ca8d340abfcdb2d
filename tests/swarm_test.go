package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A crash in one of a thousand running sessions disturbs no other: all are in
// flight at once, one breaks in each way there is, the session's own actor among
// them, and the others decide as if nothing had happened.
func TestCrashAmongAThousand(t *testing.T) {
	const sessions = 1000
	synctest.Test(t, func(t *testing.T) {
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		// Randomness that fails once breaks a Step, and with it the actor.
		var dry atomic.Bool
		var draws atomic.Uint64
		source := reads(func(p []byte) (int, error) {
			if dry.CompareAndSwap(true, false) {
				return 0, errors.New("no randomness")
			}
			n := draws.Add(1)
			for i := range p {
				p[len(p)-1-i] = byte(n >> (i % 8 * 8))
			}
			return len(p), nil
		})
		rt := start(t, stile.Config{InMemory: true, Keys: keys, Rand: source})

		barrier := make(chan struct{})
		arrived := func(ctx context.Context) {
			select {
			case <-barrier:
			case <-ctx.Done():
			}
		}
		hold := tool("test.hold", messages.ReadOnly, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
			arrived(ctx)
			return neuroscript.String("held"), nil
		})
		good := agent(says(program("emit tool.test.hold()", sayDone)), nil, hold)

		// Each bad session waits for a signal of its own and then does its worst.
		type bad struct {
			agent  *stile.Agent
			want   messages.Code
			signal chan struct{}
		}
		worst := func(class messages.Class, f func()) (*stile.Agent, chan struct{}) {
			signal := make(chan struct{})
			return agent(says(program("emit tool.test.worst()", sayDone)), nil,
				tool("test.worst", class, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
					select {
					case <-signal:
						f()
					case <-ctx.Done():
					}
					return neuroscript.Value{}, nil
				})), signal
		}
		speaks := func(f func(yield func(llm.Chunk, error) bool)) (*stile.Agent, chan struct{}) {
			signal := make(chan struct{})
			return &stile.Agent{Dialect: "plain", Model: model(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
				return func(yield func(llm.Chunk, error) bool) {
					select {
					case <-signal:
						f(yield)
					case <-ctx.Done():
						yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
					}
				}
			})}, signal
		}
		bads := map[string]bad{}
		add := func(name string, want messages.Code, a *stile.Agent, signal chan struct{}) {
			bads[name] = bad{a, want, signal}
		}
		a, signal := worst(messages.ReadOnly, func() { panic("tool") })
		add("tool-panic", messages.ErrCrash, a, signal)
		a, signal = worst(messages.Effectful, func() { panic("effect") })
		add("effect-panic", messages.ErrCrash, a, signal)
		a, signal = worst(messages.ReadOnly, runtime.Goexit)
		add("tool-goexit", messages.ErrCrash, a, signal)
		a, signal = speaks(func(func(llm.Chunk, error) bool) { panic("model") })
		add("model-panic", messages.ErrCrash, a, signal)
		a, signal = speaks(func(func(llm.Chunk, error) bool) { runtime.Goexit() })
		add("model-goexit", messages.ErrCrash, a, signal)
		a, signal = speaks(func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, errors.New("broken")) })
		add("model-error", messages.ErrModel, a, signal)
		var once sync.Once
		a, signal = speaks(func(yield func(llm.Chunk, error) bool) {
			once.Do(func() { dry.Store(true) }) // the next record cannot be sealed: the actor panics, settles, and asks again
			yield(llm.Chunk{Text: []byte("hello"), Finish: messages.FinishComplete}, nil)
		})
		add("actor-panic", "", a, signal)
		signal = make(chan struct{})
		pure := agent(says(program("emit tool.test.pure()", sayDone)), nil, tools.Tool{
			Name: "test.pure", Class: messages.Pure,
			Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
				<-bads["interpreter-panic"].signal
				panic("pure")
			},
		})
		add("interpreter-panic", messages.ErrCrash, pure, signal)
		gated, signal := worst(messages.ReadOnly, func() {})
		gated.Gate = func(tools.Request) (messages.GateAnswer, string, bool) { <-bads["gate-panic"].signal; panic("gate") }
		add("gate-panic", messages.ErrCrash, gated, signal)

		runs := make([]*stile.Run, 0, sessions-len(bads))
		for i := range sessions - len(bads) {
			runs = append(runs, submit(t, open(t, rt, fmt.Sprint("good-", i), good), "go"))
		}
		worstRuns := map[string]*stile.Run{}
		for name, b := range bads {
			worstRuns[name] = submit(t, open(t, rt, name, b.agent), "go")
		}
		synctest.Wait()
		if n := rt.Counters().InFlight.Load(); n != sessions {
			t.Fatalf("%d turns in flight, want %d", n, sessions)
		}
		for name, b := range bads {
			close(b.signal)
			o := decision(t, worstRuns[name])
			if o.Reason != b.want || (o.Decision == stile.Halt) != (b.want != "") {
				t.Errorf("%s: the run ended %s(%s) %q, want the reason %q", name, o.Decision, o.Reason, o.Detail, b.want)
			}
			synctest.Wait()
		}
		if n := rt.Counters().Crashes.Load(); n != 1 {
			t.Errorf("%d sessions restarted, want 1", n)
		}
		if n := rt.Counters().InFlight.Load(); n != int64(len(runs)) {
			t.Errorf("%d turns in flight after the crashes, want %d", n, len(runs))
		}
		began := time.Now()
		close(barrier)
		for i, r := range runs {
			if o := decision(t, r); o.Decision != stile.Done || o.Turns != 1 || o.Turn.TurnIndex != 1 || o.Turn.Resumed {
				t.Fatalf("session %d ended %s(%s) after %d turns", i, o.Decision, o.Reason, o.Turns)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the others took %s", took)
		}
		if n := rt.SessionsInMemory(); n != sessions {
			t.Errorf("%d sessions awake, want %d", n, sessions)
		}
	})
}

// reads is an io.Reader from a function.
type reads func([]byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }
