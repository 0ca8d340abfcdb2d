package turn

// Waits returns the ids of the actions whose ends an action of the turn in flight waits for, in
// the order in which it names them; nil for one that waits for none.
func (m *Machine) Waits(id string) []string {
	if m.flight == nil || m.graph == nil {
		return nil
	}
	c := m.flight.any(id)
	if c == nil || c.node.ref.Generation == 0 {
		return nil
	}
	return m.graph.plan.Waits(c.node.ref)
}

// Met counts the waits for actions of the run in flight that are over: while it stays, Waits
// names no fewer.
func (m *Machine) Met() int {
	if m.graph == nil {
		return 0
	}
	return m.graph.plan.Met()
}
