package plan

import (
	"slices"
)

// Responses in control blocks. The map is in block.go.

// Said says that a response in a block was shown, or will not be. With final it ends the reply:
// what stands behind it in the outermost block and has not begun is skipped.
func (p *Plan) Said(dst []Effect, say int, final bool) []Effect {
	n := p.sayNode(say)
	if n == none || p.nodes[n].state.Terminal() {
		return dst
	}
	p.nodes[n].state = OK
	p.ended(n, "")
	if final {
		p.skipBehind(&dst, p.nodes[n].box.parent.root, n)
	}
	p.cascade(&dst)
	p.pump(&dst)
	return dst
}

// skipBehind skips what stands behind a node in an outermost block and has not begun.
func (p *Plan) skipBehind(dst *[]Effect, root *block, n int32) {
	for m := n + 1; m < int32(len(p.nodes)); m++ {
		x := &p.nodes[m]
		if x.box == nil || x.box.parent == nil || x.box.parent.root != root || x.role == roleEnd || x.role == roleEach || p.home(m) <= n || x.state >= Dispatched {
			continue
		}
		p.finish(dst, m, Skipped, ReasonAfterFinal, "")
	}
}

// Blocked reports whether responses and feeds wait: an outermost block that is not a gate stands
// before them and has not ended. With say it is about a response in a block, which waits for
// earlier blocks alone.
func (p *Plan) Blocked(say int) bool {
	p.holding = slices.DeleteFunc(p.holding, func(n int32) bool { return p.nodes[n].state.Terminal() })
	before := int32(len(p.nodes))
	own := p.sayNode(say)
	if own != none {
		before = p.nodes[own].box.parent.root.end
	}
	return slices.ContainsFunc(p.holding, func(n int32) bool {
		// A block that waits for an id which only comes behind it cannot hold what is behind it.
		return n < before && !p.stuck(n, int32(len(p.nodes))) && !p.awaits(n, own)
	})
}

// awaits reports whether a node waits, however indirectly, for a response in a block: the response
// cannot wait for the node.
func (p *Plan) awaits(n, say int32) bool {
	if say == none {
		return false
	}
	p.mark++
	p.nodes[say].mark = p.mark
	p.walk = append(p.walk[:0], say)
	for i := 0; i < len(p.walk); i++ {
		for e := p.nodes[p.walk[i]].users; e != none; e = p.edges[e].nextUser {
			if x := &p.nodes[p.edges[e].user]; p.edges[e].open && x.mark != p.mark {
				x.mark = p.mark
				p.walk = append(p.walk, p.edges[e].user)
			}
		}
	}
	return p.nodes[n].mark == p.mark
}

// sayNode returns the node of a response in a block of this generation; none for 0.
func (p *Plan) sayNode(say int) int32 {
	if say > 0 {
		for n := p.genStart; n < int32(len(p.nodes)); n++ {
			if x := &p.nodes[n]; x.role == roleSay && x.box.say == say {
				return n
			}
		}
	}
	return none
}

// SayState returns what became of a response in a block: Waiting, Dispatched while it may be
// shown, or a terminal state.
func (p *Plan) SayState(say int) State {
	if n := p.sayNode(say); n != none {
		return p.nodes[n].state
	}
	return Skipped
}

// TextIn begins a response that stands in a block: it sees what stands before it.
func (p *Plan) TextIn(say int) *Text {
	t := p.Text()
	t.viewer = p.sayNode(say)
	return t
}
