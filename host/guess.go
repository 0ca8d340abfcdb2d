package host

import (
	"sync"

	"github.com/seed14be6753/stile"
)

// maxGuesses bounds how many sessions' owners a host remembers.
const maxGuesses = 4096

// guesses remembers which host has answered for a session, so that the next submit goes there without
// a question to the database. A guess proves nothing: a host that is asked for a session which another
// one runs says so, and the database is asked then. Its methods are safe for concurrent use.
type guesses struct {
	mu sync.Mutex
	of map[string]string // id of a host by SID
}

// guess returns the live host that has last answered for a session, if that is another one than this
// and takes sessions.
func (g *guesses) guess(sid string, peers []stile.Peer) (stile.Peer, bool) {
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

// learn remembers that a host has answered for a session.
func (g *guesses) learn(sid, id string) {
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

// forget drops the guess of a session.
func (g *guesses) forget(sid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, sid)
}
