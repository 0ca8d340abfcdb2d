package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// settle ends what a dead process left open (design.md §7): every open action
// gets its terminal record, the turn ends HALT(ERR_CRASH, resumed), and the run
// goes on in a fresh turn unless recovery is halt or it was settled three times.
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
	halt := messages.Verdict{Decision: messages.Halt, Code: messages.ErrCrash, Token: -1,
		Detail: "the host restarted while the turn was in flight"}
	if t := run.Turn; t != nil {
		m.settleTurn(t, halt)
		run = m.state.Open
		m.flight = nil
		if m.cfg.Recovery == messages.RecoverHalt || run.Settlements >= MaxSettlements {
			m.to(Final)
			m.persistRunEnd(halt, run)
			m.to(Idle)
			m.nextRun()
			return
		}
		m.to(EmitNext)
		m.to(Idle)
	}
	if m.cfg.Limits.RunWall > 0 {
		m.setTimer(ClockRun, time.Unix(0, run.Began).UTC().Add(m.cfg.Limits.RunWall))
	}
	m.beginTurn()
}

func (m *Machine) settleTurn(t *OpenTurn, halt messages.Verdict) {
	m.flight = &flight{Ident: Ident{Turn: t.Index, Nonce: t.Nonce}, began: time.Unix(0, t.Began).UTC(), open: -1}
	for _, a := range append([]OpenAction(nil), t.Actions...) {
		end := &messages.ActionEnded{ID: a.ID, State: messages.ActionCancelled, Reason: reasonCrash}
		if a.Started && a.Class.Durable() {
			end.State, end.Result = messages.ActionUnknown, quote(messages.UnknownText)
		}
		m.persist(end, LazyHold)
	}
	m.to(Decided)
	m.persist(&messages.TurnDecided{
		Decision: halt.Decision, Reason: halt.Code, Detail: halt.Detail, TurnIndex: t.Index, Resumed: true,
		LatencyMS: max(0, m.now.Sub(m.flight.began).Milliseconds()), State: m.state.Open.State,
	}, 0)
}
