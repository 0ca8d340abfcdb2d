package plan

import (
	"fmt"

	"github.com/seed14be6753/stile/messages"
)

// State is where an action stands (docs/spec/streaming.md §5.1, and unknown of
// docs/spec/design.md §7). The specification's state waiting is four states here, by what the
// action waits for: Waiting, Ready, Dispatched and Parked.
type State uint8

// The states.
const (
	Waiting    State = iota // for dependencies
	Ready                   // for a slot
	Dispatched              // handed out by a Dispatch effect, not begun
	Parked                  // for an approval; holds no slot
	Running
	OK
	Failed
	Skipped
	Cancelled
	Unknown // begun; its outcome is not known
	numStates
)

// String is the state's name in records and errors.
func (s State) String() string {
	return [...]string{
		"waiting", "ready", "dispatched", "parked", "running",
		"ok", "failed", "skipped", "cancelled", "unknown", "?",
	}[min(s, numStates)]
}

// Terminal reports whether no state follows s.
func (s State) Terminal() bool { return s >= OK && s < numStates }

// Ended returns the word that records have for a terminal state; "" for others.
func (s State) Ended() messages.ActionState {
	if !s.Terminal() {
		return ""
	}
	return messages.ActionState(s.String())
}

// StateOf returns the terminal state for a word of records; ok is false for any other word.
func StateOf(s messages.ActionState) (state State, ok bool) {
	for state = OK; state < numStates; state++ {
		if state.String() == string(s) {
			return state, true
		}
	}
	return Waiting, false
}

// legal is the one table of transitions. Waiting → Failed is the quota; Ready → Waiting is a
// reference that turned out to need another action or a feed.
var legal = [numStates][]State{
	Waiting:    {Ready, Failed, Skipped, Cancelled},
	Ready:      {Dispatched, Waiting, Failed, Skipped, Cancelled},
	Dispatched: {Running, Parked, Failed, Cancelled},
	Parked:     {Ready, Failed, Cancelled},
	Running:    {OK, Failed, Cancelled, Unknown},
}

// may reports whether the table allows the move.
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

// IllegalError is a call that contradicts the plan, such as an answer for an action that has
// ended or a declaration after a closed gate. The plan is as it was before. The shell treats
// it as a crash of the turn.
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

// As makes every IllegalError an ERR_CRASH for callers that ask for the code.
func (e *IllegalError) As(target any) bool {
	p, ok := target.(**messages.Error)
	if ok {
		*p = messages.Errorf(messages.ErrCrash, "%s", e.Error())
	}
	return ok
}
