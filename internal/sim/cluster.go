package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
)

// cluster is what stands between hosts that share the journal with leases: the database's table of
// them, what is on its way to it and back, and what is on its way between hosts. The hosts decide
// with the product's own code (package lease); the database here does what its statements do.
type cluster struct {
	w      *world
	length time.Duration // of a lease

	// The tables.
	rows   map[uuid.UUID]*row
	leases map[string]uuid.UUID
	ready  time.Time // no host joins before; zero: the database has just crashed
	doubt  bool      // it has crashed, and hosts may believe in leases that it does not know

	calls    []*statement
	mail     []*mail
	later    []*later
	requests []*request
	asked    int
	stuck    int // looks at a world at rest with a session that is open
}

// row is a host as the database has it.
type row struct {
	lease.Host
	until time.Time
}

type statement struct {
	h      *host
	life   int
	what   string
	do     func()
	answer func(error) // nil: it is not waited for any more
	done   bool
	err    error
	late   time.Time // it does not get there before
	until  time.Time // by the host's clock: then it gives up
}

// mail is on its way between hosts.
type mail struct {
	to *host
	do func()
}

// later is something that a process does at a time.
type later struct {
	h    *host
	life int
	at   time.Time // by the host's clock
	do   func()
}

var errAway = errors.New("the database does not answer")

func (w *world) clusterOf() *cluster {
	return &cluster{
		w: w, length: []time.Duration{2, 5, 20}[w.rnd.IntN(3)] * time.Second,
		rows: map[uuid.UUID]*row{}, leases: map[string]uuid.UUID{}, ready: w.now,
	}
}

func (k *cluster) live(id uuid.UUID) bool {
	r := k.rows[id]
	return r != nil && r.until.After(k.w.now)
}

// The statements, as journal/postgres makes them.

func (k *cluster) join(host lease.Host) (wait time.Duration) {
	now := k.w.now
	if k.ready.IsZero() {
		k.ready = now.Add(k.length)
	}
	if wait = max(0, k.ready.Sub(now)); wait > 0 {
		return wait
	}
	k.doubt = false
	for _, r := range k.rows {
		if r.Address == host.Address && r.until.After(now) {
			r.until = now
		}
	}
	k.rows[host.ID] = &row{host, now.Add(k.length)}
	return 0
}

func (k *cluster) renew(id uuid.UUID, draining bool) (ok bool, all []lease.Host) {
	if ok = k.live(id); ok {
		k.rows[id].until = k.w.now.Add(k.length)
		k.rows[id].Draining = k.rows[id].Draining || draining
	}
	for _, id := range slices.SortedFunc(maps.Keys(k.rows), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		one := k.rows[id].Host
		one.Left = k.rows[id].until.Sub(k.w.now)
		all = append(all, one)
	}
	return ok, all
}

func (k *cluster) claim(id uuid.UUID, sid string, until time.Time) (owner lease.Host, late bool) {
	switch has, ok := k.leases[sid]; {
	case !k.live(id):
	case ok && has != id && k.live(has):
		owner = k.rows[has].Host
	case !k.w.now.Before(until):
		late = true
	default:
		k.leases[sid], owner = id, k.rows[id].Host
	}
	return owner, late
}

func (k *cluster) owner(sid string) (owner lease.Host, held bool) {
	if id, ok := k.leases[sid]; ok && k.live(id) {
		return k.rows[id].Host, true
	}
	return owner, false
}

func (k *cluster) giveUp(id uuid.UUID, sids []string, until time.Time) {
	if !k.w.now.Before(until) {
		return
	}
	for _, sid := range sids {
		if k.leases[sid] == id {
			delete(k.leases, sid)
		}
	}
}

func (k *cluster) left(id uuid.UUID) (sids []string) {
	for sid, has := range k.leases {
		if has == id {
			sids = append(sids, sid)
		}
	}
	if len(sids) == 0 && !k.live(id) {
		delete(k.rows, id)
	}
	slices.Sort(sids)
	return sids
}

// crash has the database come up again without its unlogged tables. What was on its way to it is
// lost.
func (k *cluster) crash() {
	w := k.w
	w.stats.Forgotten++
	w.log.say("the database crashes, and forgets who has which session")
	clear(k.rows)
	clear(k.leases)
	k.ready, k.doubt = time.Time{}, true
	for _, c := range k.calls {
		c.done, c.err = true, errAway
	}
	for _, h := range w.hosts {
		if h.busy && !h.down {
			h.fail()
		}
	}
}

// send has a host make a statement, for which it waits so long.
func (k *cluster) send(h *host, what string, wait time.Duration, do func(), answer func(error)) {
	w := k.w
	c := &statement{h: h, life: h.life, what: what, do: do, answer: answer, until: h.mono().Add(wait)}
	if w.happens(30) {
		c.late = w.now.Add(time.Duration(w.rnd.Int64N(int64(2 * k.length))))
	}
	k.calls = append(k.calls, c)
}

// moves reports whether a statement or its answer can get on.
func (c *statement) moves() bool {
	switch {
	case c.h.life != c.life || c.answer == nil:
		return true
	case c.h.cut:
		return false
	case c.done:
		return !c.h.frozen
	}
	return !c.h.w.now.Before(c.late) || c.h.w.calm
}

// serve lets statements and answers get where they go.
func (k *cluster) serve() {
	w := k.w
	for range 3 {
		var can []*statement
		for _, c := range k.calls {
			if c.moves() {
				can = append(can, c)
			}
		}
		if len(can) == 0 {
			return
		}
		can[w.rnd.IntN(len(can))].move()
	}
}

// move takes a statement a step further.
func (c *statement) move() {
	w, k := c.h.w, c.h.w.cluster
	unheard := c.h.life != c.life || c.answer == nil
	switch {
	case unheard:
		if !c.done && w.rnd.IntN(2) == 0 && c.what != "a join" { // of that the host says more on the way
			w.log.say("host %d: %s gets to the database, and is not waited for", c.h.n, c.what)
			c.do()
		}
		k.drop(c)
	case c.done:
		k.drop(c)
		c.answer(c.err)
	case w.happens(k.w.weather.lose): // on its way there
		w.log.say("host %d: %s is lost", c.h.n, c.what)
		c.done, c.err = true, errAway
	default:
		w.log.say("host %d: %s gets to the database", c.h.n, c.what)
		c.do()
		c.done = true
		if w.happens(k.w.weather.lose) { // on its way back
			w.log.say("host %d: the answer to %s is lost", c.h.n, c.what)
			c.err = errAway
		}
	}
}

func (k *cluster) drop(c *statement) {
	if i := slices.Index(k.calls, c); i >= 0 {
		k.calls = slices.Delete(k.calls, i, i+1)
	}
}

// overdue has a host give up statements that take too long. What is on its way may still get there.
func (k *cluster) overdue(h *host) {
	for _, c := range slices.Clone(k.calls) {
		if c.h != h || c.life != h.life || c.answer == nil || h.mono().Before(c.until) {
			continue
		}
		answer := c.answer
		if c.answer = nil; c.done {
			k.drop(c)
		}
		answer(errAway)
	}
	for _, l := range slices.Clone(k.later) {
		if l.h != h || l.life == h.life && h.mono().Before(l.at) {
			continue
		}
		k.later = slices.DeleteFunc(k.later, func(o *later) bool { return o == l })
		if l.life == h.life {
			l.do()
		}
	}
}

// after has a process do something in a while.
func (k *cluster) after(h *host, d time.Duration, do func()) {
	k.later = append(k.later, &later{h, h.life, h.mono().Add(d), do})
}

// post has something get to another host, or not.
func (k *cluster) post(to *host, do func()) { k.mail = append(k.mail, &mail{to, do}) }

// carry passes on what is on its way between hosts.
func (k *cluster) carry() {
	w := k.w
	for range 2 {
		if len(k.mail) == 0 {
			return
		}
		i := w.rnd.IntN(len(k.mail))
		m := k.mail[i]
		switch {
		case m.to.frozen: // it is kept for it
			continue
		case m.to.down || w.happens(w.weather.lose):
			w.log.say("a message to host %d is lost", m.to.n)
		default:
			k.mail = slices.Delete(k.mail, i, i+1)
			m.do()
			continue
		}
		k.mail = slices.Delete(k.mail, i, i+1)
	}
}
