package host

import (
	"context"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/messages"
)

// What a tenant keeps is in the journal, which the hosts of a cluster have in common, and whichever
// host wrote it: its sessions and their bytes. The parts of the limit of sessions are of what is
// left of it: places in which a host may begin one. The table counts those that exist. A place is
// the host's until the journal has the session, so each is counted there, here, or for a moment at both.

// errNoLease refuses what needs this host's parts.
func errNoLease() error {
	return &messages.Error{Code: messages.ErrBusy, Reason: stile.ReasonNoLease, Detail: "this host has lost its lease, and with it its parts of the tenant's limits"}
}

// begin takes a place for a session, which another host may have given up for it. end is called
// once, when the journal has the session or it has failed.
func (s *shared) begin(ctx context.Context, tenant string, l Limits) (end func(bool), ok bool, err error) {
	end, ok = s.meter.begin(tenant, int64(l.Sessions))
	err = s.more(ctx, tenant, share.Sessions, func() bool {
		end, ok = s.meter.begin(tenant, int64(l.Sessions))
		return ok
	}, !ok)
	return end, ok, err
}

// begin takes one of this host's places.
func (m *meter) begin(tenant string, limit int64) (end func(bool), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	defer m.touch(tenant, u)
	if m.over(u, share.Sessions, limit, u.begins) {
		return nil, false
	}
	u.begins++
	return func(bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer m.touch(tenant, u)
		p := u.portion(share.Sessions)
		u.begins--
		// What failed may get to the journal yet. If it does not, the next round finds the place free.
		p.held = max(0, p.held-1)
		p.spent++
	}, true
}

// hear waits for a round if it is long ago that other hosts said what they have written to the
// sessions of a tenant. It is called before the journal is measured, so that what they had said by
// then is in the measure, and only what follows is added.
func (s *shared) hear(ctx context.Context, tenant string) error {
	if s == nil {
		return nil
	}
	m := s.meter
	// old adds to those that wait, if what was heard is old.
	old := func(waiting int64) (p *portion) {
		m.mu.Lock()
		defer m.mu.Unlock()
		p = m.of(tenant).portion(share.Bytes)
		if m.own() && m.now().Sub(p.heard) < s.every {
			return nil
		}
		p.asking += waiting
		m.shared.active[tenant] = true
		return p
	}
	p := old(1)
	if p == nil {
		return nil
	}
	err := s.wait(ctx)
	m.mu.Lock()
	p.asking--
	m.mu.Unlock()
	if err == nil && old(0) != nil {
		err = errNoLease()
	}
	return err
}
