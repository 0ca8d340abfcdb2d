package cluster

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// relay passes connections on, and is the network: it can be cut, and slow.
type relay struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	work     sync.WaitGroup

	mu    sync.Mutex
	heal  chan struct{} // open while it is cut; nil otherwise
	slow  time.Duration // of each piece
	drops bool          // what was on its way when it was cut is lost, with its connection
	conns map[net.Conn]struct{}
	over  bool
}

func newRelay(t testing.TB, dial func() (net.Conn, error)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, dial: dial, conns: map[net.Conn]struct{}{}}
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) close() {
	r.join(false)
	r.listener.Close()
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.reset()
	r.work.Wait()
}

// cut lets nothing pass until it is joined: it looks as if the other end did not answer.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heal == nil {
		r.heal = make(chan struct{})
	}
}

// join ends a cut. What waited comes late, or never.
func (r *relay) join(drops bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heal != nil {
		r.drops = drops
		close(r.heal)
		r.heal = nil
	}
}

// delay makes every piece late.
func (r *relay) delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = d
}

// reset ends all connections.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) keep(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
	if r.over {
		c.Close()
	}
}

func (r *relay) forget(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Close()
	delete(r.conns, c)
}

// passes waits until a piece may pass, and reports whether it does.
func (r *relay) passes() bool {
	r.mu.Lock()
	heal, slow := r.heal, r.slow
	r.mu.Unlock()
	if slow > 0 {
		time.Sleep(rand.N(slow))
	}
	if heal == nil {
		return true
	}
	<-heal
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.drops
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.keep(c)
		r.work.Go(func() {
			defer r.forget(c)
			if !r.passes() {
				return
			}
			to, err := r.dial()
			if err != nil {
				return
			}
			r.keep(to)
			defer r.forget(to)
			var back sync.WaitGroup
			back.Go(func() { r.copy(c, to) })
			r.copy(to, c)
			back.Wait()
		})
	}
}

// copy passes on what comes, and the end of it.
func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !r.passes() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			r.passes()
			return
		}
	}
}
