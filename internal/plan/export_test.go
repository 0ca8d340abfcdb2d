package plan

// Gate returns the id of the sync action that keeps the gate closed; closed is false if the
// gate is open.
func (p *Plan) Gate() (id string, closed bool) {
	if p.gate == none {
		return "", false
	}
	return p.nodes[p.gate].ID, true
}
