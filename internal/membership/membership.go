// Package membership keeps a host among those that share its journal: it renews the host's
// lease, claims and releases the sessions that the host runs, and takes up what dead hosts left.
//
// Invariants:
//   - a host whose lease cannot be renewed is told so before the lease ends by the database's
//     clock, once, and has no lease until it has joined again, as another one;
//   - a session is claimed before it is loaded, and released when nothing of it runs any more;
//   - what a dead host left is offered to this host at a pace, and is this host's only when it
//     has claimed it: of several hosts one gets it.
//
// It runs no session and reads no journal. Whether a session may be written to, the fence says.
package membership

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/lease"
)

// Config is what a Member needs.
type Config struct {
	Table   lease.Table // the member's to close
	Address string      // where other hosts reach this one
	Version string
	Lease   time.Duration
	Log     *zap.Logger
	// Load is what this host has to do; the member adds the sessions. nil says nothing.
	Load func() lease.Load
	// Lost has the host stop all that it runs: it has no lease any more. It must not wait for that.
	Lost func()
	// Idle has the host give up what is idle, while it drains. It must not wait for that.
	Idle func()
	// Gone is called when the lease of another host is over.
	Gone func()
	// Claimed is called when another host has claimed a session; sid is "" where it may have been
	// any. nil is none.
	Claimed func(ctx context.Context, sid string)
	// Take looks at a session, and takes it up if something of it is open. Of a dead host's the ones
	// that stay unknown stay that host's, for another host to take. It is called for many at once.
	Take func(ctx context.Context, sid string) lease.Look
	// Open lists the sessions that have something open, whichever host had them: when the database has
	// forgotten that, they are all taken up that no host has by then.
	Open func(ctx context.Context) ([]string, error)
	// PerSecond bounds how many sessions of dead hosts are taken up in a second, beside the 16 that
	// begin at once. Of those that stopped here in the middle up to a quarter as many are.
	PerSecond int
	// Clock is read with each renewal; nil is none.
	Clock *Clock
	// Count counts what happens, for metrics; nil counts nothing.
	Count func(Event)
}

// Event is something that metrics count.
type Event string

// The events.
const (
	Renewed  Event = "renewed"   // the lease was renewed
	Missed   Event = "missed"    // an attempt to renew it failed
	Lost     Event = "lost"      // it was over
	Claimed  Event = "claimed"   // a session became this host's
	Refused  Event = "refused"   // a session is another host's
	Released Event = "released"  // a session was given up
	TookOver Event = "took_over" // a session of a dead host was dealt with here
)

// page is how many sessions of a dead host are listed at first.
const page = 64

// Member is this host among the others. Its methods are safe for concurrent use.
type Member struct {
	cfg    Config
	began  time.Time
	keeper lease.Keeper // until Start
	until  atomic.Int64 // up to which the lease is held, since began; 0 without one
	id     atomic.Pointer[uuid.UUID]
	others atomic.Pointer[[]lease.Host] // at the last renewal, this host included
	clock  atomic.Pointer[lease.Clock]
	drains atomic.Bool

	// flight is held to release sessions, and shared to claim one: a session is not claimed
	// while the word that gives it up is under way.
	flight   sync.RWMutex
	mu       sync.Mutex
	sessions lease.Sessions
	taking   map[uuid.UUID]bool // dead hosts whose sessions are looked at

	left, own slots // for the sessions of dead hosts, and for those that this host owes a look

	release chan struct{} // capacity 1
	dead    chan []uuid.UUID
	due     chan struct{} // capacity 1: a look is owed
	wake    chan struct{} // capacity 1: hosts have come, drain or left
	forgot  chan struct{} // capacity 1: the database has forgotten who had which session
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// Join makes this host one of those that share a journal. Sessions can be claimed from then on;
// the lease is renewed from Start on.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	m := &Member{
		cfg: cfg, began: time.Now(),
		release: make(chan struct{}, 1), dead: make(chan []uuid.UUID, 1), due: make(chan struct{}, 1), forgot: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		taking: map[uuid.UUID]bool{}, left: newSlots(atOnce), own: newSlots(ownAtOnce),
	}
	if m.cfg.Claimed == nil {
		m.cfg.Claimed = func(context.Context, string) {}
	}
	if m.cfg.Count == nil {
		m.cfg.Count = func(Event) {}
	}
	m.others.Store(&[]lease.Host{})
	m.ctx, m.stop = context.WithCancel(context.Background())
	for {
		keeper, wait, err := m.join(ctx)
		if err == nil && wait == 0 {
			m.keeper = keeper // what was forgotten, the scan of a host that starts finds
			return m, nil
		}
		t := time.NewTimer(wait)
		if err == nil {
			select {
			case <-t.C:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if t.Stop(); err != nil {
			m.stop()
			return nil, err
		}
	}
}

// Start renews the lease from now on, and takes up what dead hosts leave.
func (m *Member) Start() {
	m.work.Go(func() { m.renew(m.keeper) })
	m.work.Go(m.givesUp)
	m.work.Go(m.takeOver)
	m.work.Go(m.takeForgotten)
	m.work.Go(m.pays)
	m.work.Go(m.listen)
}

// join enters this host under a new id, unless it has to wait: the database has forgotten who had
// which session.
func (m *Member) join(ctx context.Context) (keeper lease.Keeper, wait time.Duration, err error) {
	id := uuid.New()
	self := lease.Host{ID: id, Address: m.cfg.Address, Version: m.cfg.Version, Left: m.cfg.Lease}
	if wait, err = m.cfg.Table.Join(ctx, self, m.cfg.Lease); err != nil || wait > 0 {
		if wait > 0 {
			m.cfg.Log.Warn("the database does not know which host had which session: it has crashed, or is another one; this host waits until all leases from before have ended", zap.Duration("wait", wait))
		}
		return keeper, wait, err
	}
	sent := time.Now()
	ok, now, hosts, err := m.cfg.Table.Renew(ctx, id, m.cfg.Lease, m.drains.Load(), m.load())
	if err != nil {
		return keeper, 0, err
	}
	if !ok {
		return keeper, 0, lease.Lost()
	}
	keeper = lease.Keep(m.cfg.Lease, sent)
	m.id.Store(&id)
	m.note(&keeper, now, sent, hosts)
	return keeper, 0, nil
}

// load is what this host has to do.
func (m *Member) load() (l lease.Load) {
	if m.cfg.Load != nil {
		l = m.cfg.Load()
	}
	l.Sessions = m.Sessions()
	return l
}

// note keeps what a renewal has told.
func (m *Member) note(keeper *lease.Keeper, now, sent time.Time, hosts []lease.Host) {
	m.until.Store(int64(keeper.Until().Sub(m.began)))
	at := time.Now()
	said := lease.Clock{}.Read(now, sent, at)
	m.clock.Store(&said)
	if m.cfg.Clock != nil {
		m.cfg.Clock.Read(now, sent, at)
	}
	for i := range hosts {
		hosts[i].Until = at.Add(hosts[i].Left)
	}
	self := m.ID()
	m.tellHosts(self, *m.others.Swap(&hosts), hosts)
	keeper.Others(at, self, hosts)
	for i := range hosts {
		if hosts[i].ID == self && hosts[i].Draining {
			m.drains.Store(true)
		}
	}
	dead := lease.Dead(self, hosts)
	if m.drains.Load() {
		m.cfg.Idle()
		dead = nil
	}
	if len(m.owed()) > 0 {
		signal(m.due)
	}
	if len(dead) == 0 {
		return
	}
	select {
	case <-m.dead: // an older list
	default:
	}
	m.dead <- dead // nothing else sends
}

// signal has the receiver of a channel of capacity 1 look again.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is about to
	}
}

// ID is this host's.
func (m *Member) ID() uuid.UUID { return *m.id.Load() }

// Held reports whether this host has its lease, by its own clock.
func (m *Member) Held() bool { return int64(time.Since(m.began)) < m.until.Load() }

// Now is the time by the database's clock, or earlier by as long as its last answer was under way.
func (m *Member) Now() time.Time { return m.clock.Load().Now(time.Now()) }

// Hosts lists the hosts as the last renewal found them.
func (m *Member) Hosts() []lease.Host { return *m.others.Load() }

// Draining reports whether this host takes no further sessions.
func (m *Member) Draining() bool { return m.drains.Load() }

// Drain has this host take no further sessions, and others know it soon.
func (m *Member) Drain() {
	if !m.drains.Swap(true) {
		m.look()
	}
}

// look has the host renew its lease now: it learns what others do.
func (m *Member) look() {
	signal(m.wake)
}

// hear hears what a host does.
func (m *Member) hear(n lease.Notice) {
	switch {
	case n == (lease.Notice{}):
		m.look()
		m.cfg.Claimed(m.ctx, "")
	case n.SID == "":
		m.look()
	case n.Host != m.ID():
		m.cfg.Claimed(m.ctx, n.SID)
	}
}

// Pauses before a host listens again, when the connection broke: the first, doubled up to the last.
// Renewals tell it the same, only later.
const (
	firstSilence = 100 * time.Millisecond
	lastSilence  = 10 * time.Second
)

// listen hears what other hosts do, as it happens.
func (m *Member) listen() {
	pause := firstSilence
	for {
		heard := false
		err := m.cfg.Table.Listen(m.ctx, func(n lease.Notice) {
			heard = true
			m.hear(n)
		})
		if m.ctx.Err() != nil {
			return
		}
		if heard {
			pause = firstSilence
		}
		m.cfg.Log.Info("this host learns from its renewals alone what others do, until it can listen again", zap.Error(err), zap.Duration("pause", pause))
		if !m.sleep(pause) {
			return
		}
		pause = min(2*pause, lastSilence)
	}
}

// renew keeps the lease until the member leaves.
func (m *Member) renew(keeper lease.Keeper) {
	told := false
	var missed failures
	for m.rests(&keeper) {
		sent := time.Now()
		if !keeper.Send(sent) {
			m.lose()
			missed.end()
			var ok bool
			if keeper, ok = m.rejoin(); !ok {
				return
			}
			told = false
			continue
		}
		ctx, cancel := context.WithDeadline(m.ctx, keeper.Until())
		ok, now, hosts, err := m.cfg.Table.Renew(ctx, m.ID(), m.cfg.Lease, m.drains.Load(), m.load())
		cancel()
		switch {
		case m.ctx.Err() != nil:
			return
		case err != nil:
			m.cfg.Count(Missed)
			if missed.more(time.Now(), err) {
				m.cfg.Log.Warn("the lease of this host cannot be renewed", zap.Error(err), zap.Duration("left", time.Until(keeper.Until())))
			}
			keeper.Failed(time.Now())
		case !ok:
			keeper.Refused(time.Now())
		case keeper.Renewed(time.Now()):
			m.cfg.Count(Renewed)
			if n := missed.end(); n > 0 {
				m.cfg.Log.Info("the lease of this host is renewed again", zap.Int("missed", n))
			}
			m.note(&keeper, now, sent, hosts)
			if m.drains.Load() && !told {
				told = m.tells(&keeper)
			}
		}
	}
}

// tells has the others hear that this host drains. It reports whether that is done.
func (m *Member) tells(keeper *lease.Keeper) bool {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Lease/4)
	defer cancel()
	_, err := m.cfg.Table.Drain(ctx, m.ID())
	return err == nil
}

// rests waits until the lease is to be renewed, or something has happened. It reports whether to
// go on.
func (m *Member) rests(keeper *lease.Keeper) bool {
	t := time.NewTimer(time.Until(keeper.Next()))
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.wake:
		return m.sleep(time.Until(keeper.Woken()))
	case <-m.ctx.Done():
	}
	return m.ctx.Err() == nil
}

// sleep waits, and reports whether to go on.
func (m *Member) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.ctx.Done():
	}
	return m.ctx.Err() == nil
}

// lose has the host stop what it runs.
func (m *Member) lose() {
	m.until.Store(0)
	m.cfg.Count(Lost)
	m.cfg.Log.Error("this host has lost its lease: it stops its sessions, and others take them up")
	m.cfg.Lost()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions.Lost()
}

// rejoin enters this host again, as another one. It reports false when the member leaves.
func (m *Member) rejoin() (keeper lease.Keeper, ok bool) {
	forgotten := false
	var failed failures
	for m.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Lease)
		keeper, wait, err := m.join(ctx)
		cancel()
		if err == nil && wait == 0 {
			m.cfg.Log.Info("this host has a lease again")
			if forgotten {
				signal(m.forgot)
			}
			return keeper, true
		}
		if err != nil && m.ctx.Err() == nil && failed.more(time.Now(), err) {
			m.cfg.Log.Error("this host has no lease", zap.Error(err))
		}
		forgotten = forgotten || wait > 0
		if !m.sleep(cmp.Or(wait, m.cfg.Lease/4)) {
			break
		}
	}
	return keeper, false
}

// Claim makes a session this host's. The error of one that another live host has is
// lease.Refuse's.
func (m *Member) Claim(ctx context.Context, sid string) error {
	for {
		before, err := m.claim(ctx, sid)
		if before.IsZero() {
			return err
		}
		if err := pause(ctx, time.Until(before)); err != nil {
			return err
		}
	}
}

// claim makes a session this host's, if the database can be asked for it by now; else it says when.
func (m *Member) claim(ctx context.Context, sid string) (before time.Time, err error) {
	if !m.Held() {
		return before, lease.Lost()
	}
	m.flight.RLock()
	defer m.flight.RUnlock()
	id := m.ID()
	m.mu.Lock()
	mine, before := m.sessions.Wants(sid)
	m.mu.Unlock()
	if mine || time.Now().Before(before) {
		return before, nil
	}
	return time.Time{}, m.asks(ctx, id, sid)
}

// asks asks the database for a session.
func (m *Member) asks(ctx context.Context, id uuid.UUID, sid string) error {
	settled := lease.Settled(time.Now(), m.cfg.Lease)
	owner, err := m.cfg.Table.Claim(ctx, id, sid, m.Now().Add(m.cfg.Lease))
	if err != nil { // it may be this host's all the same
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sessions.Doubt(sid, settled)
		return err
	}
	if err = lease.Answer(sid, id, owner); err != nil {
		if _, elsewhere := lease.Owner(err); elsewhere {
			m.cfg.Count(Refused)
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ID() != id || !m.Held() {
		return lease.Lost()
	}
	m.cfg.Count(Claimed)
	m.sessions.Claimed(sid)
	return nil
}

// pause waits before something is done.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GiveUp gives a session up of which nothing runs any more. It does not wait.
func (m *Member) GiveUp(sid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sessions.GiveUp(sid) {
		return
	}
	signal(m.release)
}

// Owe has this host look again at a session of its own that has stopped in the middle: with the next
// renewal. It does not wait.
func (m *Member) Owe(sid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions.Has(sid) {
		m.sessions.Owe(sid)
	}
}

// owed lists the sessions that this host has to look at now.
func (m *Member) owed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions.Due(time.Now())
}

// givesUp gives up what is released, many at once.
func (m *Member) givesUp() {
	for {
		select {
		case <-m.release:
		case <-m.ctx.Done():
			return
		}
		if !m.flush(m.ctx) && !m.sleep(m.cfg.Lease/4) {
			return
		}
	}
}

// flush gives up what is released. It reports whether that is done.
func (m *Member) flush(ctx context.Context) bool {
	m.flight.Lock()
	defer m.flight.Unlock()
	m.mu.Lock()
	sids := m.sessions.Leaving()
	m.mu.Unlock()
	if len(sids) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Lease)
	defer cancel()
	settled := lease.Settled(time.Now(), m.cfg.Lease)
	err := m.cfg.Table.GiveUp(ctx, m.ID(), sids, m.Now().Add(m.cfg.Lease))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.sessions.Unsure(sids, settled)
		signal(m.release) // again, later
		return false
	}
	for range sids {
		m.cfg.Count(Released)
	}
	m.sessions.GivenUp(sids)
	return true
}

// Sessions counts those that are this host's.
func (m *Member) Sessions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions.Len()
}

// Owner returns the live host that has a session; held is false when none has.
func (m *Member) Owner(ctx context.Context, sid string) (owner lease.Host, held bool, err error) {
	m.mu.Lock()
	mine := m.sessions.Has(sid)
	m.mu.Unlock()
	if mine && m.Held() {
		return lease.Host{ID: m.ID(), Address: m.cfg.Address, Version: m.cfg.Version, Draining: m.drains.Load(), Left: m.cfg.Lease}, true, nil
	}
	owners, err := m.cfg.Table.Owners(ctx, sid)
	owner, held = owners[sid]
	return owner, held, err
}

// Elsewhere returns those of the sessions that other live hosts have.
func (m *Member) Elsewhere(ctx context.Context, sids []string) (map[string]lease.Host, error) {
	owners, err := m.cfg.Table.Owners(ctx, sids...)
	for sid, h := range owners {
		if h.ID == m.ID() {
			delete(owners, sid)
		}
	}
	return owners, err
}

// Resign ends the lease. Sessions that were not released are for others to take.
func (m *Member) Resign(ctx context.Context) error {
	m.stop()
	m.work.Wait()
	m.flush(ctx)
	m.until.Store(0)
	err := m.cfg.Table.Resign(ctx, m.ID())
	m.cfg.Table.Close()
	return err
}
