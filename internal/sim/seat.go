package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// seat is a host among others: what membership.Member and the runtime do around the decisions of
// package lease, without goroutines.
//
//	flushing ⇒ claims == 0
type seat struct {
	h       *host
	id      uuid.UUID
	keeper  lease.Keeper
	until   time.Time // up to which it believes in its lease, by its own clock; zero without one
	has     lease.Sessions
	others  []lease.Host
	said    time.Time // by the database's clock
	at      time.Time // when it said so
	drains  bool
	busy    bool // it joins or renews
	retry   time.Time
	forgot  bool // the database has forgotten who had which session
	started bool // it has had a lease

	claims   int // on their way
	flushing bool
	flush    time.Time // not before
	waits    []func()  // claims behind that

	looks  int // at something that a dead host left, or that is open
	pays   int // looks that it owes
	pace   time.Time
	dead   []uuid.UUID // to look at
	leftBy uuid.UUID
	left   []string
	open   []string // sessions with something open, when it is not known who had them
	rounds int
	alarm  time.Time
}

func newSeat(h *host) *seat { return &seat{h: h} }

// mono is the host's clock that only goes forward.
func (h *host) mono() time.Time {
	if h.w.cluster == nil {
		return h.w.now
	}
	return time.Unix(0, 0).Add(time.Duration(float64(h.w.now.Sub(epoch)) * h.drift))
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// away reports whether nothing of the host runs at the moment.
func (h *host) away() bool { return h.down || h.frozen }

// held reports whether the host believes in its lease.
func (m *seat) held() bool {
	return m.h.mono().Before(m.until) || m.h.w.believes && !m.until.IsZero()
}

// held reports whether the host may go on with what it runs.
func (h *host) held() bool { return h.member == nil || h.member.held() }

// attend does what time brings about at a host of a cluster.
func (h *host) attend() {
	m, w := h.member, h.w
	if m == nil {
		return
	}
	if !w.now.Before(h.thaw) || w.calm {
		if h.frozen {
			w.log.say("host %d wakes up", h.n)
		}
		h.frozen, h.cut = false, false
		if h.down {
			w.log.say("host %d starts", h.n)
			h.boot()
			m = h.member
		}
	}
	if h.away() || w.happens(50) { // it is late
		return
	}
	w.cluster.overdue(h)
	now := h.mono()
	switch {
	case m.busy:
	case m.until.IsZero():
		if !now.Before(m.retry) {
			m.join()
		}
	case !now.Before(m.keeper.Next()), w.happens(20) && !now.Before(m.keeper.Woken()):
		m.renew()
	}
	m.givesUp()
	m.takesUp()
	m.alarms()
}

func (m *seat) join() {
	w, k := m.h.w, m.h.w.cluster
	m.busy = true
	var id uuid.UUID
	_, _ = w.jti.Read(id[:])
	self := lease.Host{ID: id, Address: fmt.Sprintf("host-%d", m.h.n)}
	var wait time.Duration
	failed := func(wait time.Duration) {
		m.busy, m.forgot = false, m.forgot || wait > 0
		m.retry = m.h.mono().Add(cmp.Or(wait, k.length/4))
	}
	k.send(m.h, "a join", k.length, func() { wait = k.join(self) }, func(err error) {
		if err != nil || wait > 0 {
			failed(wait)
			return
		}
		sent := m.h.mono()
		var ok bool
		var all []lease.Host
		var said time.Time
		k.send(m.h, "the first renewal", k.length, func() {
			ok, all = k.renew(id, m.drains)
			said = m.h.w.now
		}, func(err error) {
			if err != nil || !ok {
				failed(0)
				return
			}
			m.busy, m.id, m.keeper = false, id, lease.Keep(k.length, sent)
			w.log.say("host %d has a lease", m.h.n)
			m.note(said, all)
			if !m.started || m.forgot { // the scan of a host that starts, or that of one that cannot know
				m.rounds = 3
				m.lists()
			}
			m.started, m.forgot = true, false
		})
	})
}

func (m *seat) renew() {
	k := m.h.w.cluster
	if !m.keeper.Send(m.h.mono()) {
		m.lose()
		return
	}
	m.busy = true
	id := m.id
	var ok bool
	var all []lease.Host
	var said time.Time
	k.send(m.h, "a renewal", m.keeper.Until().Sub(m.h.mono()), func() {
		ok, all = k.renew(id, m.drains)
		said = m.h.w.now
	}, func(err error) {
		m.busy = false
		switch now := m.h.mono(); {
		case err != nil:
			m.keeper.Failed(now)
		case !ok:
			m.keeper.Refused(now)
		case m.keeper.Renewed(now):
			m.note(said, all)
		}
	})
}

// note keeps what a renewal has told.
func (m *seat) note(said time.Time, all []lease.Host) {
	m.until, m.others = m.keeper.Until(), all
	m.keeper.Others(m.h.mono(), m.id, all)
	m.said, m.at = said, m.h.mono()
	if m.drains {
		m.h.sleepIdle()
		return
	}
	if dead := lease.Dead(m.id, all); len(m.dead) == 0 {
		m.dead = dead
	}
}

// now is the time by the database's clock, about.
func (m *seat) now() time.Time { return m.said.Add(m.h.mono().Sub(m.at)) }

// lose has the host stop what it runs.
func (m *seat) lose() {
	w := m.h.w
	w.stats.Lost++
	w.log.say("host %d has lost its lease", m.h.n)
	m.until, m.retry = time.Time{}, m.h.mono()
	for i, s := range m.h.shells {
		if s != nil {
			s.stop()
			m.h.shells[i] = nil
		}
	}
	m.has.Lost()
}

// claim makes a session the host's.
func (m *seat) claim(sid string, then func(error)) {
	k := m.h.w.cluster
	switch {
	case !m.held():
		then(lease.Lost())
		return
	case m.flushing: // claims and releases do not overtake each other
		m.waits = append(m.waits, func() { m.claim(sid, then) })
		return
	}
	switch mine, before := m.has.Wants(sid); {
	case mine:
		then(nil)
		return
	case m.h.mono().Before(before):
		k.after(m.h, before.Sub(m.h.mono()), func() { m.claim(sid, then) })
		return
	}
	id := m.id
	m.claims++
	var owner lease.Host
	var late bool
	until, settled := m.now().Add(k.length), lease.Settled(m.h.mono(), k.length)
	k.send(m.h, "a claim of "+sid, 10*time.Second, func() { owner, late = k.claim(id, sid, until) }, func(err error) {
		m.claims--
		if late && err == nil {
			err = errAway
		}
		if err != nil {
			m.has.Doubt(sid, settled)
		} else {
			err = lease.Answer(sid, id, owner)
		}
		if err == nil && (m.id != id || !m.held()) {
			err = lease.Lost()
		}
		if err == nil {
			m.has.Claimed(sid)
		}
		then(err)
	})
}

// givesUp tells the database of sessions that are given up.
func (m *seat) givesUp() {
	k, sids := m.h.w.cluster, m.has.Leaving()
	if m.flushing || m.claims > 0 || len(sids) == 0 || m.h.mono().Before(m.flush) {
		return
	}
	m.flushing = true
	id, until, settled := m.id, m.now().Add(k.length), lease.Settled(m.h.mono(), k.length)
	k.send(m.h, "a release", k.length, func() { k.giveUp(id, sids, until) }, func(err error) {
		if m.flushing = false; err != nil {
			m.has.Unsure(sids, settled)
			m.flush = m.h.mono().Add(k.length / 4)
		} else {
			m.has.GivenUp(sids)
		}
		waits := m.waits
		m.waits = nil
		for _, do := range waits {
			do()
		}
	})
}

// lists lists the sessions that have something open.
func (m *seat) lists() {
	for _, c := range m.h.w.clients {
		if head, err := m.h.w.disk.Head(bg, c.sid); err == nil && head.Pending() {
			m.open = append(m.open, c.sid)
		}
	}
}

// Looks at once: those at what dead hosts left, and those that are owed. A host of the product makes
// more, and of what two do together three do no more.
const (
	mostLooks = 2
	mostPays  = 2
)

// takesUp takes up what dead hosts left, and looks at what this host owes.
func (m *seat) takesUp() {
	w, k := m.h.w, m.h.w.cluster
	if w.abandons || m.until.IsZero() {
		return
	}
	m.repays()
	if m.looks == mostLooks || m.h.mono().Before(m.pace) {
		return
	}
	ends := func() { m.looks, m.pace = m.looks-1, m.h.mono().Add(20*time.Millisecond) }
	switch {
	case len(m.open) > 0:
		sid := m.open[0]
		m.open = m.open[1:]
		m.looks++
		m.take(sid, func(lease.Look) {
			ends()
			if m.rounds > 1 && len(m.open) == 0 && m.looks == 0 {
				m.rounds--
				m.pace = m.h.mono().Add(k.length)
				m.lists()
			}
		})
	case len(m.left) > 0:
		if !m.held() || m.drains {
			m.left = nil
			return
		}
		sid, dead := m.left[0], m.leftBy
		m.left = m.left[1:]
		m.looks++
		m.take(sid, func(look lease.Look) {
			if look.Found != lease.Idle {
				if ends(); look.Found == lease.Runs {
					w.stats.Taken++
				}
				return
			}
			w.stats.Taken++
			until := m.now().Add(k.length)
			k.send(m.h, "a release for a dead host", k.length, func() { k.giveUp(dead, []string{sid}, until) }, func(error) { ends() })
		})
	case len(m.dead) > 0 && m.looks == 0:
		dead := m.dead[0]
		m.dead = m.dead[1:]
		m.looks++
		var sids []string
		k.send(m.h, "the list of a dead host", k.length, func() { sids = k.left(dead) }, func(err error) {
			if m.looks--; err == nil {
				m.leftBy, m.left = dead, sids
			}
		})
	}
}

// repays looks at sessions that the host owes.
func (m *seat) repays() {
	for _, sid := range m.has.Due(m.h.mono()) {
		if m.pays == mostPays || !m.held() {
			return
		}
		m.pays++
		m.has.Looks(sid, m.h.mono())
		m.take(sid, func(look lease.Look) {
			m.pays--
			m.has.Looked(sid, look, m.h.mono())
		})
	}
}

// take looks at a session, and takes it up if something of it is open, as Runtime.take does.
func (m *seat) take(sid string, then func(lease.Look)) {
	w := m.h.w
	c := w.named(sid)
	if !m.h.cut { // behind what is on its way to the journal
		m.h.drain()
	}
	head, err := w.disk.Head(bg, sid)
	switch {
	case m.h.cut:
		then(lease.Look{})
		return
	case journal.IsNotFound(err), !head.Suspended() && !head.Pending():
		then(lease.Look{Found: lease.Idle})
		return
	case head.Suspended() && head.Wake > m.h.now().UnixNano():
		then(lease.Look{Found: lease.Idle})
		return
	}
	m.h.open(c, func(err error) {
		if s := m.h.shells[c.n]; err == nil && head.Suspended() && s != nil && !s.dead {
			s.step(&turn.Expire{})
			s.endTurn()
		}
		_, elsewhere := lease.Owner(err)
		switch {
		case err == nil:
			then(lease.Look{Found: lease.Runs})
		case elsewhere:
			then(lease.Look{Found: lease.HeldElsewhere, Head: head.Hash})
		default:
			then(lease.Look{})
		}
	})
}

// alarms wakes the sessions whose question has expired.
func (m *seat) alarms() {
	w := m.h.w
	if !m.held() || m.h.cut || m.h.mono().Before(m.alarm) {
		return
	}
	m.alarm = m.h.mono().Add(w.cluster.length)
	for _, c := range w.clients {
		if head, err := w.disk.Head(bg, c.sid); err == nil && head.Suspended() && head.Wake <= m.h.now().UnixNano() {
			m.take(c.sid, func(lease.Look) {})
		}
	}
}

// open wakes a session, claiming it first.
func (h *host) open(c *client, then func(error)) {
	if h.shells[c.n] != nil {
		then(nil)
		return
	}
	first := len(h.waking[c.n]) == 0
	h.waking[c.n] = append(h.waking[c.n], then)
	if !first {
		return
	}
	h.member.claim(c.sid, func(err error) {
		switch {
		case err != nil:
		case h.cut: // its journal cannot be read
			err = errAway
			h.member.has.Owe(c.sid)
		case h.shells[c.n] == nil:
			h.wake(c)
		}
		all := h.waking[c.n]
		delete(h.waking, c.n)
		for _, then := range all {
			then(err)
		}
	})
}

// rouse wakes a session, at whatever host of a cluster has it. The session is nil when it is
// not known where it is awake.
func (h *host) rouse(c *client, then func(*shell, error)) {
	k := h.w.cluster
	if k == nil {
		then(h.wake(c), nil)
		return
	}
	h.open(c, func(err error) {
		owner, there := lease.Owner(err)
		if !there {
			then(h.shells[c.n], err)
			return
		}
		answered := false
		once := func(s *shell, err error) {
			if !answered {
				answered = true
				then(s, err)
			}
		}
		k.after(h, k.length+3*time.Second, func() { once(nil, errAway) })
		at := k.at(owner)
		k.post(at, func() {
			if at.member.id == owner.ID && !at.away() {
				at.open(c, func(err error) { once(at.shells[c.n], err) })
			}
		})
	})
}

// lost ends an activation when its host does not believe in its lease any more.
func (s *shell) lost() bool {
	if s.host.held() || s.machine == nil {
		return false
	}
	s.discard()
	return true
}

// owe has the host look at the session again, which stops in the middle.
func (s *shell) owe() {
	if m := s.host.member; m != nil && m.has.Has(s.client.sid) {
		m.has.Owe(s.client.sid)
	}
}

// leaves lets go of what a session that has stopped was asked, and gives the session up.
func (h *host) leaves(s *shell) {
	if h.member == nil || h.down {
		return
	}
	h.member.has.GiveUp(s.client.sid)
	for _, handle := range handles(s.client) {
		if a := s.client.asked[handle]; a.at == s && a.back != nil {
			back := a.back
			a.back = nil
			back(elsewhere)
		}
	}
}

// entitled checks that a host whose session shows, answers or begins something has a lease, by the
// database's clock, and the session.
func (s *shell) entitled(e turn.Effect) {
	h, w := s.host, s.host.w
	if h.member == nil {
		return
	}
	switch e := e.(type) {
	case *turn.Publish, *turn.OpenModel, *turn.StartAction, *turn.RunProgram:
	case *turn.Answer:
		if e.Err != nil {
			return
		}
	default:
		return
	}
	k := w.cluster
	if !k.doubt && (k.leases[s.client.sid] != h.member.id || !k.live(h.member.id)) {
		w.violated("lease", "%T of session %d at host %d, which has no lease for it", e, s.client.n, h.n)
	}
}

// alone checks that of each session one host at most believes that it runs it.
func (w *world) alone() {
	k := w.cluster
	for _, c := range w.clients {
		n := 0
		for _, h := range w.hosts {
			if s := h.shells[c.n]; s == nil || s.dead || h.down || !h.member.held() {
				continue
			}
			if n++; n > 1 {
				w.violated("lease", "session %d is awake at two hosts that believe in their leases", c.n)
			}
			if !k.doubt && (k.leases[c.sid] != h.member.id || !k.live(h.member.id)) {
				w.violated("lease", "session %d is awake at host %d, which believes in a lease that the database does not know", c.n, h.n)
			}
		}
	}
}

// once checks that an input with a key of the hosts' is there once, as long as its session
// remembers the key.
func once(inputs map[int64]*messages.Record) error {
	type use struct {
		seq int64
		nth int // of the inputs with a key
	}
	seen, nth := map[string]use{}, 0
	for _, seq := range slices.Sorted(maps.Keys(inputs)) {
		key := inputs[seq].Body.(*messages.Input).Key
		if key == "" {
			continue
		}
		nth++
		if before, twice := seen[key]; twice && strings.HasPrefix(key, "h-") && nth-before.nth <= turn.KeyMemory {
			return fmt.Errorf("inputs %d and %d have the key %s", before.seq, seq, key)
		}
		seen[key] = use{seq, nth}
	}
	return nil
}

func handles(c *client) (all []uint64) {
	for handle := range c.asked {
		all = append(all, handle)
	}
	slices.Sort(all)
	return all
}
