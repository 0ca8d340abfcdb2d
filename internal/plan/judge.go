package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/expr"
)

// What a control block does when its begin can be decided: which branch of an if is taken, and
// what becomes of the children that do not run. The map is in block.go.

// Decision is what becomes of a block whose begin can be decided.
type Decision struct {
	Branch string   // of an if
	Items  []string // of a foreach, as JSON
	Basis  string   // what it was decided by, for comparison
	// State is Skipped or Failed, with Reason, for a block of which nothing runs.
	State  State
	Reason string
}

// decidable asks the caller to decide a block, as soon as the feeds that it names are there.
func (p *Plan) decidable(dst *[]Effect, n int32) {
	x := &p.nodes[n]
	b := x.box.own
	x.state = Waiting
	if b.tree.Kind == kindIf || b.tree.Kind == kindForeach {
		p.mark++
		var feeds []string
		p.eachName(b, func(name string, _ bool) {
			p.pending, p.above, p.budget = p.pending[:0], 0, MaxPathBytes
			if p.lookup(reference{kind: refName, name: name}, n).kind == foundLater {
				for _, w := range p.pending {
					if w.node == none && !slices.Contains(feeds, w.feed) {
						feeds = append(feeds, w.feed)
					}
				}
			}
		})
		for _, feed := range feeds {
			p.link(n, p.feedNode(dst, feed), true)
		}
		if len(feeds) > 0 {
			return
		}
	}
	p.nodes[n].state = Dispatched
	*dst = append(*dst, Effect{Kind: Judge, Ref: p.nodes[n].ref()})
}

// Judge returns what a block whose begin can be decided does, by the values that there are.
func (p *Plan) Judge(r Ref) Decision {
	b := p.blockOf(r)
	if b != nil && b.tree.Kind == kindForeach {
		return p.judgeLoop(b)
	}
	if b == nil || b.tree.Kind != kindIf {
		return Decision{}
	}
	env := &judging{p: p, b: b}
	for _, branch := range b.tree.Branches {
		if branch.Test == "" {
			return Decision{Branch: branch.Name, Basis: env.basis.String()}
		}
		e, wrong := expr.Parse(branch.Test)
		taken := false
		if wrong == nil {
			taken, wrong = e.Eval(env)
		}
		if wrong != nil {
			return Decision{State: Skipped, Reason: ReasonBadCondition + ": " + wrong.Error()}
		}
		if taken {
			return Decision{Branch: branch.Name, Basis: env.basis.String()}
		}
	}
	return Decision{Branch: BranchNone, Basis: env.basis.String()}
}

// judging is what the conditions of a block can look up. It keeps what they looked at.
type judging struct {
	p     *Plan
	b     *block
	basis strings.Builder
}

func (j *judging) saw(what, name, value string) {
	j.basis.WriteString(what + " " + strconv.Quote(name) + " " + value + "\n")
}

// Value implements expr.Env.
func (j *judging) Value(ref expr.Ref) (string, bool) {
	p := j.p
	if len(ref.Path) == 1 {
		if _, _, ok := p.partial(reference{kind: refName, name: ref.Name, path: ref.Path[0]}, j.b.begin); ok {
			return "", false // a text that grows decides nothing
		}
	}
	p.pending, p.above, p.budget = p.pending[:0], 0, MaxPathBytes
	r := reference{kind: refName, name: ref.Name}
	v := p.tolerate(p.lookup(r, j.b.begin), r, j.b.begin)
	if v.kind != foundValue {
		j.saw("value", ref.Name, "?")
		return "", false
	}
	j.saw("value", ref.Name, v.value)
	return v.value, true
}

// Status implements expr.Env.
func (j *judging) Status(id string) (string, bool) {
	n := j.p.known1(j.b, id)
	if n == none || !j.p.nodes[n].state.Terminal() {
		return "", false
	}
	word := j.p.nodes[n].state.String()
	j.saw("status", id, word)
	return word, true
}

// Decide says what a block does: what Judge returned, or what was recorded of it. The error is
// *IllegalError for a block that does not wait for it.
func (p *Plan) Decide(dst []Effect, r Ref, d Decision) ([]Effect, error) {
	b := p.blockOf(r)
	if b == nil || p.nodes[b.begin].state != Dispatched {
		return dst, &IllegalError{Ref: r, Input: "Decide", Why: "no block waits to be decided"}
	}
	if d.State.Terminal() {
		p.void(&dst, b, d.State, d.Reason)
	} else if b.tree.Kind == kindForeach {
		if err := p.openLoop(&dst, b, d.Items); err != nil {
			return dst, err
		}
	} else {
		p.openBlock(&dst, b, d.Branch)
		p.failEarly(&dst, b)
	}
	p.stopLate(&dst, b)
	p.cascade(&dst)
	p.pump(&dst)
	return dst, nil
}

// openBlock lets the children of a decided block go on.
func (p *Plan) openBlock(dst *[]Effect, b *block, branch string) {
	b.decided, b.branch = true, branch
	b.taken = slices.IndexFunc(b.tree.Branches, func(o Branch) bool { return o.Name == branch })
	p.show(dst, b)
	for i, n := range b.kids {
		if n != none && b.tree.Kind == kindIf && b.tree.Children[i].Branch != b.taken && !p.nodes[n].state.Terminal() {
			p.finish(dst, n, Skipped, ReasonBranchNotTaken, "")
		}
	}
	x := &p.nodes[b.begin]
	x.state = OK
	p.queue = append(p.queue, b.begin)
}

// failEarly stops a group that fails fast and of which a child had failed before it was decided:
// a dependency of it had, or it was not accepted.
func (p *Plan) failEarly(dst *[]Effect, b *block) {
	if b.tree.Kind != kindParallel || b.tree.Fail != failFast {
		return
	}
	for i, n := range b.kids {
		if n == none && b.tree.Children[i].Rejected != "" || n != none && p.nodes[p.kid(n)].fails() {
			p.stopGroup(dst, b, b.tree.stopReason())
			return
		}
	}
}

// show makes the children of a block known to the caller, with the ends that they have already.
func (p *Plan) show(dst *[]Effect, b *block) {
	if b.opened {
		return
	}
	b.opened = true
	if b.tree.Kind != kindForeach { // its iterations are opened
		*dst = append(*dst, Effect{Kind: Open, Ref: p.nodes[b.end].ref()})
	}
	*dst = append(*dst, b.early...)
	b.early = nil
}

// void ends a block of which nothing runs, and all that stands in it, in document order.
func (p *Plan) void(dst *[]Effect, b *block, s State, reason string) {
	x := &p.nodes[b.begin]
	if x.state.Terminal() {
		return
	}
	x.state = s
	p.ended(b.begin, reason)
	if b.parent != nil && !b.parent.opened { // the caller learns of both when the parent is shown
		dst = &b.parent.early
	}
	if b.tree.Kind == kindIteration && !b.opened { // the caller never learns of it
		var quiet []Effect
		dst = &quiet
	}
	p.voids(dst, b, s, reason)
}

// voids ends the children of a block, and then the block.
func (p *Plan) voids(dst *[]Effect, b *block, s State, reason string) {
	p.show(dst, b)
	child, why := childOf(s, reason, b.tree.ID)
	for _, n := range slices.Concat(b.kids, b.each) {
		if n != none && !p.nodes[n].state.Terminal() {
			p.finish(dst, n, child, why, "")
		}
	}
	e := &p.nodes[b.end]
	if e.state.Terminal() {
		return
	}
	e.state = s
	if b.tree.Kind != kindIteration {
		*dst = append(*dst, Effect{Kind: EndBlock, Ref: e.ref(), State: s, Reason: reason})
	}
	p.ended(b.end, reason)
}

// childOf returns how a child of a block ends of which nothing runs.
func childOf(s State, reason, id string) (State, string) {
	word, _, _ := strings.Cut(reason, ":")
	switch {
	case s == Cancelled:
		return Cancelled, reason
	case word == ReasonMalformed || word == ReasonTooMuch || word == ReasonBadCondition || word == ReasonBranchNotTaken || word == ReasonAfterFinal:
		return Skipped, word
	}
	return Skipped, ReasonDependencyFailed + ":" + id
}
