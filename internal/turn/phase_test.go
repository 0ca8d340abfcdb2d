package turn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// inputsAt are all inputs, addressed to the turn in flight.
func inputsAt(id Ident) []Input {
	return []Input{
		&Open{}, &Submit{Input: messages.Input{Policy: messages.Enqueue}}, &Cancel{},
		&ModelOpened{Ident: id}, &ModelSwitched{Ident: id}, &Decoded{Ident: id, Bytes: []byte("x")},
		&ReplyEnd{Ident: id, Finish: messages.FinishComplete}, &Emitted{Ident: id, Emissions: []Emission{{Text: "x"}}},
		&ProgramCall{Ident: id, ID: "#9"}, &Judged{Ident: id, ID: "#2", Answer: messages.GateApprove},
		&ActionEnded{Ident: id, ID: "#1", State: messages.ActionOK}, &ProgramEnd{Ident: id, Code: messages.ErrActionsRuntime},
		&Verified{Ident: id}, &Timer{Clock: ClockTurn, Gen: 1}, &Timer{Clock: ClockGrace, Gen: 1},
		&ChildDown{Ident: id, Child: ChildModel}, &ChildDown{Ident: id, Child: ChildInterpreter},
		&ChildDown{Ident: id, Child: ChildAction, ID: "#1"}, &ChildDown{Ident: id, Child: "?"}, &Settle{},
		&Approve{Approval: "x", Answer: messages.GateApprove, By: "u"}, &Expire{},
		&RelicCall{Ident: id, ID: "#1", Key: "k", Relic: "r", Args: `{"operation":"set","key":"a","value":1}`},
		&FeedsReady{Ident: id}, &FeedsReady{Ident: id, Names: []string{"f"}, Feeds: []messages.Feed{{ID: "f"}}},
	}
}

// rigAt brings a session into a phase: running and draining with action #1 begun
// and, in running, #2 at the gate.
func rigAt(t testing.TB, p Phase) *rig {
	t.Helper()
	r := newRig(t, Rules{Judge: programJudge{guardFinal: true}, Limits: Limits{TurnWall: 1e9}}, 1)
	do := func(in Input) {
		t.Helper()
		if _, _, err := r.step(in); err != nil {
			t.Fatal(err)
		}
		r.ack(int64(len(r.log)))
	}
	do(&Open{})
	if p == Idle {
		return r
	}
	do(&Submit{Input: messages.Input{Policy: messages.Enqueue}})
	id, _ := r.m.Flight()
	if p == Generating {
		return r
	}
	do(&ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: []messages.Event{{Kind: messages.EventProgram, Text: []byte("p")}}})
	if p == Verifying {
		do(&ProgramEnd{Ident: id})
		return r
	}
	do(&ProgramCall{Ident: id, ID: "#1"})
	if p == Suspended {
		do(&Judged{Ident: id, ID: "#1", Answer: messages.GateConfirm})
		return r
	}
	do(&Judged{Ident: id, ID: "#1", Answer: messages.GateApprove})
	do(&ProgramCall{Ident: id, ID: "#2", Class: messages.ReadOnly})
	if p == Draining {
		do(&Cancel{})
	}
	if r.m.Phase() != p {
		t.Fatalf("in %s, want %s", r.m.Phase(), p)
	}
	return r
}

// TestEveryInputInEveryPhase is the whole table: h handled, d dropped as late, i
// illegal, in the order of inputsAt.
func TestEveryInputInEveryPhase(t *testing.T) {
	//                          Open Submit Cancel | ModelOpened ModelSwitched Decoded ReplyEnd | Emitted
	//                          ProgramCall Judged ActionEnded ProgramEnd | Verified | Timer turn, grace |
	//                          ChildDown model, interpreter, action, unknown | Settle |
	//                          Approve (refused by an answer), Expire | RelicCall |
	//                          FeedsReady that was not asked for
	want := map[Phase]string{
		Idle:       "ihh dddd ddddd d dd dddd h hh d dd",
		Generating: "ihh hhhh ddddd i hd hddi i hh d dd",
		Running:    "ihh dddd hhhhh i hd dhhi i hh h dd",
		Draining:   "ihh dddd hhdhh i hh dhhi i hh h dd",
		Suspended:  "ihh dddd ddddd i dd dddi i hh d dd",
		Verifying:  "ihh dddd ddddd h hd dddi i hh d dd",
	}
	for phase, row := range want {
		row = strings.ReplaceAll(row, " ", "")
		if n := len(inputsAt(Ident{})); len(row) != n {
			t.Fatalf("%s: %d outcomes for %d inputs", phase, len(row), n)
		}
		for i := range row {
			r := rigAt(t, phase)
			id, _ := r.m.Flight()
			in := inputsAt(id)[i]
			name := fmt.Sprintf("%s, input %d %s", phase, i, in.input())
			before := r.m.Dropped()
			_, _, err := r.step(in)
			got := byte('h')
			switch {
			case err != nil:
				got = 'i'
				var illegal *IllegalError
				if !errors.As(err, &illegal) {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if illegal.From != phase || illegal.Input != in.input() || !strings.Contains(err.Error(), phase.String()) ||
					!strings.Contains(err.Error(), in.input()) {
					t.Errorf("%s: the error names %v", name, err)
				}
				if messages.CodeOf(err) != messages.ErrCrash {
					t.Errorf("%s: code %q", name, messages.CodeOf(err))
				}
			case r.m.Dropped() > before:
				got = 'd'
			}
			if got != row[i] {
				t.Errorf("%s: %c, want %c", name, got, row[i])
			}
		}
	}
}

// TestNoPhasePanics forces the phases that a Step never rests in as well, with
// and without what should be there, under answers of this and of another turn.
func TestNoPhasePanics(t *testing.T) {
	for forced := Idle; forced < numPhases; forced++ {
		for _, from := range []Phase{Idle, Generating, Running, Draining, Suspended, Verifying} {
			for i := range inputsAt(Ident{}) {
				r := rigAt(t, from)
				id, _ := r.m.Flight()
				r.m.phase = forced
				_, err := r.m.Step(r.now, inputsAt(id)[i])
				var illegal *IllegalError
				if err != nil && !errors.As(err, &illegal) {
					t.Errorf("%s forced to %s, input %d: %v", from, forced, i, err)
				}
				r = rigAt(t, from)
				r.m.phase = forced
				if _, err := r.m.Step(r.now, inputsAt(Ident{Turn: 5, Nonce: "other"})[i]); err != nil && !errors.As(err, &illegal) {
					t.Errorf("%s forced to %s, late input %d: %v", from, forced, i, err)
				}
			}
		}
	}
}

// lostTB turns a fatal failure into a panic, so that a broken run can be looked
// at instead of ending the test.
type lostTB struct{ testing.TB }

func (lostTB) Helper()                      {}
func (lostTB) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (lostTB) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func scriptHolds(t testing.TB, file string) (ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return runScript(lostTB{t}, string(text)) == string(text)
}

// TestEveryTransitionIsNeeded takes each edge out of the table: some script must
// notice, and a move that is not in the table is an error with both phases in it.
func TestEveryTransitionIsNeeded(t *testing.T) {
	if *update {
		return // the scripts are being written
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for from := range legal {
		for i, to := range legal[from] {
			whole := legal[from]
			legal[from] = slices.Delete(slices.Clone(whole), i, i+1)
			needed := slices.ContainsFunc(files, func(f string) bool { return !scriptHolds(t, f) })
			legal[from] = whole
			if !needed {
				t.Errorf("no script moves from %s to %s", Phase(from), to)
			}
		}
	}
	m := &Machine{phase: Generating, step: &step{in: "Test"}}
	m.to(Final)
	m.to(Idle)
	want := "turn: EXECUTING(generating) → FINAL is illegal on input Test"
	if m.err == nil || m.err.Error() != want {
		t.Errorf("%v, want %s", m.err, want)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for p := range numPhases {
		seen[p.String()] = true
	}
	for p := range numCallPhases {
		seen["call "+p.String()] = true
	}
	for c := range NumClocks {
		seen[c.String()] = true
	}
	if len(seen) != int(numPhases)+int(numCallPhases)+int(NumClocks) || numCallPhases.String() != "?" || numPhases.String() != "?" || NumClocks.String() != "?" || Phase(200).String() != "?" {
		t.Errorf("names %v", seen)
	}
}
