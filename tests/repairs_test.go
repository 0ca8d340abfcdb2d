package tests

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A program pays and then fails: the next turn is told, nothing is paid twice, no client
// sees an end before run.end, and replay and fork know the failed turn.
func TestRepairs(t *testing.T) {
	var paid atomic.Int64
	pay := tool("bank.pay", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
		paid.Add(1)
		return neuroscript.String("receipt 7"), nil
	})
	asked := &recorder{Model: once(
		program(`whisper self, "order 7"`, `emit "looking"`, sayContinue),
		program(`set r = tool.bank.pay()`, `emit "paid: " + r`, `emit 1/0`, sayDone),
		"let me see",
		program(`emit "all is paid"`, sayDone),
	)}
	a := agent(asked, func(m *manifest.Manifest) { m.Loop.Repairs = nil }, pay)
	rt := start(t, stile.Config{})
	s := open(t, rt, "s", a)
	run := submit(t, s, "pay order 7")
	o := decision(t, run)
	if wantDone(t, o); o.Turns != 4 || paid.Load() != 1 {
		t.Fatalf("%d turns, %d payments", o.Turns, paid.Load())
	}
	reqs := asked.requests()
	for i, want := range [][]string{2: {"ERR_ACTIONS_RUNTIME", "tool.bank.pay []: ok", "do not repeat", "paid: receipt 7", "looking", "order 7", "1/0"}, 3: {"ERR_ACTIONS_PARSE", "tool.bank.pay []: ok", "do not repeat", "order 7", "let me see"}} {
		for _, part := range want {
			if text := prompt(reqs[i]); !strings.Contains(text, part) {
				t.Errorf("turn %d is not told %q:\n%s", i+1, part, text)
			}
		}
	}
	ends, repairs := 0, 0
	for u, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil {
			continue
		}
		switch b := u.Record.Body.(type) {
		case *messages.RunEnd:
			ends++
		case *messages.TurnDecided:
			if b.Repair {
				repairs++
			}
			if ends > 0 {
				t.Error("a decision behind the end")
			}
		}
	}
	if ends != 1 || repairs != 2 || metric(t, rt, "repairs_total") != 2 {
		t.Errorf("%d ends, %d repairs, %v counted", ends, repairs, metric(t, rt, "repairs_total"))
	}
	if _, err := rt.Replay(t.Context(), "s", a); err != nil {
		t.Error(err)
	}
	for turn := int64(1); turn <= 4; turn++ {
		name := "f" + string(rune('0'+turn))
		if _, err := rt.Fork(t.Context(), "s", turn, name); err != nil {
			t.Fatal(err)
		}
		again := agent(once(program(`emit "forked"`, sayDone)), func(m *manifest.Manifest) { m.Loop.Repairs = nil }, pay)
		wantDone(t, ask(t, open(t, rt, name, again), "go on"))
		if _, err := rt.Replay(t.Context(), name, again); err != nil {
			t.Errorf("fork at %d: %v", turn, err)
		}
	}
	if paid.Load() != 1 {
		t.Errorf("%d payments", paid.Load())
	}
}

// A run that repairs for ever ends with its last reason, within its turns, and the next
// message is told; a cancel wipes nothing.
func TestRepairsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*manifest.Manifest)
		turns  int64
	}{
		"default":   {func(m *manifest.Manifest) { m.Loop.Repairs = nil }, 3},
		"none":      {nil, 1},
		"max_turns": {func(m *manifest.Manifest) { m.Loop.Repairs, m.Loop.MaxTurns = nil, 2 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := &recorder{Model: once("let x", "let x", "let x", "let x")}
			rt := start(t, stile.Config{})
			a := agent(asked, c.change)
			s := open(t, rt, "s", a)
			o := ask(t, s, "go")
			wantHalt(t, o, messages.ErrActionsParse)
			if o.Turns != c.turns {
				t.Errorf("%d turns, want %d", o.Turns, c.turns)
			}
			ask(t, s, "again")
			if text := prompt(asked.requests()[c.turns]); !strings.Contains(text, "for the message before this one failed: ERR_ACTIONS_PARSE") {
				t.Errorf("not told:\n%s", text)
			}
			if _, err := rt.Replay(t.Context(), "s", a); err != nil {
				t.Error(err)
			}
		})
	}
}
