package turn

import "github.com/seed14be6753/stile/messages"

// Second chances (docs/spec/design.md §5): a turn that fails by a mistake of its model is
// decided HALT like any other, and the run goes on in a fresh turn that is told what was
// wrong and what the failed one has done. From rendering 2 on.

// mendable reports whether a model that is told of a failure can do better: its program
// did not parse or run, its envelope was none, or no token of it counts.
func mendable(code messages.Code) bool {
	switch code {
	case messages.ErrActionsParse, messages.ErrActionsRuntime,
		messages.ErrEnvMarkersInvalid, messages.ErrEnvSectionMissing, messages.ErrEnvOrder, messages.ErrEnvSectionDup, messages.ErrEnvSize,
		messages.ErrTokenMissing, messages.ErrTokenParse, messages.ErrTokenVerify, messages.ErrTokenScope, messages.ErrTokenTTL, messages.ErrTokenReplay:
		return true
	}
	return false
}

// mends reports whether another turn follows the one that is being decided although that
// one failed. A run that was cancelled, or has no turn or repair left, ends.
func (m *Machine) mends(v *messages.Verdict) bool {
	run := m.state.Open
	switch {
	case !m.cfg.mending() || v.Decision != messages.Halt || run.Cancel != nil:
		return false
	case v.Code == messages.ErrOutput:
		return run.Asked < min(1, m.cfg.Repairs)
	}
	return mendable(v.Code) && run.Repairs < m.cfg.Repairs && !m.lastTurn()
}

// repair carries on after a turn that failed. What it emitted is not carried: the next one
// is told of it.
func (m *Machine) repair() {
	for _, c := range []Clock{ClockGeneration, ClockProgram, ClockDrain, ClockGrace} {
		m.stopTimer(c)
	}
	m.flight = nil
	m.to(Idle)
	m.beginTurn(nil)
}
