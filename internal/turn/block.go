package turn

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Control blocks of a reply (docs/spec/extensions.md §0). Nothing of a block begins before the
// closer of the outermost one: until then what stands in it is collected here. Then the plan
// has the block. It says when a block can be decided, when its children may begin, and when a
// response in it may be shown; here that becomes records.

// blocks is what a document knows of its control blocks.
type blocks struct {
	open *opening // the outermost block that is being read; nil for none
	// says are the responses in blocks that are neither shown nor dropped, in document order.
	says     []*blockResponse
	count    int            // of responses in blocks, so far
	speaking *blockResponse // the one that is open
	// final says that a response in a block ended the reply; told that the model was told of
	// what follows it.
	final, told bool
}

// opening is an outermost block whose closer is not read.
type opening struct {
	root     *plan.Tree
	nest     []level
	bytes    int
	response *blockResponse // the response that is being read
	says     []*blockResponse
	broken   string
}

// level is a block that is open, and its branch.
type level struct {
	tree   *plan.Tree
	branch int
}

// blockResponse is a response in a block with its events, or a rollback.
type blockResponse struct {
	n      int
	events []messages.Event
}

// knownBlock is what a restored turn has on record of a block.
type knownBlock struct {
	decided *messages.BlockDecided
	at      time.Time // of decided
	ended   bool
}

// structured reports whether an event belongs to a control block that is collected.
func (m *Machine) structured(ev *messages.Event) bool {
	o := m.flight.doc.blocks.open
	switch ev.Kind {
	case messages.EventBlock:
		return true
	case messages.EventBranch, messages.EventBlockEnd, messages.EventAction:
		return o != nil
	case messages.EventRollback:
		return o != nil
	case messages.EventUnitBegin, messages.EventUnitText, messages.EventUnitEnd:
		return o != nil && ev.UnitKind == messages.ResponseUnit
	}
	return false
}

// collect takes an event of a control block.
func (m *Machine) collect(ev *messages.Event) (fault string) {
	bs := &m.flight.doc.blocks
	o := bs.open
	if ev.Kind == messages.EventBlock {
		t := &plan.Tree{Block: *ev.Block}
		if t.Kind == kindIf {
			t.Branches = []plan.Branch{{Name: plan.BranchThen, Test: t.Test}}
		}
		if o == nil {
			o = &opening{root: t}
			bs.open = o
		} else {
			o.add(plan.Child{Block: t}, ev)
		}
		o.nest = append(o.nest, level{tree: t})
		return ""
	}
	if len(o.nest) == 0 {
		return "decoder: a block that is open without its opener"
	}
	top := &o.nest[len(o.nest)-1]
	switch ev.Kind {
	case messages.EventBranch:
		if o.bytes += 64 + len(ev.Block.Test); o.broken == plan.ReasonTooMuch {
			break
		}
		top.tree.Branches = append(top.tree.Branches, plan.Branch{Name: ev.Block.Branch, Test: ev.Block.Test})
		top.branch++
	case messages.EventAction:
		if m.flight.any(ev.Action.ID) != nil && !m.flight.any(ev.Action.ID).known {
			return "decoder: the reply has two actions " + ev.Action.ID
		}
		o.add(plan.Child{Action: m.inOrder(ev.Action)}, ev)
	case messages.EventUnitBegin, messages.EventUnitText, messages.EventUnitEnd, messages.EventRollback:
		m.collectSaid(o, ev)
	case messages.EventBlockEnd:
		if !ev.Block.OK && o.broken == "" {
			o.broken = plan.ReasonMalformed
		}
		o.nest = o.nest[:len(o.nest)-1]
		if len(o.nest) == 0 {
			bs.open = nil
			return m.declareBlock(o)
		}
	}
	if o.bytes > m.cfg.Limits.gateBuffer() && o.broken == "" {
		o.broken = plan.ReasonTooMuch
	}
	return ""
}

// add adds a child to the innermost block that is open, unless too much is held.
func (o *opening) add(child plan.Child, ev *messages.Event) {
	if o.broken == plan.ReasonTooMuch {
		return
	}
	o.bytes += weight(ev)
	top := &o.nest[len(o.nest)-1]
	child.Branch = top.branch
	top.tree.Children = append(top.tree.Children, child)
}

// collectSaid keeps a response in a block, or a rollback, until its branch comes to it.
func (m *Machine) collectSaid(o *opening, ev *messages.Event) {
	bs := &m.flight.doc.blocks
	if ev.Kind == messages.EventUnitBegin || ev.Kind == messages.EventRollback {
		bs.count++
		o.response = &blockResponse{n: bs.count}
		o.says = append(o.says, o.response)
		o.add(plan.Child{Say: bs.count}, ev)
	}
	if o.response == nil || o.broken == plan.ReasonTooMuch {
		return
	}
	own := *ev
	own.Text = bytes.Clone(ev.Text)
	o.response.events = append(o.response.events, own)
	o.bytes += len(ev.Text)
}

// rejectedIn keeps that an action in a block was not accepted: a child that failed.
func (d *document) rejectedIn(ev *messages.Event) {
	if o := d.blocks.open; o != nil && ev.Fault.ID != "" && ev.Fault.Reason != unclosedFeed {
		o.add(plan.Child{Rejected: ev.Fault.ID}, ev)
	}
}

// kindIf and kindParallel are kinds of blocks.
const (
	kindIf       = "if"
	kindParallel = "parallel"
)

// declareBlock gives an outermost block to the plan.
func (m *Machine) declareBlock(o *opening) (fault string) {
	o.root.Broken = o.broken
	f := m.flight
	if f.blocks += blocksOf(o.root); f.blocks > MaxBlocks {
		m.overrun("blocks", MaxBlocks, "control blocks a reply")
		return ""
	}
	m.beginBlock(o.root, "")
	m.flight.doc.blocks.says = append(m.flight.doc.blocks.says, o.says...)
	effects, err := m.graph.plan.DeclareBlock(nil, o.root)
	if err != nil {
		return err.Error()
	}
	m.graph.todo = append(m.graph.todo, effects...)
	return ""
}

// beginBlock records a block, unless the journal has it already. of is the iteration that it is
// in; "" for none.
func (m *Machine) beginBlock(t *plan.Tree, of string) {
	f := m.flight
	if f.restore.blocks[t.ID] != nil {
		return
	}
	body := &messages.BlockBegin{
		ID: t.ID, BlockKind: t.Kind, Block: t.Within, DependsOn: t.DependsOn, InThought: t.InThought, OutputKey: t.OutputKey,
		Test: t.Test, Max: int64(t.Max), Fail: t.Fail, TimeoutMS: t.Timeout.Milliseconds(), Of: of,
	}
	if t.Kind == kindForeach {
		body.As, body.List, body.Parallel = t.As, t.List, int64(t.Parallel)
		patternsOf(body, t)
	}
	m.persist(body, LazyHold)
}

// blockEffect does an effect of the plan that is about a block.
func (m *Machine) blockEffect(e *plan.Effect) (fault string) {
	if e.Ref.Generation != m.graph.generation {
		return ""
	}
	switch e.Kind {
	case plan.Judge:
		if m.acts(m.flight) {
			return m.decideBlock(e.Ref)
		}
	case plan.Open:
		return m.openBlock(e.Ref)
	case plan.EndBlock:
		m.endBlock(e)
	}
	return ""
}

// decideBlock decides a block, as its record says or by the values that there are.
func (m *Machine) decideBlock(ref plan.Ref) (fault string) {
	f, p := m.flight, m.graph.plan
	t := p.Tree(ref)
	if t == nil {
		return "a block is decided that was never read"
	}
	var d plan.Decision
	began := m.now
	if t.Kind == kindForeach {
		d = m.decideLoop(t, ref)
	} else if k := f.restore.blocks[ref.ID]; k != nil && k.decided != nil {
		d.Branch, began = k.decided.Branch, k.at
	} else if d = p.Judge(ref); !d.State.Terminal() {
		body := &messages.BlockDecided{ID: ref.ID, Branch: d.Branch}
		if t.Kind == kindIf {
			body.ValueDigest = sha256.Sum256([]byte(d.Basis))
		}
		hold := LazyHold
		if m.effectful(t, d.Branch) {
			hold = 0
		}
		m.persist(body, hold)
	}
	if t.Timeout > 0 {
		f.deadlines = append(f.deadlines, deadline{ref, began.Add(t.Timeout)})
		m.blockClock()
	}
	var err error
	if m.graph.todo, err = p.Decide(m.graph.todo, ref, d); err != nil {
		return err.Error()
	}
	return ""
}

// effectful reports whether some action in a branch of a block has effects.
func (m *Machine) effectful(t *plan.Tree, branch string) bool {
	taken := slices.IndexFunc(t.Branches, func(b plan.Branch) bool { return b.Name == branch })
	return slices.ContainsFunc(t.Children, func(c plan.Child) bool {
		switch {
		case t.Kind == kindIf && c.Branch != taken:
		case c.Action != nil:
			class, _ := m.target(c.Action.Type, c.Action.Name)
			return class.Durable()
		case c.Block != nil:
			return slices.ContainsFunc(c.Block.Branches, func(b plan.Branch) bool { return m.effectful(c.Block, b.Name) }) || m.effectful(c.Block, "")
		}
		return false
	})
}

// openBlock declares the children of a block.
func (m *Machine) openBlock(ref plan.Ref) (fault string) {
	t := m.graph.plan.Tree(ref)
	if t == nil {
		return "a block begins that was never read"
	}
	of := m.graph.plan.Iteration(ref)
	var over []plan.Ref
	for i := range t.Children {
		c := &t.Children[i]
		switch {
		case c.Block != nil:
			m.beginBlock(c.Block, of)
		case c.Action != nil:
			own, fault := m.recordAction(c.Action, of)
			if fault != "" {
				return fault
			}
			if fault = m.recallStream(own); fault != "" {
				return fault
			}
			if own.phase.ended() {
				over = append(over, own.node.ref)
			}
		}
	}
	for _, r := range over {
		m.graph.todo = m.graph.plan.Over(m.graph.todo, r)
	}
	if len(over) < actionsOf(t) && m.acts(m.flight) {
		m.tooManyActions()
	}
	return ""
}

// blocksOf counts a block and those in it.
func blocksOf(t *plan.Tree) int {
	n := 1
	for i := range t.Children {
		if c := t.Children[i].Block; c != nil {
			n += blocksOf(c)
		}
	}
	return n
}

// actionsOf counts the actions that stand directly in a block.
func actionsOf(t *plan.Tree) (n int) {
	for i := range t.Children {
		if t.Children[i].Action != nil {
			n++
		}
	}
	return n
}

// endBlock records the end of a block.
func (m *Machine) endBlock(e *plan.Effect) {
	f := m.flight
	if n := len(f.deadlines); n > 0 {
		f.deadlines = slices.DeleteFunc(f.deadlines, func(d deadline) bool { return d.ref == e.Ref })
		if len(f.deadlines) < n {
			m.blockClock()
		}
	}
	if k := f.restore.blocks[e.Ref.ID]; k != nil && k.ended {
		return
	}
	m.persist(&messages.BlockEnded{ID: e.Ref.ID, BlockKind: m.state.Open.Turn.BlockKinds[e.Ref.ID], State: e.State.Ended(), Reason: e.Reason, OK: int64(e.OK), Failed: int64(e.Failed)}, LazyHold)
}

// leaveBlocks ends the blocks that a turn which is decided leaves open.
func (m *Machine) leaveBlocks(reason string) {
	t := m.state.Open.Turn
	for _, id := range slices.Backward(slices.Clone(t.Blocks)) {
		m.persist(&messages.BlockEnded{ID: id, BlockKind: t.BlockKinds[id], State: messages.ActionCancelled, Reason: reason}, LazyHold)
	}
}

// deadline is when the time of a group is over.
type deadline struct {
	ref plan.Ref
	at  time.Time
}

// blockClock sets the clock for the first group whose time is over.
func (m *Machine) blockClock() {
	first := time.Time{}
	for _, d := range m.flight.deadlines {
		if first.IsZero() || d.at.Before(first) {
			first = d.at
		}
	}
	switch {
	case first.IsZero():
		m.stopTimer(ClockBlock)
	default:
		m.setTimer(ClockBlock, first)
	}
}

// blocksDue stops the groups whose time is over.
func (m *Machine) blocksDue() {
	f := m.flight
	var due []plan.Ref
	f.deadlines = slices.DeleteFunc(f.deadlines, func(d deadline) bool {
		over := !m.now.Add(sameInstant).Before(d.at)
		if over {
			due = append(due, d.ref)
		}
		return over
	})
	for _, ref := range due {
		m.graph.todo = m.graph.plan.Expire(m.graph.todo, ref)
	}
	m.blockClock()
	m.proceed()
}

// speak shows the first response of a block that may be shown.
func (m *Machine) speak() (fault string) {
	f := m.flight
	d := f.doc
	for d.blocks.speaking == nil && d.text == nil && f.parsed.open < 0 && len(d.blocks.says) > 0 {
		d.blocks.says = slices.DeleteFunc(d.blocks.says, func(s *blockResponse) bool { return m.graph.plan.SayState(s.n).Terminal() })
		next := m.sayable()
		if next < 0 {
			return ""
		}
		s := d.blocks.says[next]
		d.blocks.says = slices.Delete(d.blocks.says, next, next+1)
		if fault = m.say(s); fault != "" || !m.acts(f) {
			return fault
		}
		if fault = m.runPlan(); fault != "" || !m.acts(f) {
			return fault
		}
	}
	return ""
}

// sayable is the index of the first response of a block that may be shown; −1 for none.
func (m *Machine) sayable() int {
	return slices.IndexFunc(m.flight.doc.blocks.says, func(s *blockResponse) bool {
		return m.graph.plan.SayState(s.n) == plan.Dispatched && !m.graph.plan.Blocked(s.n)
	})
}

// say shows a response of a block.
func (m *Machine) say(s *blockResponse) (fault string) {
	f := m.flight
	d := f.doc
	d.blocks.speaking = s
	if len(s.events) == 1 && s.events[0].Kind == messages.EventRollback {
		if fault = m.act(&s.events[0]); fault == "" {
			m.spoken(false)
		}
		return fault
	}
	if len(s.events) == 0 || s.events[len(s.events)-1].Kind != messages.EventUnitEnd {
		return "decoder: a response in a block that has no end"
	}
	for i := range s.events {
		ev := &s.events[i]
		if ev.Kind == messages.EventUnitBegin {
			if fault = f.begin(ev); fault != "" || m.tooManyUnits() {
				return fault
			}
			if !m.cfg.Judge.Traits().Verbatim {
				d.text, d.quotes = m.graph.plan.TextIn(s.n), false
			}
			continue
		}
		if fault = m.take(ev); fault != "" || !m.acts(f) {
			return fault
		}
	}
	return ""
}

// spoken tells the plan that the open response of a block has ended.
func (m *Machine) spoken(final bool) {
	d := m.flight.doc
	s := d.blocks.speaking
	if s == nil {
		return
	}
	d.blocks.speaking = nil
	if final {
		d.blocks.final = true
		d.blocks.says = nil
	}
	m.graph.todo = m.graph.plan.Said(m.graph.todo, s.n, final)
}

// behindFinal reports whether an event stands behind a final response in a block, and has no
// effect. The model is told once.
func (m *Machine) behindFinal(ev *messages.Event) bool {
	bs := &m.flight.doc.blocks
	if !bs.final || bs.speaking != nil {
		return false
	}
	switch ev.Kind {
	case messages.EventStop, messages.EventCut, messages.EventLint, messages.EventParseError:
		return false
	}
	if !bs.told {
		bs.told = true
		m.complain(&messages.ParseError{
			Code: messages.ErrDialect, Reason: plan.ReasonAfterFinal, Offset: ev.Offset,
			Detail: plan.ReasonAfterFinal + ": the final response ended the reply; what follows was ignored",
		})
	}
	return true
}
