package history

import (
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Systems are the system messages that the journals of sessions have, as far as this host
// remembers: one is stored once, and named by each request. What is forgotten is stored
// again, which a store takes for what it has. It is safe for concurrent use.
type Systems struct {
	of *Kept
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

// Has reports whether the journal of a session has a system message.
func (s *Systems) Has(inc messages.Incarnation, d messages.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.by[inc]
	// Another host may have erased it meanwhile.
	return ok && last.digest == d && last.seen == s.of.erasures() && s.of.now().Sub(last.since) < historyAge
}

// Keep remembers what goes to the journal.
func (s *Systems) Keep(inc messages.Incarnation, d messages.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[messages.Incarnation]system{}
	}
	if _, ok := s.by[inc]; !ok && len(s.by) >= maxSystems {
		for some := range s.by {
			delete(s.by, some)
			break
		}
	}
	s.by[inc] = system{digest: d, since: s.of.now(), seen: s.of.erasures()}
}

// Forget is for a session whose journal has refused.
func (s *Systems) Forget(inc messages.Incarnation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, inc)
}
