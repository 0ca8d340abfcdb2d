package plan

import (
	"fmt"

	"github.com/seed14be6753/stile/messages"
)

// State is where an action stands (docs/spec/streaming.md §5.1, and unknown of
// docs/spec/design.md §7). What the specification calls waiting is told apart by what is waited for:
// Waiting, Ready, Dispatched and Parked.
type State uint8

// The states.
const (
	Waiting    State = iota // for dependencies
	Ready                   // for a slot
	Dispatched              // handed out by a Dispatch effect, not begun
	Parked                  // for somebody's approval; holds no slot
	Running
	OK
	Failed
	Skipped
	Cancelled
	Unknown // begun, and nobody knows whether it happened
	numStates
)

// String is the state's name in records and errors.
func (s State) String() string {
	return [...]string{
		"waiting", "ready", "dispatched", "parked", "running",
		"ok", "failed", "skipped", "cancelled", "unknown", "?",
	}[min(s, numStates)]
}

// Terminal tells whether nothing follows the state.
func (s State) Terminal() bool { return s >= OK && s < numStates }

// Ended is the state in the words of records; "" before the end.
func (s State) Ended() messages.ActionState {
	if !s.Terminal() {
		return ""
	}
	return messages.ActionState(s.String())
}

// StateOf reads a terminal state from a record; ok is false for any other word.
func StateOf(s messages.ActionState) (state State, ok bool) {
	for state = OK; state < numStates; state++ {
		if state.String() == string(s) {
			return state, true
		}
	}
	return Waiting, false
}

// legal is the one table of transitions. Waiting → Failed is the quota, Ready →
// Waiting a reference that turned out to need somebody else.
var legal = [numStates][]State{
	Waiting:    {Ready, Failed, Skipped, Cancelled},
	Ready:      {Dispatched, Waiting, Failed, Skipped, Cancelled},
	Dispatched: {Running, Parked, Failed, Cancelled},
	Parked:     {Ready, Failed, Cancelled},
	Running:    {OK, Failed, Cancelled, Unknown},
}

// may tells whether the table has the edge.
func (s State) may(next State) bool {
	if s >= numStates {
		return false
	}
	for _, t := range legal[s] {
		if t == next {
			return true
		}
	}
	return false
}

// IllegalError is a call that does not fit what the plan knows: an answer for an
// action that has ended, a declaration behind a closed gate. The plan is as it was
// before. A late answer of a child is told by it from a broken invariant, which
// the shell treats as a crash of the turn.
type IllegalError struct {
	Ref   Ref // zero when the call concerns no action
	From  State
	To    State
	Input string // the call
	Why   string // instead of the two states
}

// Error names the call, the action and both states.
func (e *IllegalError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("plan: %s %q: %s", e.Input, e.Ref.ID, e.Why)
	}
	return fmt.Sprintf("plan: %s %q: %s → %s is illegal", e.Input, e.Ref.ID, e.From, e.To)
}

// As makes every IllegalError an ERR_CRASH to callers that look for codes.
func (e *IllegalError) As(target any) bool {
	p, ok := target.(**messages.Error)
	if ok {
		*p = messages.Errorf(messages.ErrCrash, "%s", e.Error())
	}
	return ok
}
