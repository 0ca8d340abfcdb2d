package membership

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/lease"
)

// This file is how a host takes up sessions: those of dead hosts, those that are open when the
// database has forgotten who had them, and those that it owes a look itself.

// How many sessions are looked at at once: those of dead hosts, and those that the host owes. They are
// apart, so that neither waits for the other. A look is some statements, for which the table and the
// journal have a few connections: more looks at once would only wait there.
const (
	atOnce    = 16
	ownAtOnce = 4
)

// slots has a token for each look that may begin.
type slots chan struct{}

func newSlots(n int) slots {
	s := make(slots, n)
	for range n {
		s <- struct{}{}
	}
	return s
}

// looks looks at a session when there is a slot for that, and does not wait for the end of the look.
// It reports whether to go on. A slot in which a session was taken up rests, so that all those for
// dead hosts together take up as many in a second as they may: each may call a model.
func (m *Member) looks(s slots, sid string, done func(lease.Look)) bool {
	select {
	case <-s:
	case <-m.ctx.Done():
		return false
	}
	m.work.Go(func() {
		began := time.Now()
		var look lease.Look
		if m.Held() {
			look = m.cfg.Take(m.ctx, sid)
		}
		done(look)
		if look.Found == lease.Idle || look.Found == lease.HeldElsewhere {
			s <- struct{}{}
			return
		}
		rest := atOnce * time.Second / time.Duration(m.cfg.PerSecond)
		time.AfterFunc(rest-time.Since(began), func() { s <- struct{}{} })
	})
	return true
}

// takeOver takes up what dead hosts leave.
func (m *Member) takeOver() {
	known := map[uuid.UUID]bool{}
	for {
		var dead []uuid.UUID
		select {
		case dead = <-m.dead:
		case <-m.ctx.Done():
			return
		}
		now := map[uuid.UUID]bool{}
		for _, id := range dead {
			if now[id] = true; !known[id] {
				m.cfg.Gone()
			}
			if m.begins(id) {
				m.work.Go(func() { m.takeOf(id) })
			}
		}
		known = now
	}
}

// begins reports whether the sessions of a dead host are not looked at already.
func (m *Member) begins(dead uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taking[dead] {
		return false
	}
	m.taking[dead] = true
	return true
}

// takeOf looks at the sessions that a dead host left, each once.
func (m *Member) takeOf(dead uuid.UUID) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.taking, dead)
	}()
	var looks sync.WaitGroup
	var n taken
	defer func() {
		looks.Wait()
		m.tellTaken(dead, &n)
	}()
	tried := map[string]bool{}
	for limit := page; ; {
		sids, err := m.cfg.Table.Left(m.ctx, dead, m.ID(), limit)
		if err != nil {
			if m.ctx.Err() == nil {
				m.cfg.Log.Warn("the sessions of a host that is gone cannot be listed", zap.Error(err))
			}
			return
		}
		full := len(sids) == limit
		sids = slices.DeleteFunc(sids, func(sid string) bool { return tried[sid] })
		switch {
		case len(sids) == 0 && !full:
			return
		case len(sids) == 0: // what stays the dead host's is not in the way of the others
			limit *= 2
		}
		for _, sid := range sids {
			tried[sid] = true
			looks.Add(1)
			if !m.Held() || m.drains.Load() || !m.looks(m.left, sid, func(look lease.Look) {
				defer looks.Done()
				m.took(dead, sid, look, &n)
			}) {
				looks.Done()
				return
			}
		}
	}
}

// took takes note of what came of a look at a session of a dead host.
func (m *Member) took(dead uuid.UUID, sid string, look lease.Look, n *taken) {
	switch look.Found {
	case lease.Runs:
		n.runs.Add(1)
		m.cfg.Count(TookOver)
	case lease.Idle:
		n.idle.Add(1)
		m.cfg.Count(TookOver)
		// What another host has claimed is not the dead host's any more, and is not touched by this.
		if err := m.cfg.Table.GiveUp(m.ctx, dead, []string{sid}, m.Now().Add(m.cfg.Lease)); err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn("a session of a host that is gone stays its own", zap.String("SID", sid), zap.Error(err))
		}
	}
}

// takeForgotten takes up what is open when the database has forgotten who had which session.
func (m *Member) takeForgotten() {
	for {
		select {
		case <-m.forgot:
			m.takeOpen()
		case <-m.ctx.Done():
			return
		}
	}
}

// openRounds is how often the sessions are listed that something is open of, when the database has
// forgotten who had them: one may have its reasons not to be taken up at once.
const openRounds = 3

// takeOpen looks at all sessions that have something open.
func (m *Member) takeOpen() {
	m.cfg.Gone()
	for range openRounds {
		sids, err := m.cfg.Open(m.ctx)
		if err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn("the sessions that something is open of cannot be listed", zap.Error(err))
		}
		var left atomic.Bool
		left.Store(err != nil)
		var looks sync.WaitGroup
		for _, sid := range sids {
			if m.drains.Load() {
				break
			}
			looks.Add(1)
			if !m.looks(m.left, sid, func(look lease.Look) {
				defer looks.Done()
				if look.Found == lease.Unknown { // or the host has lost its lease again: then this is done again
					left.Store(true)
				}
			}) {
				looks.Done()
				break
			}
		}
		if looks.Wait(); m.drains.Load() || !left.Load() || !m.sleep(m.cfg.Lease) {
			return
		}
	}
}

// pays looks at the sessions that this host owes a look.
func (m *Member) pays() {
	for {
		select {
		case <-m.due:
		case <-m.ctx.Done():
			return
		}
		for _, sid := range m.owed() {
			m.mu.Lock()
			m.sessions.Looks(sid, time.Now()) // it may stop again from here on
			m.mu.Unlock()
			if !m.looks(m.own, sid, func(look lease.Look) { m.looked(sid, look) }) {
				return
			}
		}
	}
}

// looked takes note of what came of a look that this host owed.
func (m *Member) looked(sid string, look lease.Look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions.Looked(sid, look, time.Now()) {
		signal(m.release)
	}
}
