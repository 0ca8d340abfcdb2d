package turn

import (
	"bytes"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// settle ends or resumes what a dead process left open (docs/spec/design.md §7). A suspended
// turn goes on waiting. A turn whose reply is durable is restored. Any other turn ends: its
// stream is sealed at the last durable byte, every open action gets its terminal record, the
// turn is decided HALT(ERR_CRASH, resumed), and the run goes on in a fresh turn unless it is
// over as well (ended).
func (m *Machine) settle(in *Settle) {
	if m.flight != nil || m.phase != Idle {
		m.illegal()
		return
	}
	m.settleDetached()
	m.windowClock()
	run := m.state.Open
	if run == nil {
		m.nextRun()
		return
	}
	m.bygone(in, func(turn int64) bool { return run.Turn == nil || turn < run.Turn.Index })
	if m.takeUp(in) {
		return
	}
	if t := run.Turn; t != nil {
		m.abandon(t, in)
		m.bygone(in, func(int64) bool { return true }) // later turns can refer to its actions as well
		for _, e := range m.out {
			if p, ok := e.(*Persist); ok && p.Record.Turn == t.Index {
				m.past = append(m.past, p.Record)
			}
		}
		if m.unwindLate() {
			return
		}
		m.to(Decided)
		m.closeTurn()
	} else {
		m.to(Decided)
	}
	m.settled()
}

// settled goes on behind a turn that a restart has ended.
func (m *Machine) settled() {
	if v, over := m.ended(); over {
		m.endRun(v, "")
		m.nextRun()
		return
	}
	m.to(EmitNext)
	m.to(Idle)
	m.runClock()
	m.beginTurn(nil)
}

// bygone keeps the records of the turns of the open run that are over, for the run's plan.
func (m *Machine) bygone(in *Settle, over func(turn int64) bool) {
	m.past = m.past[:0]
	for _, r := range in.Run {
		if r.Run == m.state.Open.Run && r.Turn > 0 && over(r.Turn) {
			m.past = append(m.past, r)
		}
	}
}

// ended reports whether a run without an open turn is over after a restart, and by which
// verdict: a cancel was accepted, its last turn had decided so, or Rules.Recovery or the
// number of crashes ends it.
func (m *Machine) ended() (v messages.Verdict, over bool) {
	run := m.state.Open
	switch {
	case run.Ending != nil:
		return messages.Verdict{Decision: run.Ending.Decision, Code: run.Ending.Reason, Detail: run.Ending.Detail, Token: -1}, true
	case run.Cancel != nil:
		return m.broken(), true
	}
	return m.broken(), m.cfg.Recovery == messages.RecoverHalt || run.Settlements >= MaxSettlements
}

// broken returns the verdict of a turn that a restart found open: the breach or cancel that
// was about to end it, or the restart itself.
func (m *Machine) broken() messages.Verdict {
	v := messages.Verdict{
		Decision: messages.Halt, Code: messages.ErrCrash, Token: -1,
		Detail: "the host restarted while the turn was in flight",
	}
	run := m.state.Open
	switch {
	case run.Turn != nil && run.Turn.Breach != nil:
		v.Code, v.Detail = run.Turn.Breach.Code, run.Turn.Breach.Detail
	case run.Cancel != nil:
		v.Code, v.Detail = messages.ErrCancelled, run.Cancel.why()
	}
	return v
}

// abandon seals the open turn and ends its actions, as settle describes it. Compensations are
// left to unwindLate.
func (m *Machine) abandon(t *OpenTurn, in *Settle) {
	m.flight = &flight{Ident: Ident{Turn: t.Index, Nonce: t.Nonce}, began: time.Unix(0, t.Began).UTC(), parsed: parsed{open: -1}}
	if !t.Replied {
		m.sealDurable(in)
	}
	for _, a := range append([]OpenAction(nil), t.Actions...) {
		if a.Compensates != "" {
			continue
		}
		end := &messages.ActionEnded{ID: a.ID, State: messages.ActionCancelled, Reason: reasonCrash, Children: a.Children}
		if a.Started && a.Class.Durable() || a.changed() {
			end.State, end.Result = messages.ActionUnknown, quote(messages.UnknownText)
		}
		m.persist(end, LazyHold)
		if a.Started && parental(a.Type) {
			left := orphan{id: a.ID}
			if child, ok := m.cfg.Key.Child(a.Name, m.keyOf(t.Index, a.ID, a.Args), a.Retries); ok && a.Type == messages.TypeAgent {
				left.sid = child.SID()
			}
			m.flight.undo.orphans = append(m.flight.undo.orphans, left)
		}
	}
	m.recallTags(ofTurn(in.Turn, t), in.Events)
	if t.Unwinds > 0 {
		m.flight.undo.orphans = append(m.flight.undo.orphans, orphansOf(ofTurn(in.Turn, t))...)
	}
	m.leaveBlocks(reasonCrash)
}

// orphan is an action that a restart has ended, and whose children are to be stopped.
type orphan struct{ id, sid string }

// parental reports whether actions of a type have children.
func parental(t messages.ActionType) bool {
	return t == messages.TypeAgent || t == messages.TypeWorkflow
}

// orphansOf returns the orphans of a turn that an earlier restart began to end: that process
// died in the rollback, before it decided the turn and stopped them.
func orphansOf(recs []*messages.Record) (left []orphan) {
	begun := map[string]string{}
	types := map[string]messages.ActionType{}
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			types[b.ID] = b.Type
		case *messages.ActionStarted:
			begun[b.ID] = b.Child
		case *messages.ActionEnded:
			if sid, ok := begun[b.ID]; ok && b.Reason == reasonCrash && parental(types[b.ID]) {
				left = append(left, orphan{b.ID, sid})
			}
		}
	}
	return left
}

// closeTurn decides an abandoned turn.
func (m *Machine) closeTurn() {
	t, orphans := m.state.Open.Turn, m.flight.undo.orphans
	v := m.broken()
	m.persist(&messages.TurnDecided{
		Decision: v.Decision, Reason: v.Code, Detail: v.Detail, TurnIndex: t.Index, Resumed: true, Repair: m.mends(&v),
		LatencyMS: m.latency(), State: m.state.Open.State,
	}, 0)
	for _, a := range orphans {
		m.do(&EndChildren{After: m.state.Seq, Turn: t.Index, ID: a.id, SID: a.sid})
	}
	m.flight = nil
}

// sealDurable ends the reply of a turn that a crash cut off, at its last durable byte, and
// records the units in those bytes that have no record.
func (m *Machine) sealDurable(in *Settle) {
	f, t := m.flight, m.state.Open.Turn
	var reply bytes.Buffer
	asked, units := false, 0
	for _, r := range ofTurn(in.Turn, t) {
		switch b := r.Body.(type) {
		case *messages.ModelRequest:
			asked = true
		case *messages.ModelChunk:
			if b.Off == int64(reply.Len()) {
				reply.Write(b.Bytes)
			}
		case *messages.UnitText:
			units++
		}
	}
	if !asked {
		return // no record of a request: there is no reply to seal
	}
	f.reply.bytes = reply.Bytes()
	if !m.cfg.Judge.Traits().InStreamActions && m.recall(in.Events) != "" {
		f.parsed.units = nil
	}
	for i := units; i < len(f.parsed.units); i++ {
		m.recordUnit(&f.parsed.units[i])
	}
	m.seal(messages.FinishCancelled, spent{})
}
