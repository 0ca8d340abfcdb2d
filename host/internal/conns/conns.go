// Package conns bounds what the peers of a host's listener take of it, and finds where each of their
// requests ends.
//
// A connection that has shown a token is its holder's, for whom a tenant's limits are. Those of strangers
// are bounded by the address they come from, have little time, and go when the host is full: the one that
// has said nothing for the longest makes room for the next.
//
// Invariants:
//   - a connection counts as a stranger's, as a tenant's, or as none, and never as two;
//   - a peer that takes all connections keeps no other peer out for longer than grace;
//   - no request begins within another: one with two ends is refused, and one that is chunked is the
//     last of its connection;
//   - an address that shows wrong tokens waits alone: another one's answers do not.
//
// It knows no tokens: the host says which connection has shown one.
package conns

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// grace is how long a connection without a token has in any case. A caller with a token
	// shows it with the first request.
	grace = time.Second
	// strangerTime is how long a connection without a token may wait for bytes: of a
	// header, of the handshake of TLS, or of the next request.
	strangerTime = 10 * time.Second
	// A peer has an eighth of the connections without a token, within these bounds.
	strangersShare    = 8
	fewestOfStrangers = 8
	mostOfStrangers   = 512
)

// Bounds are those of a Listener.
type Bounds struct {
	Most  int  // connections at once
	Fair  int  // connections that a tenant may have for each that is free
	Plain bool // connections are not of TLS, and are read along
}

// Listener is a listener that counts. Its methods are safe for concurrent use.
type Listener struct {
	net.Listener
	bounds  Bounds
	perPeer int // connections of strangers at one origin

	mu        sync.Mutex
	room      *sync.Cond // a connection has gone, or the listener
	open      int
	strangers *list.List               // of *conn without a token, the oldest first
	of        map[netip.Prefix][]*conn // the same, by where they come from
	tenants   map[string]int           // the others, by tenant
	closed    bool
}

// Listen bounds the connections of a listener.
func Listen(l net.Listener, b Bounds) *Listener {
	p := &Listener{
		Listener: l, bounds: b, perPeer: min(max(b.Most/strangersShare, fewestOfStrangers), mostOfStrangers),
		strangers: list.New(), of: map[netip.Prefix][]*conn{}, tenants: map[string]int{},
	}
	p.room = sync.NewCond(&p.mu)
	return p
}

// Accept implements net.Listener. When the host is full it waits for a connection to end,
// or for one without a token to have had its time.
func (p *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, listener: p, from: Origin(raw.RemoteAddr()), since: time.Now()}
		if p.bounds.Plain {
			c.heads = newFraming()
		}
		if p.take(c) {
			return c, nil
		}
		_ = raw.Close() // the listener has closed: the next Accept says so
	}
}

// Close implements net.Listener.
func (p *Listener) Close() error {
	p.mu.Lock()
	p.closed = true
	p.room.Broadcast()
	p.mu.Unlock()
	return p.Listener.Close()
}

// take counts a connection; false when the listener has closed meanwhile.
func (p *Listener) take(c *conn) bool {
	p.mu.Lock()
	for p.open >= p.bounds.Most && !p.closed {
		if oldest := p.strangers.Front(); oldest != nil {
			if left := grace - time.Since(oldest.Value.(*conn).since); left <= 0 {
				p.end(oldest.Value.(*conn))
				continue
			} else {
				t := time.AfterFunc(left, func() {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.room.Broadcast()
				})
				p.room.Wait()
				t.Stop()
				continue
			}
		}
		p.room.Wait()
	}
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.open++
	c.at = p.strangers.PushBack(c)
	p.of[c.from] = append(p.of[c.from], c)
	if p.trim(c.from); len(p.of[c.from]) > p.perPeer {
		time.AfterFunc(grace, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.trim(c.from)
		})
	}
	return true
}

// trim ends the oldest connections without a token that a peer has beyond its bound and
// that have had their time. The lock is held.
func (p *Listener) trim(from netip.Prefix) {
	for len(p.of[from]) > p.perPeer && time.Since(p.of[from][0].since) >= grace {
		p.end(p.of[from][0])
	}
}

// end closes a connection without a token. The lock is held, and given up by none of it:
// the connection's Close finds nothing more to count.
func (p *Listener) end(c *conn) {
	p.forget(c)
	p.remove(c)
	_ = c.Conn.Close()
}

// forget takes a connection from those without a token. The lock is held.
func (p *Listener) forget(c *conn) {
	if c.at == nil {
		return
	}
	p.strangers.Remove(c.at)
	c.at = nil
	all := p.of[c.from]
	for i := range all {
		if all[i] == c {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if p.of[c.from] = all; len(all) == 0 {
		delete(p.of, c.from)
	}
}

// remove counts a connection out, once. The lock is held.
func (p *Listener) remove(c *conn) {
	if !c.left {
		c.left = true
		p.open--
		p.disown(c)
		p.room.Broadcast()
	}
}

// Origin is where a connection comes from: an address, or of IPv6 the network of one
// subscriber.
func Origin(a net.Addr) netip.Prefix {
	var ip netip.Addr
	if tcp, ok := a.(*net.TCPAddr); ok {
		ip = tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	from, _ := ip.Prefix(bits) // of no address: none, which is a peer as well
	return from
}

// OriginOf is Origin of an address as a request has it.
func OriginOf(remote string) netip.Prefix {
	addr, err := netip.ParseAddrPort(remote)
	if err != nil {
		return Origin(nil)
	}
	return Origin(net.TCPAddrFromAddrPort(addr))
}

// conn is a connection and what is known of it.
type conn struct {
	net.Conn
	listener *Listener
	from     netip.Prefix
	since    time.Time
	heads    *framing // nil where they cannot be read
	// Under the lock of the listener.
	at     *list.Element // among those without a token; nil when it has shown one
	left   bool
	tenant string // whose token it showed last

	mu    sync.Mutex
	known bool      // it has shown a token
	until time.Time // the deadline of reads, as the server wants it
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.heads != nil {
		c.heads.see(b[:n])
	}
	return n, err
}

// SetReadDeadline implements net.Conn: a stranger has less time than the server would
// give, which of HTTP/2 is no deadline at all.
func (c *conn) SetReadDeadline(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
	if latest := time.Now().Add(strangerTime); !c.known && (until.IsZero() || until.After(latest)) {
		until = latest
	}
	return c.Conn.SetReadDeadline(until)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(until time.Time) error {
	return errors.Join(c.SetReadDeadline(until), c.Conn.SetWriteDeadline(until))
}

type connKey struct{}

// WithConn has requests know their connection: it is the ConnContext of an http.Server.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Shown takes the connection of a request from those without a token, and counts it as the
// tenant's. It reports whether the tenant may keep it for further requests: not when it
// has more than Bounds.Fair for each that is free.
func Shown(ctx context.Context, tenant string) (keep bool) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return true // the server is not ours
	}
	c.mu.Lock()
	if !c.known {
		c.known = true
		_ = c.Conn.SetReadDeadline(c.until) // reading tells
	}
	c.mu.Unlock()
	p := c.listener
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
	if c.tenant != tenant && !c.left {
		p.disown(c)
		c.tenant = tenant
		p.tenants[tenant]++
	}
	return p.tenants[tenant] <= p.bounds.Fair*(p.bounds.Most-p.open)
}

// disown counts a connection out of those of its tenant. The lock is held.
func (p *Listener) disown(c *conn) {
	if c.tenant == "" {
		return
	}
	if p.tenants[c.tenant]--; p.tenants[c.tenant] == 0 {
		delete(p.tenants, c.tenant)
	}
	c.tenant = ""
}
