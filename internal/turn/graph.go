package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// The actions of a reply that is acted on while it streams. plan knows who waits for
// whom; here its effects become records and effects, and what becomes of an action
// is told to the plan.

// graph is the plan of the run in flight.
type graph struct {
	plan       *plan.Plan
	run        int64
	generation int
	todo       []plan.Effect // in order; done by runPlan alone
	held       int           // of plan.Held: what was told
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

// newGraph makes the plan of the open run. What earlier turns of it did comes from
// their records, after a restart.
func (m *Machine) newGraph() (fault string) {
	env := &environment{Environment: names{m}}
	g := &graph{run: m.state.Open.Run, env: env, plan: plan.New(plan.Options{
		Actions: m.cfg.Limits.calls(), Parallel: m.cfg.Limits.Parallel, Environment: env, Variables: variables{m},
		Verbatim: m.cfg.Judge.Traits().Verbatim, Dotted: m.cfg.dotted(), Sources: m.cfg.sources(),
	})}
	// A settlement may have ended the run they are of, and begun this one.
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
	g.plan.Occupy(len(m.detached)) // now: what is over needs no slot of those that are left
	return ""
}

// relive takes an earlier turn of the run from its records: who had which id and
// what came of it. Nothing of it waits for anything any more.
func (g *graph) relive(recs []*messages.Record) error {
	ends, started := map[string]*messages.ActionEnded{}, map[string]bool{}
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			started[b.ID] = true
		case *messages.ActionEnded:
			ends[b.ID] = b
		}
	}
	var effects []plan.Effect
	begun := false
	for _, r := range recs {
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
		b, ok := r.Body.(*messages.ActionDeclared)
		if !ok || !begun {
			continue
		}
		mode := messages.ModeAsync
		if b.Mode == messages.ModeFireAndForget {
			mode = b.Mode
		}
		ref := plan.Ref{Generation: g.generation, ID: b.ID}
		var err error
		if effects, err = g.plan.Declare(effects[:0], &messages.Action{
			ID: b.ID, Type: b.Type, Name: b.Name, Mode: mode, OutputKey: b.OutputKey, OnError: b.OnError,
		}); err != nil {
			return err
		}
		v, _ := g.plan.Action(ref)
		if v.State.Terminal() {
			continue // it was one too many then as well
		}
		out := plan.Outcome{State: plan.Cancelled} // as good as skipped: not failed, which might be tolerated
		if mode == messages.ModeFireAndForget && started[b.ID] {
			// Nobody reads what it gave. If it runs again it holds a slot: Occupy.
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
	f := m.flight
	d := f.doc
	if a.Type == messages.TypeInternal { // always as if sync, never retried (docs/spec/streaming.md §7.4)
		own := *a
		own.Mode, own.Retry = messages.ModeSync, 0
		a = &own
	}
	class, found := messages.Effectful, false
	if m.cfg.Target != nil {
		class, found = m.cfg.Target(a.Type, a.Name)
	}
	class = classOf(class)
	switch {
	case d.known.actions > 0:
		d.known.actions--
	case f.any(a.ID) != nil:
		return "decoder: the reply has two actions " + a.ID
	default:
		body := &messages.ActionDeclared{
			Args: a.Args, ArgsDigest: sha256.Sum256([]byte(a.Args)), Class: class, DependsOn: a.DependsOn,
			ID: a.ID, InThought: a.InThought, Mode: a.Mode, Name: a.Name, OutputKey: a.OutputKey, Type: a.Type,
		}
		if a.OnError != messages.OnErrorFail {
			body.OnError = a.OnError
		}
		if a.Show != messages.ShowUser {
			body.Show = a.Show
		}
		m.persist(body, LazyHold)
		f.declare(call{Call: messages.Call{ID: a.ID, Name: a.Name, Args: a.Args, Class: class}})
	}
	c := f.any(a.ID)
	if c == nil {
		return "decoder: an action that was recorded under another name"
	}
	c.node.ref = plan.Ref{Generation: m.graph.generation, ID: a.ID}
	c.typ, c.mode, c.node.found = a.Type, a.Mode, found
	if m.cfg.Timeout != nil && m.cfg.Judge.Traits().Untimed {
		if own := m.cfg.Timeout(a.Type, a.Name); own > 0 {
			timed := *a
			timed.Timeout = own
			a = &timed
		}
	}
	c.node.policy = plan.PolicyOf(a, m.cfg.RetryDelay)
	effects, err := m.graph.plan.Declare(nil, a)
	if err != nil {
		return err.Error()
	}
	if c.phase.ended() { // before the turn was restored
		effects = m.graph.plan.Over(effects, c.node.ref)
	}
	m.graph.todo = append(m.graph.todo, effects...)
	if limit := m.limits().Actions; limit > 0 && m.state.Open.Actions > limit && !c.phase.ended() {
		m.overrun("actions", limit, "a run")
	}
	return ""
}

// refuses reports whether a fault of the reply is the end of an action's block that others
// can name: that of a feed bears an id as well, and #N is written by nobody.
func refuses(reason, id string) bool {
	return id != "" && id[0] != '#' && reason != unclosedFeed
}

const unclosedFeed = "unclosed_feed"

// reject tells the plan of a block that was not accepted.
func (m *Machine) reject(id string) (fault string) {
	effects, err := m.graph.plan.Reject(nil, id)
	if err != nil {
		return err.Error()
	}
	m.graph.todo = append(m.graph.todo, effects...)
	return ""
}

// runPlan does the plan's effects, and what they cause in turn.
func (m *Machine) runPlan() (fault string) {
	g := m.graph
	f := m.flight
	for len(g.todo) > 0 && fault == "" && m.flight == f {
		e := g.todo[0]
		g.todo = g.todo[1:]
		c := f.any(e.Ref.ID)
		switch {
		case e.Kind == plan.Fetch:
			if m.acts(f) {
				m.wantFeed(e.Feed)
			}
		case c == nil || c.node.ref != e.Ref:
			// Of an earlier turn of the run: detached, and nobody waits for it.
		case e.Kind == plan.End:
			m.planEnded(c, &e)
		case !m.acts(f):
			// The turn is being stopped: nothing begins, and everything is told to stop.
		case e.Kind == plan.Dispatch:
			fault = m.dispatch(c, e.Parameters)
		case e.Kind == plan.Stop:
			m.giveUp(c)
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

// acts tells that the turn is still in flight, and nothing stops it.
func (m *Machine) acts(f *flight) bool {
	return m.flight == f && (m.phase == Generating || m.phase == Running)
}

// dispatch judges and begins an action whose turn has come.
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
	case c.phase.began(): // it begins again with what it began with
	case q.ID != "": // and what was asked about is what is done
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

// missing says what there is instead of a target that nobody knows.
func (m *Machine) missing(c *call) string {
	if m.cfg.Missing == nil || !m.cfg.saysMissing() {
		return ""
	}
	return clean(m.cfg.Missing(c.typ, c.Name))
}

// refused says why the rules do not let an action be done.
func (m *Machine) refused(c *call) (reason string) {
	if m.cfg.Refuse == nil {
		return ""
	}
	return m.cfg.Refuse(c.typ, c.Name)
}

// planEnded records an end that the plan itself has decided.
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

// tellPlan says how an action ended. dispatched tells that the plan does not know
// yet that it began.
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

// park gives an action's slot to others while somebody is asked about it.
func (m *Machine) park(c *call) (fault string) {
	var err error
	if m.graph.todo, err = m.graph.plan.Park(m.graph.todo, c.node.ref); err != nil {
		return err.Error()
	}
	return ""
}

// tried decides what follows a failed attempt of a planned action; again tells that
// another one follows.
func (m *Machine) tried(c *call, in *ActionEnded) (again bool) {
	until := m.deadline()
	next := c.node.policy.After(plan.Attempt{
		N: int(c.tries.attempt), Failure: failureOf(in), Reason: in.Reason, Class: c.Class, Key: c.key, Now: m.now, Until: until,
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

func reasonOf(in *ActionEnded) string {
	if in.Reason != "" {
		return clean(in.Reason)
	}
	return failureOf(in).String()
}

// failureOf reads how an attempt failed.
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

// dueAgain begins the next attempt.
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

// Pause is the time between the attempt of an action of a reply that runs and the next one;
// ok is false where there is no such action.
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

// giveUp stops a running action on the plan's behalf.
func (m *Machine) giveUp(c *call) {
	if c.phase.ended() || !c.phase.began() {
		return
	}
	if c.phase == callPaused { // between two attempts: nothing runs
		m.endCall(c, &ActionEnded{State: messages.ActionCancelled, Reason: reasonCancelled})
		return
	}
	m.do(&CancelAction{Ident: m.flight.Ident, ID: c.ID})
}

// untilOf is when an attempt of an action that begins now is over.
func (m *Machine) untilOf(c *call) time.Time {
	at := m.deadline()
	if c.node.ref.Generation == 0 {
		return at
	}
	return c.node.policy.Deadline(m.now, at)
}
