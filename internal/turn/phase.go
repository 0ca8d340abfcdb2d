package turn

import (
	"fmt"

	"github.com/seed14be6753/stile/messages"
)

// Phase is where a session's turn stands.
type Phase uint8

// The phases: IDLE → EXECUTING(generating | running | draining | suspended) →
// VERIFYING → DECIDED → (EMIT_NEXT | FINAL), as in docs/spec/aeiou.md §13 and docs/spec/design.md §5.
const (
	Idle Phase = iota
	Generating
	Running
	Draining  // stopping children after a breach, a cancel or a crash; undoing what is to be undone
	Suspended // the open actions wait for approval: nothing runs, no clock counts
	Verifying
	Decided
	EmitNext
	Final
	numPhases
)

// String is the phase's name in errors and listings.
func (p Phase) String() string {
	return [...]string{
		"IDLE", "EXECUTING(generating)", "EXECUTING(running)", "EXECUTING(draining)",
		"EXECUTING(suspended)", "VERIFYING", "DECIDED", "EMIT_NEXT", "FINAL", "?",
	}[min(p, numPhases)]
}

// legal is the one table of transitions. Every edge is taken by some script in
// testdata, and a test says so.
var legal = [numPhases][]Phase{
	// What a dead process left open is settled from Idle too: to Decided when the turn
	// ends, to Running or Suspended when it is restored, to Draining when compensations are
	// left to run before it ends.
	Idle:       {Generating, Running, Suspended, Draining, Decided},
	Generating: {Running, Draining, Verifying},
	Running:    {Draining, Suspended, Verifying},
	Draining:   {Suspended, Decided}, // suspended: a compensation waits for approval
	Suspended:  {Running, Draining},
	Verifying:  {Draining, Decided}, // draining: the run ends HALT, and groups are rolled back
	Decided:    {EmitNext, Final},
	EmitNext:   {Idle},
	Final:      {Idle},
}

// IllegalError is a broken invariant: an input or a move that the tables do not allow. The
// shell treats it as a crash of the turn.
type IllegalError struct {
	Call  string       // the id of the action that was to move; "" for the turn
	From  fmt.Stringer // the phase it was in
	To    fmt.Stringer // the phase it was to move to; From for an input that has no place there
	Input string
}

// Error names both phases, the input, and the action if it is one that was to move.
func (e *IllegalError) Error() string {
	switch {
	case e.Call != "":
		return fmt.Sprintf("turn: action %s: %s → %s is illegal on input %s", e.Call, e.From, e.To, e.Input)
	case e.To == e.From:
		return fmt.Sprintf("turn: input %s is illegal in %s", e.Input, e.From)
	}
	return fmt.Sprintf("turn: %s → %s is illegal on input %s", e.From, e.To, e.Input)
}

// As makes every IllegalError an ERR_CRASH for callers that ask for the code.
func (e *IllegalError) As(target any) bool {
	p, ok := target.(**messages.Error)
	if ok {
		*p = messages.Errorf(messages.ErrCrash, "%s", e.Error())
	}
	return ok
}

// to moves to the next phase; err keeps the first illegal move.
func (m *Machine) to(next Phase) {
	for _, p := range legal[m.phase] {
		if p == next {
			m.phase = next
			return
		}
	}
	if m.err == nil {
		m.err = &IllegalError{From: m.phase, To: next, Input: m.in}
	}
}

// illegal refuses the current input in the current phase.
func (m *Machine) illegal() {
	if m.err == nil {
		m.err = &IllegalError{From: m.phase, To: m.phase, Input: m.in}
	}
}
