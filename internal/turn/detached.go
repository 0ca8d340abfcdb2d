package turn

import (
	"slices"
	"strconv"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Detached actions are those in mode fire_and_forget whose turn is decided. They belong to the
// session: nothing waits for them, they may end after the run, and each gets its one terminal
// record like any other action (docs/spec/streaming.md §4).

// Detached is a detached action as the journal has it.
type Detached struct {
	OpenAction
	Run  int64 `json:"run"`
	Turn int64 `json:"turn"`
}

// detached is a detached action as the running process has it.
type detached struct {
	Ident
	run  int64
	call call
}

// Detached returns the number of detached actions: they keep an idle session awake.
func (m *Machine) Detached() int { return len(m.detached) }

// Runs reports whether an action of the turn in flight, or a detached one, has begun and not
// ended.
func (m *Machine) Runs(id Ident, action string) bool {
	if m.flight != nil && m.flight.Ident == id {
		c := m.call(action)
		return c != nil && c.phase.began()
	}
	return slices.ContainsFunc(m.detached, func(d detached) bool { return d.Ident == id && d.call.ID == action })
}

// stays reports whether an open action outlives its turn.
func (c *call) stays() bool {
	return !c.phase.ended() && c.phase.began() && c.mode == messages.ModeFireAndForget
}

// unbegun reports whether an action has neither ended nor can be left to the session: also a
// fire_and_forget action must begin before its turn is decided.
func (f *flight) unbegun() bool {
	return slices.ContainsFunc(f.calls, func(c call) bool { return !c.phase.ended() && !c.stays() })
}

// detach moves the actions that outlive the turn which is being decided to the session.
func (m *Machine) detach() {
	f := m.flight
	for i := range f.calls {
		c := &f.calls[i]
		if !c.stays() {
			continue
		}
		if c.phase == callPaused { // nothing runs, and no turn is left to begin another attempt
			end := &ActionEnded{State: messages.ActionFailed, Failure: c.tries.failed.Failure, Reason: c.tries.failure, Result: c.tries.failed.Result, ErrorCode: c.tries.failed.ErrorCode, MS: c.tries.failed.MS}
			if c.tries.doubt {
				end.State = messages.ActionUnknown
			}
			m.endCall(c, end)
			continue
		}
		m.detached = append(m.detached, detached{Ident: f.Ident, run: m.state.Open.Run, call: *c})
	}
}

// detachedEnded takes the end of a detached action. It reports whether in is of one.
func (m *Machine) detachedEnded(in *ActionEnded) bool {
	i := slices.IndexFunc(m.detached, func(d detached) bool { return d.Ident == in.Ident && d.call.ID == in.ID })
	if i < 0 {
		return false
	}
	d := m.detached[i]
	if !d.call.runs(in.Attempt) {
		m.dropped++
		return true
	}
	_, a := m.beganAs(in.Ident, in.ID)
	m.detached = slices.Delete(m.detached, i, i+1)
	for j := range in.Audits {
		a := in.Audits[j]
		m.append(d.run, d.Turn, &a, LazyHold)
	}
	if in.State != messages.ActionOK && !in.Last {
		next := d.call.node.policy.After(plan.Attempt{
			N: plan.MaxRetries + 1, Failure: failureOf(in), Reason: clean(in.Reason), Class: d.call.Class, Now: m.now,
		})
		in.State, in.Reason = next.State.Ended(), next.Reason
	}
	in.State = a.stands(in.State, failureOf(in))
	hold := LazyHold
	if d.call.Class.Durable() {
		hold = EndedHold
	}
	end := &messages.ActionEnded{ID: in.ID, State: in.State, Reason: clean(in.Reason), Result: clean(in.Result), ErrorCode: in.ErrorCode, MS: m.took(&d.call, in), Children: append(d.call.tries.children, in.Children...)}
	used := d.call.budget.used.Plus(in.Used)
	end.Tokens, end.CostUSD, end.Actions = used.Tokens, used.CostUSD, used.Actions
	if end.State == messages.ActionUnknown && end.Result == "" {
		end.Result = quote(messages.UnknownText)
	}
	m.append(d.run, d.Turn, end, hold)
	m.vacated(&d, end)
	return true
}

// vacated tells the plan that a detached action has ended and gives its slot back.
func (m *Machine) vacated(d *detached, end *messages.ActionEnded) {
	g := m.graph
	if g == nil {
		return
	}
	if g.run != d.run || d.call.node.ref.Generation == 0 {
		g.todo = g.plan.Vacate(g.todo)
	} else if state, ok := plan.StateOf(end.State); ok {
		var err error
		if g.todo, err = g.plan.Ended(g.todo, d.call.node.ref, plan.Outcome{State: state, Reason: end.Reason, Value: end.Result}); err != nil && m.err == nil {
			m.err = messages.Errorf(messages.ErrCrash, "%s", err.Error())
		}
	}
	if m.flight == nil || m.flight.doc == nil {
		return
	}
	if used := (messages.Budget{Actions: end.Actions, CostUSD: end.CostUSD, Tokens: end.Tokens}); used != (messages.Budget{}) && m.acts(m.flight) && m.overBudget() {
		return
	}
	m.proceed()
}

// settleDetached takes over the detached actions of a dead process: those that may be repeated
// run again under the same key, the others end as unknown (docs/spec/design.md §7).
func (m *Machine) settleDetached() {
	for _, d := range append([]Detached(nil), m.state.Detached...) {
		if slices.ContainsFunc(m.detached, func(l detached) bool { return l.Turn == d.Turn && l.call.ID == d.ID }) {
			continue
		}
		if d.Class == messages.Effectful {
			m.append(d.Run, d.Turn, &messages.ActionEnded{
				ID: d.ID, State: messages.ActionUnknown, Reason: reasonCrash, Result: quote(messages.UnknownText), ErrorCode: CodeToolFailed, Children: d.Children,
			}, LazyHold)
			continue
		}
		// No secret: it tells the answer of this attempt from that of another.
		l := detached{Ident: Ident{Turn: d.Turn, Nonce: "attempt " + strconv.FormatInt(d.Attempt+1, 10)}, run: d.Run, call: call{
			Call: messages.Call{ID: d.ID, Name: d.Name, Args: d.Args, Class: d.Class}, typ: d.Type, mode: messages.ModeFireAndForget,
			phase: callRunning, key: m.keyOf(d.Turn, d.ID, d.Args), budget: share{reserved: d.Reserved},
			tries: attempts{attempt: d.Attempt + 1, retries: d.Retries, children: slices.Clip(d.Children)},
		}}
		hold := LazyHold
		if d.Class.Durable() {
			hold = 0
		}
		r := m.append(d.Run, d.Turn, m.startRecord(&l.call, reasonCrash), hold)
		start := &StartAction{
			Ident: l.Ident, ID: d.ID, Type: d.Type, Name: d.Name, Detached: true, Args: d.Args, Class: d.Class,
			Key: l.call.key, Attempt: l.call.tries.attempt, Retries: d.Retries, Deadline: l.call.node.policy.Deadline(m.now, m.now.Add(plan.MaxTimeout)),
		}
		if d.Class.Durable() {
			start.After = r.Seq
		}
		if d.Used != nil {
			l.call.budget.used = *d.Used
		}
		start.Budget, _ = l.call.left()
		m.do(start)
		m.detached = append(m.detached, l)
	}
}

// Of the fold.

// leave moves the detached actions of a decided turn to the session.
func (s *State) leave(t *OpenTurn) {
	for _, a := range t.Actions {
		if a.Detached && a.Started {
			s.Detached = append(s.Detached, Detached{OpenAction: a, Run: s.Open.Run, Turn: t.Index})
		}
	}
}

// applyDetached folds a record of a detached action.
func (s *State) applyDetached(r *messages.Record) {
	find := func(id string) int {
		return slices.IndexFunc(s.Detached, func(d Detached) bool { return d.Turn == r.Turn && d.ID == id })
	}
	switch b := r.Body.(type) {
	case *messages.ActionStarted:
		if i := find(b.ID); i >= 0 {
			s.Detached[i].Attempt = b.Attempt
		}
	case *messages.RelicChanged:
		var a *OpenAction
		if i := find(b.ID); i >= 0 {
			a = &s.Detached[i].OpenAction
		}
		s.changeRelic(a, b, r.TS)
	case *messages.ActionEnded:
		if i := find(b.ID); i >= 0 {
			if s.Open != nil && s.Open.Run == s.Detached[i].Run {
				s.Open.spend(b)
				s.Open.did(&s.Detached[i].OpenAction, b.State)
			}
			if s.Detached = slices.Delete(s.Detached, i, i+1); len(s.Detached) == 0 {
				s.Detached = nil
			}
		}
	}
}
