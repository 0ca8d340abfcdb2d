package hub

// Looked is how many units of shown text h has looked at.
func Looked(h *Hub) (n int) {
	for i := range h.shards {
		n += h.shards[i].looked
	}
	return n
}
