package actors

import (
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// systems tells which system message the journal of a session has, as far as this host
// remembers: it is stored once, and named by each request. What is forgotten is stored
// again, which a store takes for what it has. The zero value is ready.
type systems struct {
	mu sync.Mutex
	by map[messages.Incarnation]system
}

// system is the message that was stored last.
type system struct {
	digest messages.Digest
	since  time.Time
	seen   int64 // erasures of the store by then
}

// maxSystems bounds how many sessions are remembered.
const maxSystems = 4096

// knows reports that the journal of a session has a system message.
func (h *Host) knowsSystem(inc messages.Incarnation, d messages.Digest) bool {
	h.systems.mu.Lock()
	defer h.systems.mu.Unlock()
	s, ok := h.systems.by[inc]
	// Another host may have erased it meanwhile.
	return ok && s.digest == d && s.seen == h.erasures() && h.cfg.Now().Sub(s.since) < historyAge
}

// keepSystem remembers what goes to the journal.
func (h *Host) keepSystem(inc messages.Incarnation, d messages.Digest) {
	h.systems.mu.Lock()
	defer h.systems.mu.Unlock()
	if h.systems.by == nil {
		h.systems.by = map[messages.Incarnation]system{}
	}
	if _, ok := h.systems.by[inc]; !ok && len(h.systems.by) >= maxSystems {
		for some := range h.systems.by {
			delete(h.systems.by, some)
			break
		}
	}
	h.systems.by[inc] = system{digest: d, since: h.cfg.Now(), seen: h.erasures()}
}

// forgetSystem is for a session whose journal has refused.
func (h *Host) forgetSystem(inc messages.Incarnation) {
	h.systems.mu.Lock()
	defer h.systems.mu.Unlock()
	delete(h.systems.by, inc)
}
