package turn

import (
	"slices"
	"strconv"
	"time"

	json "github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// stop ends the turn before its time. The first code wins. The children are asked to stop;
// when all have answered, or the grace is over, the turn is decided.
func (m *Machine) stop(code messages.Code, why string) {
	f := m.flight
	first := f.breach == ""
	if first {
		f.breach, f.breachWhy = code, why
	}
	if m.phase != Draining {
		m.stopRest()
	} else if first && code == messages.ErrCancelled { // a cancel ends the detached actions as well
		m.stopCalls((*call).stays, 0)
	}
}

// crash ends the turn because one of its children crashed.
func (m *Machine) crash(who Child, why string) {
	why = clean(why)
	m.persist(&messages.Control{What: messages.ControlCrash, Name: string(who), Code: messages.ErrCrash, Detail: why}, LazyHold)
	m.stop(messages.ErrCrash, why)
}

// overrun ends the turn because a limit was exceeded. The reason names meter, limit and
// turn.
func (m *Machine) overrun(meter string, limit int64, per string) {
	why := meter + ": over the limit of " + strconv.FormatInt(limit, 10) + " " + per +
		", in turn " + strconv.FormatInt(m.flight.Turn, 10)
	m.persist(&messages.Control{What: messages.ControlBreach, Name: meter, Code: messages.ErrQuota, Detail: why}, LazyHold)
	m.stop(messages.ErrQuota, why)
}

// stopRest stops what still runs, and decides the turn as soon as nothing does.
func (m *Machine) stopRest() {
	f := m.flight
	if m.phase == Draining || m.phase == Verifying {
		return
	}
	if m.phase == Generating && !f.reply.ended {
		m.do(&CancelModel{Ident: f.Ident})
		m.partial()
		m.seal(messages.FinishCancelled, f.reply.spent)
	} else {
		m.partial()
	}
	m.to(Draining)
	m.stopTimer(ClockGeneration)
	m.stopTimer(ClockProgram)
	m.stopTimer(ClockDrain)
	m.stopTimer(ClockBlock)
	stay := f.breach != messages.ErrCancelled // a cancel reaches every child
	if f.doc != nil {
		m.graph.todo = m.graph.plan.CancelAll(m.graph.todo, reasonCancelled, stay)
		if fault := m.runPlan(); fault != "" && m.err == nil {
			m.err = messages.Errorf(messages.ErrCrash, "%s", fault)
		}
	}
	if f.program.ran && !f.program.ended {
		m.do(&StopProgram{Ident: f.Ident, Code: f.breach})
	}
	grace := time.Duration(0)
	if f.program.ran && !f.program.ended {
		grace = ProgramGrace
	}
	m.stopCalls(func(c *call) bool { return !stay || !c.stays() }, grace)
}

// stopCalls stops the open calls for which which returns true, and decides the turn as soon
// as all have ended. grace is the time that the program has to answer, 0 without one.
func (m *Machine) stopCalls(which func(*call) bool, grace time.Duration) {
	f := m.flight
	for i := range f.calls {
		c := &f.calls[i]
		switch {
		case c.phase.ended() || !which(c) || c.undo.of != nil: // compensations go on
		case !c.phase.began() || c.phase == callPaused:
			m.endCall(c, &ActionEnded{State: messages.ActionCancelled, Reason: reasonCancelled})
		case c.Class.Durable():
			m.do(&CancelAction{Ident: f.Ident, ID: c.ID})
			grace = CancelGrace
		default: // nothing is lost with its answer
			m.do(&CancelAction{Ident: f.Ident, ID: c.ID})
			m.endCall(c, &ActionEnded{State: messages.ActionCancelled, Reason: reasonCancelled})
		}
	}
	if grace > 0 {
		m.setTimer(ClockGrace, m.now.Add(grace))
	}
	m.drained()
}

// drained decides the turn when every child has answered and what is to be undone is.
func (m *Machine) drained() {
	f := m.flight
	if m.phase != Draining || f.program.ran && !f.program.ended || f.openCalls() {
		return
	}
	if len(m.state.Open.Groups) > 0 {
		if f.undo.late {
			m.lateEnding()
		}
		if m.unwind(); m.unwinds() {
			return
		}
	}
	if f.undo.late {
		m.to(Decided)
		m.closeTurn()
		m.settled()
		return
	}
	m.decide()
}

// openCalls reports whether an action that the turn waits for, and that is no compensation, has
// no terminal record yet.
func (f *flight) openCalls() bool {
	stay := f.breach != messages.ErrCancelled
	return slices.ContainsFunc(f.calls, func(c call) bool { return !c.phase.ended() && c.undo.of == nil && (!stay || !c.stays()) })
}

// graceOver decides the turn without the children that did not answer: effects that may
// have happened become unknown.
func (m *Machine) graceOver() {
	f := m.flight
	if m.phase != Draining {
		return
	}
	f.program.ended = true
	for i := range f.calls {
		if c := &f.calls[i]; !c.phase.ended() && c.undo.of == nil && (!c.stays() || f.breach == messages.ErrCancelled) {
			m.endCall(c, &ActionEnded{State: messages.ActionCancelled, Reason: reasonLost})
		}
	}
	m.drained()
}

// timer handles a clock of the current generation.
func (m *Machine) timer(in *Timer) {
	if in.Clock == ClockDebounce {
		m.windowOver(in)
		return
	}
	if in.Clock >= NumClocks || !m.armed[in.Clock] || in.Gen != uint64(m.gens[in.Clock]) || m.flight == nil {
		m.dropped++
		return
	}
	m.armed[in.Clock] = false
	if in.Clock == ClockGrace {
		m.graceOver()
		return
	}
	if in.Clock == ClockRollback {
		m.wallOver()
		return
	}
	if m.phase == Draining {
		return
	}
	if in.Clock == ClockDrain { // the reply is complete: the turn does not wait for running actions
		m.persist(&messages.Control{What: messages.ControlTimer, Name: in.Clock.String()}, LazyHold)
		m.stopRest()
		return
	}
	if in.Clock == ClockBlock {
		m.persist(&messages.Control{What: messages.ControlTimer, Name: in.Clock.String()}, LazyHold)
		m.blocksDue()
		return
	}
	m.persist(&messages.Control{What: messages.ControlTimer, Name: in.Clock.String(), Code: messages.ErrTimeout}, LazyHold)
	m.stop(messages.ErrTimeout, in.Clock.String())
}

// sameInstant is how far apart the clocks of an attempt and of its turn may ring although
// they were set to the same time, because a timer counts from the moment it was set.
const sameInstant = time.Millisecond

// overdue lets a clock of turn or run that is due ring before the end of an attempt that it
// cut off: the decision must not depend on which of the two arrives first.
func (m *Machine) overdue(in *ActionEnded) {
	if in.State == messages.ActionOK {
		return // a result that came in time counts
	}
	for _, k := range []struct {
		clock Clock
		ends  func() time.Time
	}{{ClockTurn, m.turnEnds}, {ClockRun, m.runEnds}} {
		if (m.phase == Generating || m.phase == Running) && m.armed[k.clock] && !m.now.Add(sameInstant).Before(k.ends()) {
			m.do(&StopTimer{Clock: k.clock}) // it rings here, and not again outside
			m.timer(&Timer{Clock: k.clock, Gen: uint64(m.gens[k.clock])})
		}
	}
}

// cancel stops the run in flight, or takes a waiting one out of the queue. The answer waits
// until the record is durable, and the fold keeps the cancel: a run that was reported as
// cancelled does not come back after a crash.
func (m *Machine) cancel(in *Cancel) {
	run := in.Run
	if run == 0 && m.state.Open != nil {
		run = m.state.Open.Run
	}
	by := clean(in.By)
	if open := m.state.Open; open != nil && open.Run == run {
		if open.Cancel != nil {
			m.do(&Answer{After: open.Cancel.Seq, Handle: in.Handle, Run: run})
			return
		}
		r := m.persist(&messages.Control{What: messages.ControlCancel, By: by, Code: messages.ErrCancelled}, 0)
		m.do(&Answer{After: r.Seq, Handle: in.Handle, Run: run})
		if m.flight != nil { // else the run is to be settled, and settle sees the cancel
			m.stop(messages.ErrCancelled, cancelledBy(by))
		}
		return
	}
	if w := m.state.waits(run); w != nil {
		r := m.append(run, 0, &messages.RunEnd{
			Decision: messages.Halt, Reason: messages.ErrCancelled, Detail: cancelledBy(by) + " before it began",
			Merged: append(seqs(w.More), seqs(w.Merged)...),
		}, 0)
		if m.state.Window == nil {
			m.stopTimer(ClockDebounce)
		}
		m.do(&Answer{After: r.Seq, Handle: in.Handle, Run: run})
		return
	}
	// A run that is reported as ended must not come back either.
	m.do(&Answer{After: m.lastEnd, Handle: in.Handle, Run: run, Err: notInFlight(run)})
}

// ReasonNotInFlight is the reason of a cancel of a run that has ended or never existed.
const ReasonNotInFlight = "NOT_IN_FLIGHT"

func notInFlight(run int64) error {
	return &messages.Error{Code: messages.ErrDenied, Reason: ReasonNotInFlight, Detail: "run " + strconv.FormatInt(run, 10) + " is not in flight"}
}

func cancelledBy(by string) string {
	if by == "" {
		return "cancelled"
	}
	return "cancelled by " + by
}

// childDown turns a crash into a decision (docs/spec/design.md §4).
func (m *Machine) childDown(in *ChildDown) {
	if in.Child == ChildAction && m.detachedEnded(&ActionEnded{
		Ident: in.Ident, ID: in.ID, Attempt: in.Attempt, State: messages.ActionFailed, Failure: plan.Panicked, Reason: reasonPanic, ErrorCode: CodeToolFailed,
	}) {
		return
	}
	if !m.current(in.Ident) {
		return
	}
	f := m.flight
	switch in.Child {
	case ChildAction:
		c := m.call(in.ID)
		if c == nil || !c.phase.began() || !c.runs(in.Attempt) {
			m.dropped++
			return
		}
		m.panicked(c, in.Detail)
		m.proceed()
		return
	case ChildInterpreter:
		if !f.program.ran || f.program.ended {
			m.dropped++
			return
		}
		f.program.ended = true
	case ChildModel:
		if f.reply.ended {
			m.dropped++
			return
		}
	case ChildGate:
		if m.phase == Draining {
			m.dropped++
			return
		}
	default:
		m.illegal()
		return
	}
	m.crash(in.Child, in.Detail)
	m.drained()
}

// deadline returns when the nearer of the clocks of turn and run rings; zero without either.
func (m *Machine) deadline() time.Time {
	l := m.cfg.Limits
	var at time.Time
	if l.TurnWall > 0 {
		at = m.turnEnds()
	}
	if l.RunWall > 0 {
		if t := m.runEnds(); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}

// turnEnds and runEnds return when the clocks of turn and run ring. Time in which the turn
// was suspended does not count; for the turn, neither does the time between a crash and its
// restoration.
func (m *Machine) turnEnds() time.Time {
	t := m.state.Open.Turn
	return time.Unix(0, t.Began+t.Away).UTC().Add(m.cfg.Limits.TurnWall)
}

func (m *Machine) runEnds() time.Time {
	run := m.state.Open
	return time.Unix(0, run.Began+run.Away).UTC().Add(m.cfg.Limits.RunWall)
}

func (m *Machine) turnClock() {
	if m.cfg.Limits.TurnWall > 0 {
		m.setTimer(ClockTurn, m.turnEnds())
	}
}

func (m *Machine) runClock() {
	if m.cfg.Limits.RunWall > 0 {
		m.setTimer(ClockRun, m.runEnds())
	}
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// quote returns s as a JSON string; "" stays "".
func quote(s string) string {
	if s == "" {
		return ""
	}
	b, err := json.Marshal(s)
	if err != nil { // invalid UTF-8: a placeholder keeps the record
		return `"(text that is not UTF-8)"`
	}
	return string(b)
}
