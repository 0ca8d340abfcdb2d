package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Reasons of ERR_APPROVAL: why an answer does not count.
const (
	ReasonUnknown   = "UNKNOWN"   // of ERR_NOT_FOUND: the session has no such question, or has forgotten it
	ReasonLate      = "LATE"      // the question expired
	ReasonAnswered  = "ANSWERED"  // the question was answered before, or its action cancelled
	ReasonChanged   = "CHANGED"   // the arguments, the tool's description or its folder changed since the question
	ReasonPrincipal = "PRINCIPAL" // the answer names no principal
)

// ByClock is the principal of the answer to a question that expired.
const ByClock = "clock"

// ask opens a question about a call that a person must confirm.
func (m *Machine) ask(c *call, in *Judged) {
	id, ok := m.draw()
	if !ok {
		return
	}
	wait := m.cfg.ApprovalWait
	if wait <= 0 {
		wait = ApprovalWait
	}
	body := &messages.ActionApproval{
		Approval: id, ID: c.ID, State: messages.GateConfirm, By: in.By, Reason: clean(in.Reason), Basis: in.Basis, Digest: askDigest(in.Basis, c.Args),
		Expires: m.now.Add(wait).Format(time.RFC3339Nano),
	}
	if a := m.state.Open.Turn.action(c.ID); a != nil && a.Args != c.Args {
		body.Args = c.Args
	}
	m.persist(body, 0)
	if c.node.ref.Generation > 0 {
		if fault := m.park(c); fault != "" {
			m.crash(ChildModel, fault)
			return
		}
	}
	m.proceed()
}

// waits reports whether only an answer can take the turn on: the reply is complete, and
// every open action waits for approval.
func (m *Machine) waits() bool {
	f := m.flight
	if f.doc != nil {
		asked, busy := m.undoWaits()
		done := asked && m.graph.plan.Complete() && !f.othersOpen()
		return f.reply.ended && len(f.feeds.pending) == 0 && !busy && (m.graph.plan.Stalled() || done)
	}
	n := 0
	for i := range f.calls {
		if c := &f.calls[i]; !c.phase.ended() {
			a := m.state.Open.Turn.action(c.ID)
			if c.phase != callDeclared || a == nil || a.Question == nil || a.Question.Answer != "" {
				return false
			}
			n++
		}
	}
	return n > 0 && f.reply.ended
}

// suspend puts the turn to rest until a question is answered or expires. Its program is
// stopped, and runs again after that.
func (m *Machine) suspend() {
	f, t := m.flight, m.state.Open.Turn
	body := &messages.TurnSuspended{}
	until := int64(0)
	for i := range t.Actions {
		a := &t.Actions[i]
		if a.Question == nil || a.Question.Answer != "" {
			continue
		}
		body.Waiting = append(body.Waiting, a.ID)
		if until == 0 || a.Question.Expires < until {
			until = a.Question.Expires
		}
	}
	body.Until = time.Unix(0, until).UTC().Format(time.RFC3339Nano)
	if f.program.ran && !f.program.ended {
		m.do(&StopProgram{Ident: f.Ident, Code: messages.ErrCancelled})
		f.program.ran = false
	}
	for c := range ClockDebounce {
		m.stopTimer(c)
	}
	m.to(Suspended)
	m.persist(body, 0)
}

// approve takes the answer to a question (docs/spec/design.md §9).
func (m *Machine) approve(in *Approve) {
	a, err := m.state.question(in, m.now)
	if err != nil {
		m.do(&Answer{Handle: in.Handle, Err: err})
		m.expire()
		return
	}
	run := m.state.Open.Run
	r := m.persist(&messages.ActionApproval{
		Approval: in.Approval, ID: a.ID, State: in.Answer, By: clean(in.By), Reason: clean(in.Reason), Digest: in.Digest,
	}, 0)
	m.do(&Answer{After: r.Seq, Handle: in.Handle, Run: run, Seq: r.Seq})
	m.answered()
}

// Refuses returns the error with which a machine in this state would refuse an answer at
// time now; nil if it would accept it.
func (s *State) Refuses(in *Approve, now time.Time) error {
	if _, err := s.question(in, now); err != nil {
		return err
	}
	return nil
}

// question returns the action whose question in answers, or the error to refuse the answer
// with.
func (s *State) question(in *Approve, now time.Time) (*OpenAction, *messages.Error) {
	refuse := func(reason, why string) (*OpenAction, *messages.Error) {
		return nil, &messages.Error{Code: messages.ErrApproval, Reason: reason, Detail: why}
	}
	if in.Answer != messages.GateApprove && in.Answer != messages.GateDeny {
		return nil, &messages.Error{Code: messages.ErrInvalid, Field: "answer", Detail: "want approve or deny"}
	}
	if clean(in.By) == "" {
		return refuse(ReasonPrincipal, "the answer names no principal")
	}
	closed := func(answer messages.GateAnswer) (*OpenAction, *messages.Error) {
		switch answer {
		case messages.GateExpired:
			return refuse(ReasonLate, "the question has expired")
		case "":
			return refuse(ReasonAnswered, "the action was cancelled")
		}
		return refuse(ReasonAnswered, "the question has been answered before: "+string(answer))
	}
	for _, q := range s.Questions {
		if q.ID == in.Approval {
			return closed(q.Answer)
		}
	}
	unknown := &messages.Error{Code: messages.ErrNotFound, Reason: ReasonUnknown, Field: "approval", Detail: "the session has no such question"}
	if s.Open == nil || s.Open.Turn == nil {
		return nil, unknown
	}
	for i := range s.Open.Turn.Actions {
		a := &s.Open.Turn.Actions[i]
		q := a.Question
		switch {
		case q == nil || q.ID != in.Approval:
		case q.Answer != "":
			return closed(q.Answer)
		case now.UnixNano() >= q.Expires:
			return closed(messages.GateExpired)
		case in.Digest != a.AskDigest():
			return refuse(ReasonChanged, "the call has other arguments than the answer is about")
		case in.Answer == messages.GateApprove && in.Basis != "" && q.Basis != "" && in.Basis != q.Basis:
			return refuse(ReasonChanged, "the tool's description or its folder has changed since the question; deny the call, and the model can ask again")
		default:
			return a, nil
		}
	}
	return nil, unknown
}

// Asked returns the action of the open question with the given id; nil if there is none.
func (s *State) Asked(approval string) *OpenAction {
	if s.Open == nil || s.Open.Turn == nil {
		return nil
	}
	for i := range s.Open.Turn.Actions {
		if a := &s.Open.Turn.Actions[i]; a.Question != nil && a.Question.ID == approval && a.Question.Answer == "" {
			return a
		}
	}
	return nil
}

// expire records the expiry of the questions that are due.
func (m *Machine) expire() {
	if m.flight == nil {
		return
	}
	some := false
	for _, a := range append([]OpenAction(nil), m.state.Open.Turn.Actions...) {
		if q := a.Question; q != nil && q.Answer == "" && q.Expires <= m.now.UnixNano() {
			some = true
			m.persist(&messages.ActionApproval{
				Approval: q.ID, ID: a.ID, State: messages.GateExpired, By: ByClock, Digest: a.AskDigest(),
			}, 0)
		}
	}
	if some {
		m.answered()
	}
}

// answered goes on after answers: a suspended turn is resumed; in one that runs, the
// actions with answered questions go on.
func (m *Machine) answered() {
	switch m.phase {
	case Suspended:
		m.resume(messages.RestoreApproval)
	case Draining: // of a compensation
		m.drained()
	case Running, Generating:
		f := m.flight
		if f.doc != nil {
			if fault := m.unpark(); fault != "" {
				m.crash(ChildModel, fault)
				return
			}
			m.proceed()
			return
		}
		for i := range f.calls {
			c := &f.calls[i]
			if a := m.state.Open.Turn.action(c.ID); c.phase == callDeclared && a != nil && a.Question != nil && a.Question.Answer != "" {
				m.settleCall(c)
			}
		}
		m.proceed()
	}
}

// proceed does what follows when an action has ended or waits for approval.
func (m *Machine) proceed() {
	f := m.flight
	switch {
	case f == nil: // the turn is decided: it waited for nothing else
	case m.phase == Draining:
		m.drained()
	case f.doc != nil:
		m.advance()
	case m.phase != Running:
	case m.waits():
		m.suspend()
	case !f.program.ran && !f.runnable() && !f.openCalls(): // a restored turn without a program
		m.to(Verifying)
		m.decide()
	}
}
