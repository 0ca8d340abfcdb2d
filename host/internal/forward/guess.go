package forward

import (
	"sync"

	"github.com/seed14be6753/stile"
)

// maxGuesses bounds how many sessions' owners a host remembers.
const maxGuesses = 4096

// Guesses remembers which host has answered for a session, so that the next submit goes there without
// a question to the database. A guess proves nothing: a host that is asked for a session which another
// one runs says so, and the database is asked then. The zero value has none. Its methods are safe for
// concurrent use.
type Guesses struct {
	mu sync.Mutex
	of map[string]string // id of a host by SID
}

// Guess returns the live host that has last answered for a session, if that is another one than this
// and takes sessions.
func (g *Guesses) Guess(sid string, peers []stile.Peer) (stile.Peer, bool) {
	g.mu.Lock()
	id := g.of[sid]
	g.mu.Unlock()
	if id == "" {
		return stile.Peer{}, false
	}
	for _, p := range peers {
		if p.ID == id {
			return p, !p.Self && !p.Draining && p.Left > 0
		}
	}
	return stile.Peer{}, false
}

// Learn remembers that a host has answered for a session.
func (g *Guesses) Learn(sid, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.of[sid]; !known && len(g.of) >= maxGuesses {
		for other := range g.of { // any will do: a guess that is missing costs one statement
			delete(g.of, other)
			break
		}
	}
	if g.of == nil {
		g.of = map[string]string{}
	}
	g.of[sid] = id
}

// Forget drops the guess of a session.
func (g *Guesses) Forget(sid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, sid)
}
