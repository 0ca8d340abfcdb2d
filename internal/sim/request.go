package sim

import (
	"fmt"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// request is what a client asks at the door of a host: that host serves it, or forwards it once to
// the one that runs the session, as package host does.
type request struct {
	c       *client
	in      *messages.Input // a submit, which is safe to make again; nil for what is not
	door    *host
	life    int
	until   time.Time // by the clock of the world: the client goes
	attempt int       // answers to earlier ones do not count
	over    bool
}

// came is what came of an attempt, as in package host.
type came int

const (
	settled   came = iota
	elsewhere      // nothing was done
	unknown        // it is not known what was done
)

// asks has a client ask something at the door of a host.
func (k *cluster) asks(c *client, h *host) {
	r := &request{c: c}
	if k.w.calm || k.w.rnd.IntN(3) > 0 {
		in := c.input()
		k.asked++
		in.Key = fmt.Sprintf("h-%d", k.asked)
		r.in = &in
	}
	k.requests = append(k.requests, r)
	k.w.log.say("client %d asks at host %d", c.n, h.n)
	k.comes(r, h)
}

// comes has a request come to a door, also again.
func (k *cluster) comes(r *request, h *host) {
	r.door, r.life, r.until = h, h.life, k.w.now.Add(15*time.Second)
	h.trip(r)
}

// trip makes one attempt at a request that came from a client.
func (h *host) trip(r *request) {
	if r.over {
		return
	}
	m, k := h.member, h.w.cluster
	r.attempt++
	n, life := r.attempt, h.life
	back := func(o came) {
		if h.life != life || h.down || r.over || r.attempt != n {
			return
		}
		r.attempt++ // it counts once
		h.comesBack(r, o)
	}
	if m.has.Has(r.c.sid) && m.held() {
		h.serves(r, false, back)
		return
	}
	var owner lease.Host
	var held bool
	k.send(h, "the owner of "+r.c.sid, 5*time.Second, func() { owner, held = k.owner(r.c.sid) }, func(err error) {
		switch {
		case err == nil && held && owner.ID != m.id:
			h.forwards(r, owner, back)
			return
		case m.drains && !(err == nil && held):
			for _, o := range m.others {
				if o.ID != m.id && !o.Draining && o.Live() {
					h.forwards(r, o, back)
					return
				}
			}
		}
		h.serves(r, false, back)
	})
}

// comesBack goes on with a request after an attempt.
func (h *host) comesBack(r *request, o came) {
	switch {
	case o == settled, o == unknown && r.in == nil, !h.w.now.Before(r.until):
		r.over = true
	default:
		h.w.cluster.after(h, h.w.cluster.length/16, func() { h.trip(r) })
	}
}

// forwards has another host serve a request.
func (h *host) forwards(r *request, to lease.Host, back func(came)) {
	w, k := h.w, h.w.cluster
	w.stats.Forwarded++
	answered := false
	once := func(o came) {
		if !answered {
			answered = true
			back(o)
		}
	}
	k.after(h, k.length+3*time.Second, func() { once(unknown) })
	there := k.at(to)
	w.log.say("host %d forwards to host %d", h.n, there.n)
	k.post(there, func() {
		reply := func(o came) { k.post(h, func() { once(o) }) }
		if there.member.id != to.ID || there.away() {
			reply(elsewhere)
			return
		}
		there.serves(r, true, reply)
	})
}

// at finds a host by its address.
func (k *cluster) at(to lease.Host) *host {
	var n int
	if _, err := fmt.Sscanf(to.Address, "host-%d", &n); err != nil {
		k.w.violated("step", "%v", err)
	}
	return k.w.hosts[n]
}

// serves has a host serve a request itself: it is not forwarded again.
func (h *host) serves(r *request, forwarded bool, back func(came)) {
	w := h.w
	h.open(r.c, func(err error) {
		s := h.shells[r.c.n]
		switch {
		case err != nil:
			if _, there := lease.Owner(err); there && forwarded {
				w.log.say("host %d does not run session %d", h.n, r.c.n)
			}
			back(elsewhere)
			return
		case s == nil || s.dead:
			back(elsewhere)
			return
		}
		a := &asked{at: s, back: back}
		if r.in != nil {
			a.in, a.req = *r.in, r
		}
		before := r.c.last
		r.c.asks(s, a)
		if s.dead && a.back != nil { // it was not asked any more
			a.back = nil
			back(elsewhere)
		} else if r.c.last == before {
			back(settled)
		}
	})
}

// tend looks after clients whose door has gone.
func (k *cluster) tend() {
	w := k.w
	all := k.requests[:0]
	for _, r := range k.requests {
		switch {
		case r.over:
			continue
		case r.door.life != r.life || r.door.down, w.now.After(r.until.Add(time.Minute)):
			if r.in == nil || !w.calm && w.rnd.IntN(2) == 0 {
				r.over = true
				continue
			}
			if h := k.door(); h != nil {
				w.log.say("client %d comes back, to host %d", r.c.n, h.n)
				k.comes(r, h)
			}
		}
		all = append(all, r)
	}
	k.requests = all
}

// door is a host that a load balancer finds; nil when there is none.
func (k *cluster) door() *host {
	var up []*host
	for _, h := range k.w.hosts {
		if !h.down && (!h.frozen || k.w.rnd.IntN(4) == 0) {
			up = append(up, h)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[k.w.rnd.IntN(len(up))]
}

// storm is what a cluster has of trouble beside the weather.
func (t *weather) storm(w *world) {
	pick := func(of ...int) int { return of[w.rnd.IntN(len(of))] }
	t.freeze, t.cut, t.forget, t.drain, t.lose = pick(0, 2, 6), pick(0, 2, 6), pick(0, 0, 1, 2), pick(0, 0, 2), pick(0, 10, 40)
}

// next does one thing that may happen now among hosts.
func (k *cluster) next() {
	w := k.w
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	n := w.rnd.IntN(1000)
	defer w.alone()
	for _, may := range []struct {
		weight int
		do     func()
	}{
		{w.weather.ask, func() {
			if door := k.door(); door != nil {
				if c := w.clients[w.rnd.IntN(len(w.clients))]; c.parent == nil {
					k.asks(c, door)
				}
			}
		}},
		{w.weather.repeat, w.repeat},
		{w.weather.crash, h.crash},
		{w.weather.power / 2, w.powerFailure},
		{w.weather.retire, func() {
			if !h.away() {
				h.sleepIdle()
			}
		}},
		{w.weather.entropy, func() { w.entropy.fails = true }},
		{w.weather.skew, h.drifts},
		{w.weather.freeze, h.freeze},
		{w.weather.cut, h.isCut},
		{w.weather.forget, k.crash},
		{w.weather.drain, h.drains},
		{150, func() { w.write(h) }},
		{80, func() {
			k.tend()
			w.pass()
		}},
		{200, k.serve},
		{100, k.carry},
	} {
		if n -= may.weight; n < 0 {
			may.do()
			return
		}
	}
	w.deliver()
}

// while is how long a trouble of a host takes: less than a lease, or more.
func (h *host) while() time.Duration {
	return time.Duration(h.w.rnd.Int64N(int64(3 * h.w.cluster.length)))
}

func (h *host) freeze() {
	w := h.w
	if h.away() {
		return
	}
	w.stats.Frozen++
	w.log.say("host %d stands still", h.n)
	if h.busy && !h.cut && w.rnd.IntN(2) == 0 { // what is on its way gets there
		h.commit()
	}
	h.frozen, h.thaw = true, w.now.Add(h.while())
}

func (h *host) isCut() {
	if h.away() {
		return
	}
	h.w.log.say("host %d does not reach the database", h.n)
	h.cut, h.thaw = true, h.w.now.Add(h.while())
}

func (h *host) drains() {
	if !h.away() {
		h.w.log.say("host %d drains", h.n)
		h.member.drains = true
	}
}

// heal ends what troubles the hosts.
func (k *cluster) heal() {
	for _, h := range k.w.hosts {
		if h.member.drains && !h.down {
			h.die() // it is told to stop, and starts again
		}
		h.attend()
	}
}

// attend has users answer what they are asked, or lets the time for it run out.
func (k *cluster) attend() {
	w := k.w
	for _, c := range w.clients {
		head, err := w.disk.Head(bg, c.sid)
		if err != nil || !head.Suspended() {
			continue
		}
		if w.rnd.IntN(4) == 0 {
			for _, h := range w.hosts {
				h.skew += 25 * time.Hour
			}
			continue
		}
		if h := k.door(); h != nil {
			h.open(c, func(error) {
				if s := h.shells[c.n]; s != nil && !s.dead && s.machine.Phase() == turn.Suspended {
					c.last++
					c.approve(s, &asked{}, c.last)
				}
			})
		}
	}
}

// resting reports whether nothing is on its way.
func (k *cluster) resting() bool {
	k.tend()
	for _, h := range k.w.hosts {
		if h.away() || h.member.until.IsZero() || len(h.waking) > 0 || h.member.looks+h.member.pays > 0 || len(h.member.left)+len(h.member.open) > 0 {
			return false
		}
	}
	for _, c := range k.calls {
		if c.what != "a renewal" {
			return false
		}
	}
	return len(k.mail) == 0 && len(k.requests) == 0
}

// mostStuck is how often a world at rest may be looked at until a session that is open must have
// been taken up.
const mostStuck = 100

// scan looks for sessions that are open at rest. A session of which only actions are left that no
// turn waits for is woken, as by a client.
func (k *cluster) scan() (found bool) {
	w := k.w
	for _, c := range w.clients {
		head, err := w.disk.Head(bg, c.sid)
		if err != nil {
			continue
		}
		if head.Pending() || head.Suspended() {
			found = true
			if k.stuck++; k.stuck > mostStuck {
				w.violated("rest", "session %d is open, and no host goes on with it", c.n)
			}
			continue
		}
		if len(c.history.left) > 0 {
			found = true
			h := w.hosts[w.rnd.IntN(len(w.hosts))]
			h.open(c, func(error) {})
		}
	}
	if !found {
		k.stuck = 0
	}
	return found
}
