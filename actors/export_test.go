package actors

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Hops counts what actors and their work handed to one another so far: every message
// that wakes an actor, and everything an actor has done elsewhere.
func (h *Host) Hops() int64 {
	return h.pool.Handed()
}

// PutToSleep sends a session what the idle wheel would.
func (h *Host) PutToSleep(key messages.SessionKey) {
	h.TryToSleep(key)
}

// TryToSleep is PutToSleep for a session that may be asleep.
func (h *Host) TryToSleep(key messages.SessionKey) {
	if ref := h.dir.Find(key.SID()); ref != nil {
		h.system.Root.Send(ref.PID, &sleep{})
	}
}

// Children counts the actors that are children of sessions.
func (h *Host) Children() (n int) {
	for i := range h.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range h.system.ProcessRegistry.LocalPIDs.LocalPIDs[i].Keys() {
			if strings.HasPrefix(id, h.root.Id+"/") && strings.Count(id, "/") > strings.Count(h.root.Id, "/")+1 {
				n++
			}
		}
	}
	return n
}
