package turn

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Reasons of failed actions, as records have them.
const (
	reasonPanic     = "panic"
	reasonQuota     = "quota"
	reasonDenied    = "denied"
	reasonCancelled = "cancelled"
	reasonLost      = "lost"
	reasonCrash     = "crash"
	reasonExpired   = "expired"
)

// CodeDenied and CodeToolFailed are the script error numbers of
// docs/spec/neuroscript.md §8.2 that the host itself raises.
const (
	CodeToolFailed = 21
	CodeDenied     = 1003
)

// emissions records what a program emitted, in order. Emissions that a restored program
// repeats are compared with their records instead.
func (m *Machine) emissions(ems []Emission) {
	f := m.flight
	for i := range ems {
		e := &ems[i]
		switch {
		case f.program.ended: // it diverged
		case f.program.rerun.emitted < f.program.rerun.emissions:
			m.repeated(e)
		case e.Whisper:
			f.program.emitted(e)
			m.persist(&messages.Whisper{Target: e.Target, Text: e.Text}, LazyHold)
		default:
			f.program.emitted(e)
			m.persist(&messages.Emit{Text: e.Text, Candidate: e.Candidate, Held: m.cfg.Output != nil}, LazyHold)
		}
	}
}

// emitted adds a recorded emission, and its text to the stream that it belongs to.
func (p *program) emitted(e *Emission) {
	p.emissions = append(p.emissions, *e)
	to := &p.out
	if e.Whisper {
		to = &p.scr
	}
	*to = append(append(*to, e.Text...), '\n')
}

// programInput reports whether an input of the program still counts; one that does not is
// dropped.
func (m *Machine) programInput(id Ident) bool {
	if !m.current(id) {
		return false
	}
	if f := m.flight; !f.program.ran || f.program.ended || (m.phase != Running && m.phase != Draining) {
		m.dropped++
		return false
	}
	return true
}

func (m *Machine) emittedLive(in *Emitted) {
	if m.programInput(in.Ident) {
		m.emissions(in.Emissions)
	}
}

// programCall declares an action and asks the gate.
func (m *Machine) programCall(in *ProgramCall) {
	if !m.programInput(in.Ident) {
		return
	}
	f := m.flight
	id, name, args := clean(in.ID), clean(in.Name), clean(in.Args)
	// A repeated call is compared also while the program is being stopped: what it emits
	// after the call counts, and a replay must reach that place.
	repeats := f.program.rerun.called < f.program.rerun.calls
	if _, known := f.byID[id]; known && !repeats {
		m.dropped++ // an id names one action of a turn: the same call came twice
		return
	}
	m.emissions(in.Emissions)
	switch {
	case f.program.ended:
		return // it diverged
	case repeats:
		m.calledAgain(id, name, args)
		return
	case m.phase == Running && f.program.behind():
		m.diverged("it does not say again what it had said")
		return
	}
	class := classOf(in.Class)
	digest := messages.Digest(sha256.Sum256([]byte(args)))
	m.persist(&messages.ActionDeclared{
		ID: id, Type: messages.TypeTool, Name: name, Mode: messages.ModeSync, Args: args, ArgsDigest: digest, Class: class,
		Template: m.cfg.templateOf(messages.TypeTool, name),
	}, LazyHold)
	p := f.declare(call{
		Call: messages.Call{ID: id, Name: name, Args: args, Class: class}, key: m.actionKey(id, digest), program: fromProgram{waits: true},
	})
	switch {
	case m.phase == Draining:
		m.endCall(p, &ActionEnded{State: messages.ActionCancelled, Reason: reasonCancelled})
	case m.limits().Actions > 0 && m.state.Open.Actions > m.limits().Actions:
		m.endCall(p, &ActionEnded{State: messages.ActionFailed, Reason: reasonQuota})
		m.overrun("actions", m.limits().Actions, "a run")
	case len(f.calls) > m.cfg.Limits.calls():
		m.do(Reached{Limit: messages.LimitReplyActions, N: 1})
		m.endCall(p, &ActionEnded{
			State: messages.ActionFailed, Reason: reasonQuota, ErrorCode: CodeToolFailed,
			Result: quote("more than " + strconv.Itoa(m.cfg.Limits.calls()) + " actions in one turn"),
		})
	default:
		m.move(p, callJudging)
		m.do(&AskGate{Ident: f.Ident, ID: id, Type: messages.TypeTool, Name: name, Args: args, ArgsDigest: digest, Class: class, State: m.state.Open.State, Keep: m.state.Keep})
	}
}

func (f *flight) declare(c call) *call {
	if f.byID == nil {
		f.byID = map[string]int{}
	}
	c.program.emissions = len(f.program.emissions)
	f.byID[c.ID] = len(f.calls)
	f.calls = append(f.calls, c)
	return &f.calls[len(f.calls)-1]
}

// classOf reads a class; an unknown one counts as effectful.
func classOf(c messages.Class) messages.Class {
	switch c {
	case messages.Pure, messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful:
		return c
	}
	return messages.Effectful
}

// actionKey returns the idempotency key of an action: the same for all attempts and for
// every process that runs them, and opaque to tools (docs/spec/design.md §7). It hashes an
// array of canonical JSON, in which the id alone can hold a character to escape.
func (m *Machine) actionKey(id string, args messages.Digest) string {
	return m.keyFor(m.flight.Turn, id, args)
}

func (m *Machine) keyOf(turn int64, id, args string) string {
	return m.keyFor(turn, id, sha256.Sum256([]byte(args)))
}

func (m *Machine) keyFor(turn int64, id string, args messages.Digest) string {
	b := make([]byte, 0, 192)
	b = append(b, '[', '"')
	b = append(b, m.cfg.Key.Tenant...)
	b = append(b, `","`...)
	b = append(b, m.cfg.Inc.String()...)
	b = append(b, `",`...)
	b = appendInt(b, turn)
	b = append(b, ',')
	b, _ = jsontext.AppendQuote(b, id) // id is valid UTF-8, nothing else can fail
	b = append(b, `,"`...)
	b = hex.AppendEncode(b, args[:])
	b = append(b, '"', ']')
	sum := sha256.Sum256(b)
	var key [43]byte
	base64.RawURLEncoding.Encode(key[:], sum[:])
	return string(key[:])
}

func (m *Machine) judged(in *Judged) {
	if !m.current(in.Ident) {
		return
	}
	c := m.call(in.ID)
	if c == nil || c.phase != callJudging {
		m.dropped++
		return
	}
	if in.Answer == messages.GateConfirm {
		m.move(c, callDeclared)
		m.ask(c, in)
		return
	}
	if in.Record {
		m.persist(&messages.ActionApproval{
			ID: c.ID, State: in.Answer, By: in.By, Reason: in.Reason, Digest: sha256.Sum256([]byte(c.Args)),
		}, LazyHold)
	}
	if in.Answer != messages.GateApprove {
		m.deny(c, in.Reason)
		m.proceed()
		return
	}
	m.begin(c)
	if m.flight.doc != nil {
		m.advance()
	}
}

// deny ends a call that was refused: by the gate, a person or a rule.
func (m *Machine) deny(c *call, why string) {
	m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: reasonDenied, ErrorCode: CodeDenied, Result: quote(clean(why))})
}

// begin starts an attempt of an action, or ends the action when the run's budget has
// nothing left for it.
func (m *Machine) begin(c *call) {
	if lacks := m.reserve(c); lacks != "" {
		m.lacking(c, lacks)
		return
	}
	hold := LazyHold
	if c.Class.Durable() {
		hold = 0
	}
	c.tries.attempt++
	if c.tries.began.IsZero() {
		c.tries.began = m.now
	}
	body := m.startRecord(c, c.tries.failure)
	if a := m.state.Open.Turn.action(c.ID); a != nil && a.Args != c.Args {
		body.Args = c.Args
	}
	r := m.persist(body, hold)
	told := c.phase.planned()
	m.move(c, callRunning)
	start := &StartAction{
		Ident: m.flight.Ident, ID: c.ID, Type: c.typ, Name: c.Name, Detached: c.mode == messages.ModeFireAndForget,
		Args: c.Args, Class: c.Class, Key: c.key, Attempt: c.tries.attempt, Retries: c.tries.retries, Deadline: m.untilOf(c), State: m.state.Open.State, Zone: m.state.Zone,
	}
	if a := m.state.Open.Turn.action(c.ID); a != nil && a.Question != nil {
		start.Basis = a.Question.Basis
	}
	start.Budget, _ = c.left()
	if c.Class.Durable() {
		start.After = r.Seq
	}
	m.do(start)
	if start.Stream = c.stream != nil; start.Stream {
		m.streams(c, r.Seq)
	}
	if c.node.ref.Generation > 0 && !told {
		var err error
		if m.graph.todo, err = m.graph.plan.Started(m.graph.todo, c.node.ref); err != nil {
			m.crash(ChildModel, err.Error())
		}
	}
}

// startRecord makes the record that precedes an attempt.
func (m *Machine) startRecord(c *call, failure string) *messages.ActionStarted {
	body := &messages.ActionStarted{ID: c.ID, Attempt: c.tries.attempt, Key: c.key, Failure: failure, Reserved: c.budget.reserved, Children: slices.Clip(c.tries.children)}
	if c.budget.used != (messages.Budget{}) {
		used := c.budget.used
		body.Used = &used
	}
	if c.typ == messages.TypeAgent {
		body.Child = m.childOf(c)
	}
	return body
}

// childOf returns the name of the session that an action of type agent runs in; "" if it has none.
func (m *Machine) childOf(c *call) string {
	child, ok := m.cfg.Key.Child(c.Name, c.key, c.tries.retries)
	if !ok {
		return ""
	}
	return child.SID()
}

// call returns an action of the turn in flight that has no terminal record; nil if there
// is none with that id.
func (m *Machine) call(id string) *call { return m.flight.call(id) }

// any returns an action of the turn in flight, ended or not; nil if there is none.
func (f *flight) any(id string) *call {
	if i, ok := f.byID[id]; ok {
		return &f.calls[i]
	}
	return nil
}

// call returns an action that has no terminal record; nil if there is none.
func (f *flight) call(id string) *call {
	if i, ok := f.byID[id]; ok && !f.calls[i].phase.ended() {
		return &f.calls[i]
	}
	return nil
}

// runs reports whether an attempt is the latest one; 0 stands for the latest.
func (c *call) runs(attempt int64) bool { return attempt == 0 || attempt == c.tries.attempt }

// actionEnded takes the end of an attempt.
func (m *Machine) actionEnded(in *ActionEnded) {
	if m.detachedEnded(in) || !m.current(in.Ident) {
		return
	}
	c := m.call(in.ID)
	if c == nil || c.phase != callRunning || !c.runs(in.Attempt) {
		m.dropped++
		return
	}
	m.streamEnds(c, in)
	if m.overdue(in); m.flight == nil || m.call(in.ID) != c {
		if !m.detachedEnded(in) { // the turn has just let go of a detached action
			m.dropped++ // the action ended with the turn
		}
		return
	}
	for i := range in.Audits {
		a := in.Audits[i]
		m.persist(&a, LazyHold)
	}
	if c.takesBack(in) {
		if c.node.ref.Generation > 0 && c.stopped == "" && m.phase != Draining {
			m.anew(c)
			return
		}
		in = m.unawaited(c, in)
	}
	c.budget.used = c.budget.used.Plus(in.Used)
	c.tries.children = append(c.tries.children, in.Children...)
	if c.undo.of != nil && in.State != messages.ActionOK && !in.Last {
		m.triedUndo(c, in)
	}
	if c.node.ref.Generation > 0 && in.State != messages.ActionOK && m.phase != Draining && !in.Last {
		if m.tried(c, in) {
			return
		}
	}
	m.endCall(c, in)
	if c.budget.used != (messages.Budget{}) && m.acts(m.flight) && m.overBudget() {
		return
	}
	m.proceed()
}

// endCall writes the one terminal record of an action, and gives the end to the program or
// the plan that waits for it.
func (m *Machine) endCall(c *call, end *ActionEnded) { m.endCallBy(c, end, false) }

// endCallBy is endCall; byPlan says that the plan itself decided the end and need not be
// told.
func (m *Machine) endCallBy(c *call, end *ActionEnded, byPlan bool) {
	state := m.state.Open.Turn.action(c.ID).stands(end.State, failureOf(end))
	if state == messages.ActionCancelled && c.phase.began() && c.Class.Durable() && (end.Reason == reasonLost || c.tries.attempt > 1 || c.tries.doubt) {
		state = messages.ActionUnknown // this attempt did not begin, but one that was cut off before it may have
	}
	if state == messages.ActionCancelled && c.stopped != "" && end.Reason != reasonLost {
		end.Reason = c.stopped
	}
	told := c.phase.planned()
	m.move(c, c.phase.over())
	c.State, c.Reason, c.Value, c.code = state, clean(end.Reason), clean(end.Result), end.ErrorCode
	if state == messages.ActionUnknown && c.Value == "" {
		c.Value = quote(messages.UnknownText)
	}
	hold := LazyHold
	if c.phase.began() && c.Class.Durable() {
		hold = EndedHold
	}
	body := &messages.ActionEnded{
		ID: c.ID, State: state, Reason: c.Reason, Result: c.Value, ErrorCode: end.ErrorCode, MS: m.took(c, end),
		Tokens: c.budget.used.Tokens, CostUSD: c.budget.used.CostUSD, Actions: c.budget.used.Actions, Children: slices.Clip(c.tries.children),
	}
	if c.typ == messages.TypeInternal && state == messages.ActionOK {
		body.Feed = end.Feed
	}
	if c.stream != nil {
		body.Streamed = int64(c.stream.recorded)
	}
	m.flight.lastEnd = m.persist(body, hold).Seq
	if c.typ == messages.TypeInternal && !byPlan { // every call is audited (docs/spec/streaming.md §7.4)
		m.persist(&messages.Audit{
			Who: m.cfg.SID, What: "internal " + c.Name, Allowed: c.phase.began(), Text: c.Reason,
		}, hold)
	}
	if c.program.waits && m.flight.program.ran && !m.flight.program.ended {
		m.answerCall(c)
	}
	if c.node.ref.Generation > 0 && !byPlan {
		if fault := m.tellPlan(c, !told); fault != "" {
			m.crash(ChildModel, fault)
		}
	}
}

// took returns how long an action was at work, in milliseconds: the time of its one attempt
// as the executor measured it, or the time since the first start when there were several
// attempts or the executor gave none.
func (m *Machine) took(c *call, end *ActionEnded) int64 {
	if !m.cfg.timesAll() || c.tries.began.IsZero() || c.tries.attempt <= 1 && (end.MS > 0 || end.State == messages.ActionOK) {
		return end.MS
	}
	return m.now.Sub(c.tries.began).Milliseconds()
}

// answerCall gives the program the end of a call that it waits for.
func (m *Machine) answerCall(c *call) {
	m.do(&AnswerCall{Ident: m.flight.Ident, ID: c.ID, State: c.State, Result: c.Value, ErrorCode: c.code, Reason: c.Reason})
}

// panicked ends an action whose tool panicked. Under "on_panic: fail" the action fails, up
// to MaxPanics times for one name in a run; otherwise the turn crashes.
func (m *Machine) panicked(c *call, why string) {
	state := messages.ActionFailed
	if c.Class.Durable() {
		state = messages.ActionUnknown // it may have happened
	}
	m.endCall(c, &ActionEnded{State: state, Failure: plan.Panicked, Reason: reasonPanic, ErrorCode: CodeToolFailed})
	if m.cfg.OnPanic == messages.PanicFail && m.state.Open.Panics[c.Name] < MaxPanics && m.phase == Running {
		return
	}
	m.crash(ChildAction, why)
}

// programEnd takes the program's streams and asks for the verification of its tokens.
func (m *Machine) programEnd(in *ProgramEnd) {
	if !m.programInput(in.Ident) {
		return
	}
	f := m.flight
	m.emissions(in.Emissions)
	if f.program.ended {
		return // it diverged
	}
	if f.program.behind() && m.phase == Running && in.Code != messages.ErrTimeout {
		m.diverged("it ends before it comes to where it was")
		return
	}
	f.program.ended, f.program.end = true, in
	m.stopTimer(ClockProgram)
	if m.phase == Draining {
		m.drained()
		return
	}
	if in.Code != "" {
		why := clean(in.Detail)
		switch in.Code {
		case messages.ErrQuota, messages.ErrEnvSize:
			m.persist(&messages.Control{What: messages.ControlBreach, Name: in.Reason, Code: in.Code, Detail: why}, LazyHold)
		case messages.ErrTimeout:
			m.persist(&messages.Control{What: messages.ControlTimer, Name: ClockProgram.String(), Code: in.Code, Detail: why}, LazyHold)
		}
		m.stop(in.Code, why)
		return
	}
	if f.openCalls() {
		m.crash(ChildInterpreter, "the program ended before the actions it waits for")
		return
	}
	m.to(Verifying)
	if in.MagicFailed {
		m.decide()
		return
	}
	m.do(&Verify{Ident: f.Ident, Out: in.Out})
}

func (m *Machine) verified(in *Verified) {
	if !m.current(in.Ident) {
		return
	}
	if m.phase != Verifying {
		m.illegal()
		return
	}
	m.flight.checks = in.Checks
	m.decide()
}
