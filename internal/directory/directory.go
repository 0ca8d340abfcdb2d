// Package directory finds the live sessions of a host: by their SIDs, and by the ids of their
// actors. It also has the requests that are on their way to each, so that none is lost with an
// actor that stops.
//
// Invariants:
//   - a request that was aimed at a session has arrived there, or Forget returns it;
//   - nothing is aimed at a session that was removed.
//
// It spawns, stops and sends nothing: who does enters here what became of it.
package directory

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/messages"
)

// Session is what the host knows of a live session.
type Session struct {
	Key   messages.SessionKey
	SID   string
	Agent *compiled.Agent
	PID   *actor.PID // set before Put
	// idle is the Unix nanosecond since which the session has had nothing to do;
	// 0 while it has.
	idle atomic.Int64
	// sent lists the requests on their way to the actor, latest first, under the
	// lock of the SID's shard.
	sent    *InTransit
	removed atomic.Bool
}

// Busy says that the session has something to do.
func (s *Session) Busy() { s.idle.Store(0) }

// IdleSince says that the session has had nothing to do since t.
func (s *Session) IdleSince(t time.Time) { s.idle.Store(t.UnixNano()) }

// Removed reports whether the session was taken out from under its SID.
func (s *Session) Removed() bool { return s.removed.Load() }

// InTransit is a part of a request: its place in the list of those on their way to a session.
type InTransit struct {
	Request any // whose part it is
	next    *InTransit
}

// Directory maps SIDs, and the ids of their actors, to live sessions. It is safe for concurrent
// use. The root of the actors alone enters sessions and takes them out.
type Directory struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu   sync.RWMutex
	sids map[string]*Session
	pids map[string]*Session
}

// New makes an empty directory.
func New() *Directory {
	d := &Directory{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].sids = map[string]*Session{}
		d.shards[i].pids = map[string]*Session{}
	}
	return d
}

func (d *Directory) at(key string) *shard {
	return &d.shards[maphash.String(d.seed, key)%uint64(len(d.shards))]
}

// Aim finds the session a request is for, and notes that the request is on its way
// there until Arrived. Without the note a request would be lost that reaches the
// mailbox when the actor has just been told to stop: the library drops what is
// queued there without a word.
func (d *Directory) Aim(sid string, req *InTransit) *Session {
	s := d.at(sid)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.sids[sid]
	if ref != nil {
		req.next, ref.sent = ref.sent, req
	}
	return ref
}

// Arrived says that the session has the request: now it answers for it.
func (d *Directory) Arrived(ref *Session, req *InTransit) {
	s := d.at(ref.SID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := &ref.sent; *p != nil; p = &(*p).next {
		if *p == req {
			*p, req.next = req.next, nil
			return
		}
	}
}

// Who finds a session by its actor.
func (d *Directory) Who(pid string) *Session {
	s := d.at(pid)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pids[pid]
}

// Find returns the session of that SID, if it is there.
func (d *Directory) Find(sid string) *Session {
	s := d.at(sid)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sids[sid]
}

// Introduce enters a session under the id its actor will have, so that the actor
// finds out who it is.
func (d *Directory) Introduce(ref *Session, pid string) {
	s := d.at(pid)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids[pid] = ref
}

// Put enters a session under its SID; its actor runs.
func (d *Directory) Put(ref *Session) {
	s := d.at(ref.SID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sids[ref.SID] = ref
}

// Remove takes a session out from under its SID and reports whether it was there.
// Nothing is sent to it from then on.
func (d *Directory) Remove(ref *Session) bool {
	s := d.at(ref.SID)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref.removed.Store(true)
	if s.sids[ref.SID] != ref {
		return false
	}
	s.sids = without(s.sids, ref.SID)
	return true
}

// Forget takes a session out whose actor has stopped, and gives the requests that
// never arrived, in the order they were sent.
func (d *Directory) Forget(ref *Session, pid string) (stranded []*InTransit) {
	s := d.at(pid)
	s.mu.Lock()
	s.pids = without(s.pids, pid)
	s.mu.Unlock()
	s = d.at(ref.SID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref.sent != nil {
		req := ref.sent
		ref.sent, req.next = req.next, nil
		stranded = append(stranded, req)
	}
	slices.Reverse(stranded)
	return stranded
}

// without deletes a key and gives the map to go on with: a map does not shrink by
// itself, so an empty one is made anew.
func without(m map[string]*Session, key string) map[string]*Session {
	delete(m, key)
	if len(m) == 0 {
		return map[string]*Session{}
	}
	return m
}

// IdleBefore lists the sessions that have been idle since before t.
func (d *Directory) IdleBefore(t time.Time) []*Session {
	var out []*Session
	limit := t.UnixNano()
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		for _, ref := range s.sids {
			if at := ref.idle.Load(); at != 0 && at < limit {
				out = append(out, ref)
			}
		}
		s.mu.RUnlock()
	}
	return out
}

// Len counts the sessions.
func (d *Directory) Len() int {
	n := 0
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		n += len(s.sids)
		s.mu.RUnlock()
	}
	return n
}
