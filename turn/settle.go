package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// settle ends what a dead process left open (design.md §7): every open action
// gets its terminal record, the turn ends HALT(ERR_CRASH, resumed), and the run
// goes on in a fresh turn, unless something ended it (ended).
func (m *Machine) settle() {
	if m.flight != nil || m.phase != Idle {
		m.illegal()
		return
	}
	run := m.state.Open
	if run == nil {
		m.nextRun()
		return
	}
	m.to(Decided)
	if run.Turn != nil {
		m.settleTurn(run.Turn)
	}
	if v, over := m.ended(); over {
		m.endRun(v)
		m.nextRun()
		return
	}
	m.to(EmitNext)
	m.to(Idle)
	if m.cfg.Limits.RunWall > 0 {
		m.setTimer(ClockRun, time.Unix(0, run.Began).UTC().Add(m.cfg.Limits.RunWall))
	}
	m.beginTurn()
}

// ended tells whether a run without an open turn is over after a restart, and by
// which verdict: a cancel was accepted, its last turn had decided so, or crashes
// ended it under the configuration's recovery or by their number.
func (m *Machine) ended() (v messages.Verdict, over bool) {
	run := m.state.Open
	switch {
	case run.Cancel != nil:
		return m.broken(), true
	case run.Ending != nil:
		return messages.Verdict{Decision: run.Ending.Decision, Code: run.Ending.Reason, Detail: run.Ending.Detail, Token: -1}, true
	}
	return m.broken(), m.cfg.Recovery == messages.RecoverHalt || run.Settlements >= MaxSettlements
}

// broken is the verdict of a turn that a restart found open.
func (m *Machine) broken() messages.Verdict {
	v := messages.Verdict{
		Decision: messages.Halt, Code: messages.ErrCrash, Token: -1,
		Detail: "the host restarted while the turn was in flight",
	}
	if c := m.state.Open.Cancel; c != nil {
		v.Code, v.Detail = messages.ErrCancelled, cancelledBy(c.By)
	}
	return v
}

func (m *Machine) settleTurn(t *OpenTurn) {
	m.flight = &flight{Ident: Ident{Turn: t.Index, Nonce: t.Nonce}, began: time.Unix(0, t.Began).UTC(), open: -1}
	for _, a := range append([]OpenAction(nil), t.Actions...) {
		end := &messages.ActionEnded{ID: a.ID, State: messages.ActionCancelled, Reason: reasonCrash}
		if a.Started && a.Class.Durable() {
			end.State, end.Result = messages.ActionUnknown, quote(messages.UnknownText)
		}
		m.persist(end, LazyHold)
	}
	v := m.broken()
	m.persist(&messages.TurnDecided{
		Decision: v.Decision, Reason: v.Code, Detail: v.Detail, TurnIndex: t.Index, Resumed: true,
		LatencyMS: max(0, m.now.Sub(m.flight.began).Milliseconds()), State: m.state.Open.State,
	}, 0)
	m.flight = nil
}
