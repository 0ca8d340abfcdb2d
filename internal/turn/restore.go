package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// How a turn is restored: rebuild makes the flight from the journal's records of the turn,
// resume goes on with it under a new nonce. A suspended turn whose question is answered is
// resumed in the same way, with or without a restart.
//
// The program of a restored turn runs again from its beginning. It must repeat its recorded
// emissions and calls in the same order: emissions are compared without the lines that the
// dialect leaves out (Comparer), calls by ordinal, name and arguments. A call that has ended
// is answered from its record; the program waits for one that is open. When everything is
// repeated, what the program emits counts as new. A difference ends the turn:
// HALT(ERR_CRASH), "diverged".

// Comparer is a Judge whose programs emit text that differs from run to run, such as minted
// tokens. Comparable returns an emission without that text.
type Comparer interface{ Comparable(text string) string }

// rerun counts what a program that runs again has to emit and call again.
type rerun struct {
	emissions, calls int // recorded ones
	emitted, called  int // of them, those that the program has repeated
}

// behind reports whether the program has recorded emissions or calls left to repeat.
func (p *program) behind() bool {
	return p.rerun.emitted < p.rerun.emissions || p.rerun.called < p.rerun.calls
}

// ofTurn returns recs if they begin with the turn.begin of t, else nil: without its first
// record nothing of a turn can be rebuilt.
func ofTurn(recs []*messages.Record, t *OpenTurn) []*messages.Record {
	if len(recs) == 0 || recs[0].Seq != t.Seq || recs[0].Turn != t.Index {
		return nil
	}
	return recs
}

// takeUp suspends or restores the open turn. It reports whether it did: a turn whose reply
// is not durable, or that was about to end, is settled instead.
func (m *Machine) takeUp(in *Settle) bool {
	run := m.state.Open
	t := run.Turn
	switch {
	case t == nil || !t.Replied || run.Cancel != nil || t.Breach != nil || t.Unwinds > 0:
		return false
	case t.Suspended:
	case m.cfg.Recovery == messages.RecoverHalt || run.Settlements >= MaxSettlements:
		return false
	}
	f := m.rebuild(in)
	if f == nil {
		return false
	}
	m.flight = f
	if !t.Suspended {
		m.resume(messages.RestoreCrash)
		return true
	}
	m.to(Suspended)
	for i := range t.Actions { // the log was cut between an answer and what follows it
		if q := t.Actions[i].Question; q != nil && q.Answer != "" {
			m.resume(messages.RestoreApproval)
			return true
		}
	}
	m.expire()
	return true
}

// rebuild makes the flight of the open turn from its records; nil when records are missing
// or contradict each other.
func (m *Machine) rebuild(in *Settle) *flight {
	t := m.state.Open.Turn
	recs := ofTurn(in.Turn, t)
	if recs == nil {
		return nil
	}
	f := &flight{
		Ident: Ident{Turn: t.Index, Nonce: t.Nonce}, pass: int(m.state.Open.Turns),
		began: time.Unix(0, t.Began).UTC(), reply: reply{chunked: m.now}, parsed: parsed{open: -1},
	}
	for _, r := range recs {
		if r.Turn != t.Index {
			continue
		}
		if b, ok := r.Body.(*messages.FeedInjected); ok {
			value, there := in.Feeds[b.Digest]
			if !there && b.Error == "" {
				return nil
			}
			f.feeds.keep(b.Feed(value))
		}
		m.remember(f, r)
	}
	m.flight = f
	if fault := m.recollect(in.Events); fault != "" || !f.reply.ended {
		m.flight = nil
		return nil
	}
	for i := range f.calls {
		c := &f.calls[i]
		if c.undo.of != nil {
			continue
		}
		c.key = m.actionKey(c.ID, sha256.Sum256([]byte(c.Args)))
	}
	return f
}

// remember takes over from a record what the flight knew when the record was made.
func (m *Machine) remember(f *flight, r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.ModelRequest:
		f.parsed.lints = append(f.parsed.lints, b.Lints...)
		f.restore.lints = f.parsed.lints
		f.reply.fell = false
	case *messages.ModelSession:
		f.reply.fell = b.What == messages.SessionFallback
	case *messages.UnitText:
		if f.restore.known.units == nil {
			f.restore.known.units = map[string]bool{}
		}
		f.restore.known.units[b.Unit] = true
	case *messages.ParseFault:
		f.restore.known.faults = append(f.restore.known.faults, b)
	case *messages.Lint:
		f.restore.known.lints++
	case *messages.Control:
		if b.What == messages.ControlModelError {
			f.reply.modelCode = b.Code
		}
	case *messages.ModelReply:
		f.reply.ended, f.reply.finish, f.reply.modelErr = true, b.Finish, b.Error
	case *messages.Emit:
		f.program.emitted(&Emission{Text: b.Text, Candidate: b.Candidate})
	case *messages.Whisper:
		f.program.emitted(&Emission{Whisper: true, Target: b.Target, Text: b.Text})
	case *messages.ActionTemplate:
		f.restore.known.templates++
	case *messages.ActionDeclared:
		c := call{Call: messages.Call{ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class}}
		if b.Compensates != "" {
			f.declare(m.restoreUndo(b.Compensates, cmp.Or(b.CompensatesTurn, r.Turn), c))
			break
		}
		f.restore.known.actions++
		c.known = true
		if b.Stream {
			c.stream = &streaming{}
		}
		f.declare(c)
	case *messages.BlockBegin:
		if f.restore.blocks == nil {
			f.restore.blocks = map[string]*knownBlock{}
		}
		f.restore.blocks[b.ID] = &knownBlock{}
	case *messages.BlockDecided:
		if k := f.restore.blocks[b.ID]; k != nil {
			k.decided, k.at = b, r.TS
		}
	case *messages.BlockEnded:
		if k := f.restore.blocks[b.ID]; k != nil {
			k.ended = true
		}
	case *messages.ActionApproval:
		if c := f.call(b.ID); c != nil && b.Approval == "" {
			c.gate.answer, c.gate.reason = b.State, b.Reason
		}
	case *messages.ActionStarted:
		if c := f.call(b.ID); c != nil {
			if c.tries.attempt = b.Attempt; c.phase == callDeclared {
				m.move(c, callInterrupted)
			}
			if c.stream != nil {
				c.stream.text, c.stream.recorded = nil, 0
			}
			if b.Args != "" {
				c.Args = b.Args
			}
			c.tries.retries += retried(b)
			if b.Failure == ReasonTakenBack {
				c.tries.resumed++
			}
			c.tries.children = slices.Clip(b.Children)
			if c.budget.reserved = b.Reserved; b.Used != nil {
				c.budget.used = *b.Used
			}
		}
	case *messages.ActionChunk:
		if c := f.call(b.ID); c != nil && c.stream != nil {
			s := c.stream
			s.text, s.seq = append(s.text, b.Bytes...), b.Seq
			s.recorded = len(s.text)
		}
	case *messages.ActionEnded:
		if c := f.call(b.ID); c != nil {
			m.move(c, c.phase.over())
			c.State, c.Reason, c.Value, c.code = b.State, b.Reason, b.Result, b.ErrorCode
		}
	}
}

// recollect restores what the decoder found in the reply. Where actions begin while the
// reply streams, it only keeps the events for reread.
func (m *Machine) recollect(evs []messages.Event) (fault string) {
	if !m.cfg.Judge.Traits().InStreamActions {
		return m.recall(evs)
	}
	f := m.flight
	known := f.restore.known
	if fault = m.planTurn(); fault == "" {
		f.doc.known, f.restore.events = known, evs
	}
	return fault
}

// reread goes through the document of a restored turn again. What has a record is neither
// recorded nor shown again, and an ended action ends as its record says; the rest goes on
// from where it was.
func (m *Machine) reread() (fault string) {
	f := m.flight
	heard := f.restore.events
	f.restore.events = nil
	f.parsed.lints = f.restore.lints
	if fault = m.arrive(heard); fault != "" || !m.acts(f) && m.phase != Suspended {
		return fault
	}
	return m.pump()
}

// recall takes over what the decoder finds in a reply whose records are in the journal.
func (m *Machine) recall(evs []messages.Event) (fault string) {
	f := m.flight
	for i := range evs {
		ev := &evs[i]
		if fault = hollow(ev); fault != "" {
			return fault
		}
		switch ev.Kind {
		case messages.EventUnitBegin:
			if fault = f.begin(ev); fault != "" {
				return fault
			}
		case messages.EventUnitText, messages.EventUnitEnd:
			if f.parsed.open < 0 {
				return "decoder: text outside a unit"
			}
			if ev.Kind == messages.EventUnitText {
				f.parsed.text.Write(ev.Text)
				continue
			}
			f.shut(ev)
		case messages.EventProgram:
			f.program.source = append([]byte(nil), ev.Text...)
		case messages.EventStop:
			f.parsed.final, f.parsed.awaits = f.parsed.final || ev.Final, f.parsed.awaits || !ev.Final
		case messages.EventParseError:
			f.parsed.errors = append(f.parsed.errors, *ev.Fault)
		case messages.EventLint:
			f.parsed.lints = append(f.parsed.lints, ev.Fault.Code)
		}
	}
	if f.parsed.open >= 0 {
		f.shut(&messages.Event{})
	}
	return ""
}

// shut ends the growing unit and returns it.
func (f *flight) shut(ev *messages.Event) *messages.Unit {
	u := &f.parsed.units[f.parsed.open]
	if ev.UnitKind == messages.ThoughtUnit {
		u.Kind = ev.UnitKind
	}
	u.Text = f.parsed.text.String()
	f.parsed.text = strings.Builder{}
	u.Final, u.Complete = ev.Final, ev.Complete
	f.parsed.final = f.parsed.final || ev.Final && ev.Complete
	f.parsed.open = -1
	return u
}

// resume goes on with the turn under a new nonce: open actions are settled or run again
// under the same key, and the program is run again.
func (m *Machine) resume(cause string) {
	nonce, ok := m.draw()
	if !ok {
		return
	}
	f := m.flight
	f.Nonce, f.program.ran, f.program.ended, f.program.end = nonce, false, false, nil
	f.program.rerun = rerun{emissions: len(f.program.emissions), calls: len(f.calls)}
	if f.undo.drains { // a compensation waited
		f.undo.drains = false
		m.to(Draining)
		m.persist(&messages.TurnRestored{Cause: cause, Count: m.state.Open.Turn.Restores + 1, Nonce: nonce, Manifest: m.cfg.ManifestDigest}, 0)
		m.drained()
		return
	}
	m.to(Running)
	restored := m.persist(&messages.TurnRestored{Cause: cause, Count: m.state.Open.Turn.Restores + 1, Nonce: nonce, Manifest: m.cfg.ManifestDigest}, 0)
	m.turnClock()
	m.runClock()
	m.blockClock()
	if f.doc != nil {
		m.resumeDocument()
		return
	}
	for i := range f.calls {
		c := &f.calls[i]
		c.program.waits = false
		if !c.phase.ended() {
			m.settleCall(c)
		}
	}
	if m.waits() {
		m.suspend()
		return
	}
	if !f.runnable() {
		m.proceed()
		return
	}
	f.program.ran = true
	m.do(&RunProgram{
		After: restored.Seq, Ident: f.Ident, Source: f.program.source, Userdata: m.userdata(),
		Emissions: f.program.rerun.emissions, Results: f.results(),
	})
	if d := m.cfg.Limits.ProgramWall; d > 0 {
		m.setTimer(ClockProgram, m.now.Add(d))
	}
}

// resumeDocument goes on with a reply that is acted on while it streams: after a restart it
// is read again; after an answer the actions with answered questions go on.
func (m *Machine) resumeDocument() {
	f := m.flight
	fault := ""
	if f.restore.events != nil {
		fault = m.reread()
	}
	if fault == "" && m.acts(f) {
		fault = m.unpark()
	}
	if fault != "" {
		m.crash(ChildModel, fault)
		return
	}
	if m.acts(f) && !m.overBudget() { // a detached action may have ended while the turn was suspended
		m.advance()
	}
}

// unpark goes on with the actions whose questions are answered.
func (m *Machine) unpark() (fault string) {
	g := m.graph
	for i := range m.flight.calls {
		c := &m.flight.calls[i]
		a := m.state.Open.Turn.action(c.ID)
		if c.phase != callDeclared || a == nil || a.Question == nil || a.Question.Answer == "" {
			continue
		}
		v, ok := g.plan.Action(c.node.ref)
		if !ok || v.State != plan.Parked {
			continue
		}
		if a.Question.Answer != messages.GateApprove {
			m.settleCall(c)
			continue
		}
		var err error
		if g.todo, err = g.plan.Resume(g.todo, c.node.ref); err != nil {
			return err.Error()
		}
	}
	return ""
}

// settleCall decides about an action that a restored or resumed turn finds without an end:
// it begins (again), ends, waits for its question, or goes to the gate.
func (m *Machine) settleCall(c *call) {
	var q Question
	if a := m.state.Open.Turn.action(c.ID); a != nil && a.Question != nil {
		q = *a.Question
	}
	switch {
	case c.phase.began() && c.Class == messages.Effectful:
		m.endCall(c, &ActionEnded{State: messages.ActionUnknown, Reason: reasonCrash, ErrorCode: CodeToolFailed})
	case c.phase.began() || q.Answer == messages.GateApprove || q.ID == "" && c.gate.answer == messages.GateApprove:
		m.begin(c)
	case q.Answer == messages.GateExpired:
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: reasonExpired, ErrorCode: CodeDenied, Result: quote("nobody approved the call in time")})
	case q.Answer != "":
		m.deny(c, q.Reason)
	case q.ID != "":
	case c.gate.answer != "" && c.gate.answer != messages.GateConfirm:
		m.deny(c, c.gate.reason)
	default:
		m.move(c, callJudging)
		m.do(&AskGate{Ident: m.flight.Ident, ID: c.ID, Type: cmp.Or(c.typ, messages.TypeTool), Name: c.Name, Args: c.Args, ArgsDigest: sha256.Sum256([]byte(c.Args)), Class: c.Class, State: m.state.Open.State, Keep: m.state.Keep})
	}
}

// results returns the recorded calls, for RunProgram.
func (f *flight) results() []Recorded {
	out := make([]Recorded, len(f.calls))
	for i := range f.calls {
		c := &f.calls[i]
		out[i] = Recorded{
			ID: c.ID, Name: c.Name, ArgsDigest: sha256.Sum256([]byte(c.Args)),
			State: c.State, Result: c.Value, ErrorCode: c.code, Reason: c.Reason,
		}
	}
	return out
}

// repeated compares an emission with the recorded one of its ordinal.
func (m *Machine) repeated(e *Emission) {
	f := m.flight
	was := &f.program.emissions[f.program.rerun.emitted]
	f.program.rerun.emitted++
	if e.Whisper == was.Whisper && e.Candidate == was.Candidate && (!e.Whisper || clean(e.Target) == clean(was.Target)) {
		a, b := clean(e.Text), clean(was.Text)
		if c, ok := m.cfg.Judge.(Comparer); ok && e.Candidate {
			a, b = c.Comparable(a), c.Comparable(b)
		}
		if a == b {
			return
		}
	}
	m.diverged("it does not say again what it had said")
}

// calledAgain compares a call with the recorded one of its ordinal, and answers it if that
// one has ended.
func (m *Machine) calledAgain(id, name, args string) {
	f := m.flight
	c := &f.calls[f.program.rerun.called]
	f.program.rerun.called++
	if c.ID != id || c.Name != name || c.Args != args || c.program.emissions != f.program.rerun.emitted {
		m.diverged("it does not call again what it had called")
		return
	}
	c.program.waits = true
	if c.phase.ended() {
		m.answerCall(c)
	}
}

// diverged ends a turn whose program, run again, does something else than its records say.
func (m *Machine) diverged(how string) {
	f := m.flight
	if m.phase == Draining || f.program.ended {
		return // the program is being stopped already
	}
	m.do(&StopProgram{Ident: f.Ident, Code: messages.ErrCrash})
	f.program.ended = true
	m.crash(ChildInterpreter, "diverged: the program was run again, and "+how)
	m.drained()
}
