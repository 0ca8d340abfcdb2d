package actors

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/messages"
)

// sessionRef is what the host knows of a live session.
type sessionRef struct {
	key messages.SessionKey
	pid *actor.PID
	// idle is the Unix nanosecond since which the session has had nothing to do;
	// 0 while it has.
	idle atomic.Int64
}

func (r *sessionRef) busy()                 { r.idle.Store(0) }
func (r *sessionRef) idleSince(t time.Time) { r.idle.Store(t.UnixNano()) }

// directory maps SIDs to live sessions. The root alone writes; every door reads.
type directory struct {
	seed   maphash.Seed
	shards [64]struct {
		mu   sync.RWMutex
		refs map[string]*sessionRef
	}
}

func newDirectory() *directory {
	d := &directory{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].refs = map[string]*sessionRef{}
	}
	return d
}

func (d *directory) at(sid string) int {
	return int(maphash.String(d.seed, sid) % uint64(len(d.shards)))
}

func (d *directory) get(sid string) *sessionRef {
	s := &d.shards[d.at(sid)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.refs[sid]
}

func (d *directory) put(sid string, ref *sessionRef) {
	s := &d.shards[d.at(sid)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs[sid] = ref
}

func (d *directory) delete(sid string) {
	s := &d.shards[d.at(sid)]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refs, sid)
}

// idleBefore lists the sessions that have been idle since before t.
func (d *directory) idleBefore(t time.Time) []*sessionRef {
	var out []*sessionRef
	limit := t.UnixNano()
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.RLock()
		for _, ref := range s.refs {
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
		n += len(s.refs)
		s.mu.RUnlock()
	}
	return n
}
