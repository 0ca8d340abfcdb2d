package feeds

import (
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A runway is where the flights of one feed begin and land, one at a time. A feed that
// ticks has one for as long as it does, with all at hand that a start needs: 100,000 of
// them a second look nothing up. Any other feed has one in Keeper.runways while a flight of
// it is in the air; when it begins to tick then, it takes that one, and when it stops, it
// leaves it there.
//
// Its lock is taken alone or inside the keeper's. in and entry are written under both.
type runway struct {
	mu      sync.Mutex
	in      *synced // nil while the feed does not tick
	entry   *Entry  // in in.set
	at      *place  // where its value was last, which the cache may have lost
	flight  *flight // for callers that wait; nil without any
	flying  bool
	crashed bool // there are crashes of it that are remembered
	failed  bool // a failure of it is remembered
}

// active is a session between Sync and Stop.
type active struct {
	*synced
	runways []*runway          // of the feeds that tick, in the order of the set
	crashes map[string]Crashes // by valueKey
	reasons map[string]string  // why the last fetch of a feed failed, by valueKey
	// subscriptions to feeds of other hosts, by valueKey
	subscriptions map[string]*subscription
}

// synced is what Sync was told of a session. It is never changed.
type synced struct {
	session Session
	set     Set
}

// A flight is one fetch, for all who wait for it. err and value are set before done is
// closed.
type flight struct {
	done  chan struct{}
	value Value
	err   error
}

func landed(v Value, err error) *flight {
	f := &flight{done: make(chan struct{}), value: v, err: err}
	close(f.done)
	return f
}

// join returns the flight that is in the air, for one more who waits. r.mu is held.
func (r *runway) join() *flight {
	if r.flight == nil {
		r.flight = &flight{done: make(chan struct{})}
	}
	return r.flight
}

// clear ends the flight, which put what it brought at a place, and gives it; nil when
// no caller waits. r.mu is held.
func (r *runway) clear(at *place) *flight {
	f := r.flight
	r.at, r.flight, r.flying = at, nil, false
	return f
}

// end tells those who wait what a flight brought.
func (f *flight) end(v Value, err error) {
	if f == nil {
		return
	}
	f.value, f.err = v, err
	close(f.done)
}

// runway finds that of a feed; nil when there is none. k.mu is held.
func (k *Keeper) runway(session string, e *Entry, key string) *runway {
	if a := k.sessions[session]; a != nil {
		for _, r := range a.runways {
			if r.entry.ID == e.ID && r.entry.Version == e.Version {
				return r
			}
		}
	}
	return k.runways[key]
}

// settle gives a session's feeds that tick their runways, and takes them from those that
// do no longer. k.mu is held.
func (k *Keeper) settle(a *active) {
	key := a.session.Key
	var stay []*runway
	for i := range a.set.entries {
		e := &a.set.entries[i]
		if !e.ticks() {
			continue
		}
		value := valueKey(key, e)
		r := k.runway(key, e, value)
		if r == nil {
			r = &runway{}
		}
		delete(k.runways, value)
		_, crashed := a.crashes[value]
		_, failed := a.reasons[value]
		r.mu.Lock()
		r.in, r.entry, r.crashed, r.failed = a.synced, e, crashed, failed
		r.mu.Unlock()
		stay = append(stay, r)
	}
	for _, r := range a.runways {
		if r.in != a.synced {
			k.leave(r)
		}
	}
	a.runways = stay
}

// leave takes the runway from a feed that does not tick any more. k.mu is held.
func (k *Keeper) leave(r *runway) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.in.session.Key
	r.in = nil
	if r.flying {
		k.runways[valueKey(key, r.entry)] = r
	}
}

// join returns the flight of a feed that is in the air, or begins one.
func (k *Keeper) join(s Session, e Entry, key string, deps []dependency, env []string) *flight {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.runway(s.Key, &e, key)
	if r == nil {
		r = &runway{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.flying:
		k.merged.Add(1)
		return r.join()
	case k.closed:
		return landed(Value{}, fail(messages.ErrCancelled, ReasonClosed, "the host stops"))
	case r.in == nil:
		k.runways[key] = r
	}
	r.flying = true
	k.fetches.Add(1)
	k.running.Add(1)
	at := k.cache.place(key)
	go func() {
		defer k.running.Done()
		k.fly(r, at, &s, &e, deps, env)
	}()
	return r.join()
}

// slow reports whether a fetch may take minutes.
func (r *runway) slow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in != nil && r.entry.Source.Kind == Agent
}

// start fetches a feed that is due, on the goroutine it is called on, which comes to it
// now, and gives the time when that is done.
func (k *Keeper) start(r *runway, now time.Time) time.Time {
	r.mu.Lock()
	in, e := r.in, r.entry
	if in == nil { // it ticks no more
		r.mu.Unlock()
		return now
	}
	at := r.at
	v, ok := at.held()
	if !ok {
		at = k.cache.place(valueKey(in.session.Key, e))
		v, ok = at.held()
	}
	if ok && !v.Failed && now.Sub(v.At) < Tick {
		// A prompt that came first has fetched it: that was this start's fetch.
		r.at = at
		r.mu.Unlock()
		return now
	}
	if r.flying || r.crashed || len(e.needs) > 0 { // others have a say
		r.mu.Unlock()
		<-k.round(in.session, in.set).want(in.set.at(e.ID), true).done
		return k.now()
	}
	r.flying = true
	r.mu.Unlock()
	k.fetches.Add(1)
	return k.fly(r, at, &in.session, e, nil, in.set.rules.Env)
}

// finish tells the wheel that a start is over, and when the next one may be after a crash.
func (k *Keeper) finish(s start) {
	r := s.runway
	r.mu.Lock()
	crashed := r.crashed
	r.mu.Unlock()
	var next time.Time
	if crashed {
		in, id, c := k.crashes(r)
		if c.Disabled() {
			k.wheel.Remove(in.session.Key, id)
			return
		}
		next = c.Next()
	}
	k.wheel.Done(s.ticket, next)
}

// crashes returns those of a feed that ticks; none when it does no longer.
func (k *Keeper) crashes(r *runway) (in *synced, id string, c Crashes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if in = r.in; in == nil {
		return nil, "", Crashes{}
	}
	key := in.session.Key
	return in, r.entry.ID, k.sessions[key].crashes[valueKey(key, r.entry)]
}
