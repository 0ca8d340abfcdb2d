package tests

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A total as an agent's schema wants it, and one that is not.
const (
	goodBill = `{"total": 2.50, "lines": ["rope"]}`
	badBill  = `{"total": "2", "lines": ["secret"]}`
	theBill  = `{"total":2.50,"lines":["rope"]}`
)

// biller is an agent whose answers are bills.
func biller(a *stile.Agent) *stile.Agent {
	a.Output = bill{}
	return a
}

// wantHeld checks that no record before the decision of a turn has its answer, and that the
// records have it once in all, or never.
func wantHeld(t *testing.T, recs []*stile.Record, word string, want int) {
	t.Helper()
	shown, decided := 0, int64(0)
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.UnitText:
			if strings.Contains(b.Text, word) && b.UnitKind != messages.ThoughtUnit {
				shown++
				decided = r.Turn
			}
		case *messages.Emit:
			if strings.Contains(b.Text, word) && !b.Held {
				t.Errorf("%q is emitted to the user", b.Text)
			}
		case *messages.TurnDecided:
			if decided == r.Turn {
				decided = 0
				if b.Decision == messages.Halt {
					t.Errorf("turn %d showed %q and is HALT %s", r.Turn, word, b.Reason)
				}
			}
		default:
			if decided != 0 {
				t.Errorf("%q was shown, and %s comes before the decision", word, r.Body.Kind())
			}
		}
	}
	if shown != want {
		t.Errorf("%q is shown %d times, want %d", word, shown, want)
	}
}

// A turn waits for an approval while its answer is held: the process ends, the next one
// restores the turn, and the answer is shown when it passes, or is mended when it does not.
func TestHeldAnswerWaitsForApproval(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		turns  int64
	}{"passes": {goodBill, 1}, "is mended": {badBill, 2}} {
		t.Run(name, func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				b := newBank()
				make := func(p *recorder) *stile.Agent {
					return biller(agent(p, func(m *manifest.Manifest) {
						m.Loop.Repairs = nil
						m.Approval.Tools = map[string]messages.GateAnswer{"bank.pay": messages.GateConfirm}
					}, b.Tool))
				}
				reply := program(`emit '''`+c.answer+`'''`, `set r = tool.bank.pay()`, sayDone)
				s := open(t, l.begin(), "s", make(&recorder{Model: says(reply)}))
				run := submit(t, s, "the bill")
				asked(t, s)
				wantHeld(t, records(t, s), "rope", 0)
				l.end()

				rec := &recorder{Model: says(program(`emit '''`+goodBill+`'''`, sayDone))}
				a := make(rec)
				s = open(t, l.begin(), "s", a)
				defer l.end()
				if err := s.Approve(t.Context(), asked(t, s), "grace"); err != nil {
					t.Fatal(err)
				}
				o := decision(t, s.Run(run.Ordinal()))
				if wantDone(t, o); o.Turns != c.turns || string(o.Output) != theBill || b.paid.Load() != 1 {
					t.Errorf("%d turns, %s, paid %d times", o.Turns, o.Output, b.paid.Load())
				}
				recs := records(t, s)
				wantHeld(t, recs, "rope", 1)
				wantHeld(t, recs, "secret", 0)
				if c.turns > 1 {
					wantTold(t, prompt(rec.requests()[0]), "ERR_OUTPUT", "tool.bank.pay []: ok", "do not repeat")
				}
				if _, err := l.rt.Replay(t.Context(), s.SID(), a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// cortex has said its final response, which is held, and an action beside it still runs when
// the process ends. The restored turn waits for the action and then shows the response.
func TestHeldResponseIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		turns  int64
	}{"passes": {goodBill, 1}, "is mended": {badBill, 2}} {
		t.Run(name, func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				hung := newAttempts()
				make := func(m *recorder) *stile.Agent {
					man := manifest.Default("cortex")
					man.Name = "biller"
					man.Import.Tools = []string{"test.hang"}
					return biller(&stile.Agent{Manifest: man, Model: m, Tools: []stile.Tool{tool("test.hang", messages.Keyed, hung.run)}})
				}
				reply := `<action id="a" mode="async">{"name":"test.hang"}</action><response final="true">` + c.answer + `</response>`
				s := open(t, l.begin(), "s", make(&recorder{Model: says(reply)}))
				run := submit(t, s, "the bill")
				<-hung.in
				// The action runs while the model speaks: a reply that has not ended is no turn to
				// restore.
				for len(bodies[*messages.ModelReply](records(t, s))) == 0 {
					time.Sleep(time.Millisecond)
					if err := s.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				wantHeld(t, records(t, s), "rope", 0)
				l.end()

				rec := &recorder{Model: says(`<response>` + goodBill + `</response>`)}
				a := make(rec)
				s = open(t, l.begin(), "s", a)
				defer l.end()
				o := decision(t, s.Run(run.Ordinal()))
				if wantDone(t, o); o.Turns != c.turns || string(o.Output) != theBill || len(rec.requests()) != int(c.turns)-1 {
					t.Errorf("%d turns, %s, %d requests", o.Turns, o.Output, len(rec.requests()))
				}
				recs := restored(t, l, s, a, 1)
				wantHeld(t, recs, "rope", 1)
				wantHeld(t, recs, "secret", 0)
			})
		})
	}
}

// Under a schema the text of kitsu's first pass is shown with its decision, and is taken back
// at the text that replaces it, which is the answer that passes. A turn that mends an answer
// does not search again.
func TestKitsuHoldsItsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p := small(func(a *stile.Agent) { a.Output = bill{} },
			"I look it up.\n<action:search query=\"rope\">", badBill, "<action:search query=\"rope again\">\n"+goodBill)
		rt := start(t, stile.Config{})
		s := open(t, rt, "small", a)
		run := submit(t, s, "the bill")
		o := decision(t, run)
		wantDone(t, o)
		if o.Turns != 3 || string(o.Output) != theBill {
			t.Errorf("%d turns, %s", o.Turns, o.Output)
		}
		recs := records(t, s)
		wantHeld(t, recs, "rope", 1)
		wantHeld(t, recs, "secret", 0)
		if got := strings.Trim(userReads(recs), "|\n"); got != goodBill {
			t.Errorf("the user reads %q", got)
		}
		if n := len(bodies[*messages.Retract](recs)); n != 1 {
			t.Errorf("%d texts are replaced, want that of the first pass", n)
		}
		wantGate(t, recs, "meta-controller approve ")
		if len(p.requests()) != 3 {
			t.Errorf("%d requests", len(p.requests()))
		}
		replayed(t, rt, s, a)
	})
}
