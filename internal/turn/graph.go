package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// The actions of a reply that is acted on while it streams. Package plan knows which action
// waits for which; here its effects become records and effects, and the ends of actions are
// given to the plan.

// graph is the plan of the run in flight.
type graph struct {
	plan       *plan.Plan
	run        int64
	generation int
	todo       []plan.Effect // in order; done by runPlan alone
	held       int           // how much of plan.Held was reported
	env        *environment
}

// planTurn opens the next generation of the run's plan.
func (m *Machine) planTurn() (fault string) {
	if !m.cfg.Judge.Traits().InStreamActions {
		return ""
	}
	run := m.state.Open.Run
	if m.graph == nil || m.graph.run != run {
		if fault = m.newGraph(); fault != "" {
			return fault
		}
	}
	if err := m.graph.plan.Begin(); err != nil {
		return err.Error()
	}
	m.graph.generation++
	m.graph.env.variables = m.state.asOfBegin()
	m.flight.doc = &document{}
	return ""
}

// newGraph makes the plan of the open run. After a restart it takes the actions of earlier
// turns from their records.
func (m *Machine) newGraph() (fault string) {
	env := &environment{Environment: names{m}}
	g := &graph{run: m.state.Open.Run, env: env, plan: plan.New(plan.Options{
		Actions: m.cfg.Limits.calls(), Parallel: m.cfg.Limits.Parallel, Environment: env, Variables: variables{m},
		Verbatim: m.cfg.Judge.Traits().Verbatim, Dotted: m.cfg.dotted(), Sources: m.cfg.sources(), Recorded: m.onRecord, Left: m.left,
	})}
	// A settlement may have ended the run of m.past and begun this one.
	past := slices.DeleteFunc(m.past, func(r *messages.Record) bool { return r.Run != g.run })
	m.graph, m.past = g, nil
	// The end of a detached action stands among the records of a later turn.
	slices.SortStableFunc(past, func(a, b *messages.Record) int { return cmp.Compare(a.Turn, b.Turn) })
	for len(past) > 0 {
		turn := past[0].Turn
		n := 1
		for n < len(past) && past[n].Turn == turn {
			n++
		}
		if err := g.relive(past[:n]); err != nil {
			return err.Error()
		}
		past = past[n:]
	}
	g.plan.Occupy(len(m.detached)) // last, because relived actions that ended need slots only for a moment
	return ""
}

// relive gives the plan an earlier turn of the run from its records: its ids and how each
// action ended. No action of it waits any more.
func (g *graph) relive(recs []*messages.Record) error {
	ends, started := map[string]*messages.ActionEnded{}, map[string]bool{}
	var texts map[string][]byte // of streamed results
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			started[b.ID] = true
			delete(texts, b.ID)
		case *messages.ActionChunk:
			if texts == nil {
				texts = map[string][]byte{}
			}
			texts[b.ID] = append(texts[b.ID], b.Bytes...)
		case *messages.ActionEnded:
			ends[b.ID] = b
		}
	}
	var effects []plan.Effect
	begun := false
	past := pastOf(recs)
	for _, r := range past.ordered(recs) {
		if _, ok := r.Body.(*messages.TurnBegin); ok && !begun {
			begun = true
			if err := g.plan.Begin(); err != nil {
				return err
			}
			g.generation++
		}
		if fault, ok := r.Body.(*messages.ParseFault); ok && begun && refuses(fault.Reason, fault.ID) {
			var err error
			if effects, err = g.plan.Reject(effects[:0], fault.ID); err != nil {
				return err
			}
		}
		if b, ok := r.Body.(*messages.BlockBegin); ok && begun {
			g.plan.Past(past.view(b))
			for _, v := range past.patterns(b) {
				g.plan.PastEach(v)
			}
		}
		b, ok := r.Body.(*messages.ActionDeclared)
		if !ok || !begun || b.Compensates != "" {
			continue
		}
		if b.Of != "" { // known to its loop alone
			v := plan.View{Action: messages.Action{ID: b.ID, Type: b.Type, Name: b.Name, Mode: messages.ModeAsync, OnError: b.OnError}, State: plan.Cancelled}
			if end := ends[b.ID]; end != nil {
				v.Reason, v.Value = end.Reason, end.Result
				v.State, _ = plan.StateOf(end.State)
			}
			g.plan.Past(v)
			continue
		}
		mode := messages.ModeAsync
		if b.Mode == messages.ModeFireAndForget {
			mode = b.Mode
		}
		ref := plan.Ref{Generation: g.generation, ID: b.ID}
		var err error
		if effects, err = g.plan.Declare(effects[:0], &messages.Action{
			ID: b.ID, Type: b.Type, Name: b.Name, Mode: mode, OutputKey: b.OutputKey, OnError: b.OnError, Stream: b.Stream,
		}); err != nil {
			return err
		}
		v, _ := g.plan.Action(ref)
		if v.State.Terminal() {
			continue // over the limit, as it was then
		}
		if text := texts[b.ID]; len(text) > 0 {
			if err = g.plan.Chunk(ref, text); err != nil {
				return err
			}
		}
		out := plan.Outcome{State: plan.Cancelled} // like skipped; Failed could be tolerated by on_error
		if mode == messages.ModeFireAndForget && started[b.ID] {
			// Its value cannot be referred to. If it runs again it holds a slot: Occupy.
			out.State = plan.OK
		} else if end := ends[b.ID]; end != nil {
			out.Reason = end.Reason
			if state, ok := plan.StateOf(end.State); ok && state != plan.Skipped {
				out.State, out.Value = state, end.Result
			}
		}
		if v.State == plan.Dispatched && (started[b.ID] || out.State == plan.OK || out.State == plan.Unknown) {
			if effects, err = g.plan.Started(effects[:0], ref); err != nil {
				return err
			}
		}
		if effects, err = g.plan.Ended(effects[:0], ref, out); err != nil {
			return err
		}
		if end := ends[b.ID]; end != nil && end.State == messages.ActionSkipped {
			g.plan.PastSkipped(ref)
		}
		if b.Type == messages.TypeInternal && b.Name == messages.InternalClearContext && out.State == plan.OK {
			g.plan.Forget()
		}
	}
	if !begun {
		return nil
	}
	_, err := g.plan.End(effects[:0])
	return err
}

// declareAction takes an action at its place in the document.
func (m *Machine) declareAction(a *messages.Action) (fault string) {
	a = m.inOrder(a)
	c, fault := m.recordAction(a, "")
	if fault != "" {
		return fault
	}
	effects, err := m.graph.plan.Declare(nil, a)
	if err != nil {
		return err.Error()
	}
	if fault = m.recallStream(c); fault != "" {
		return fault
	}
	if c.phase.ended() { // before the turn was restored
		effects = m.graph.plan.Over(effects, c.node.ref)
	}
	m.graph.todo = append(m.graph.todo, effects...)
	if !c.phase.ended() {
		m.tooManyActions()
	}
	return ""
}

// inOrder returns an action as the plan is given it.
func (m *Machine) inOrder(a *messages.Action) *messages.Action {
	if a.Type == messages.TypeInternal { // always as if sync, never retried (docs/spec/streaming.md §7.4)
		own := *a
		own.Mode, own.Retry = messages.ModeSync, 0
		a = &own
	}
	if m.cfg.Timeout != nil && m.cfg.Judge.Traits().Untimed {
		if most := m.cfg.Timeout(a.Type, a.Name); most > 0 {
			timed := *a
			timed.Timeout = most
			a = &timed
		}
	}
	return a
}

// recordAction records an action, unless the journal has it already, and adds its call, which
// the caller must not keep beyond the next one. of is the iteration that the action is an
// instance of; "" for none.
func (m *Machine) recordAction(a *messages.Action, of string) (c *call, fault string) {
	f := m.flight
	d := f.doc
	class, found := m.target(a.Type, a.Name)
	c = f.any(a.ID)
	switch {
	case c != nil && c.known:
		c.known = false
		d.known.actions--
	case c != nil:
		return nil, "decoder: the reply has two actions " + a.ID
	case d.known.actions > 0 && len(f.restore.blocks) == 0:
		return nil, "decoder: an action that was recorded under another name"
	default:
		body := &messages.ActionDeclared{
			Args: a.Args, ArgsDigest: sha256.Sum256([]byte(a.Args)), Block: a.Block, Class: class, DependsOn: a.DependsOn,
			ID: a.ID, InThought: a.InThought, Mode: a.Mode, Name: a.Name, Of: of, OutputKey: a.OutputKey, Template: cmp.Or(a.Template, m.cfg.templateOf(a.Type, a.Name)), Thought: int64(a.Thought), Type: a.Type,
		}
		if a.OnError != messages.OnErrorFail {
			body.OnError = a.OnError
		}
		if a.Show != messages.ShowUser {
			body.Show = a.Show
		}
		body.Group, body.Rollback = a.Group, a.Rollback
		body.Stream = a.Stream
		m.persist(body, LazyHold)
		c = f.declare(call{Call: messages.Call{ID: a.ID, Name: a.Name, Args: a.Args, Class: class}})
	}
	c.node.ref = plan.Ref{Generation: m.graph.generation, ID: a.ID}
	c.typ, c.mode, c.node.found = a.Type, a.Mode, found
	m.grouped(c, a)
	m.declareStream(c, a)
	c.node.policy = plan.PolicyOf(a, m.cfg.RetryDelay)
	return c, ""
}

// tooManyActions ends a turn whose run has more actions than it may have.
func (m *Machine) tooManyActions() {
	if limit := m.limits().Actions; limit > 0 && m.state.Open.Actions > limit {
		m.overrun("actions", limit, "a run")
	}
}

// refuses reports whether a fault of the reply rejects the block of an action that others can
// name. A fault of a feed has an id as well, and #N is no id that a model writes.
func refuses(reason, id string) bool {
	return id != "" && id[0] != '#' && reason != unclosedFeed
}

const unclosedFeed = "unclosed_feed"

// reject tells the plan that a block was not accepted.
func (m *Machine) reject(id string) (fault string) {
	effects, err := m.graph.plan.Reject(nil, id)
	if err != nil {
		return err.Error()
	}
	m.graph.todo = append(m.graph.todo, effects...)
	return ""
}

// runPlan does the plan's effects, and those that they cause, and goes on with rollbacks.
func (m *Machine) runPlan() (fault string) {
	f := m.flight
	for {
		if fault = m.runEffects(); fault != "" || !m.acts(f) || len(m.state.Open.Groups) == 0 {
			return fault
		}
		if m.unwind(); len(m.graph.todo) == 0 {
			return ""
		}
	}
}

// runEffects does the plan's effects, and those that they cause.
func (m *Machine) runEffects() (fault string) {
	g := m.graph
	f := m.flight
	for len(g.todo) > 0 && fault == "" && m.flight == f {
		if f.restore.blocks != nil {
			m.endedFirst()
		}
		e := g.todo[0]
		g.todo = g.todo[1:]
		c := f.any(e.Ref.ID)
		switch {
		case e.Kind == plan.Fetch:
			if m.acts(f) {
				m.wantFeed(e.Feed)
			}
		case e.Kind >= plan.Judge:
			fault = m.blockEffect(&e)
		case c == nil || c.node.ref != e.Ref:
			// A detached action of an earlier turn of the run: nothing waits for it.
		case e.Kind == plan.End:
			m.planEnded(c, &e)
		case !m.acts(f):
			// The turn is being stopped: nothing begins, and stopCalls stops the rest.
		case e.Kind == plan.Dispatch && !c.phase.ended() && g.stops(e.Ref):
			// Its block was stopped by an end that came since: it does not begin.
		case e.Kind == plan.Dispatch:
			fault = m.dispatch(c, e.Parameters)
		case e.Kind == plan.Stop:
			m.giveUp(c, e.Reason)
		}
	}
	if len(g.todo) == 0 {
		g.todo = nil
	}
	if n := g.plan.Held(); n > g.held {
		m.do(Reached{Limit: messages.LimitParallel, N: n - g.held})
		g.held = n
	}
	return fault
}

// endedFirst brings an action that had ended before the turn was restored before one that is to
// begin: its end can stop the block that both are in.
func (m *Machine) endedFirst() {
	todo := m.graph.todo
	known := func(e plan.Effect) bool {
		c := m.flight.any(e.Ref.ID)
		return e.Kind == plan.Dispatch && c != nil && c.node.ref == e.Ref && c.phase.ended()
	}
	if todo[0].Kind != plan.Dispatch || known(todo[0]) {
		return
	}
	if i := slices.IndexFunc(todo, known); i > 0 {
		first := todo[i]
		copy(todo[1:i+1], todo[:i])
		todo[0] = first
	}
}

// stops reports whether an effect that is still to be done stops an action.
func (g *graph) stops(ref plan.Ref) bool {
	return slices.ContainsFunc(g.todo, func(e plan.Effect) bool { return e.Kind == plan.Stop && e.Ref == ref })
}

// acts reports whether turn f is still in flight and not being stopped.
func (m *Machine) acts(f *flight) bool {
	return m.flight == f && (m.phase == Generating || m.phase == Running)
}

// dispatch takes an action that the plan hands out to the gate, or begins or ends it.
func (m *Machine) dispatch(c *call, params string) (fault string) {
	if c.phase.ended() { // before the turn was restored
		return m.tellPlan(c, true)
	}
	var q Question
	a := m.state.Open.Turn.action(c.ID)
	if a != nil && a.Question != nil {
		q = *a.Question
	}
	switch {
	case c.phase.began(): // it begins again with its recorded arguments
	case q.ID != "": // the arguments that were approved are used
		c.Args = cmp.Or(q.Args, a.Args)
	default:
		c.Args = params
	}
	digest := messages.Digest(sha256.Sum256([]byte(c.Args)))
	c.key = m.actionKey(c.ID, digest)
	switch {
	case !c.node.found:
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: plan.NoTarget.String(), Result: quote(m.missing(c))})
	case m.refused(c) != "":
		m.endCall(c, &ActionEnded{State: messages.ActionFailed, Reason: m.refused(c), ErrorCode: CodeDenied})
	case m.unfit(c):
	case q.ID != "" && q.Answer == "":
		return m.park(c)
	case c.phase.began() || q.ID != "" || c.gate.answer != "":
		m.settleCall(c)
	default:
		m.move(c, callJudging)
		m.do(&AskGate{Ident: m.flight.Ident, ID: c.ID, Type: c.typ, Name: c.Name, Args: c.Args, ArgsDigest: digest, Class: c.Class, State: m.state.Open.State, Keep: m.state.Keep})
	}
	return ""
}

// missing returns a hint about an unknown target, such as similar names.
func (m *Machine) missing(c *call) string {
	if m.cfg.Missing == nil || !m.cfg.saysMissing() {
		return ""
	}
	return clean(m.cfg.Missing(c.typ, c.Name))
}

// refused returns the reason for which the rules refuse an action; "" if they do not.
func (m *Machine) refused(c *call) (reason string) {
	if m.cfg.Refuse == nil {
		return ""
	}
	return m.cfg.Refuse(c.typ, c.Name)
}

// planEnded records an end that the plan itself decided.
func (m *Machine) planEnded(c *call, e *plan.Effect) {
	if c.phase.ended() {
		return // recorded before the turn was restored
	}
	if e.Reason == plan.ReasonQuota {
		m.do(Reached{Limit: messages.LimitReplyActions, N: 1})
	}
	result := ""
	if e.Place != "" {
		result = quote("at " + e.Place)
	}
	state := e.State.Ended()
	if c.phase.began() && c.Class.Durable() { // in the life before, and nothing has settled it since
		state = messages.ActionUnknown
	}
	m.endCallBy(c, &ActionEnded{State: state, Reason: e.Reason, Result: result}, true)
}

// tellPlan gives the end of an action to the plan. dispatched says that the plan does not know
// yet that the action began.
func (m *Machine) tellPlan(c *call, dispatched bool) (fault string) {
	g := m.graph
	state, ok := plan.StateOf(c.State)
	if !ok {
		return "an action ended in no state: " + string(c.State)
	}
	var err error
	if dispatched && (c.phase.began() || state == plan.OK || state == plan.Unknown) {
		if g.todo, err = g.plan.Started(g.todo, c.node.ref); err != nil {
			return err.Error()
		}
	}
	if c.typ == messages.TypeInternal && state == plan.OK {
		if c.Name == messages.InternalClearContext {
			g.plan.Forget()
		}
		g.env.variables = g.env.variables.Apply(c.Name, c.Args)
	}
	g.todo, err = g.plan.Ended(g.todo, c.node.ref, plan.Outcome{State: state, Reason: c.Reason, Value: c.Value})
	if err != nil {
		return err.Error()
	}
	return ""
}

// park gives the slot of an action to others while the action waits for an approval.
func (m *Machine) park(c *call) (fault string) {
	var err error
	if m.graph.todo, err = m.graph.plan.Park(m.graph.todo, c.node.ref); err != nil {
		return err.Error()
	}
	return ""
}

// tried decides what follows a failed attempt of a planned action. again reports whether
// another attempt follows; else in has the end to record.
func (m *Machine) tried(c *call, in *ActionEnded) (again bool) {
	until := m.deadline()
	if c.stopped != "" {
		return false
	}
	next := c.node.policy.After(plan.Attempt{
		N: int(c.tries.attempt) - c.tries.resumed, Failure: failureOf(in), Reason: in.Reason, Class: c.Class, Key: c.key, Now: m.now, Until: until,
	})
	if _, none := c.left(); next.Retry && none {
		next.Retry, next.Reason, next.State = false, reasonQuota, plan.Failed
		if c.Class.Durable() && !failureOf(in).Answered() { // it may have happened
			next.State = plan.Unknown
		}
	}
	if next.Retry {
		m.move(c, callPaused)
		c.tries.failure, c.tries.failed, c.tries.retries = next.Reason, in, c.tries.retries+1
		c.tries.doubt = c.tries.doubt || c.Class.Durable() && !failureOf(in).Answered()
		if c.tries.failure == "" {
			c.tries.failure = reasonOf(in)
		}
		m.do(&Schedule{Ident: m.flight.Ident, ID: c.ID, Attempt: c.tries.attempt + 1, At: next.At})
		return true
	}
	in.State, in.Reason = next.State.Ended(), next.Reason
	return false
}

// reasonOf returns the reason of a failed attempt, by its kind if the executor gave none.
func reasonOf(in *ActionEnded) string {
	if in.Reason != "" {
		return clean(in.Reason)
	}
	return failureOf(in).String()
}

// failureOf returns how an attempt failed.
func failureOf(in *ActionEnded) plan.Failure {
	switch {
	case in.Failure != 0:
		return in.Failure
	case in.State == messages.ActionCancelled && in.Reason == reasonLost, in.State == messages.ActionUnknown:
		return plan.Lost
	case in.State == messages.ActionCancelled:
		return plan.Stopped
	}
	return plan.Erred
}

// dueAgain begins the next attempt of an action.
func (m *Machine) dueAgain(in *Due) {
	if !m.current(in.Ident) {
		return
	}
	c := m.call(in.ID)
	if c == nil || c.phase != callPaused || c.tries.attempt+1 != in.Attempt || (m.phase != Running && m.phase != Generating) {
		m.dropped++
		return
	}
	m.begin(c)
}

// Pause returns the time between the current attempt of an open action and the next one; ok is
// false if the reply has no such action.
func (m *Machine) Pause(id string) (d time.Duration, ok bool) {
	if m.flight == nil {
		return 0, false
	}
	c := m.call(id)
	if c == nil || c.node.ref.Generation == 0 {
		return 0, false
	}
	return c.node.policy.Pause(int(c.tries.attempt), c.key), true
}

// giveUp stops an action because the plan asks for it: a group of it is stopped.
func (m *Machine) giveUp(c *call, reason string) {
	if c.phase.ended() {
		return
	}
	if reason != reasonCancelled {
		c.stopped = reason
	}
	if !c.phase.began() || c.phase == callPaused || c.phase == callInterrupted { // nothing runs
		end := &ActionEnded{State: messages.ActionCancelled, Reason: reason}
		if c.phase == callInterrupted && c.Class.Durable() {
			end.State, end.ErrorCode = messages.ActionUnknown, CodeToolFailed
		}
		m.endCall(c, end)
		return
	}
	m.do(&CancelAction{Ident: m.flight.Ident, ID: c.ID})
}

// untilOf returns the deadline of an attempt that begins now.
func (m *Machine) untilOf(c *call) time.Time {
	at := m.deadline()
	if c.undo.of != nil && m.phase == Draining { // the other clocks may be over
		at = m.flight.undo.until
	}
	if c.node.ref.Generation == 0 && c.undo.of == nil {
		return at
	}
	return c.node.policy.Deadline(m.now, at)
}
