package plan

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// An edge says that user waits for dep. It is open while it counts in user.unmet. Package
// comment: how one node's end starts others.
type edge struct {
	dep, user         int32
	nextUser, nextDep int32 // in the chains of dep's users and of user's dependencies
	open              bool
	soft              bool // any end of dep releases it
}

// satisfied reports whether a node lets its users go on (docs/spec/streaming.md §5.2): it is ok,
// or fire_and_forget and begun, or failed and tolerated. An unknown outcome does not
// (docs/spec/design.md §7).
func (x *node) satisfied() bool {
	switch {
	case x.state == OK || x.Mode == messages.ModeFireAndForget && x.began:
		return true
	case x.state == Failed:
		return x.OnError == messages.OnErrorSkip
	}
	return false
}

// link adds an edge, open unless dep already satisfies it. broken reports whether dep has
// ended without satisfying it.
func (p *Plan) link(n, dep int32, soft bool) (broken bool) {
	d, x := &p.nodes[dep], &p.nodes[n]
	done := d.satisfied() || soft && d.state.Terminal() || x.forgives(d)
	if !done && d.state.Terminal() {
		return true
	}
	e := int32(len(p.edges))
	p.edges = append(p.edges, edge{dep: dep, user: n, nextUser: none, nextDep: none, open: !done, soft: soft})
	if d.lastUser == none {
		d.users = e
	} else {
		p.edges[d.lastUser].nextUser = e
	}
	d.lastUser = e
	if x.lastDep == none {
		x.deps = e
	} else {
		p.edges[x.lastDep].nextDep = e
	}
	x.lastDep = e
	if !done {
		x.unmet++
	}
	return false
}

// arrived turns the waiting for an id into edges to the node that now has it. It reports
// whether some node waited.
func (p *Plan) arrived(n int32) bool {
	id := p.nodes[n].ID
	list, ok := p.forward[id]
	if !ok {
		return false
	}
	delete(p.forward, id)
	met := false
	for _, w := range list {
		x := &p.nodes[w]
		if x.state != Waiting || x.forward == 0 {
			continue // w has ended meanwhile
		}
		x.forward--
		x.unmet--
		p.forwards--
		p.ahead = true
		p.link(w, n, x.role == roleEach) // n has not ended yet
		met = true
	}
	return met
}

// connect adds the edges of a new action: from depends_on first, then from the references in
// its parameters. Then the action is skipped, waits, or is ready. met says that other actions
// waited for its id: only then, or by naming itself, can it close a cycle.
func (p *Plan) connect(dst *[]Effect, n int32, met bool) {
	why, far := p.wire(n, p.nodes[n].Mode == messages.ModeSync)
	met = met || far == n
	x := &p.nodes[n]
	switch {
	case met && x.unmet > x.forward && p.cycle(dst, n):
	case why != "":
		p.finish(dst, n, Skipped, why, "")
	case x.Mode == messages.ModeSync && p.forwards > 0 && p.unseen(n) != "":
		// It waits, however indirectly, for an id that can only be declared after the gate.
		p.finish(dst, n, Skipped, ReasonForwardDependency+":"+p.unseen(n), "")
	case x.unmet == 0:
		x.state = Ready
		p.enqueue(n)
	}
}

// wire adds the edges of a node to what it depends on and refers to. why is the reason for
// which the node cannot go on, "" if it can; far is the node that stands last in the document
// of those that it waits for. A sync node cannot wait for an id that is not declared.
func (p *Plan) wire(n int32, sync bool) (why string, far int32) {
	far = none
	blame := func(reason string) {
		if why == "" {
			why = reason
		}
	}
	p.mark++
	for _, id := range p.nodes[n].DependsOn {
		dep, ok := p.ids[id]
		if !ok {
			if sync {
				blame(ReasonForwardDependency + ":" + id)
			}
			if !p.open { // nothing comes any more: an instance that is made late
				blame(ReasonUnknownDependency + ":" + id)
				continue
			}
			p.forward[id] = append(p.forward[id], n)
			x := &p.nodes[n]
			x.forward++
			x.unmet++
			p.forwards++
			continue
		}
		if p.nodes[dep].mark == p.mark {
			continue
		}
		p.nodes[dep].mark = p.mark
		if p.link(n, dep, p.nodes[n].role == roleEach) {
			blame(p.because(dep))
		}
		far = max(far, dep)
		p.ahead = p.ahead || dep > n
	}
	if p.refers(n) {
		p.pending = p.pending[:0]
		p.references(n)
		for _, w := range p.pending {
			if p.nodes[w.node].mark == p.mark {
				continue
			}
			p.nodes[w.node].mark = p.mark
			if p.link(n, w.node, w.soft) {
				blame(p.because(w.node))
			}
			far = max(far, w.node)
		}
	}
	return why, far
}

// unseen returns an id that was not declared yet and without which n cannot go on: one of n
// itself first, in the order of depends_on, then one of the nodes that n waits for.
func (p *Plan) unseen(n int32) string {
	p.mark++
	p.walk = append(p.walk[:0], n)
	p.nodes[n].mark = p.mark
	for i := 0; i < len(p.walk); i++ {
		x := &p.nodes[p.walk[i]]
		if x.forward > 0 {
			for _, id := range x.DependsOn {
				if _, ok := p.ids[id]; !ok {
					return id
				}
			}
		}
		for e := x.deps; e != none; e = p.edges[e].nextDep {
			if d := &p.nodes[p.edges[e].dep]; p.edges[e].open && d.mark != p.mark {
				d.mark = p.mark
				p.walk = append(p.walk, p.edges[e].dep)
			}
		}
	}
	return ""
}

// cascade passes the ends in the queue on to the users of each node, and the ends that follow
// to their users, until nothing changes. The first cause wins. Causes come in the order of
// their ends, users in the order of their edges.
func (p *Plan) cascade(dst *[]Effect) {
	for i := 0; i < len(p.queue); i++ {
		n := p.queue[i]
		d := &p.nodes[n]
		ok, ended := d.satisfied(), d.state.Terminal()
		for e := d.users; e != none; e = p.edges[e].nextUser {
			g := &p.edges[e]
			if !g.open || !ok && !ended {
				continue
			}
			g.open = false
			p.met++
			x := &p.nodes[g.user]
			if x.state != Waiting {
				continue
			}
			x.unmet--
			switch broken := !ok && !g.soft && !x.forgives(d); {
			case broken && x.undecided(): // a branch that is not taken is the cause that counts
				x.box.blame(p.because(n))
			case broken:
				p.finish(dst, g.user, Skipped, p.because(n), "")
			case ok && x.box != nil && x.box.doom != "" && d.role == roleBegin:
				p.finish(dst, g.user, Skipped, x.box.doom, "")
			case x.unmet == 0:
				p.rise(dst, g.user)
			}
			d = &p.nodes[n]
		}
		if d.box != nil {
			p.kidEnded(dst, n)
		}
	}
	p.queue = p.queue[:0]
}

// cycle skips every action on a cycle through n, in document order, and reports whether there
// was a cycle. Every cycle passes through n, because its edges are the newest.
func (p *Plan) cycle(dst *[]Effect, n int32) bool {
	// A node is on a cycle if it waits for n, however indirectly, and n waits for it.
	p.mark++
	below := p.mark
	p.spread(n, below, func(x *node) int32 { return x.users }, func(g *edge) (int32, int32) { return g.user, g.nextUser },
		func(*node) bool { return true })
	p.mark++
	on := p.mark
	p.spread(n, on, func(x *node) int32 { return x.deps }, func(g *edge) (int32, int32) { return g.dep, g.nextDep },
		func(x *node) bool { return x.mark == below })
	members := append([]int32(nil), p.walk...)
	if len(members) == 1 && !p.selfish(n) {
		return false
	}
	slices.Sort(members)
	reasons := make(map[int32]string, len(members))
	for _, m := range members {
		if reasons[m] == "" {
			ring := p.ring(m, on)
			text := p.spell(ring)
			for _, r := range ring {
				if reasons[r] == "" {
					reasons[r] = text
				}
			}
		}
		if x := &p.nodes[m]; x.role != roleEnd && x.role != roleSay && !x.state.Terminal() { // these end with the others
			p.finish(dst, m, Skipped, ReasonDependencyCycle+":"+reasons[m], "")
		}
	}
	return true
}

// spread marks the waiting nodes that can be reached from n over open edges in one direction
// and that pass accepts. It leaves them in p.walk.
func (p *Plan) spread(n int32, mark uint32, head func(*node) int32, next func(*edge) (int32, int32), pass func(*node) bool) {
	p.walk = append(p.walk[:0], n)
	p.nodes[n].mark = mark
	for i := 0; i < len(p.walk); i++ {
		for e := head(&p.nodes[p.walk[i]]); e != none; {
			g := &p.edges[e]
			var m int32
			m, e = next(g)
			if x := &p.nodes[m]; g.open && x.mark != mark && x.state == Waiting && pass(x) {
				x.mark = mark
				p.walk = append(p.walk, m)
			}
		}
	}
}

// selfish reports whether n waits for itself.
func (p *Plan) selfish(n int32) bool {
	for e := p.nodes[n].deps; e != none; e = p.edges[e].nextDep {
		if p.edges[e].dep == n && p.edges[e].open {
			return true
		}
	}
	return false
}

// ring returns a shortest cycle through m among the nodes with the mark: each waits for the
// next, the last for m.
func (p *Plan) ring(m int32, mark uint32) []int32 {
	if len(p.parent) < len(p.nodes) {
		p.parent = make([]int32, len(p.nodes))
	}
	p.walk = append(p.walk[:0], m)
	seen := map[int32]bool{}
	for i := 0; i < len(p.walk); i++ {
		at := p.walk[i]
		for e := p.nodes[at].deps; e != none; e = p.edges[e].nextDep {
			g := &p.edges[e]
			if !g.open || p.nodes[g.dep].mark != mark {
				continue
			}
			if g.dep == m {
				out := []int32{}
				for ; at != m; at = p.parent[at] {
					out = append(out, at)
				}
				out = append(out, m)
				slices.Reverse(out)
				return out
			}
			if !seen[g.dep] {
				seen[g.dep] = true
				p.parent[g.dep] = at
				p.walk = append(p.walk, g.dep)
			}
		}
	}
	return []int32{m} // not reached: m is on a cycle
}

// spell writes a cycle, its first member again at the end.
func (p *Plan) spell(ring []int32) string {
	var b strings.Builder
	for _, m := range ring {
		b.WriteString(p.nodes[m].ID)
		b.WriteByte('>')
	}
	b.WriteString(p.nodes[ring[0]].ID)
	return b.String()
}
