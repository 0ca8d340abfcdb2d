package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// One run at a time: of many submits under reject one wins and the others get
// ERR_BUSY; the winner's run is unharmed.
func TestSingleFlightReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "single", agent(after(time.Minute, says(program(sayDone))), nil))
		var mu sync.Mutex
		var won []*stile.Run
		busy := 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				r, err := s.Submit(t.Context(), "go", stile.Policy(messages.Reject))
				mu.Lock()
				defer mu.Unlock()
				switch messages.CodeOf(err) {
				case "":
					won = append(won, r)
				case messages.ErrBusy:
					busy++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 || busy != 49 {
			t.Fatalf("%d submits won and %d were refused, want 1 and 49", len(won), busy)
		}
		if n := rt.Counters().InFlight.Load(); n != 1 {
			t.Errorf("%d turns in flight, want 1", n)
		}
		wantDone(t, decision(t, won[0]))
		if n := len(bodies[*messages.Input](records(t, s))); n != 1 {
			t.Errorf("%d inputs are recorded, want 1", n)
		}
	})
}

// A run counts as work from before its input is acknowledged until its end was published, also
// when no turn is in flight: stopping the host waits for it.
func TestRunsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		var idle []string
		defer rt.Observe(func(r *stile.Record) {
			if r.Body.Kind() != messages.KindSessionOpened && rt.Counters().InFlight.Load() != 1 {
				idle = append(idle, string(r.Body.Kind()))
			}
		})()
		s := open(t, rt, "at-work", agent(scripted.New(program(`emit "more"`, sayContinue), program(sayDone)), nil))
		wantDone(t, decision(t, submit(t, s, "go")))
		synctest.Wait()
		if len(idle) > 0 {
			t.Errorf("no run was at work at %v", idle)
		}
		if n := rt.Counters().InFlight.Load(); n != 0 {
			t.Errorf("%d runs are still at work", n)
		}
	})
}

// Under enqueue submits are run in the order they were accepted, one at a time;
// the one that would be the seventeenth to wait is refused.
func TestEnqueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "queue", agent(after(time.Second, says(program(`emit userdata["fields"]["text"]`, sayDone))), nil))
		var runs []*stile.Run
		for i := range 17 { // one in flight, sixteen wait
			runs = append(runs, submit(t, s, fmt.Sprint("text ", i)))
		}
		_, err := s.Submit(t.Context(), "one too many")
		wantCode(t, err, messages.ErrBusy)
		_, err = s.Submit(t.Context(), "busy", stile.Policy(messages.Reject))
		wantCode(t, err, messages.ErrBusy)
		began := time.Now()
		for i, r := range runs {
			if r.Ordinal() != int64(i+1) {
				t.Errorf("submit %d became run %d", i, r.Ordinal())
			}
			wantDone(t, decision(t, r))
			if took := time.Since(began); took != time.Duration(i+1)*time.Second {
				t.Errorf("run %d ended after %s", i+1, took)
			}
		}
		got := texts(records(t, s))
		for i := range got {
			if got[i] != fmt.Sprint("text ", i) {
				t.Errorf("emission %d is %q", i, got[i])
			}
		}
		if len(got) != 17 {
			t.Errorf("%d emissions", len(got))
		}
	})
}

// A key that was used names its run for ever after: in flight, waiting, decided.
func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "keyed", agent(after(time.Minute, says(program(sayDone))), nil))
		var wg sync.WaitGroup
		var mu sync.Mutex
		seqs, joined := map[int64]int{}, 0
		for range 20 {
			wg.Go(func() {
				r, err := s.Submit(t.Context(), "go", stile.IdempotencyKey("k"))
				if err != nil {
					t.Error(err)
					return
				}
				o, err := r.Decision(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if err != nil || o.Decision != stile.Done {
					t.Errorf("%+v %v", o, err)
				}
				seqs[o.EndSeq]++
				if r.Joined() {
					joined++
				}
			})
		}
		wg.Wait()
		if len(seqs) != 1 || joined != 19 {
			t.Errorf("decisions at %v, %d joined", seqs, joined)
		}
		late := submit(t, s, "go", stile.IdempotencyKey("k"))
		if o := decision(t, late); !late.Joined() || seqs[o.EndSeq] != 20 {
			t.Errorf("the late submit joined %v and ended at %d", late.Joined(), o.EndSeq)
		}
		if other := submit(t, s, "go", stile.IdempotencyKey("another")); other.Joined() {
			t.Error("another key joined")
		}
	})
}

// A user's cancel is HALT(ERR_CANCELLED) and reaches every child, in each state.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		told := make(chan error, 1)
		in := make(chan struct{}, 1)
		wait := tool("test.wait", messages.ReadOnly, func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
			in <- struct{}{}
			<-ctx.Done()
			told <- context.Cause(ctx)
			return neuroscript.Value{}, ctx.Err()
		})
		s := open(t, rt, "cancelled", agent(says(program("set x = tool.test.wait()", sayDone)), nil, wait))
		run := submit(t, s, "go")
		<-in
		waiting := submit(t, s, "waits")
		if err := waiting.Cancel(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		o := decision(t, waiting)
		wantHalt(t, o, messages.ErrCancelled, "ada", "before it began")
		if o.Turn != nil || o.Turns != 0 {
			t.Errorf("a run that never began took %d turns", o.Turns)
		}
		if err := run.Cancel(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, run), messages.ErrCancelled, "bob")
		if err := <-told; messages.CodeOf(err) != messages.ErrCancelled {
			t.Errorf("the tool's context ended with %v", err)
		}
		if c := control(t, records(t, s), messages.ControlCancel); c.By != "bob" {
			t.Errorf("cancelled by %q", c.By)
		}
		if err := run.Cancel(t.Context(), "eve"); messages.CodeOf(err) != messages.ErrDenied {
			t.Errorf("cancelling a run that has ended: %v", err)
		}
		if err := s.Cancel(t.Context(), "eve"); messages.CodeOf(err) != messages.ErrDenied {
			t.Errorf("cancelling an idle session: %v", err)
		}

		s = open(t, rt, "speaking", agent(stalls("command"), nil))
		run = submit(t, s, "go")
		synctest.Wait()
		if err := s.Cancel(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, run), messages.ErrCancelled, "ada")
	})
}

// OUTPUT and SCRATCHPAD of a turn are in the next prompt, old tokens included, and
// nowhere else; USERDATA stays, and the nonce is shown nowhere.
func TestCarryOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{Model: scripted.New(
			program(`emit "public one"`, `whisper self, "private one"`, sayContinue),
			program(`emit "public two"`, `whisper "notes", "private two"`, `whisper self, "private three"`, sayContinue),
			program(sayDone),
		)}
		rt := start(t, stile.Config{})
		s := open(t, rt, "carrying", agent(rec, nil))
		wantDone(t, ask(t, s, "the question"))
		reqs := rec.requests()
		if len(reqs) != 3 {
			t.Fatalf("%d requests", len(reqs))
		}
		section := func(p, name string) string {
			_, rest, ok := strings.Cut(p, "<<<NSENV:V3:"+name+">>>\n")
			if !ok {
				return ""
			}
			body, _, _ := strings.Cut(rest, "\n<<<NSENV:V3:")
			return body
		}
		first, second, third := prompt(reqs[0]), prompt(reqs[1]), prompt(reqs[2])
		for i, p := range []string{first, second, third} {
			if !contains(section(p, "USERDATA"), "the question") {
				t.Errorf("prompt %d has no USERDATA:\n%s", i+1, p)
			}
		}
		if contains(first, ":OUTPUT>>>") || contains(first, ":SCRATCHPAD>>>") {
			t.Errorf("the first prompt carries something:\n%s", first)
		}
		if out := section(second, "OUTPUT"); out != "public one\n[control: continue]" {
			t.Errorf("the second OUTPUT is %q", out)
		}
		if scr := section(second, "SCRATCHPAD"); scr != "private one" {
			t.Errorf("the second SCRATCHPAD is %q", scr)
		}
		if out := section(third, "OUTPUT"); out != "public two\n[control: continue]" {
			t.Errorf("the third OUTPUT is %q", out)
		}
		if scr := section(third, "SCRATCHPAD"); scr != "private two\nprivate three" {
			t.Errorf("the third SCRATCHPAD is %q", scr)
		}
		begun := bodies[*messages.TurnBegin](records(t, s))
		for i, p := range []string{first, second, third} {
			if contains(p, begun[i].Nonce) {
				t.Errorf("prompt %d shows the nonce of its turn", i+1)
			}
		}
		if n := begun; n[0].Nonce == n[1].Nonce || n[1].Nonce == n[2].Nonce {
			t.Error("a nonce was used twice")
		}
	})
}

// Three equal turns in a row are HALT(ERR_NO_PROGRESS), whatever they ask for; a
// different one in between starts the count anew, and so does a new run.
func TestNoProgress(t *testing.T) {
	same, other := program(`emit "same"`, sayContinue), program(`emit "other"`, sayContinue)
	for name, c := range map[string]struct {
		replies []string
		change  func(*manifest.Manifest)
		turns   int64
		done    bool
	}{
		"three equal":      {replies: []string{same}, turns: 3},
		"one in between":   {replies: []string{same, same, other, same, same, program(`emit "end"`, sayDone)}, turns: 6, done: true},
		"guard over DONE":  {replies: []string{same, same, program(`emit "same"`, sayDone)}, turns: 3},
		"guard over ABORT": {replies: []string{same, same, program(`emit "same"`, sayAbort)}, turns: 3},
		"exempt DONE": {
			replies: []string{same, same, program(`emit "same"`, sayDone)}, turns: 3, done: true,
			change: func(m *manifest.Manifest) { m.Loop.NoProgressExemptTerminal = true },
		},
		"n = 5": {replies: []string{same}, turns: 5, change: func(m *manifest.Manifest) { m.Loop.NoProgressN = 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				s := open(t, rt, "turning", agent(once(c.replies...), c.change))
				o := ask(t, s, "go")
				if c.done {
					wantDone(t, o)
				} else {
					wantHalt(t, o, messages.ErrNoProgress)
					if n := metric(t, rt, "no_progress_total"); n != 1 {
						t.Errorf("%v counted, want 1", n)
					}
				}
				if o.Turns != c.turns {
					t.Errorf("%d turns, want %d", o.Turns, c.turns)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "anew", agent(says(program(`emit "same"`, sayDone)), nil))
		for range 5 {
			wantDone(t, ask(t, s, "go"))
		}
	})
}

// The turn limit and the call-loop guard end a run that would go on.
func TestLoopLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		n := 0
		counts := tool("test.count", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			n++
			return neuroscript.String(fmt.Sprint(n)), nil
		})
		s := open(t, rt, "limited", agent(says(program("emit tool.test.count()", sayContinue)), func(m *manifest.Manifest) { m.Loop.MaxTurns = 7 }, counts))
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrMaxTurns, "7")
		if o.Turns != 7 {
			t.Errorf("%d turns", o.Turns)
		}
		// A different emission each turn, so that the progress guard has nothing to say.
		s = open(t, rt, "looping", agent(says(program("set x = tool.test.same()", "emit tool.test.count()", sayContinue)), nil,
			counts, tool("test.same", messages.ReadOnly, gives("x"))))
		o = ask(t, s, "go")
		wantHalt(t, o, messages.ErrLoop)
	})
}

// A token of an earlier turn is out of scope in every later one; one of another
// session as well; and the same token twice in a turn is a replay of itself.
func TestTokensDoNotTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		var token string
		keep := tool("test.keep", messages.ReadOnly, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			if len(c.Args) > 0 {
				if s, ok := c.Args[0].AsString(); ok {
					token = s
				}
			}
			return neuroscript.String(token), nil
		})
		keep.Params = []neuroscript.Param{{Name: "t", Type: "string", Optional: true}}
		mint := `set tok = tool.aeiou.magic("LOOP", {"action": "continue"})`
		s := open(t, rt, "first", agent(once(program(mint, "call tool.test.keep(tok)", "emit tok"), program(`emit "again"`, "emit tool.test.keep()")), nil, keep))
		o := ask(t, s, "go")
		wantHalt(t, o, messages.ErrTokenScope)
		if o.Turns != 2 || o.Turn.Verification != "ERR_TOKEN_SCOPE/TURN" {
			t.Errorf("turn %d failed with %s", o.Turns, o.Turn.Verification)
		}
		s = open(t, rt, "second", agent(says(program(`emit "x"`, "emit tool.test.keep()")), nil, keep))
		if o = ask(t, s, "go"); o.Turn.Verification != "ERR_TOKEN_SCOPE/SID" {
			t.Errorf("failed with %s", o.Turn.Verification)
		}
		s = open(t, rt, "furthest", agent(says(program("emit tool.test.keep()", `emit "<<<NSMAG:V3:LOOP:x.y>>>"`)), nil, keep))
		o = ask(t, s, "go") // §20, 11: the one that got furthest, not the last
		wantHalt(t, o, messages.ErrTokenScope)
		if o.Turn.Verification != "ERR_TOKEN_SCOPE/SID" || len(o.Turn.Failures) != 2 {
			t.Errorf("failures %v, %s", o.Turn.Failures, o.Turn.Verification)
		}
		s = open(t, rt, "third", agent(says(program(mint, "emit tok", "emit tok", sayDone)), nil, keep))
		o = ask(t, s, "go")
		wantDone(t, o)
		if o.Turn.Verification != "ERR_TOKEN_REPLAY/JTI" || !slices.Equal(o.Turn.Failures, []string{"ERR_TOKEN_REPLAY/JTI"}) {
			t.Errorf("failures %v, %s", o.Turn.Failures, o.Turn.Verification)
		}
		for name, want := range map[string]float64{"ERR_TOKEN_SCOPE/TURN": 1, "ERR_TOKEN_SCOPE/SID": 2, "ERR_TOKEN_REPLAY/JTI": 1} {
			if n := metric(t, rt, "verify_fail_total", "reason", name); n != want {
				t.Errorf("verify_fail_total{%s} is %v", name, n)
			}
		}
		if n := metric(t, rt, "jti_dup_total"); n != 1 {
			t.Errorf("jti_dup_total is %v", n)
		}
	})
}
