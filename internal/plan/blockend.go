package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// How control blocks end, and the places of groups. The map is in block.go.

// fails reports whether the end of a child makes its block fail.
func (x *node) fails() bool {
	switch x.state {
	case Failed:
		return x.OnError != messages.OnErrorSkip && x.Mode != messages.ModeFireAndForget
	case Cancelled, Skipped, Unknown:
		return x.Mode != messages.ModeFireAndForget && !x.notTaken() && x.reason != ReasonAfterFinal
	}
	return false
}

// kid returns the node that has the end of a child: of a block that of its end.
func (p *Plan) kid(n int32) int32 {
	if x := &p.nodes[n]; x.role == roleBegin {
		return x.box.own.end
	}
	return n
}

// conclude ends a block whose children have ended.
func (p *Plan) conclude(dst *[]Effect, b *block) {
	e := &p.nodes[b.end]
	if e.state.Terminal() {
		return
	}
	state, reason := OK, ""
	out := Effect{Kind: EndBlock, Ref: e.ref()}
	loop := b.tree.Kind == kindForeach
	if loop {
		state, reason = p.concludeLoop(b, &out)
	}
	for i, n := range b.kids {
		if loop {
			break
		}
		part := &b.tree.Children[i]
		if b.tree.Kind == kindIf && part.Branch != b.taken {
			continue
		}
		failed, id := part.Rejected != "", part.Rejected
		if n != none {
			x := &p.nodes[p.kid(n)]
			if x.role == roleSay || x.Mode == messages.ModeFireAndForget {
				continue
			}
			failed, id = x.fails(), x.ID
		}
		if !failed {
			out.OK++
			continue
		}
		out.Failed++
		if state == OK {
			state, reason = Failed, ReasonChildFailed+":"+id
		}
	}
	switch {
	case p.halted != "":
		state, reason = Cancelled, p.halted
	case b.stopped == ReasonTimeout:
		state, reason = Failed, ReasonTimeout
	}
	if b.tree.Kind == kindIf {
		out.OK, out.Failed = 0, 0
	}
	if e.state = state; state == OK {
		e.value = p.valueOf(b)
	}
	out.State, out.Reason = state, reason
	if b.tree.Kind != kindIteration {
		*dst = append(*dst, out)
	}
	p.ended(b.end, reason)
}

// valueOf returns the result of a block that ended well.
func (p *Plan) valueOf(b *block) string {
	switch b.tree.Kind {
	case kindIf:
		return `"` + b.branch + `"`
	case kindForeach:
		return p.valueOfLoop(b)
	case kindIteration:
		return "null" // its loop has the values
	}
	var named []int32
	for _, n := range b.kids {
		if n == none {
			continue
		}
		if x := &p.nodes[p.kid(n)]; x.role != roleSay && x.Mode != messages.ModeFireAndForget {
			named = append(named, p.kid(n))
		}
	}
	slices.SortFunc(named, func(a, b int32) int { return strings.Compare(p.nodes[a].ID, p.nodes[b].ID) }) // ids are ASCII
	out := []byte{'{'}
	for i, n := range named {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonstring.Append(out, p.nodes[n].ID), ':')
		if x := &p.nodes[n]; x.state == OK {
			out = append(out, x.value...)
		} else {
			out = append(out, "null"...)
		}
	}
	return string(append(out, '}'))
}

// kidEnded does what the end of a child, or the start of one that nothing waits for, means for
// its group.
func (p *Plan) kidEnded(dst *[]Effect, n int32) {
	x := &p.nodes[n]
	g := x.box.parent
	if g == nil || !g.tree.crowd() || x.role == roleEach || x.role == roleBegin && x.state == OK {
		return
	}
	failed := x.fails()
	if x.role == roleEnd {
		x = &p.nodes[x.box.own.begin]
	}
	if x.box.placed {
		x.box.placed = false
		g.placed--
	} else if i, ok := slices.BinarySearch(g.waiting, n); ok {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	if failed && g.tree.Fail == failFast && g.decided && g.stopped == "" {
		p.stopGroup(dst, g, g.tree.stopReason())
	}
	for len(g.waiting) > 0 && g.placed < p.places(g.tree) {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		if p.nodes[next].state == Waiting {
			p.rise(dst, next)
		}
	}
}

// stopGroup stops all that runs in a block and skips what has not begun. What is on record is
// left alone: its end is read before the block ends.
func (p *Plan) stopGroup(dst *[]Effect, b *block, reason string) {
	if b.stopped == "" {
		b.stopped = reason
	}
	for _, n := range b.kids {
		if n == none {
			continue
		}
		x := &p.nodes[n]
		switch {
		case x.role == roleBegin && x.state == OK:
			p.stopGroup(dst, x.box.own, reason)
		case x.state.Terminal():
		case x.past && x.role == roleBegin:
			x.box.own.stopped = cmp.Or(x.box.own.stopped, reason) // stopLate does the rest
		case x.past:
		case x.role == roleBegin:
			p.void(dst, x.box.own, Cancelled, reason)
		case x.role == roleSay:
			p.finish(dst, n, Cancelled, reason, "")
		default:
			p.cancel(dst, n, reason)
		}
	}
}

// stopLate stops the children of a block that was to be stopped before it was opened: what is on
// record of it was to be read first.
func (p *Plan) stopLate(dst *[]Effect, b *block) {
	if b.stopped != "" && p.nodes[b.begin].state == OK {
		p.stopGroup(dst, b, b.stopped)
	}
}

// Expire says that the time of a group is over. One that has ended, or was not decided, is left
// alone.
func (p *Plan) Expire(dst []Effect, r Ref) []Effect {
	b := p.blockOf(r)
	if b == nil || !b.decided || p.nodes[b.end].state.Terminal() || b.stopped == ReasonTimeout {
		return dst
	}
	b.stopped = ReasonTimeout
	p.stopGroup(&dst, b, reasonGroup+b.tree.ID)
	p.cascade(&dst)
	p.pump(&dst)
	return dst
}

// uncrowd gives a place beyond its group's max to the first child that waits for one, if nothing
// of the plan can go on otherwise: a child that has a place waits for one that has none.
func (p *Plan) uncrowd(dst *[]Effect) bool {
	first := none
	for n := p.genStart; n < int32(len(p.nodes)); n++ {
		x := &p.nodes[n]
		switch {
		case x.state == Ready || x.state == Dispatched || x.state == Running || x.state == Parked || x.feed && x.state == Waiting:
			return false
		case x.state == Waiting && x.unmet == 0 && x.box != nil && x.role != roleEnd && first == none:
			first = n
		}
	}
	if first == none {
		p.crowded = false
		return false
	}
	x := &p.nodes[first]
	if g := x.box.parent; g != nil {
		if i, ok := slices.BinarySearch(g.waiting, first); ok {
			g.waiting = slices.Delete(g.waiting, i, i+1)
			x.box.placed = true
			g.placed++
		}
	}
	p.rise(dst, first)
	return true
}
