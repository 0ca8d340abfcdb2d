package membership

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/lease"
)

// This file is what a host's log says of the others, and of failures that go on.

// tellHosts logs which other hosts have come, drain, died and left since the last renewal.
func (m *Member) tellHosts(self uuid.UUID, before, now []lease.Host) {
	was := func(id uuid.UUID, hosts []lease.Host) *lease.Host {
		if i := slices.IndexFunc(hosts, func(h lease.Host) bool { return h.ID == id }); i >= 0 {
			return &hosts[i]
		}
		return nil
	}
	for i := range now {
		h := &now[i]
		old := was(h.ID, before)
		named := []zap.Field{zap.String("host", h.Address), zap.Stringer("id", h.ID), zap.String("version", h.Version)}
		switch {
		case h.ID == self:
		case !h.Live() && old != nil && old.Live() && old.Draining:
			m.cfg.Log.Info("another host has left", named...)
		case !h.Live() && (old == nil || old.Live()):
			m.cfg.Log.Warn("the lease of another host is over: its sessions go on at those that live", named...)
		case h.Live() && (old == nil || !old.Live()):
			m.cfg.Log.Info("another host is there", named...)
		case h.Draining && !old.Draining:
			m.cfg.Log.Info("another host drains: it gives its sessions up", named...)
		}
	}
	for i := range before {
		if h := &before[i]; h.ID != self && h.Live() && was(h.ID, now) == nil {
			m.cfg.Log.Info("another host has left", zap.String("host", h.Address), zap.Stringer("id", h.ID))
		}
	}
}

// taken counts the sessions of a dead host that this one has dealt with.
type taken struct {
	runs atomic.Int64 // go on here
	idle atomic.Int64 // have nothing open: any host may claim them
}

// tellTaken logs what this host has taken up of a dead one.
func (m *Member) tellTaken(dead uuid.UUID, n *taken) {
	if runs, idle := n.runs.Load(), n.idle.Load(); runs+idle > 0 {
		m.cfg.Log.Info("this host has taken up sessions of a host that is gone", zap.Stringer("id", dead), zap.Int64("go_on", runs), zap.Int64("idle", idle))
	}
}

// tellEvery is how often a failure that goes on is logged again.
const tellEvery = 10 * time.Second

// failures are those of one kind, one after the other.
type failures struct {
	n    int
	told time.Time // when the last one was logged
	text string    // of that one
}

// more counts one, and reports whether to log it: it is another one, or the same after some time.
func (f *failures) more(now time.Time, err error) bool {
	f.n++
	if text := err.Error(); f.n > 1 && text == f.text && now.Sub(f.told) < tellEvery {
		return false
	}
	f.told, f.text = now, err.Error()
	return true
}

// end returns how many there were, and begins anew.
func (f *failures) end() int {
	n := f.n
	*f = failures{}
	return n
}
