package tests

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// bank is a tool that pays, and how often it did.
type bank struct {
	paid atomic.Int64
	tools.Tool
}

func newBank() *bank {
	b := &bank{}
	b.Tool = tool("bank.pay", messages.Effectful, func(context.Context, *tools.Call) (neuroscript.Value, error) {
		b.paid.Add(1)
		return neuroscript.String("receipt 7"), nil
	})
	return b
}

// payAndFail is a program that has its effect and then a mistake.
var payAndFail = program(`set r = tool.bank.pay()`, `emit "paid: " + r`, `emit 1/0`, sayDone)

// mending lets an agent have its second chances.
func mending(m *manifest.Manifest) { m.Loop.Repairs = nil }

// wantTold checks that a prompt tells of parts of a turn that failed.
func wantTold(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the prompt does not tell %q:\n%s", part, text)
		}
	}
}

// The process ends while a turn that mends another is at work. The next life tells its model
// of both turns, pays nothing again, and goes on counting repairs where the first one was.
func TestRepairAcrossRestart(t *testing.T) {
	for name, c := range map[string]struct {
		replies []string // of the second life
		code    messages.Code
		turns   int64
	}{
		"mended":    {[]string{program(`emit "all is paid"`, sayDone)}, "", 3},
		"exhausted": {[]string{"let x", "let x", "let x"}, messages.ErrActionsParse, 4},
	} {
		t.Run(name, func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				b := newBank()
				first := newPuppet(payAndFail, "command\n emit \"ha…lf")
				s := open(t, l.begin(), "cut", agent(first, mending, b.Tool))
				run := submit(t, s, "pay order 7")
				<-first.said
				l.end()

				rec := &recorder{Model: once(c.replies...)}
				a := agent(rec, mending, b.Tool)
				s = open(t, l.begin(), "cut", a)
				defer l.end()
				o := decision(t, s.Run(run.Ordinal()))
				if o.Reason != c.code || o.Turns != c.turns || b.paid.Load() != 1 {
					t.Fatalf("%s(%s) after %d turns, paid %d times", o.Decision, o.Reason, o.Turns, b.paid.Load())
				}
				wantTold(t, prompt(rec.requests()[0]), "ERR_CRASH", "ERR_ACTIONS_RUNTIME", "tool.bank.pay []: ok", "do not repeat", "paid: receipt 7", "restarted", "pay order 7")
				if _, err := l.rt.Replay(t.Context(), s.SID(), a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What joins a run while a turn of it fails is said to the next turn beside the question that
// the failed one did not answer.
func TestMergeIntoRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuppet("let m…e see", program(`emit "an answer"`, sayContinue), program(`emit "and more"`, sayDone))
		a := agent(p, mending)
		rt := start(t, stile.Config{})
		s := open(t, rt, "s", a)
		run := submit(t, s, "a question")
		<-p.said
		submit(t, s, "oh, and", stile.Policy(stile.Merge))
		submit(t, s, "this too", stile.Policy(stile.Merge))
		p.let <- struct{}{}
		o := decision(t, run)
		if wantDone(t, o); o.Turns != 3 || o.Next != 0 {
			t.Errorf("%+v", o)
		}
		reqs := p.requests()
		wantTold(t, prompt(reqs[1]), `a question\noh, and\nthis too`, "ERR_ACTIONS_PARSE")
		if text := prompt(reqs[2]); strings.Contains(text, "ERR_ACTIONS_PARSE") {
			t.Errorf("told of it although a turn has completed since:\n%s", text)
		}
		replayed(t, rt, s, a)
	})
}

// A rollback takes a run back that a repair is at work on: its question and its failed turns
// are gone, what they have done is in the note.
func TestRollbackOfRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		p := newPuppet(payAndFail, "command\n emit \"ha…lf", program(`emit "instead"`, sayDone), program(`emit "later"`, sayDone))
		a := agent(p, mending, b.Tool)
		rt := start(t, stile.Config{})
		s := open(t, rt, "s", a)
		gone := submit(t, s, "never mind this")
		<-p.said
		run := submit(t, s, "do this", stile.Policy(stile.Rollback))
		wantHalt(t, decision(t, gone), messages.ErrCancelled, "superseded")
		wantDone(t, decision(t, run))
		wantDone(t, ask(t, s, "and that"))
		next := transcript(t, p.requests()[2])
		wantTold(t, next, "do this", "took back", "bank.pay")
		holdsNot(t, next, "never mind", "ERR_", "1/0", "had called", "has already seen")
		holdsNot(t, transcript(t, p.requests()[3]), "ERR_ACTIONS_RUNTIME", "ERR_CANCELLED")
		if b.paid.Load() != 1 {
			t.Errorf("paid %d times", b.paid.Load())
		}
		replayed(t, rt, s, a)
	})
}

// A cancel of a run that has paid and failed, while a repair is at work on it, loses nothing:
// the next message's prompt has the payment, and the streams of the turn that completed.
func TestCancelOfRepair(t *testing.T) {
	for name, restart := range map[string]bool{"live": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				b := newBank()
				first := newPuppet(program(`whisper self, "order 7"`, `emit "looking"`, sayContinue), payAndFail, "command\n emit \"ha…lf")
				s := open(t, l.begin(), "s", agent(first, mending, b.Tool))
				run := submit(t, s, "pay order 7")
				<-first.said
				if err := run.Cancel(t.Context(), "ada"); err != nil {
					t.Fatal(err)
				}
				wantHalt(t, decision(t, run), messages.ErrCancelled)
				rec := &recorder{Model: says(program(`emit "yes"`, sayDone))}
				a := agent(rec, mending, b.Tool)
				l.end()
				rt := l.begin()
				defer func() { l.end() }()
				if s = open(t, rt, "s", a); restart { // once more, with the note in a snapshot
					l.end()
					rt = l.begin()
					s = open(t, rt, "s", a)
				}
				wantDone(t, ask(t, s, "is it paid?"))
				text := prompt(rec.requests()[0])
				wantTold(t, text, "is it paid?", "tool.bank.pay []: ok", "do not repeat", "ERR_CANCELLED", "paid: receipt 7", "order 7", "looking")
				if b.paid.Load() != 1 {
					t.Errorf("paid %d times", b.paid.Load())
				}
				if _, err := rt.Replay(t.Context(), s.SID(), a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
