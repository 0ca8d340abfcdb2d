package plan

import (
	"slices"

	"github.com/seed14be6753/stile/internal/expr"
	"github.com/seed14be6753/stile/messages"
)

// Control blocks (docs/spec/extensions.md §0–§2). A block is two nodes. Its begin waits for what
// the block depends on and is decided by the caller (Judge, Decide); its children wait for the
// begin. Its end waits for the children, has the block's id, state and value, and is what
// others depend on. A response in a block is a node too, so that what follows it in its branch
// waits until it was shown (Say, Said).
//
//	begin ◀── child ◀── end        "◀──": is waited for
//	  ▲         ▲
//	  │         └── later siblings, of a sync child, a response, or a block with one of these
//	  └── nested begin ◀── … ◀── nested end ◀── end
//
// A group (parallel) also gives its children places, at most max at once. A place that is needed
// by what has one is given beyond max, but only when nothing else goes on.

// The kinds of blocks.
const (
	kindIf       = "if"
	kindParallel = "parallel"
	failFast     = "fast"
)

// Reasons of ends that blocks bring about (docs/spec/extensions.md).
const (
	ReasonMalformed      = "malformed"             // a block that is not whole, and its children
	ReasonTooMuch        = "too_large"             // a block of which too much was held
	ReasonBranchNotTaken = messages.BranchNotTaken // no failure
	ReasonBadCondition   = "bad_condition"
	ReasonChildFailed    = "child_failed" // a colon and the child's id follow
	ReasonTimeout        = "timeout"
	ReasonAfterFinal     = "after_final" // behind a final response in a branch
	reasonGroup          = "group "      // the id follows
)

// The branches of an if.
const (
	BranchThen = "then"
	BranchNone = "none"
)

// Tree is a control block as it was read, whole, with what stands in it. It is not changed.
type Tree struct {
	messages.Block
	Branches []Branch // of an if, in order; the first is then
	Children []Child
	// Broken is the reason for which nothing of an outermost block runs; "" for none.
	Broken string
}

// Branch is a branch of an if. Else has no test.
type Branch struct{ Name, Test string }

// Child is what stands in a block: an action, a block, a response, or an action that was not
// accepted.
type Child struct {
	Branch   int // of an if: index into Branches
	Action   *messages.Action
	Block    *Tree
	Say      int    // of a response: above 0, and its own in the generation
	Rejected string // id of an action that was not accepted
}

// sync reports whether what follows a part in its branch waits for it.
func (t *Child) sync() bool {
	switch {
	case t.Action != nil:
		return t.Action.Mode == "" || t.Action.Mode == messages.ModeSync || t.Action.Type == messages.TypeInternal
	case t.Block != nil:
		return t.Block.holds()
	}
	return t.Say > 0
}

// Gates reports whether what follows an outermost block waits for its end: a parallel, or a
// block with a sync action anywhere inside.
func (t *Tree) Gates() bool {
	if t.Kind == kindParallel {
		return true
	}
	return slices.ContainsFunc(t.Children, func(part Child) bool {
		return part.Action != nil && part.sync() || part.Block != nil && part.Block.Gates()
	})
}

// holds reports whether what follows the block in a branch waits for its end.
func (t *Tree) holds() bool {
	return t.Gates() || slices.ContainsFunc(t.Children, func(part Child) bool { return part.Say > 0 || part.Block != nil && part.Block.holds() })
}

// role is what a node stands for.
type role uint8

const (
	roleAction role = iota
	roleBegin       // of a block
	roleEnd         // of a block
	roleSay         // of a response in a block
	roleEach        // of what stands in a loop: all its instances
)

// box says where a node stands among blocks. A node outside of blocks has none.
type box struct {
	own    *block // whose begin or end it is
	parent *block // the innermost block around; nil for none
	placed bool   // it has one of its group's places
	// doom is why a child is skipped when its block is decided and the child's branch taken.
	doom string
	say  int // of a response
}

// block is a control block of the plan.
type block struct {
	tree       *Tree
	begin, end int32
	parent     *block
	root       *block
	kids       []int32 // by part: an action, the begin of a block, a response; none of a rejected action
	each       []int32 // of a loop: what stands in it
	items      []string
	index      int   // of an iteration
	last       int32 // behind the nodes of an iteration
	opened     bool  // its children are known to the caller
	decided    bool
	branch     string
	taken      int // index into tree.Branches, -1 for none
	placed     int // children that have a place
	waiting    []int32
	stopped    string // why its children were told to stop
	early      []Effect
}

// blame keeps the first reason to skip a child of a block that is not decided.
func (x *box) blame(reason string) {
	if x.doom == "" {
		x.doom = reason
	}
}

// undecided reports whether a node is a child of a block that is not decided. What its
// dependencies come to counts only when it is: it may be in a branch that is not taken.
func (x *node) undecided() bool { return x.box != nil && x.box.parent != nil && !x.box.parent.decided }

// DeclareBlock takes an outermost block at its place in the document, when it was read whole.
// Errors are those of Declare.
func (p *Plan) DeclareBlock(dst []Effect, t *Tree) ([]Effect, error) {
	if err := p.mayDeclareBlock(t); err != nil {
		return dst, err
	}
	first := int32(len(p.nodes))
	b, err := p.plant(t, nil)
	if err != nil { // mayDeclareBlock has looked at all
		return dst, err
	}
	met := false
	for n := first; n < int32(len(p.nodes)); n++ {
		if p.named1(n) {
			met = p.arrived(n) || met
		}
	}
	switch {
	case p.halted != "":
		p.void(&dst, b, Cancelled, p.halted)
	case t.Broken != "":
		p.void(&dst, b, Failed, t.Broken)
	default:
		p.wireBlock(&dst, b, met)
	}
	p.cascade(&dst)
	if end := &p.nodes[b.end]; !end.state.Terminal() {
		if t.Gates() {
			p.gate = b.end
		} else {
			p.holding = append(p.holding, b.end)
		}
	}
	p.pump(&dst)
	return dst, nil
}

// named1 reports whether a node can be named by its id.
func (p *Plan) named1(n int32) bool {
	r := p.nodes[n].role
	return r == roleAction || r == roleEnd || r == roleEach
}

// mayDeclareBlock returns why a block cannot be declared.
func (p *Plan) mayDeclareBlock(t *Tree) error {
	if err := p.mayDeclare("DeclareBlock", t.ID, true); err != nil {
		return err
	}
	seen := map[string]bool{}
	var check func(t *Tree) error
	check = func(t *Tree) error {
		if err := p.mayDeclare("DeclareBlock", t.ID, true); err != nil || seen[t.ID] {
			if err == nil {
				err = &IllegalError{Ref: Ref{int(p.gen), t.ID}, Input: "DeclareBlock", Why: "the block has this id twice"}
			}
			return err
		}
		seen[t.ID] = true
		for i := range t.Children {
			switch part := &t.Children[i]; {
			case part.Block != nil:
				if err := check(part.Block); err != nil {
					return err
				}
			case part.Action != nil:
				if err := p.mayDeclare("DeclareBlock", part.Action.ID, true); err != nil {
					return err
				}
				if seen[part.Action.ID] {
					return &IllegalError{Ref: Ref{int(p.gen), part.Action.ID}, Input: "DeclareBlock", Why: "the block has this id twice"}
				}
				seen[part.Action.ID] = true
				if _, fault := p.normal(part.Action); fault != nil {
					return fault
				}
			}
		}
		return nil
	}
	return check(t)
}

// plant makes the nodes of a block, without edges.
func (p *Plan) plant(t *Tree, parent *block) (*block, error) {
	b := &block{tree: t, parent: parent, taken: -1, kids: make([]int32, len(t.Children))}
	b.root = b
	if parent != nil {
		b.root = parent.root
	}
	b.begin = p.add(node{
		Action: messages.Action{ID: t.ID, DependsOn: t.DependsOn, Mode: messages.ModeAsync, OnError: messages.OnErrorFail},
		gen:    p.gen, role: roleBegin, box: &box{own: b, parent: parent},
	})
	b.end = p.add(node{
		Action: messages.Action{ID: t.ID, Mode: messages.ModeAsync, OnError: messages.OnErrorFail, OutputKey: t.OutputKey},
		gen:    p.gen, role: roleEnd, box: &box{own: b, parent: parent},
	})
	p.unended++
	p.key(b.end, b)
	_, p.nodes[b.begin].past = p.recorded(t.ID)
	if t.Kind == kindForeach {
		b.kids = nil
		p.plantPatterns(b)
		return b, nil
	}
	for i := range t.Children {
		b.kids[i] = none
		switch part := &t.Children[i]; {
		case part.Block != nil:
			kid, err := p.plant(part.Block, b)
			if err != nil {
				return nil, err
			}
			b.kids[i] = kid.begin
		case part.Action != nil:
			norm, fault := p.normal(part.Action)
			if fault != nil {
				return nil, fault
			}
			_, past := p.recorded(norm.ID)
			n := p.add(node{Action: norm, gen: p.gen, box: &box{parent: b}, past: past})
			if b.lap() == nil {
				p.declared++
			}
			p.index(n)
			b.kids[i] = n
		case part.Say > 0:
			b.kids[i] = p.add(node{
				Action: messages.Action{Mode: messages.ModeFireAndForget}, gen: p.gen, role: roleSay, box: &box{parent: b, say: part.Say},
			})
		}
	}
	b.last = int32(len(p.nodes))
	if t.Kind == kindIteration { // it has no record of its own, and was opened if what is in it has one
		p.nodes[b.begin].past = slices.ContainsFunc(t.Children, func(c Child) bool {
			declared, _ := p.recorded(c.childID())
			return declared
		})
	}
	return b, nil
}

// recorded asks what the records have of an action or block.
func (p *Plan) recorded(id string) (declared, known bool) {
	if p.o.Recorded == nil || id == "" {
		return false, false
	}
	return p.o.Recorded(id)
}

// wireBlock makes the edges of an outermost block, and ends what cannot go on.
func (p *Plan) wireBlock(dst *[]Effect, b *block, met bool) {
	p.settleEdges(dst, b, met)
	if x := &p.nodes[b.begin]; x.state == Waiting && x.unmet == 0 {
		p.rise(dst, b.begin)
	}
}

// settleEdges makes the edges of an outermost block or an iteration, and ends what cannot go on.
func (p *Plan) settleEdges(dst *[]Effect, b *block, met bool) {
	type doom struct {
		n   int32
		why string
	}
	var dooms []doom
	p.wires(b, func(n int32, why string) { dooms = append(dooms, doom{n, why}) }, &met)
	last := int32(len(p.nodes))
	if met {
		for n := b.begin; n < last; n++ {
			if x := &p.nodes[n]; x.role != roleEnd && x.state == Waiting && x.unmet > x.forward {
				p.cycle(dst, n)
			}
		}
	}
	for _, d := range dooms {
		if x := &p.nodes[d.n]; x.undecided() {
			x.box.blame(d.why)
		} else if !x.state.Terminal() {
			p.finish(dst, d.n, Skipped, d.why, "")
		}
	}
	left := p.o.Actions - (p.declared - countActions(b.tree))
	for n := b.begin; n < last && b.tree.Kind != kindIteration; n++ {
		if x := &p.nodes[n]; x.role == roleAction && !x.feed {
			if left--; left < 0 && !x.state.Terminal() {
				p.finish(dst, n, Failed, ReasonQuota, "")
			}
		}
	}
	if b.root.tree.Gates() && p.forwards > 0 {
		for n := b.begin; n < last; n++ {
			if x := &p.nodes[n]; x.role != roleEnd && x.role != roleSay && x.state == Waiting {
				if id := p.unseen(n); id != "" {
					p.finish(dst, n, Skipped, ReasonForwardDependency+":"+id, "")
				}
			}
		}
	}
}

// countActions counts the actions in a block, at any depth. What stands in a loop is none.
func countActions(t *Tree) (n int) {
	if t.Kind == kindForeach {
		return 0
	}
	for i := range t.Children {
		switch c := &t.Children[i]; {
		case c.Action != nil:
			n++
		case c.Block != nil && c.Block.Kind != kindForeach:
			n += countActions(c.Block)
		}
	}
	return n
}

// wires makes the edges of a block and of those in it. doom takes what cannot go on.
func (p *Plan) wires(b *block, doom func(n int32, why string), met *bool) {
	join := func(n, dep int32, soft bool) {
		if p.link(n, dep, soft) {
			doom(n, p.because(dep))
		}
		*met = *met || dep >= b.root.begin
	}
	why, far := p.wire(b.begin, false)
	if why != "" {
		doom(b.begin, why)
	}
	*met = *met || far >= b.root.begin
	p.wireNames(b, join)
	join(b.end, b.begin, true)
	if b.tree.Kind == kindForeach {
		p.wirePatterns(b, met)
	}
	group := b.tree.Kind == kindParallel
	held, branch := none, 0
	for i, n := range b.kids {
		part := &b.tree.Children[i]
		if n == none {
			continue
		}
		if part.Branch != branch {
			held, branch = none, part.Branch
		}
		p.link(n, b.begin, false)
		if held != none && !group {
			p.link(n, held, true)
		}
		end := n
		switch {
		case part.Block != nil:
			kid := p.nodes[n].box.own
			p.wires(kid, doom, met)
			end = kid.end
		case part.Action != nil:
			why, far := p.wire(n, false)
			if part.sync() && !group && why == "" {
				why = p.ahead1(b, i)
			}
			if why != "" {
				doom(n, why)
			}
			*met = *met || far >= b.root.begin
		}
		p.link(b.end, end, true)
		if part.sync() {
			held = end
		}
	}
}

// ahead1 returns why a sync child cannot go on that depends on one behind it in its branch, "" if
// it can.
func (p *Plan) ahead1(b *block, i int) string {
	part := &b.tree.Children[i]
	for j := i + 1; j < len(b.tree.Children); j++ {
		later := &b.tree.Children[j]
		if later.Branch == part.Branch && later.Action != nil && slices.Contains(part.Action.DependsOn, later.Action.ID) {
			return ReasonForwardDependency + ":" + later.Action.ID
		}
	}
	return ""
}

// wireNames makes the edges to what the conditions of an if name.
func (p *Plan) wireNames(b *block, join func(n, dep int32, soft bool)) {
	p.eachName(b, func(name string, needs bool) {
		p.pending, p.above, p.budget = p.pending[:0], 0, MaxPathBytes
		p.lookup(reference{kind: refName, name: name}, b.begin)
		for _, w := range slices.Clone(p.pending) {
			if w.node != none { // feeds are fetched when the begin is decided
				join(b.begin, w.node, w.soft || !needs)
			}
		}
		if needs {
			return
		}
		if n := p.known1(b, name); n != none {
			join(b.begin, n, true)
		}
	})
}

// eachName calls f with each name that a block is decided by. Without needs its end alone is
// awaited.
func (p *Plan) eachName(b *block, f func(name string, needs bool)) {
	if b.tree.Kind == kindForeach {
		f(b.tree.reference().name, true)
	}
	for _, branch := range b.tree.Branches {
		if branch.Test == "" {
			continue
		}
		e, wrong := expr.Parse(branch.Test)
		if wrong != nil {
			continue // Judge says so
		}
		for _, name := range e.Needs() {
			f(name, true)
		}
		for _, name := range e.Awaits() {
			f(name, false)
		}
	}
}

// known1 returns the action or block with an id that stands before a block; none for an unknown
// one, and for one whose state nothing may know.
func (p *Plan) known1(b *block, id string) int32 {
	for lap := p.lap(b.begin); lap != nil; lap = lap.parent.parent.lap() {
		if n, ok := p.idIn(lap, id, b.begin); ok {
			if x := &p.nodes[n]; x.role == roleAction && x.Mode == messages.ModeFireAndForget {
				return none
			}
			return n
		}
	}
	n, ok := p.ids[id]
	for ; ok && n != none; n = p.nodes[n].prevID {
		if p.sees(b.begin, n) {
			if x := &p.nodes[n]; x.role == roleAction && x.Mode == messages.ModeFireAndForget && !x.refused {
				return none
			}
			return n
		}
	}
	return none
}

// because returns the reason for which what needs a node is skipped.
func (p *Plan) because(dep int32) string {
	x := &p.nodes[dep]
	if x.notTaken() {
		return ReasonBranchNotTaken
	}
	return ReasonDependencyFailed + ":" + x.ID
}

// notTaken reports whether a node stood in a branch that was not taken, or was skipped because
// of one: no failure.
func (x *node) notTaken() bool {
	return x.reason == ReasonBranchNotTaken && (x.state == Skipped || x.state == Cancelled)
}

// forgives reports whether a node goes on although dep stood in a branch that was not taken.
func (x *node) forgives(dep *node) bool { return x.OnError == messages.OnErrorSkip && dep.notTaken() }

// rise takes a node on whose dependencies are met.
func (p *Plan) rise(dst *[]Effect, n int32) {
	x := &p.nodes[n]
	if x.box == nil {
		x.state = Ready
		p.enqueue(n)
		return
	}
	if p.left(x) {
		p.void(dst, x.box.own, Cancelled, x.box.parent.tree.stopReason())
		return
	}
	if g := x.box.parent; g != nil && g.tree.crowd() && x.role != roleEnd && x.role != roleEach && !x.box.placed {
		if g.placed >= p.places(g.tree) {
			i, _ := slices.BinarySearch(g.waiting, n)
			g.waiting = slices.Insert(g.waiting, i, n)
			p.crowded = true
			return
		}
		x.box.placed = true
		g.placed++
	}
	switch x.role {
	case roleBegin:
		if x.box.own.tree.Kind == kindIteration {
			p.openBlock(dst, x.box.own, "")
			p.stopLate(dst, p.nodes[n].box.own)
			return
		}
		p.decidable(dst, n)
	case roleEnd:
		p.conclude(dst, x.box.own)
	case roleEach:
		p.concludeEach(n)
	case roleSay:
		x.state = Dispatched
		*dst = append(*dst, Effect{Kind: Say, Ref: Ref{int(x.gen), x.box.parent.tree.ID}, N: x.box.say})
	default:
		x.state = Ready
		p.enqueue(n)
	}
}

// left reports whether a node is the begin of an iteration that its loop ended without: what stopped
// the loop was not read again. One of which nothing comes on record is begun again, as it may have been.
func (p *Plan) left(x *node) bool {
	if p.o.Left == nil || x.past || x.role != roleBegin || x.box.own.tree.Kind != kindIteration || !p.o.Left(x.box.parent.tree.ID) {
		return false
	}
	return slices.ContainsFunc(x.box.own.tree.Children, func(c Child) bool { return c.childID() != "" })
}

// blockOf returns the block with a ref, nil if there is none.
func (p *Plan) blockOf(r Ref) *block {
	if n := p.find(r); n != none && p.nodes[n].role == roleEnd {
		return p.nodes[n].box.own
	}
	return nil
}

// Tree returns a block as it was declared; nil if there is none with that ref.
func (p *Plan) Tree(r Ref) *Tree {
	if b := p.blockOf(r); b != nil {
		return b.tree
	}
	return nil
}

// GateParked reports whether the gate waits for an approval: of its action, or of one in its block.
func (p *Plan) GateParked() bool {
	if p.gate == none {
		return false
	}
	g := &p.nodes[p.gate]
	if g.role != roleEnd {
		return g.state == Parked
	}
	for n := g.box.own.begin; n < int32(len(p.nodes)); n++ {
		if x := &p.nodes[n]; x.state == Parked && x.box != nil {
			return true
		}
	}
	return false
}

// PastSkipped says that an action of an earlier generation, which has ended as cancelled here, was
// skipped: conditions see the difference.
func (p *Plan) PastSkipped(r Ref) {
	if n := p.find(r); n != none && p.nodes[n].state == Cancelled {
		p.nodes[n].state = Skipped
	}
}

// Past adds an action or block that ended in an earlier generation, from its records.
func (p *Plan) Past(v View) { p.relive(v, false) }

// PastEach is Past for what stood in a loop, whose value is a list.
func (p *Plan) PastEach(v View) { p.relive(v, true) }

func (p *Plan) relive(v View, listed bool) {
	n := p.add(node{Action: v.Action, gen: p.gen, listed: listed})
	x := &p.nodes[n]
	x.state, x.reason, x.value = v.State, v.Reason, v.Value
	if x.OutputKey != "" {
		x.prevKey = p.chain(p.keys, x.OutputKey, n)
	}
}
