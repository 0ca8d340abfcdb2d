package plan

import "slices"

// Occupy says that n actions of earlier runs hold a slot each.
func (p *Plan) Occupy(n int) { p.slots += max(0, n) }

// Vacate says that one of these actions gave its slot back.
func (p *Plan) Vacate(dst []Effect) []Effect {
	p.slots = max(0, p.slots-1)
	p.pump(&dst)
	return dst
}

// release gives back the slot of a node, if it holds one.
func (p *Plan) release(n int32) {
	if x := &p.nodes[n]; x.slot {
		x.slot = false
		p.slots--
	}
}

// enqueue adds a node to those that wait for a slot.
func (p *Plan) enqueue(n int32) {
	i, _ := slices.BinarySearch(p.ready, n)
	p.ready = slices.Insert(p.ready, i, n)
}

// Over says that an action which is declared again after a restart had ended before. It is
// dispatched without a slot as soon as its dependencies allow, and the caller then reports its
// recorded end.
func (p *Plan) Over(dst []Effect, r Ref) []Effect {
	if n := p.find(r); n != none && p.nodes[n].state < Dispatched {
		p.nodes[n].over = true
		p.overs++
		p.pump(&dst)
	}
	return dst
}

// nextReady takes the first ready node that may be dispatched now.
func (p *Plan) nextReady() (n int32, ok bool) {
	i := 0
	if p.slots >= p.o.Parallel {
		if i = -1; p.overs > 0 {
			i = slices.IndexFunc(p.ready, func(n int32) bool { return p.nodes[n].over })
		}
	}
	if i < 0 || i >= len(p.ready) {
		return none, false
	}
	n = p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return n, true
}

// pump dispatches ready actions in document order while slots are free.
func (p *Plan) pump(dst *[]Effect) {
	p.epoch++
	for {
		n, ok := p.nextReady()
		if !ok {
			p.hold()
			if p.crowded && p.uncrowd(dst) {
				p.cascade(dst)
				continue
			}
			return
		}
		if !p.nodes[n].settled && !p.settle(dst, n) {
			p.cascade(dst)
			continue
		}
		x := &p.nodes[n]
		x.state = Dispatched
		if !x.over {
			x.slot = true
			p.slots++
		}
		*dst = append(*dst, Effect{Kind: Dispatch, Ref: x.ref(), Parameters: x.params})
	}
}

// hold counts the ready actions that find no free slot, each once.
func (p *Plan) hold() {
	for _, n := range p.ready {
		if x := &p.nodes[n]; !x.held {
			x.held = true
			p.held++
		}
	}
}

// Held returns how many actions had to wait for a slot so far.
func (p *Plan) Held() int { return p.held }
