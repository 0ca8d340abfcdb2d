package turn

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// TestCallMoves is the whole table of a call's moves: x allowed, . an error that names the
// action, both phases and the input.
func TestCallMoves(t *testing.T) {
	// to:            D J I R P E U
	want := map[callPhase]string{
		callDeclared:    ". x x x . . x",
		callJudging:     "x . . x . . x",
		callInterrupted: ". . . x . x .",
		callRunning:     ". . . . x x .",
		callPaused:      ". . . x . x .",
		callEnded:       ". . . . . . .",
		callUnbegun:     ". . . . . . .",
	}
	for from := range numCallPhases {
		row := strings.Fields(want[from])
		if len(row) != int(numCallPhases) {
			t.Fatalf("%s: %d outcomes for %d phases", from, len(row), numCallPhases)
		}
		for to := range numCallPhases {
			m := &Machine{phase: Running, step: &step{in: "Test"}}
			c := &call{phase: from}
			c.ID = "#1"
			m.move(c, to)
			if row[to] == "x" {
				if m.err != nil || c.phase != to {
					t.Errorf("%s → %s: %v, in %s", from, to, m.err, c.phase)
				}
				continue
			}
			text := "turn: action #1: " + from.String() + " → " + to.String() + " is illegal on input Test"
			if m.err == nil || m.err.Error() != text || messages.CodeOf(m.err) != messages.ErrCrash || c.phase != from {
				t.Errorf("%s → %s: %v, in %s; want %s", from, to, m.err, c.phase, text)
			}
		}
	}
	// What the rest of the machine asks of a phase.
	for p := range numCallPhases {
		if p.over() != callUnbegun && p.over() != callEnded || p.ended() != (len(legalCalls[p]) == 0) {
			t.Errorf("%s ends in %s, ended: %t", p, p.over(), p.ended())
		}
		if !p.ended() && !slices.Contains(legalCalls[p], p.over()) {
			t.Errorf("%s cannot end", p)
		}
	}
}

// TestEveryInputInEveryCallPhase is what the inputs about one action do in each of its
// phases: h handled, d dropped as late.
func TestEveryInputInEveryCallPhase(t *testing.T) {
	//                Judged ActionEnded ChildDown Due
	want := map[callPhase]string{
		callDeclared:    "ddd d",
		callJudging:     "hdd d",
		callInterrupted: "ddh d",
		callRunning:     "dhh d",
		callPaused:      "ddh h",
		callEnded:       "ddd d",
		callUnbegun:     "ddd d",
	}
	for p := range numCallPhases {
		row := strings.ReplaceAll(want[p], " ", "")
		for i := range row {
			r := rigAt(t, Running)
			id, _ := r.m.Flight()
			inputs := []Input{
				&Judged{Ident: id, ID: "#1", Answer: messages.GateApprove},
				&ActionEnded{Ident: id, ID: "#1", Attempt: 1, State: messages.ActionOK},
				&ChildDown{Ident: id, Child: ChildAction, ID: "#1", Attempt: 1},
				&Due{Ident: id, ID: "#1", Attempt: 2},
			}
			r.m.call("#1").phase = p
			before := r.m.Dropped()
			_, err := r.m.Step(r.now, inputs[i])
			got := byte('h')
			if r.m.Dropped() > before {
				got = 'd'
			}
			if err != nil || got != row[i] {
				t.Errorf("%s, %s: %c, want %c; %v", p, inputs[i].input(), got, row[i], err)
			}
		}
	}
}

// TestEveryCallMoveIsNeeded takes each edge out of the table: some script must notice.
func TestEveryCallMoveIsNeeded(t *testing.T) {
	if *update {
		return // the scripts are being written
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for from := range legalCalls {
		for i, to := range legalCalls[from] {
			whole := legalCalls[from]
			legalCalls[from] = slices.Delete(slices.Clone(whole), i, i+1)
			needed := slices.ContainsFunc(files, func(f string) bool { return !scriptHolds(t, f) })
			legalCalls[from] = whole
			if !needed {
				t.Errorf("no script moves a call from %s to %s", callPhase(from), to)
			}
		}
	}
	var illegal *IllegalError
	r := rigAt(t, Running)
	id, _ := r.m.Flight()
	legalCalls[callJudging] = nil
	defer func() { legalCalls[callJudging] = []callPhase{callDeclared, callRunning, callUnbegun} }()
	if _, err := r.m.Step(r.now, &Judged{Ident: id, ID: "#2", Answer: messages.GateApprove}); !errors.As(err, &illegal) || illegal.Call != "#2" {
		t.Errorf("a step with an illegal move of a call gives %v", err)
	}
}
