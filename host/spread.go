package host

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
)

// With Config.ClusterSpread a session that a client begins at this host begins at the one of the
// cluster that has less to do (forward.Place). If that one does not take it, it begins here.

// wantsBegin is what a host wants that has a session begun: one that has no room says so as if it did
// not run the session, and has done nothing.
const wantsBegin = "begin"

// Events of sessions that begin elsewhere, beside those of forwarded requests.
const (
	eventPlaced = "placed" // a session is begun at another host
	eventKept   = "kept"   // it is begun here, since that one did not take it
)

// spread chooses hosts for sessions. Its methods are safe for concurrent use; a nil one chooses none.
type spread struct {
	lease time.Duration

	mu    sync.Mutex
	sends forward.Sends
	shy   map[string]time.Time // hosts that do not answer, and until when they are left alone
	calls map[callID]spot      // of clients that repeat requests
}

// spot is where the session of a call is.
type spot struct {
	to string
	at time.Time
}

func newSpread(lease time.Duration) *spread {
	return &spread{lease: lease, shy: map[string]time.Time{}, calls: map[callID]spot{}}
}

// choose chooses the host for a session, with its first message or without. ok is false when it
// begins here.
func (s *spread) choose(peers []stile.Peer, run bool, now time.Time) (to stile.Peer, ok bool) {
	if s == nil || len(peers) < 2 {
		return to, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, until := range s.shy {
		if now.After(until) {
			delete(s.shy, id)
		}
	}
	spots := make([]forward.Spot, len(peers))
	for i := range peers {
		p := &peers[i]
		_, shy := s.shy[p.ID]
		spots[i] = forward.Spot{
			ID: p.ID, Said: p.Until.Add(-s.lease), Runs: p.Runs, MaxRuns: p.MaxRuns, Sessions: p.Sessions,
			Away: p.Draining || shy, Left: p.Until.Sub(now), Lease: s.lease,
		}
	}
	s.sends.Count(spots, now)
	i := forward.Place(spots, rand.Uint64(), rand.Uint64())
	if i < 0 {
		return to, false
	}
	s.sends.Note(peers[i].ID, run, now, s.lease)
	return peers[i], !peers[i].Self
}

// avoid leaves a host alone that does not answer, until it is known whether it lives.
func (s *spread) avoid(id string, now time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shy[id] = now.Add(s.lease)
}

// before is the host to which the request was sent that a client repeats.
func (s *spread) before(id callID, peers []stile.Peer) (to stile.Peer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range peers {
		if p := &peers[i]; s.calls[id].to == p.ID {
			return *p, p.Left > 0
		}
	}
	return to, false
}

// remember notes where the session of a call begins.
func (s *spread) remember(id callID, to string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= maxCalls {
		for id, c := range s.calls {
			if now.Sub(c.at) > joinWithin {
				delete(s.calls, id)
			}
		}
	}
	if len(s.calls) < maxCalls {
		s.calls[id] = spot{to, now}
	}
}

// forget forgets a call whose session has begun here.
func (s *spread) forget(id callID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
}

// place begins a session at the host that has less to do. done is false when the request begins none, or
// begins it here.
func (t *proxy) place() (out outcome, done bool) {
	s := t.c.spread
	if s == nil || t.placed || t.sid != "" {
		return settled, false
	}
	t.placed = true
	begins, run := t.begins()
	if !begins {
		return settled, false
	}
	peers := t.c.s.rt.Peers()
	var call callID
	repeat, marks := marksRepeats(t.r)
	if marks = marks && run; marks {
		call = idOfCall(t.c.s.principal(t.r.Context()), t.r.URL.Path, "", t.body)
	}
	var to stile.Peer
	there := false
	if marks && repeat > 0 {
		to, there = s.before(call, peers)
	}
	if !there {
		to, there = s.choose(peers, run, time.Now())
	}
	if !there {
		return settled, false
	}
	if marks {
		s.remember(call, to.ID, time.Now())
	}
	if t.r.Header.Get(keyHeader) == "" && !t.named {
		t.r.Header.Set(keyHeader, "host-"+uuid.NewString()) // it may have to be asked again
	}
	t.c.s.rt.Metrics().Cluster(eventPlaced)
	t.wants = wantsBegin
	out = t.at(to)
	t.wants = ""
	if out == elsewhere {
		t.slow = ""
		t.c.s.rt.Metrics().Cluster(eventKept)
		if marks {
			s.forget(call)
		}
	}
	return out, true
}

// begins reports whether a request begins a session, and whether with its first message. One that
// cannot be read does not: the handler says what is wrong with it.
func (t *proxy) begins() (yes, run bool) {
	var body struct {
		ID           string          `json:"id"`
		User         string          `json:"user"`
		Previous     json.RawMessage `json:"previous_response_id"`
		Conversation json.RawMessage `json:"conversation"`
	}
	switch {
	case t.pattern == beginPattern:
		err := json.Unmarshal(t.body, &body)
		t.named = body.ID != ""
		return err == nil, false
	case t.pattern != chatPattern && t.pattern != responsesPattern, t.r.Header.Get(sessionHeader) != "":
		return false, false
	case t.pattern == chatPattern && !t.c.s.cfg.ChatUserSession:
		return true, true
	}
	err := json.Unmarshal(t.body, &body)
	return err == nil && body.User == "" && !given(body.Previous) && !given(body.Conversation), true
}

// placeable is true of a request that is asked again when the host where its session was to begin
// goes away: it has a key, under which it finds what was begun.
func (t *proxy) placeable() bool {
	return t.wants == wantsBegin && !t.named && t.r.Header.Get(keyHeader) != ""
}

// fullFor reports whether a host has no room for a session that another one wants to have begun here.
func (p *problem) fullFor(wants string) bool {
	return wants == wantsBegin && p.Status == http.StatusServiceUnavailable && (p.Reason == overHost || p.Reason == reasonMemory)
}

// load is what this host says to the others of its runs.
func (s *Server) load() (runs, most int) {
	if s.used().tight() {
		return s.maxRuns, s.maxRuns
	}
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	return s.meter.runs, s.maxRuns
}
