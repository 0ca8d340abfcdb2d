package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
)

// proxy stands between a store and its server, and misbehaves once when it is told.
// It counts in writes of the client: a transaction of a warm connection is two, the
// fence and then everything else with COMMIT.
type proxy struct {
	tb       testing.TB
	listener net.Listener
	socket   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	armed fault
	conns map[net.Conn]bool
	made  int // connections so far
	freed chan struct{}
	polls int // writes of clients since a ghost was held back
	asked int // statements that clients had executed
}

type fault int

const (
	none       fault = iota
	cutRequest       // the write with COMMIT is lost, and the connection
	cutAnswer        // the answer to COMMIT is lost, and the connection
	ghost            // the client's side is cut; the write arrives much later
)

// ghostPolls is how many writes of other connections pass before a ghost arrives.
const ghostPolls = 12

func newProxy(tb testing.TB, socket string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, listener: l, socket: socket, conns: make(map[net.Conn]bool), freed: make(chan struct{})}
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) arm(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = f
}

// connections returns how many were made so far.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// statements returns how many clients had executed so far.
func (p *proxy) statements() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *proxy) keep(c net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	return c
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil { // the server is away: so is its address
			client.Close()
			continue
		}
		p.mu.Lock()
		p.made++
		p.mu.Unlock()
		l := &link{p: p, client: p.keep(client), server: p.keep(server)}
		p.wg.Go(l.requests)
		p.wg.Go(l.answers)
	}
}

type link struct {
	p              *proxy
	client, server net.Conn
	writes         int // since a fault was armed
	begun          bool
	rest           []byte // of the client: a message that has not come whole
}

// count counts the statements in what a client wrote. Its first message has no kind.
func (l *link) count(b []byte) (statements int) {
	l.rest = append(l.rest, b...)
	for {
		kind, size := byte(0), l.rest
		if l.begun && len(l.rest) > 0 {
			kind, size = l.rest[0], l.rest[1:]
		}
		if len(size) < 4 || len(size) < int(binary.BigEndian.Uint32(size)) {
			return statements
		}
		l.rest, l.begun = size[binary.BigEndian.Uint32(size):], true
		if kind == 'E' || kind == 'Q' { // Execute, Query
			statements++
		}
	}
}

func (l *link) requests() {
	defer l.server.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := l.client.Read(buf)
		if n > 0 && !l.request(buf[:n]) || err != nil {
			return
		}
	}
}

// request passes a write on, or does not.
func (l *link) request(b []byte) bool {
	p, asked := l.p, l.count(b)
	p.mu.Lock()
	armed := p.armed
	p.asked += asked
	if p.polls > 0 {
		if p.polls--; p.polls == 0 {
			close(p.freed)
		}
	}
	if armed != none {
		l.writes++
	}
	second := l.writes == 2
	if second && (armed == cutRequest || armed == ghost) {
		p.armed = none
		if armed == ghost {
			p.polls = ghostPolls
		}
	}
	p.mu.Unlock()
	switch {
	case second && armed == cutRequest:
		l.client.Close()
		return false
	case second && armed == ghost:
		l.client.Close()
		held := bytes.Clone(b)
		<-p.freed
		if _, err := l.server.Write(held); err != nil {
			p.tb.Errorf("the ghost did not arrive: %v", err)
		}
		// The server ends the session when it finds the client gone: not before it has
		// done what was asked.
		if err := l.server.(*net.UnixConn).CloseWrite(); err != nil {
			p.tb.Errorf("the ghost's end: %v", err)
		}
		for err := error(nil); err == nil; {
			_, err = l.server.Read(b)
		}
		return false
	}
	_, err := l.server.Write(b)
	return err == nil
}

func (l *link) answers() {
	defer l.client.Close()
	buf := make([]byte, 1<<16)
	var tail []byte
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			tail = append(tail, buf[:n]...)
			l.p.mu.Lock()
			hit := l.p.armed == cutAnswer && bytes.Contains(tail, []byte("COMMIT\x00"))
			if hit {
				l.p.armed = none
			}
			ghostly := l.p.polls > 0
			l.p.mu.Unlock()
			if hit {
				return
			}
			if _, err := l.client.Write(buf[:n]); err != nil && !ghostly && !errors.Is(err, net.ErrClosed) {
				return
			}
			tail = tail[max(0, len(tail)-len("COMMIT")):] // one byte short of a hit
		}
		if err != nil {
			return
		}
	}
}
