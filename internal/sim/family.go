package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
)

// Child sessions: an action of type agent has a session of its own run for it, under its
// key. What its attempt does next is the driver's to say; the checks read the records of
// both.

// agents are what actions of type agent name, and what each may use of a run's budget.
var agents = map[string]messages.Budget{"scout": {Tokens: 150}, "digger": {}}

// spends is what an action uses of its run's budget.
func spends(t messages.ActionType, name string) (most messages.Budget, ok bool) {
	most, ok = agents[name]
	return most, ok && t == messages.TypeAgent
}

// delegate is an action of type agent.
func (a *author) delegate(b *strings.Builder) {
	a.head(b, "agent")
	fmt.Fprintf(b, `{"name":%q,"parameters":{"message":%q}`, a.one("scout", "digger"), a.one("go", "look", "$k"))
	a.tail(b)
}

// child gives the session of an action, with its users' side; it is made when it is first
// asked for.
func (w *world) child(key messages.SessionKey, link messages.ParentLink) *client {
	for _, c := range w.clients {
		if c.sid == key.SID() {
			return c
		}
	}
	c := w.newClient(len(w.clients))
	c.key, c.sid, c.parent = key, key.SID(), &link
	w.clients = append(w.clients, c)
	for _, h := range w.hosts {
		h.shells = append(h.shells, nil)
	}
	return c
}

func (w *world) named(sid string) *client {
	for _, c := range w.clients {
		if c.sid == sid {
			return c
		}
	}
	return nil
}

// delegation is an attempt at an action of type agent.
type delegation struct {
	plan    driver.Delegation
	child   *client
	at      *shell // that was asked last
	waits   bool   // for an answer of at
	refused error
	run     int64 // of the child, 0 until it is accepted
	back    bool  // the child takes back what was shown of its answer
}

// mayDelegate reports whether an attempt at an agent has something to do.
func (a *attempt) mayDelegate() bool {
	d := &a.delegation
	switch {
	case d.child == nil || d.refused != nil:
		return true
	case d.waits:
		return d.at != nil && d.at.dead
	case d.run == 0, d.child.history.over[d.run] != 0, a.s.host.w.hastens:
		return true
	}
	return !d.plan.Stopping() && (a.cancelled || a.late()) || d.back && a.mayRetract()
}

// mayRetract reports whether the child may take back what was shown of its answer: the run in it
// goes on, and the next attempt joins it.
func (a *attempt) mayRetract() bool {
	return a.start.Stream && !a.cancelled && !a.late() && !a.plan.Stopping() && !driver.ShowsWhole(a.start.Attempt, a.start.Retries)
}

// delegates takes an attempt at an agent a step further.
func (a *attempt) delegates(finish func(state messages.ActionState, reason, result string) turn.Input, stopped func() turn.Input) turn.Input {
	s, d := a.s, &a.delegation
	switch {
	case d.child == nil:
		if d.plan.Begin(a.start.Attempt, a.cancelled || a.late()) == driver.Cease {
			return stopped()
		}
		parent := driver.Parent{Key: s.client.key, SID: s.client.sid, Inc: s.inc.String(), Link: s.client.parent}
		key, link, refusal := parent.Child(a.start.Turn, a.start.ID, a.start.Name, a.start.Key, a.start.Retries)
		if refusal != driver.Granted {
			a.deed.confirmed = true
			return finish(messages.ActionFailed, string(messages.ErrDenied), `"too deep"`)
		}
		d.child = s.host.w.child(key, link)
		if *d.child.parent != link {
			s.host.w.violated("effect", "session %s is the child of %+v, and %+v asks it", key.SID(), *d.child.parent, link)
		}
		a.submit()
		return nil
	case d.waits || d.refused != nil: // the session broke, or it is busy with its end
		if d.waits, d.refused = false, nil; d.plan.Broke() == driver.Lose {
			return finish(messages.ActionUnknown, "lost", "")
		}
		a.submit()
		return nil
	case d.child.history.over[d.run] != 0:
		return a.result(finish, stopped)
	case d.back && a.mayRetract():
		a.over = true
		return &turn.ActionEnded{Ident: a.start.Ident, ID: a.start.ID, Attempt: a.start.Attempt, State: messages.ActionFailed, Reason: turn.ReasonTakenBack}
	case s.host.w.hastens:
		a.links = []messages.ChildLink{{SID: d.child.sid, Incarnation: d.child.incarnation().String(), Run: d.run}}
		return finish(messages.ActionOK, "", `"soon"`)
	}
	d.plan.Over()
	a.door(&asked{cancel: true, by: a}, func(handle uint64) turn.Input {
		return &turn.Cancel{Handle: handle, By: "action " + a.start.ID + " of " + s.client.sid, Run: d.run}
	})
	return nil
}

// submit begins the child's run, or joins it.
func (a *attempt) submit() {
	in := messages.Input{Text: "for " + a.start.Args, User: "u", Policy: messages.Enqueue, Key: a.start.Key}
	if a.start.Budget != (messages.Budget{}) {
		b := a.start.Budget
		in.Budget = &b
	}
	in, err := a.delegation.child.dialect.input(in)
	if err != nil {
		a.s.host.w.violated("step", "the dialect refuses a text: %v", err)
	}
	a.door(&asked{in: in, by: a}, func(handle uint64) turn.Input { return &turn.Submit{Handle: handle, Input: in} })
}

// door asks the child session, on the host of its parent.
func (a *attempt) door(ask *asked, in func(handle uint64) turn.Input) {
	d, h := &a.delegation, a.s.host
	c := d.child
	d.at, d.waits = nil, true
	h.rouse(c, func(s *shell, err error) {
		if h.w.cluster != nil && (a.s.dead || a.over) {
			return
		}
		if s == nil {
			d.waits, d.refused = false, err
			return
		}
		d.at = s
		c.last++
		c.asked[c.last] = ask
		handle := c.last
		h.w.log.say("action %s of %s asks session %d on host %d", a.start.ID, a.s.client.sid, c.n, s.host.n)
		if s.machine.State().Seq == 0 && !s.dead {
			s.step(&turn.Open{Name: a.start.Name, Parent: c.parent})
		}
		if !s.dead {
			s.step(in(handle))
		}
		s.endTurn()
	})
}

// answered takes the answer of the child's door.
func (d *delegation) answered(ask *asked, e *turn.Answer) {
	d.waits = false
	switch {
	case ask.cancel: // refused, it has ended
	case e.Err != nil:
		d.refused = e.Err
	default:
		d.run, d.back = e.Run, ask.by.mayRetract() && ask.by.s.host.w.happens(500)
		d.plan.Accepted()
	}
}

// result is what the child's run gave.
func (a *attempt) result(finish func(state messages.ActionState, reason, result string) turn.Input, stopped func() turn.Input) turn.Input {
	d := &a.delegation
	h := d.child.history
	a.used = *h.spent[d.run]
	a.links = []messages.ChildLink{{SID: d.child.sid, Incarnation: d.child.incarnation().String(), Run: d.run}}
	a.deed.confirmed = h.unknown[d.run] == 0 // what it did is in its journal
	end := h.ends[d.run]
	switch d.plan.Ended(end.Decision, h.unknown[d.run]) {
	case driver.Answered:
		return finish(messages.ActionOK, "", fmt.Sprintf(`"told %d"`, d.child.n))
	case driver.Unknown:
		return finish(messages.ActionUnknown, "lost", "")
	case driver.Ceased:
		return stopped()
	default:
		return finish(messages.ActionFailed, string(end.Reason), `"no"`)
	}
}

func (c *client) incarnation() messages.Incarnation {
	head, err := c.w.disk.Head(bg, c.sid)
	if err != nil {
		c.w.violated("forgotten", "session %d has a run and no head: %v", c.n, err)
	}
	return head.Inc
}

// endChildren cancels what an action of a turn that is over has left in its children.
func (h *host) endChildren(s *shell, e *turn.EndChildren) {
	w := h.w
	for _, c := range w.clients {
		p := c.parent
		if p == nil || !driver.Ends(e, s.client.sid, s.inc.String(), p) {
			continue
		}
		if e.SID == "" {
			w.violated("effect", "session %s is told to end, and action %s has none", c.sid, e.ID)
		}
		if head, err := w.disk.Head(bg, c.sid); err != nil || !head.Open && head.Queued == 0 {
			continue
		}
		h.errands = append(h.errands, func() {
			h.rouse(c, func(t *shell, _ error) {
				if t != nil && !t.dead {
					t.step(&turn.Cancel{By: driver.Unawaited(p)})
					t.endTurn()
				}
			})
		})
	}
}

// parts checks that a turn which a restart has ended stops the children of its actions.
func (s *shell) parts(effects []turn.Effect) {
	stops := func(turnIndex int64, id string) bool {
		return slices.ContainsFunc(effects, func(e turn.Effect) bool {
			end, ok := e.(*turn.EndChildren)
			return ok && end.Turn == turnIndex && end.ID == id
		})
	}
	for _, e := range effects {
		p, ok := e.(*turn.Persist)
		if !ok {
			continue
		}
		if b, ok := p.Record.Body.(*messages.TurnDecided); !ok || !b.Resumed {
			continue
		}
		for sid, of := range s.audit.children {
			if c := s.audit.earlier[of.id]; of.turn == p.Record.Turn && c != nil && c.reason == "crash" && !stops(of.turn, of.id) {
				s.host.w.violated("family", "turn %d was ended by a restart, and session %s of its action %s goes on", of.turn, sid, of.id)
			}
		}
	}
}

// kin is what an audit knows of a session's parent and children, and of what runs spent.
type kin struct {
	parent   *messages.ParentLink
	children map[string]born // by SID
	spent    map[int64]*messages.Budget
	atEnd    map[int64]messages.Budget // of these, what was spent when the run ended
	ends     map[int64]*messages.RunEnd
	unknown  map[int64]int // actions by run
}

// born is the attempt that a child session is of.
type born struct {
	turn int64
	id   string
	key  string
}

func newKin() kin {
	return kin{children: map[string]born{}, spent: map[int64]*messages.Budget{}, atEnd: map[int64]messages.Budget{}, ends: map[int64]*messages.RunEnd{}, unknown: map[int64]int{}}
}

// pays counts what a record says was used.
func (a *audit) pays(r *messages.Record) {
	if r.Run == 0 {
		return
	}
	s := a.spent[r.Run]
	if s == nil {
		s = &messages.Budget{}
		a.spent[r.Run] = s
	}
	switch b := r.Body.(type) {
	case *messages.ModelReply:
		s.Tokens += b.Usage.Input + b.Usage.Output
		s.CostUSD += b.CostUSD
	case *messages.ActionDeclared:
		s.Actions++
	case *messages.ActionEnded:
		s.Tokens, s.CostUSD, s.Actions = s.Tokens+b.Tokens, s.CostUSD+b.CostUSD, s.Actions+b.Actions
		if b.State == messages.ActionUnknown {
			a.unknown[r.Run]++
		}
	case *messages.RunEnd:
		a.atEnd[r.Run], a.ends[r.Run] = *s, b
	}
}

// linked takes what a record says of the action's runs in child sessions: none of those
// that an earlier record named is forgotten, whatever crashed meanwhile.
func (c *act) linked(links []messages.ChildLink) error {
	if n := len(c.links); len(links) < n || !slices.Equal(links[:n], c.links) {
		return fmt.Errorf("action %s had run %v, and now %v", c.id, c.links, links)
	}
	c.links = links
	return nil
}

// ran takes the end of an action: what it names of child sessions is all of them.
func (c *act) ran(b *messages.ActionEnded) error {
	if err := c.linked(b.Children); err != nil {
		return err
	}
	of := func(l messages.ChildLink) bool { return l.SID == c.child }
	if b.State == messages.ActionOK && c.child != "" && !slices.ContainsFunc(b.Children, of) {
		return fmt.Errorf("action %s is ok, and its child %s is not among %v", c.id, c.child, b.Children)
	}
	return nil
}

// least is the smaller of two bounds, of which 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// bounds are what the open run may use; 0 is no bound.
func (a *audit) bounds() messages.Budget {
	most := messages.Budget{Actions: a.rules.Limits.Actions, CostUSD: a.rules.Limits.CostMicroUSD, Tokens: a.rules.Limits.Tokens}
	for _, seq := range a.served.inputs {
		if b := a.written[seq].Budget; b != nil {
			most = messages.Budget{Actions: least(most.Actions, b.Actions), CostUSD: least(most.CostUSD, b.CostUSD), Tokens: least(most.Tokens, b.Tokens)}
		}
	}
	return most
}

// bears takes an attempt that may use something of the run's budget: what is reserved for
// it is there, beside all that is reserved, and its child belongs to it alone.
func (a *audit) bears(r *messages.Record, c *act, b *messages.ActionStarted) error {
	if b.Child != "" {
		was, known := a.children[b.Child]
		if now := (born{r.Turn, b.ID, b.Key}); known && was != now {
			return fmt.Errorf("session %s is the child of action %s of turn %d, and now of %s of %d", b.Child, was.id, was.turn, now.id, now.turn)
		} else if c.typ != messages.TypeAgent {
			return fmt.Errorf("action %s has a child and is %s", b.ID, c.typ)
		} else {
			a.children[b.Child] = now
		}
	} else if c.typ == messages.TypeAgent {
		return fmt.Errorf("action %s is an agent and has no child", b.ID)
	}
	if _, ok := spends(c.typ, c.name); ok != (b.Reserved != nil) {
		return fmt.Errorf("action %s begins, and what is reserved for it is %v", b.ID, b.Reserved)
	}
	if b.Reserved == nil || c.reserved != nil {
		return nil
	}
	held := *b.Reserved
	for _, o := range a.calls {
		if o != c && !o.ended && o.reserved != nil {
			held = held.Plus(*o.reserved)
		}
	}
	for _, o := range a.left {
		if o.run == a.run && o.reserved != nil {
			held = held.Plus(*o.reserved)
		}
	}
	c.reserved = b.Reserved
	most, spent := a.bounds(), a.spent[a.run]
	if most.Tokens > 0 && (b.Reserved.Tokens <= 0 || spent.Tokens+held.Tokens > most.Tokens) || most.CostUSD > 0 && (b.Reserved.CostUSD <= 0 || spent.CostUSD+held.CostUSD > most.CostUSD) {
		return fmt.Errorf("action %s begins with %+v, all that is held is %+v, spent %+v of %+v", b.ID, *b.Reserved, held, *spent, most)
	}
	return nil
}

// lacksBudget checks that an action that could not begin uses something that is bounded.
func (a *audit) lacksBudget(c *act) error {
	if _, ok := spends(c.typ, c.name); !ok || a.bounds() == (messages.Budget{}) {
		return fmt.Errorf("action %s lacks tokens that have no bound", c.id)
	}
	return nil
}

// affords checks that a run that goes on has not used more than it may.
func (a *audit) affords() error {
	most := a.bounds()
	if s := a.spent[a.run]; most.Tokens > 0 && s.Tokens > most.Tokens || most.CostUSD > 0 && s.CostUSD > most.CostUSD {
		return fmt.Errorf("it goes on, and has spent %+v of %+v", *s, most)
	}
	return nil
}

// family checks a record on the disk against those of the parent and of the children.
func (w *world) family(c *client, r *messages.Record) error {
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		if c.parent == nil {
			if b.Parent != nil {
				return errors.New("a child without a parent")
			}
			return nil
		}
		if b.Parent == nil || *b.Parent != *c.parent || b.Parent.Depth > driver.MaxAgentDepth {
			return fmt.Errorf("its parent is %+v, it was made for %+v", b.Parent, c.parent)
		}
		if _, known := w.named(c.parent.SID).history.children[c.sid]; !known {
			return fmt.Errorf("it begins before the record of its action, of %s", c.parent.SID)
		}
	case *messages.Input:
		if c.parent == nil {
			return nil
		}
		if born := w.named(c.parent.SID).history.children[c.sid]; r.Run != 1 || b.Key != born.key {
			return fmt.Errorf("run %d of a child under key %s, its action has %s", r.Run, b.Key, born.key)
		}
	case *messages.Control:
		return w.wanted(c, b)
	case *messages.ActionEnded:
		if b.State == messages.ActionUnknown {
			return nil
		}
		var least, most int64
		for _, l := range b.Children {
			child := w.named(l.SID)
			if child == nil || child.history.over[l.Run] == 0 {
				return fmt.Errorf("action %s has ended, and run %d of its child %s has not", b.ID, l.Run, l.SID)
			}
			least += child.history.atEnd[l.Run].Tokens
		}
		for sid, of := range c.history.children { // also those that an earlier life knew
			if child := w.named(sid); of.turn == r.Turn && of.id == b.ID && child != nil && child.history.spent[1] != nil {
				most += child.history.spent[1].Tokens
			}
		}
		if b.Tokens < least || b.Tokens > most {
			return fmt.Errorf("action %s has used %d tokens, its children %d to %d", b.ID, b.Tokens, least, most)
		}
	}
	return nil
}

// meddle has a user do something with the child session of an agent: its questions are
// for a person, and it may be cancelled by its name.
func (c *client) meddle(h *host) {
	w := c.w
	s := h.wake(c)
	c.last++
	a := &asked{}
	if w.happens(w.weather.cancel / 4) {
		a.cancel = true
		c.asked[c.last] = a
		w.log.say("client %d cancels on host %d", c.n, h.n)
		s.step(&turn.Cancel{Handle: c.last, By: "user"})
		s.endTurn()
		return
	}
	c.approve(s, a, c.last)
}
