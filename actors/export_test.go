package actors

import "github.com/seed14be6753/stile/messages"

// Hops counts what actors and their work handed to one another so far: every message
// that wakes an actor, and everything an actor has done elsewhere.
func (h *Host) Hops() int64 {
	return h.pool.Handed()
}

// PutToSleep sends a session what the idle wheel would.
func (h *Host) PutToSleep(key messages.SessionKey) {
	sid := key.SID()
	s := h.dir.at(sid)
	s.mu.RLock()
	ref := s.sids[sid]
	s.mu.RUnlock()
	h.system.Root.Send(ref.pid, &sleep{})
}
