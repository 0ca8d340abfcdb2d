package mcp

import (
	"encoding/json"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// Connections of users, tenants and sessions, apart from each other: a server may keep
// state by connection, and its program has memory and files.

// Bounds of connections for one user, tenant or session. A tenant has at most one for every
// four that are free. A connection without calls for apartIdle ends, or earlier when another
// one needs its place.
const (
	maxApart  = 256
	fairness  = 4
	apartIdle = 5 * time.Minute
)

// apart is a server that only one user, tenant or session calls.
type apart struct {
	*Server
	key    string
	tenant string
	uses   int
	last   time.Time
	idle   *time.Timer
}

// Apart returns the server of a Config with a connection for one key of a tenant. The caller
// calls done when its call has ended; the connection then stays for apartIdle. The error is
// a *neuroscript.ScriptError when there are too many connections; it may work later.
func (p *Pool) Apart(cfg Config, tenant, key string) (s *Server, done func(), err error) {
	made, err := p.server(cfg)
	if err != nil {
		return nil, nil, err
	}
	b, err := json.Marshal(made.cfg)
	if err != nil {
		return nil, nil, err
	}
	key = string(b) + "\n" + tenant + "\n" + key
	p.mu.Lock()
	defer p.unlock()
	if p.closed {
		return nil, nil, errClosed()
	}
	a := p.apart[key]
	if a == nil {
		if !p.room(tenant) {
			return nil, nil, neuroscript.Errorf(neuroscript.CodeToolFailed, "there are too many connections to MCP servers; try again later")
		}
		made.own = true
		a = &apart{Server: made, key: key, tenant: tenant}
		p.apart[key] = a
		p.ofTenant[tenant]++
	}
	if a.uses++; a.idle != nil {
		a.idle.Stop()
		a.idle = nil
	}
	return a.Server, func() { p.rest(a) }, nil
}

// room makes room for one more connection of a tenant, by ending an idle one of its own or
// else of another tenant, and reports whether there is room. p.mu is held.
func (p *Pool) room(tenant string) bool {
	may := func() bool { return fairness*p.ofTenant[tenant] < maxApart-len(p.apart) }
	return may() || p.endResting(tenant) || p.ofTenant[tenant] == 0 && p.endResting("")
}

// endResting ends the connection that has been idle for the longest, of one tenant or of all,
// and reports whether there was one. p.mu is held.
func (p *Pool) endResting(tenant string) bool {
	var oldest *apart
	for _, a := range p.apart {
		if a.uses == 0 && (tenant == "" || a.tenant == tenant) && (oldest == nil || a.last.Before(oldest.last)) {
			oldest = a
		}
	}
	if oldest == nil {
		return false
	}
	p.endApart(oldest)
	return true
}

// rest ends a use of a connection, which is idle after the last use.
func (p *Pool) rest(a *apart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.uses--; a.uses > 0 || p.apart[a.key] != a {
		return
	}
	a.last = time.Now()
	a.idle = time.AfterFunc(apartIdle, func() {
		p.mu.Lock()
		defer p.unlock()
		if a.uses == 0 && p.apart[a.key] == a {
			p.endApart(a)
		}
	})
}

// endApart removes a server; unlock ends its connection. p.mu is held.
func (p *Pool) endApart(a *apart) {
	delete(p.apart, a.key)
	if p.ofTenant[a.tenant]--; p.ofTenant[a.tenant] == 0 {
		delete(p.ofTenant, a.tenant)
	}
	if a.idle != nil {
		a.idle.Stop()
	}
	p.over = append(p.over, a)
}

// unlock unlocks p.mu and then ends the connections that were removed under it, because a
// server has a lock of its own.
func (p *Pool) unlock() {
	over := p.over
	p.over = nil
	p.mu.Unlock()
	for _, a := range over {
		a.end()
	}
}

// end ends the connection of a server without calls, and refuses new connections.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if c := s.live; c != nil {
		s.live = nil
		c.dropped = true
		c.cancel()
	}
}
