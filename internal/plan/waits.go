package plan

// Waits returns the ids of the actions whose ends an action waits for, in the order in which it
// names them. Ids that no action has yet are not among them, and neither are feeds.
func (p *Plan) Waits(r Ref) (ids []string) {
	n := p.find(r)
	if n == none || p.nodes[n].state != Waiting {
		return nil
	}
	for e := p.nodes[n].deps; e != none; e = p.edges[e].nextDep {
		if dep := &p.nodes[p.edges[e].dep]; p.edges[e].open && !dep.feed {
			ids = append(ids, dep.ID)
		}
	}
	return ids
}

// Met counts the waits of actions for others that are over: while it stays, so does Waits.
func (p *Plan) Met() int { return p.met }
