package turn

// callPhase is where an action of the turn in flight stands.
type callPhase uint8

// The phases of a call: DECLARED → JUDGING → RUNNING ⇄ PAUSED → ENDED, or UNBEGUN for one
// that never began. A question to a person is no phase: it outlives the process, so its
// place is the journal's (OpenAction.Question), and the call is DECLARED meanwhile.
const (
	callDeclared    callPhase = iota // waits for the plan, the gate or a person
	callJudging                      // the gate is asked about it; the answer is Judged
	callInterrupted                  // an attempt is on record, and the process that ran it is gone
	callRunning                      // an attempt runs
	callPaused                       // an attempt failed; the next one is scheduled
	callEnded                        // it began, and has its terminal record
	callUnbegun                      // it has its terminal record without having begun
	numCallPhases
)

// String is the phase's name in errors.
func (p callPhase) String() string {
	return [...]string{
		"DECLARED", "JUDGING", "INTERRUPTED", "RUNNING", "PAUSED", "ENDED", "UNBEGUN", "?",
	}[min(p, numCallPhases)]
}

// legalCalls is the one table of a call's moves. Every edge is taken by some script in
// testdata, and a test says so.
var legalCalls = [numCallPhases][]callPhase{
	// To Interrupted a call comes from its records alone. It begins without the gate when
	// it was approved before the turn was restored.
	callDeclared: {callJudging, callInterrupted, callRunning, callUnbegun},
	// Back to Declared it goes when the gate wants a person to confirm it.
	callJudging:     {callDeclared, callRunning, callUnbegun},
	callInterrupted: {callRunning, callEnded},
	callRunning:     {callPaused, callEnded},
	callPaused:      {callRunning, callEnded},
	callEnded:       {},
	callUnbegun:     {},
}

// ended reports whether the call has its terminal record.
func (p callPhase) ended() bool { return p == callEnded || p == callUnbegun }

// began reports whether an attempt of the call is on record, in this life or an earlier
// one.
func (p callPhase) began() bool {
	return p == callInterrupted || p == callRunning || p == callPaused || p == callEnded
}

// planned reports whether the plan knows that the call began: it is told at the first
// attempt of this life.
func (p callPhase) planned() bool { return p == callRunning || p == callPaused }

// over is the phase of a call in p that gets its terminal record.
func (p callPhase) over() callPhase {
	if p.began() {
		return callEnded
	}
	return callUnbegun
}

// move takes a call to its next phase. m.err keeps the first illegal move.
func (m *Machine) move(c *call, next callPhase) {
	for _, p := range legalCalls[c.phase] {
		if p == next {
			c.phase = next
			return
		}
	}
	if m.err == nil {
		m.err = &IllegalError{Call: c.ID, From: c.phase, To: next, Input: m.in}
	}
}
