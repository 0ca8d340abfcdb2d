package actors

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/messages"
)

// sessionRef is what the host knows of a live session.
type sessionRef struct {
	key   messages.SessionKey
	sid   string
	agent *Agent
	pid   *actor.PID
	// idle is the Unix nanosecond since which the session has had nothing to do;
	// 0 while it has.
	idle atomic.Int64
	// sent lists the requests on their way to the actor, latest first, under the
	// lock of the sid's shard.
	sent *request
	left atomic.Bool // the session has retired
}

func (r *sessionRef) busy()                 { r.idle.Store(0) }
func (r *sessionRef) idleSince(t time.Time) { r.idle.Store(t.UnixNano()) }

// directory maps SIDs, and the ids of their actors, to live sessions. The root
// alone writes; every door reads, and a session reads who it is.
type directory struct {
	seed   maphash.Seed
	shards [64]directoryShard
}

type directoryShard struct {
	mu   sync.RWMutex
	sids map[string]*sessionRef
	pids map[string]*sessionRef
}

func newDirectory() *directory {
	d := &directory{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].sids = map[string]*sessionRef{}
		d.shards[i].pids = map[string]*sessionRef{}
	}
	return d
}

func (d *directory) at(key string) *directoryShard {
	return &d.shards[maphash.String(d.seed, key)%uint64(len(d.shards))]
}

// aim finds the session a request is for, and notes that the request is on its way
// there until arrived. Without the note a request would be lost that reaches the
// mailbox when the actor has just been told to stop: the library drops what is
// queued there without a word.
func (d *directory) aim(req *request) *sessionRef {
	sid := req.key.SID()
	s := d.at(sid)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := s.sids[sid]
	if ref != nil {
		req.next, ref.sent = ref.sent, req
	}
	return ref
}

// arrived says that the session has the request: now it answers for it.
func (d *directory) arrived(ref *sessionRef, req *request) {
	s := d.at(ref.sid)
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := &ref.sent; *p != nil; p = &(*p).next {
		if *p == req {
			*p, req.next = req.next, nil
			return
		}
	}
}

// who finds a session by its actor.
func (d *directory) who(pid string) *sessionRef {
	s := d.at(pid)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pids[pid]
}

// find gives the session of that SID, if it is there.
func (d *directory) find(sid string) *sessionRef {
	s := d.at(sid)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sids[sid]
}

// introduce enters a session under the id its actor will have, so that the actor
// finds out who it is.
func (d *directory) introduce(ref *sessionRef, pid string) {
	s := d.at(pid)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids[pid] = ref
}

// put enters a session under its SID; its actor runs.
func (d *directory) put(ref *sessionRef) {
	s := d.at(ref.sid)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sids[ref.sid] = ref
}

// retire takes a session out from under its SID and reports whether it was there.
// Nothing is sent to it from then on.
func (d *directory) retire(ref *sessionRef) bool {
	s := d.at(ref.sid)
	s.mu.Lock()
	defer s.mu.Unlock()
	ref.left.Store(true)
	if s.sids[ref.sid] != ref {
		return false
	}
	s.sids = without(s.sids, ref.sid)
	return true
}

// forget takes a session out whose actor has stopped, and gives the requests that
// never arrived, in the order they were sent.
func (d *directory) forget(ref *sessionRef, pid string) (stranded []*request) {
	s := d.at(pid)
	s.mu.Lock()
	s.pids = without(s.pids, pid)
	s.mu.Unlock()
	s = d.at(ref.sid)
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
func without(m map[string]*sessionRef, key string) map[string]*sessionRef {
	delete(m, key)
	if len(m) == 0 {
		return map[string]*sessionRef{}
	}
	return m
}

// idleBefore lists the sessions that have been idle since before t.
func (d *directory) idleBefore(t time.Time) []*sessionRef {
	var out []*sessionRef
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

func (d *directory) len() int {
	n := 0
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		n += len(s.sids)
		s.mu.RUnlock()
	}
	return n
}
