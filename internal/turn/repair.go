package turn

import "github.com/seed14be6753/stile/messages"

// Repairs (docs/spec/design.md §5): a turn that fails by a mistake of its model is decided HALT
// like any other, and the run goes on in a fresh turn, whose prompt names the mistake and the
// effects of the failed turn. From rendering 2 on.

// mendable reports whether a model can avoid a failure when it knows of it: its program did
// not parse or run, its envelope was invalid, or none of its tokens counted.
func mendable(code messages.Code) bool {
	switch code {
	case messages.ErrActionsParse, messages.ErrActionsRuntime,
		messages.ErrEnvMarkersInvalid, messages.ErrEnvSectionMissing, messages.ErrEnvOrder, messages.ErrEnvSectionDup, messages.ErrEnvSize,
		messages.ErrTokenMissing, messages.ErrTokenParse, messages.ErrTokenVerify, messages.ErrTokenScope, messages.ErrTokenTTL, messages.ErrTokenReplay:
		return true
	}
	return false
}

// mends reports whether another turn follows the failed one that is being decided. A run that
// was cancelled, or has no turn or repair left, ends. A reply whose conversation was given up in
// its middle is no mistake of the model: the run goes on from the journal, once, whatever repairs
// it has left (docs/spec/cogency.md §8).
func (m *Machine) mends(v *messages.Verdict) bool {
	run := m.state.Open
	switch {
	case !m.cfg.mending() || v.Decision != messages.Halt || run.Cancel != nil:
		return false
	case v.Code == messages.ErrOutput:
		return run.Asked < min(1, m.cfg.Repairs)
	case v.Code == messages.ErrModel:
		return m.flight.reply.fell && !run.Fell && !m.lastTurn()
	}
	return mendable(v.Code) && run.Repairs < m.cfg.Repairs && !m.lastTurn()
}

// repair begins the turn after a failed one. The streams of the failed turn are not carried;
// State.Failed tells the next turn of it.
func (m *Machine) repair() {
	for _, c := range []Clock{ClockGeneration, ClockProgram, ClockDrain, ClockGrace} {
		m.stopTimer(c)
	}
	m.flight = nil
	m.to(Idle)
	m.beginTurn(nil)
}
