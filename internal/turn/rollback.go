package turn

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Rollback (docs/spec/extensions.md §4). Actions with the same group are its members, in all
// turns of a run. When a group is rolled back it is closed: members that have not begun fail,
// members that run are cancelled and awaited, and then the members that ended ok are undone by
// the compensations that they declared, in the reverse order of their ends, one after the other.
//
// A compensation is an action of the turn that rolls back. It goes through the gate, is tried
// once, and its failure does not stop the rest. Nothing but Limits.RollbackWall ends it before
// its time: not a breach, not a cancel. Its place is no plan's: it waits for the compensation
// before it, and the turn waits for it.
//
//	Group.Cause == ""     open: it can have more members
//	Group.Cause != ""     rollback.begin is on record
//	over                  no member is open and none is owed a compensation
//
// A turn is decided when every group that was closed is over. After a restart a turn whose
// reply is durable goes on, and the rollback in it; in any other turn the compensations that are
// left run, and then the turn ends as a restart ends it.

// Bounds of groups.
const (
	MaxGroups    = 16 // of a run
	MaxMembers   = 64 // of a group
	RollbackWall = 60 * time.Second
)

// Reasons of ends that groups decide.
const (
	reasonGroupLimit = "group_limit"
	reasonWall       = "rollback_wall"
	unknownGroup     = "unknown_group"
)

// Rollback says when groups are rolled back without being asked.
type Rollback struct {
	// Error: when a member has failed and nothing tolerates it. A member that says
	// "on_error": "rollback" does not need it.
	Error bool
	// Halt: when a run ends HALT; Cancel: when it is cancelled.
	Halt, Cancel bool
	// Unknown compensates members whose outcome is unknown, too.
	Unknown bool
}

// undo is what a call has to do with groups.
type undo struct {
	group    string // of a member
	rollback string
	closed   bool // it was declared after the model had asked for the rollback
	told     bool // that it is to stop

	of *Member // of a compensation: the member as it was then; nil for other calls
}

// unwinding is what a flight knows of the rollbacks in it.
type unwinding struct {
	asked  map[string]int  // by group that the model rolls back: how many members stand before
	begun  map[string]bool // groups whose rollback is not over
	ending string          // why the run ends, if it does
	drains bool            // the turn was suspended while it was stopped
	until  time.Time       // when the time of the compensations is over; zero is no bound

	late    bool // the turn is one that a restart found open, and ends when the rollback is over
	orphans []orphan
}

// RolledBack reports for metrics that a group was rolled back.
type RolledBack struct {
	// Outcome is ok, failed when a compensation failed, or unknown when the outcome of a
	// compensation or of a member is not known.
	Outcome string
}

func (RolledBack) after() int64 { return 0 }

// UndoPrefix begins the id of a compensation; no id that a model writes has a colon.
const UndoPrefix = "undo:"

// undoID returns the id of the compensation of a member in a turn.
func undoID(m *Member, turn int64) string {
	if m.Turn == turn {
		return UndoPrefix + m.ID
	}
	return UndoPrefix + strconv.FormatInt(m.Turn, 10) + "/" + m.ID
}

// undoKey returns the idempotency key of the compensation of an action with a key.
func undoKey(key string) string {
	sum := sha256.Sum256([]byte(`["rollback","` + key + `"]`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// compensation is what a member has declared to undo it.
type compensation struct {
	typ     messages.ActionType
	name    string
	params  string
	timeout time.Duration
}

// readUndo reads the member rollback of an action, which the decoder has checked.
func readUndo(text string) (u compensation) {
	member := func(name string) string {
		v, _ := jsonvalue.Member(text, name)
		return v
	}
	u.typ, u.name, u.params = messages.ActionType(jsonvalue.Meant(member("type"))), jsonvalue.Meant(member("name")), member("parameters")
	if seconds, err := strconv.ParseFloat(member("timeout"), 64); err == nil && seconds > 0 {
		u.timeout = time.Duration(seconds * float64(time.Second))
	}
	return u
}

// grouped takes over what an action has to do with groups.
func (m *Machine) grouped(c *call, a *messages.Action) {
	if a.Group == "" {
		return
	}
	c.undo.group, c.undo.rollback = a.Group, a.Rollback
	_, c.undo.closed = m.flight.undo.asked[a.Group]
}

// unfit ends an action that its group does not let begin, and reports whether it did.
func (m *Machine) unfit(c *call) bool {
	if c.undo.group == "" {
		return false
	}
	g := m.state.Open.group(c.undo.group)
	if g == nil || g.member(m.flight.Turn, c.ID) == nil {
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: reasonGroupLimit})
		return true
	}
	if c.undo.closed || g.Cause != "" {
		m.exclude(c)
		return true
	}
	if c.undo.rollback == "" || c.phase.began() {
		return false
	}
	u := readUndo(c.undo.rollback)
	if _, found := m.target(u.typ, u.name); !found {
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: plan.NoTarget.String(), Result: quote(clean("rollback: there is no " + string(u.typ) + " " + u.name))})
		return true
	}
	if m.cfg.Refuse != nil {
		if why := m.cfg.Refuse(u.typ, u.name); why != "" {
			m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: why, ErrorCode: CodeDenied, Result: quote(clean("rollback: " + u.name))})
			return true
		}
	}
	return false
}

// target returns the class of a target; found is false if there is none.
func (m *Machine) target(t messages.ActionType, name string) (class messages.Class, found bool) {
	class = messages.Effectful
	if m.cfg.Target != nil {
		class, found = m.cfg.Target(t, name)
	}
	return classOf(class), found
}

// exclude ends a member that the plan has handed out and whose group is closed. One that had
// begun before a restart is not begun again.
func (m *Machine) exclude(c *call) {
	end := &ActionEnded{State: messages.ActionFailed, Reason: plan.ReasonGroupClosed}
	if c.phase.began() {
		end.State, end.Reason = messages.ActionCancelled, reasonCrash
		if c.Class.Durable() {
			end.State, end.ErrorCode = messages.ActionUnknown, CodeToolFailed
		}
	}
	m.endCall(c, end)
}

// askRollback takes the tag rollback at its place in the document.
func (m *Machine) askRollback(ev *messages.Event) {
	d := &m.flight.undo
	g := m.state.Open.group(ev.Block.Group)
	if g == nil {
		m.complain(&messages.ParseError{
			Code: messages.ErrDialect, Reason: unknownGroup, Tag: "rollback", Name: ev.Block.Group, Offset: ev.Offset,
			Detail: unknownGroup + ": no action of this run has the group; a member says \"group\" in its body",
		})
		return
	}
	if _, again := d.asked[g.ID]; again || g.Cause != "" {
		return
	}
	if d.asked == nil {
		d.asked = map[string]int{}
	}
	d.asked[g.ID] = len(g.Members)
}

// causeOf returns why an open group is to be rolled back now; "" if it is not.
func (m *Machine) causeOf(g *Group) string {
	d := &m.flight.undo
	var failed *Member
	for i := range g.Members {
		if e := &g.Members[i]; e.State != "" && (e.Fails && m.cfg.Rollback.Error || e.Always) && (failed == nil || e.End < failed.End) {
			failed = e
		}
	}
	if failed != nil {
		return messages.CauseError + ":" + failed.ID
	}
	if n, asked := d.asked[g.ID]; asked && !slices.ContainsFunc(g.Members[:min(n, len(g.Members))], func(e Member) bool { return e.State == "" }) {
		return messages.CauseAsked
	}
	if d.ending != "" && slices.ContainsFunc(g.Members, m.owed) {
		return d.ending
	}
	return ""
}

// owed reports whether a member is to be undone when its group is rolled back, and is not yet.
func (m *Machine) owed(e Member) bool {
	return e.Undo != "" && e.Undone == "" && (e.State == messages.ActionOK || e.State == messages.ActionUnknown && m.cfg.Rollback.Unknown)
}

// over reports whether nothing is left to do of a rollback.
func (m *Machine) over(g *Group) bool {
	return g.Done || !slices.ContainsFunc(g.Members, func(e Member) bool { return e.State == "" || m.owed(e) })
}

// undoes reports whether a group is being rolled back, or is to be.
func (m *Machine) undoes() bool {
	for i := range m.state.Open.Groups {
		g := &m.state.Open.Groups[i]
		if g.Cause != "" && !m.over(g) || g.Cause == "" && m.causeOf(g) != "" {
			return true
		}
	}
	return false
}

// unwind goes on with the rollbacks of the turn, as far as nothing has to be awaited.
func (m *Machine) unwind() {
	run, f := m.state.Open, m.flight
	d := &f.undo
	if run.Turn.Suspended && m.undoes() && !m.awaken() {
		return
	}
	for i := range run.Groups {
		g := &run.Groups[i]
		if g.Cause != "" {
			continue
		}
		if cause := m.causeOf(g); cause != "" {
			m.persist(&messages.RollbackBegin{Group: g.ID, Cause: cause}, 0)
			d.begin(g.ID)
		}
	}
	for i := range run.Groups {
		if g := &run.Groups[i]; g.Cause != "" && m.flight == f {
			m.recallMembers(g)
		}
	}
	for i := range run.Groups {
		if m.flight != f { // after a crash
			return
		}
		g := &run.Groups[i]
		switch {
		case g.Cause == "":
		case m.over(g):
			m.rolledBack(g)
		default:
			d.begin(g.ID)
			if m.undo(g); m.flight != f || !m.over(g) {
				return
			}
			m.rolledBack(g)
		}
	}
}

// awaken says that a suspended turn that is being stopped goes on, under a new nonce.
func (m *Machine) awaken() bool {
	nonce, ok := m.draw()
	if !ok {
		return false
	}
	m.flight.Nonce = nonce
	m.persist(&messages.TurnRestored{Cause: messages.RestoreRollback, Count: m.state.Open.Turn.Restores + 1, Nonce: nonce, Manifest: m.cfg.ManifestDigest}, 0)
	return true
}

func (d *unwinding) begin(group string) {
	if d.begun == nil {
		d.begun = map[string]bool{}
	}
	d.begun[group] = true
}

// rolledBack counts a rollback that is over, once.
func (m *Machine) rolledBack(g *Group) {
	d := &m.flight.undo
	if !d.begun[g.ID] {
		return
	}
	delete(d.begun, g.ID)
	m.do(RolledBack{Outcome: g.outcome()})
}

// undo takes one rollback on: when its members have ended it begins the next compensation, and
// when the one before has.
func (m *Machine) undo(g *Group) {
	if slices.ContainsFunc(g.Members, func(e Member) bool { return e.State == "" }) {
		return
	}
	for f := m.flight; m.flight == f; {
		if c := m.compensating(); c != nil {
			if m.wallClock(); c.phase == callDeclared || c.phase == callInterrupted { // after a restart or an answer
				m.settleCall(c)
			}
			if !c.phase.ended() {
				return
			}
			continue
		}
		e := m.nextOwed(g)
		if e == nil {
			return
		}
		m.wallClock()
		m.compensate(e, "")
	}
}

// nextOwed returns the member whose compensation comes next: of those that are left, the one
// that ended last. It is nil if none is left.
func (m *Machine) nextOwed(g *Group) (next *Member) {
	for i := range g.Members {
		if e := &g.Members[i]; m.owed(*e) && !e.Undoing && (next == nil || e.End > next.End) {
			next = e
		}
	}
	return next
}

// recallMembers ends the members that have not begun, and stops those that run.
func (m *Machine) recallMembers(g *Group) {
	for i := range g.Members {
		if e := &g.Members[i]; e.State == "" {
			m.recallMember(e)
		}
	}
}

// recallMember ends or stops one member. In a turn that is being stopped all have been told.
func (m *Machine) recallMember(e *Member) {
	c := m.flight.any(e.ID)
	if !m.acts(m.flight) || e.Turn != m.flight.Turn || c == nil || c.node.ref.Generation == 0 {
		return // or the document of a restored turn is still read
	}
	switch v, ok := m.graph.plan.Action(c.node.ref); {
	case !ok || c.undo.told:
	case v.State < plan.Dispatched:
		m.graph.todo = m.graph.plan.Refuse(m.graph.todo, c.node.ref, plan.ReasonGroupClosed)
	case v.State == plan.Parked || c.phase == callJudging:
		m.exclude(c)
	case c.phase.planned():
		c.undo.told = true
		m.giveUp(c, reasonCancelled)
	} // else it is about to be dispatched, and does not begin
}

// compensating returns the compensation that has no end; nil if there is none.
func (m *Machine) compensating() *call {
	for i := range m.flight.calls {
		if c := &m.flight.calls[i]; c.undo.of != nil && !c.phase.ended() {
			return c
		}
	}
	return nil
}

// compensate declares the compensation of a member and asks the gate about it. With a reason
// the compensation ends at once, because the time for it is over.
func (m *Machine) compensate(e *Member, reason string) {
	f := m.flight
	u := readUndo(e.Undo)
	class, found := m.target(u.typ, u.name)
	params := e.Params
	if e.Fault != "" {
		params = u.params
	}
	of := *e
	id := undoID(e, f.Turn)
	body := &messages.ActionDeclared{
		Args: params, ArgsDigest: sha256.Sum256([]byte(params)), Class: class, Compensates: e.ID, ID: id,
		Mode: messages.ModeSync, Name: u.name, Show: e.Show, Type: u.typ,
	}
	if e.Turn != f.Turn {
		body.CompensatesTurn = e.Turn
	}
	m.persist(body, LazyHold)
	c := f.declare(m.undoing(&of, &u, call{Call: messages.Call{ID: id, Name: u.name, Args: params, Class: class}}))
	c.node.found = found
	switch why := m.refused(c); {
	case reason != "":
		m.endCall(c, &ActionEnded{State: messages.ActionCancelled, Reason: reason})
	case e.Fault != "":
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: e.Fault})
	case !found:
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: plan.NoTarget.String()})
	case why != "":
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: why, ErrorCode: CodeDenied})
	default:
		m.settleCall(c)
	}
}

func (m *Machine) undoing(of *Member, u *compensation, c call) call {
	c.typ, c.mode, c.key = u.typ, messages.ModeSync, undoKey(of.Key)
	c.undo.of = of
	c.node.policy = plan.Policy{Timeout: u.timeout}.Bounded()
	return c
}

// restoreUndo makes a call of a compensation that an earlier life has declared.
func (m *Machine) restoreUndo(compensates string, of int64, c call) call {
	e := m.state.Open.memberOf(of, compensates)
	if e == nil { // a log that was cut
		e = &Member{ID: compensates, Turn: of}
	}
	own, u := *e, readUndo(e.Undo)
	return m.undoing(&own, &u, c)
}

// triedUndo gives the end of the one attempt of a compensation its state.
func (m *Machine) triedUndo(c *call, in *ActionEnded) {
	next := c.node.policy.After(plan.Attempt{
		N: plan.MaxRetries + 1, Failure: failureOf(in), Reason: clean(in.Reason), Class: c.Class, Now: m.now,
	})
	in.State, in.Reason = next.State.Ended(), next.Reason
}

// wallClock starts the clock of the compensations of a turn that is being stopped.
func (m *Machine) wallClock() {
	if m.phase != Draining || m.armed[ClockRollback] {
		return
	}
	m.flight.undo.until = m.now.Add(m.cfg.Limits.rollbackWall())
	m.setTimer(ClockRollback, m.flight.undo.until)
}

// wallOver ends the compensations of a turn that is being stopped.
func (m *Machine) wallOver() {
	m.persist(&messages.Control{What: messages.ControlTimer, Name: ClockRollback.String()}, LazyHold)
	m.forsake(reasonWall)
	m.drained()
}

// forsake ends all compensations that are left, those that were not begun as cancelled.
func (m *Machine) forsake(reason string) {
	if c := m.compensating(); c != nil {
		end := &ActionEnded{State: messages.ActionCancelled, Reason: reason}
		if c.phase.began() {
			m.do(&CancelAction{Ident: m.flight.Ident, ID: c.ID})
			if c.Class.Durable() {
				end.State = messages.ActionUnknown
			}
		}
		m.endCall(c, end)
	}
	for i := range m.state.Open.Groups {
		g := &m.state.Open.Groups[i]
		if g.Cause == "" || g.Done {
			continue
		}
		for e := m.nextOwed(g); e != nil; e = m.nextOwed(g) {
			m.compensate(e, reason)
		}
	}
}

// unwindFor begins the rollbacks that the end of the run brings with it, before the turn is
// decided by v. It reports whether the turn has to wait for them.
func (m *Machine) unwindFor(v *messages.Verdict, repair bool) bool {
	if len(m.state.Open.Groups) == 0 {
		return false
	}
	if v.Decision == messages.Halt && !repair {
		m.flight.undo.ending = m.endingFor(v.Code)
	}
	if !m.undoes() {
		return false
	}
	if m.phase != Draining {
		m.to(Draining)
		m.stopTimer(ClockDrain)
	}
	m.unwind()
	return m.unwinds()
}

// endingFor is the cause for which a run that ends HALT rolls its groups back; "" if it does
// not.
func (m *Machine) endingFor(code messages.Code) string {
	switch {
	case code == messages.ErrCancelled && m.cfg.Rollback.Cancel:
		return messages.CauseCancel
	case code != messages.ErrCancelled && m.cfg.Rollback.Halt:
		return messages.CauseHalt
	}
	return ""
}

// unwinds reports whether a turn that is being stopped waits for its rollbacks. When nothing
// but the answer of a person is missing, the turn is suspended.
func (m *Machine) unwinds() bool {
	if !m.undoes() {
		m.stopTimer(ClockRollback)
		return false
	}
	switch asked, _ := m.undoWaits(); {
	case !asked:
	case m.flight.othersOpen(): // the turn is suspended when what it left running has ended
		m.stopTimer(ClockRollback)
	default:
		m.flight.undo.drains = true
		m.suspend()
	}
	return true
}

// othersOpen reports whether an action that is no compensation has no end.
func (f *flight) othersOpen() bool {
	return slices.ContainsFunc(f.calls, func(c call) bool { return !c.phase.ended() && c.undo.of == nil })
}

// undoWaits reports whether a compensation waits for a person, or is busy otherwise.
func (m *Machine) undoWaits() (asked, busy bool) {
	c := m.compensating()
	if c == nil {
		return false, false
	}
	a := m.state.Open.Turn.action(c.ID)
	asked = c.phase == callDeclared && a != nil && a.Question != nil && a.Question.Answer == ""
	return asked, !asked
}

// unwindLate begins or goes on with the rollbacks of a turn that a restart found open and that
// is about to be ended. It reports whether the turn has to wait for them.
func (m *Machine) unwindLate() bool {
	f, run := m.flight, m.state.Open
	if len(run.Groups) == 0 {
		return false
	}
	t := run.Turn
	asked, answered := false, false
	for _, a := range t.Actions { // compensations alone are left open
		c := call{Call: messages.Call{ID: a.ID, Name: a.Name, Args: a.Args, Class: a.Class}}
		if c.tries.attempt, c.tries.retries = a.Attempt, a.Retries; a.Started {
			c.phase = callInterrupted
		}
		f.declare(m.restoreUndo(a.Compensates, a.CompensatesTurn, c))
		asked = asked || a.Question != nil && a.Question.Answer == ""
		answered = answered || a.Question != nil && a.Question.Answer != ""
	}
	f.undo.late = true
	m.lateEnding()
	switch {
	case !m.undoes():
		return false
	case t.Suspended && (asked || answered):
		f.undo.drains = true
		m.to(Suspended)
		if answered {
			m.resume(messages.RestoreApproval)
		} else {
			m.expire()
		}
		return true
	case t.Unwinds >= MaxSettlements:
		m.unwindNow()
		return false
	}
	if m.awaken() {
		m.to(Draining)
		m.drained()
	}
	return true
}

// lateEnding says for which cause the run ends after an abandoned turn, if it does (ended).
func (m *Machine) lateEnding() {
	run := m.state.Open
	if run.Turn.Breach != nil || run.Cancel != nil || m.cfg.Recovery == messages.RecoverHalt || run.Settlements+1 >= MaxSettlements {
		m.flight.undo.ending = m.endingFor(m.broken().Code)
	}
}

// unwindNow gives up on the compensations that too many restarts have kept from running.
func (m *Machine) unwindNow() {
	for i := range m.state.Open.Groups {
		if g := &m.state.Open.Groups[i]; g.Cause == "" {
			if cause := m.causeOf(g); cause != "" {
				m.persist(&messages.RollbackBegin{Group: g.ID, Cause: cause}, 0)
			}
		}
	}
	m.forsake(reasonCrash)
	for i := range m.state.Open.Groups {
		if g := &m.state.Open.Groups[i]; g.Cause != "" && !g.Done {
			m.do(RolledBack{Outcome: g.outcome()})
		}
	}
}
