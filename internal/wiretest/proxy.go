package wiretest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/llm/llmtest"
)

// Proxy is the network between a client and an llmtest.Provider: it can be gone for a while, and
// can say to the client what no provider says.
type Proxy struct {
	URL  string            // for clients, in place of the provider's
	Base http.RoundTripper // as that of the provider

	dial func(context.Context) (net.Conn, error) // to the provider
	work sync.WaitGroup
	done chan struct{}

	mu    sync.Mutex
	up    chan struct{} // closed while bytes pass
	down  bool
	conns []net.Conn // all of them
	last  net.Conn   // of the latest client
	ended chan struct{}
}

// NewProxy makes a proxy that lives as long as the test. For a piped provider it has no network
// either.
func NewProxy(t testing.TB, srv *llmtest.Provider) *Proxy {
	t.Helper()
	p := &Proxy{done: make(chan struct{}), up: make(chan struct{})}
	close(p.up)
	t.Cleanup(p.close)
	if base, ok := srv.Base.(*http.Transport); ok {
		p.URL = srv.URL
		p.dial = func(ctx context.Context) (net.Conn, error) { return base.DialContext(ctx, "tcp", "provider.test:80") }
		own := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			here, there := net.Pipe()
			if err := p.carry(ctx, there); err != nil {
				_ = here.Close()
				return nil, err
			}
			return here, nil
		}}
		t.Cleanup(own.CloseIdleConnections)
		p.Base = own
		return p
	}
	addr := strings.TrimPrefix(srv.URL, "http://")
	p.dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.URL = "http://" + l.Addr().String()
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if p.carry(context.Background(), c) != nil {
				_ = c.Close()
			}
		}
	})
	t.Cleanup(func() { _ = l.Close() })
	return p
}

// close ends all connections.
func (p *Proxy) close() {
	close(p.done)
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// Down takes the network away: bytes that are on their way stay there, and no connection is made.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down {
		p.down, p.up = true, make(chan struct{})
	}
}

// Up brings the network back, and what was on its way arrives.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		p.down = false
		close(p.up)
	}
}

// passes waits until bytes pass; it returns false if they never will.
func (p *Proxy) passes(ctx context.Context) bool {
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	select {
	case <-up:
		return true
	case <-ctx.Done():
	case <-p.done:
	}
	return false
}

// carry connects a client to the provider.
func (p *Proxy) carry(ctx context.Context, client net.Conn) error {
	if !p.passes(ctx) {
		return net.ErrClosed
	}
	server, err := p.dial(ctx)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.last, p.ended = client, ended
	p.mu.Unlock()
	p.pump(server, client, func() { close(ended) })
	p.pump(client, server, func() {})
	return nil
}

// pump moves bytes from one side to the other, as a network with room of its own does; left is
// called when the side that they come from has ended.
func (p *Proxy) pump(to, from net.Conn, left func()) {
	way := make(chan []byte, 256)
	p.work.Go(func() {
		defer left()
		defer close(way)
		for {
			b := make([]byte, 4<<10)
			n, err := from.Read(b)
			if n > 0 {
				select {
				case way <- b[:n]:
				case <-p.done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	p.work.Go(func() {
		defer func() { _, _ = to.Close(), from.Close() }()
		for b := range way {
			if !p.passes(context.Background()) {
				return
			}
			if _, err := to.Write(b); err != nil {
				return
			}
		}
		p.passes(context.Background()) // the end is on its way as well
	})
}

// Say writes to the client of the latest connection: a head, and then a text again and again, n bytes
// of it. It returns how many bytes the client took.
func (p *Proxy) Say(head, text string, n int64) int64 {
	p.mu.Lock()
	c := p.last
	p.mu.Unlock()
	took, err := c.Write([]byte(head))
	total := int64(took)
	block := []byte(strings.Repeat(text, 64<<10/max(1, len(text))+1))
	for left := n; left > 0 && err == nil; left -= int64(took) {
		took, err = c.Write(block[:min(left, int64(len(block)))])
		total += int64(took)
	}
	return total
}

// Ended is closed when the client has ended the latest connection.
func (p *Proxy) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
