package tests

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Each row of the table of docs/spec/design.md §4 has its tests here, in clocks_test.go,
// meters_test.go, recovery_test.go and order_test.go.

// logged is a log that tests look into.
func logged() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.ErrorLevel)
	return zap.New(core), logs
}

// A tool's error is the program's to handle, or its end.
func TestToolError(t *testing.T) {
	broken := tool("test.broken", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.Value{}, errors.New("the disk is on fire")
	})
	numbered := tool("test.numbered", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.Value{}, neuroscript.Errorf(42, "number forty-two")
	})
	handled := program("on error as e do", `emit "caught " + e.code + ": " + e.message`, "clear_error", "endon",
		"set x = tool.test.broken()", "set y = tool.test.numbered()", `emit "went on"`, sayDone)
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "handled", agent(says(handled), nil, broken, numbered))
		wantDone(t, ask(t, s, "go"))
		got := strings.Join(texts(records(t, s)), "|")
		if want := "caught 21: the disk is on fire|caught 42: number forty-two|went on"; got != want {
			t.Errorf("emitted %q, want %q", got, want)
		}
		for _, e := range bodies[*messages.ActionEnded](records(t, s)) {
			if e.State != messages.ActionFailed || e.Reason != "error" {
				t.Errorf("the action ended %s(%s)", e.State, e.Reason)
			}
		}

		s = open(t, rt, "unhandled", agent(says(program(sayDone, "set x = tool.test.broken()")), nil, broken))
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrActionsRuntime, "the disk is on fire")
		if o.Turn.KID != "" || o.Turn.JTI != "" {
			t.Error("the token of a turn that did not complete counts")
		}
	})
}

// A tool's panic halts its turn with ERR_CRASH; the stack is in the log and
// nowhere else, and the session lives on.
func TestToolPanic(t *testing.T) {
	for _, class := range []messages.Class{messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, logs := logged()
				rt := start(t, stile.Config{Log: log})
				bomb := tool("test.bomb", class, func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("secret of the tool") })
				bad := program("on error as e do", "clear_error", "endon", "set x = tool.test.bomb()", sayDone)
				s := open(t, rt, "struck", agent(once(bad, program(sayDone)), nil, bomb))
				o := ask(t, s, "go")
				wantHalt(t, o, messages.ErrCrash, "panic")
				recs := records(t, s)
				if c := control(t, recs, messages.ControlCrash); c.Name != "action" {
					t.Errorf("the crash is laid at %q", c.Name)
				}
				ended := bodies[*messages.ActionEnded](recs)
				want := messages.ActionFailed
				if class.Durable() {
					want = messages.ActionUnknown
				}
				if len(ended) != 1 || ended[0].State != want || ended[0].Reason != "panic" {
					t.Errorf("the action ended %+v, want %s(panic)", ended, want)
				}
				if n := logs.FilterMessage("a child of a turn crashed").Len(); n != 1 {
					t.Errorf("%d log entries of the crash, want 1", n)
				} else if stack, _ := logs.FilterMessage("a child of a turn crashed").All()[0].ContextMap()["stack"].(string); !contains(stack, "supervision_test") {
					t.Errorf("the logged stack does not show the panic:\n%s", stack)
				}
				for _, r := range recs {
					if contains(string(r.Raw), "goroutine ") {
						t.Errorf("a stack is in record %d, %s", r.Seq, r.Body.Kind())
					}
				}
				wantDone(t, ask(t, s, "again"))
				if rt.Counters().Crashes.Load() != 0 {
					t.Error("the session itself restarted")
				}
			})
		})
	}
}

// A Goexit of foreign code is a panic to us: it would leave the turn without an
// answer otherwise.
func TestGoexitIsACrash(t *testing.T) {
	exits := func(context.Context, *tools.Call) (neuroscript.Value, error) { runtime.Goexit(); panic("unreached") }
	cases := map[string]*stile.Agent{
		"tool": agent(says(program("set x = tool.test.exit()", sayDone)), nil, tool("test.exit", messages.ReadOnly, exits)),
		"pure tool": agent(says(program("set x = tool.test.exit()", sayDone)), nil, tools.Tool{
			Name: "test.exit", Class: messages.Pure,
			Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
				runtime.Goexit()
				panic("unreached")
			},
		}),
		"tool while the reply streams": {
			Dialect: "cortex", Model: says(`<action id="a" mode="async">{"name":"test.exit"}</action><response>done</response>`),
			Tools: []tools.Tool{tool("test.exit", messages.ReadOnly, exits)},
		},
		"tool of a batch": {
			Dialect: "cogency", Model: says(`<execute>[{"name":"test.exit","args":{}}]</execute>`),
			Tools: []tools.Tool{tool("test.exit", messages.ReadOnly, exits)},
		},
		"model": agent(model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(func(llm.Chunk, error) bool) { runtime.Goexit() }
		}), nil),
	}
	for name, a := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				s := open(t, rt, "gone", a)
				wantHalt(t, ask(t, s, "go"), messages.ErrCrash, "Goexit")
				wantHalt(t, ask(t, s, "again"), messages.ErrCrash, "Goexit")
			})
		})
	}
}

// Under on_panic: fail a panic is a failed attempt, until the third of one name in
// a run; the run counts, not the turn.
func TestOnPanicFail(t *testing.T) {
	bomb := func(name string) tools.Tool {
		return tool(name, messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("boom") })
	}
	handler := "on error as e do\nemit \"caught \" + e.code\nclear_error\nendon"
	fail := func(m *manifest.Manifest) { m.Loop.OnPanic = messages.PanicFail; m.Loop.NoProgressN = 100 }
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		two := program(handler, "set x = tool.test.a()", "set x = tool.test.a()", "set x = tool.test.b()", "set x = tool.test.b()", sayDone)
		s := open(t, rt, "twice", agent(says(two), fail, bomb("test.a"), bomb("test.b")))
		wantDone(t, ask(t, s, "go"))
		if got := texts(records(t, s)); len(got) != 4 || got[0] != "caught 21" {
			t.Errorf("emitted %q", got)
		}
		wantDone(t, ask(t, s, "a new run counts anew"))

		one := program(handler, `emit userdata["fields"]["text"]`, "set x = tool.test.a()", sayContinue)
		s = open(t, rt, "thrice", agent(says(one), fail, bomb("test.a")))
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrCrash, "boom")
		if o.Turns != 3 {
			t.Errorf("halted in turn %d of the run, want the third", o.Turns)
		}
	})
}

// A panic inside the interpreter, as of a pure tool, halts the turn; actions in
// flight there are none, but what was emitted before is kept.
func TestInterpreterPanic(t *testing.T) {
	pure := tools.Tool{Name: "test.pure", Class: messages.Pure, Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
		panic("pure, but wrong")
	}}
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "burst", agent(says(program(`emit "before"`, sayDone, "set x = tool.test.pure()")), nil, pure))
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrCrash, "pure, but wrong")
		if c := control(t, records(t, s), messages.ControlCrash); c.Name != "interpreter" {
			t.Errorf("the crash is laid at %q", c.Name)
		}
		wantHalt(t, ask(t, s, "again"), messages.ErrCrash)
	})
}

// A panic of a model's adapter halts the turn.
func TestModelPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "raving", agent(model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				yield(llm.Chunk{Text: []byte("comm")}, nil)
				panic("the adapter is broken")
			}
		}), nil))
		wantHalt(t, ask(t, s, "go"), messages.ErrCrash, "the adapter is broken")
	})
}

// lean is randomness that runs dry when told.
type lean struct{ dry func() bool }

func (l lean) Read(p []byte) (int, error) {
	if l.dry() {
		return 0, errors.New("no randomness")
	}
	clear(p)
	p[0] = byte(time.Now().UnixNano())
	return len(p), nil
}

// A session that cannot even be settled is stopped after its restarts, and callers that wait
// for it get an error instead of waiting; opening it again works once the cause is gone.
func TestSessionThatCannotComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		dry := false
		hold := make(chan struct{})
		rt := start(t, stile.Config{InMemory: true, Keys: keys, Rand: lean{func() bool { return dry }}})
		a := &stile.Agent{Dialect: "plain", Model: model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				<-hold
				yield(llm.Chunk{Text: []byte("hello"), Finish: messages.FinishComplete}, nil)
			}
		})}
		s := open(t, rt, "drained", a)
		run := submit(t, s, "go")
		followed := make(chan error, 1)
		go func() {
			for _, err := range s.Events(t.Context(), 0) {
				if err != nil {
					followed <- err
					return
				}
			}
		}()
		synctest.Wait()
		dry = true
		close(hold)
		err = <-followed
		wantCode(t, err, messages.ErrCrash)
		dry = false
		s = open(t, rt, "drained", a)
		o := decision(t, s.Run(run.Ordinal()))
		if o.Decision != stile.Done && o.Reason != messages.ErrCrash {
			t.Errorf("the run ended %s(%s)", o.Decision, o.Reason)
		}
		wantDone(t, ask(t, s, "again"))
	})
}

// The model fails: with a script error that may pass it is asked again; then the
// fallback; then the turn halts with what the last one said.
func TestModelFailures(t *testing.T) {
	status := func(n int, retry bool) error { return llm.Fail(llm.Failure{Status: n, Retryable: retry}, "no") }
	fails := func(times int, err error, then string) (model, *int) {
		n := new(int)
		return func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				if *n++; *n <= times {
					yield(llm.Chunk{}, err)
					return
				}
				yield(llm.Chunk{Text: []byte(then), Finish: messages.FinishComplete}, nil)
			}
		}, n
	}
	routed := func(rt *stile.Runtime) *stile.Agent {
		m := manifest.Default("aeiou")
		m.Name, m.Model.Provider = "routed", "first"
		m.Model.Fallback = []manifest.Fallback{{Provider: "second", Model: "b"}}
		return &stile.Agent{Manifest: m}
	}
	good := program(sayDone)
	for name, c := range map[string]struct {
		firstFails, secondFails int
		err                     error
		first, second           int // times asked
		reason                  messages.Code
	}{
		"429 then well":        {1, 0, status(429, true), 2, 0, ""},
		"429 for ever":         {99, 0, status(429, true), 3, 1, ""},
		"401 goes to fallback": {99, 0, status(401, false), 1, 1, ""},
		"both fail":            {99, 99, status(503, true), 3, 3, messages.ErrModel},
		"no failure inside":    {99, 99, errors.New("plain error"), 1, 1, messages.ErrModel},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, n1 := fails(c.firstFails, c.err, good)
				second, n2 := fails(c.secondFails, c.err, good)
				rt := start(t, stile.Config{Models: map[string]llm.Model{"first": first, "second": second}})
				s := open(t, rt, "routed", routed(rt))
				o := ask(t, s, "go")
				if c.reason == "" {
					wantDone(t, o)
				} else {
					wantHalt(t, o, c.reason)
				}
				if *n1 != c.first || *n2 != c.second {
					t.Errorf("asked %d and %d times, want %d and %d", *n1, *n2, c.first, c.second)
				}
				recs := records(t, s)
				if n := len(bodies[*messages.ModelRequest](recs)); n != c.first+c.second {
					t.Errorf("%d model.request records, want %d", n, c.first+c.second)
				}
				switched := bodies[*messages.ModelFallback](recs)
				if want := min(c.second, 1); len(switched) != want {
					t.Fatalf("%d model.fallback records, want %d", len(switched), want)
				}
				if len(switched) == 1 && (switched[0].From != "first/" || switched[0].To != "second/b") {
					t.Errorf("fallback from %q to %q", switched[0].From, switched[0].To)
				}
				if c.reason != "" {
					if ctl := control(t, recs, messages.ControlModelError); ctl.Code != messages.ErrModel || ctl.Detail == "" {
						t.Errorf("control %+v", ctl)
					}
				}
			})
		})
	}
}

// What failed attempts have cost is a part of what the reply has: a provider bills a
// reply that it withholds. Each is billed at its own model's price, and budgets see it.
func TestModelFailuresCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		billed := func(fails int, u messages.Usage, cost int64, err error) model {
			return func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
				return func(yield func(llm.Chunk, error) bool) {
					if !yield(llm.Chunk{Usage: u, CostMicroUSD: cost}, nil) {
						return
					}
					if fails--; fails >= 0 {
						yield(llm.Chunk{}, err)
						return
					}
					yield(llm.Chunk{Text: []byte("well"), Finish: messages.FinishComplete, Usage: u, CostMicroUSD: cost}, nil)
				}
			}
		}
		busy := llm.Fail(llm.Failure{Status: 529, Retryable: true}, "no")
		m := manifest.Default("plain")
		m.Name, m.Model.Provider = "billed", "first"
		m.Model.Fallback = []manifest.Fallback{{Provider: "second", Model: "b"}}
		for name, c := range map[string]struct {
			second int // times it fails
			finish messages.Finish
			usage  messages.Usage
			cost   int64
		}{
			"answered": {0, messages.FinishComplete, messages.Usage{Input: 3*10 + 200, Output: 3*1 + 20, CacheRead: 50, Estimated: true}, 3*7 + 1000},
			"never":    {9, messages.FinishError, messages.Usage{Input: 3*10 + 3*200, Output: 3*1 + 3*20, CacheRead: 3 * 50, Estimated: true}, 3*7 + 3*1000},
		} {
			rt := start(t, stile.Config{Models: map[string]llm.Model{
				"first":  billed(9, messages.Usage{Input: 10, Output: 1, Estimated: true}, 7, busy),
				"second": billed(c.second, messages.Usage{Input: 200, Output: 20, CacheRead: 50}, 1000, busy),
			}})
			s := open(t, rt, "billed", &stile.Agent{Manifest: m})
			ask(t, s, "go")
			got := bodies[*messages.ModelReply](records(t, s))
			if len(got) != 1 || got[0].Finish != c.finish || got[0].Usage != c.usage || got[0].CostUSD != c.cost {
				t.Errorf("%s: %+v, want %+v", name, got[0], c)
			}
		}
	})
}

// once returns each reply once, the last one for ever.
func once(replies ...string) model {
	n := 0
	return func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		reply := replies[min(n, len(replies)-1)]
		n++
		return says(reply)(ctx, req)
	}
}

// What a model's adapter does after its last chunk is its own affair: it neither
// holds up the turn nor takes the session's actor with it.
func TestModelAfterItsEnd(t *testing.T) {
	for name, then := range map[string]func(){
		"blocks":  func() { time.Sleep(time.Hour) },
		"panics":  func() { panic("after the end") },
		"goexits": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				s := open(t, rt, "dawdling", &stile.Agent{Dialect: "plain", Model: model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
					return func(yield func(llm.Chunk, error) bool) {
						yield(llm.Chunk{Text: []byte("hello"), Finish: messages.FinishComplete}, nil)
						then()
					}
				})})
				began := time.Now()
				for range 3 {
					if o := ask(t, s, "go"); o.Decision != stile.Done && o.Reason != messages.ErrCrash {
						t.Errorf("the run ended %s(%s)", o.Decision, o.Reason)
					}
				}
				if took := time.Since(began); took > soon {
					t.Errorf("three turns took %s", took)
				}
				time.Sleep(2 * time.Hour) // the adapters end
			})
		})
	}
}
