package actors

import "github.com/seed14be6753/stile/messages"

// PutToSleep sends a session what the idle wheel would.
func (h *Host) PutToSleep(key messages.SessionKey) {
	sid := key.SID()
	s := h.dir.at(sid)
	s.mu.RLock()
	ref := s.sids[sid]
	s.mu.RUnlock()
	h.system.Root.Send(ref.pid, &sleep{})
}
