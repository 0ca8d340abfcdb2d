package conns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The times of a host's server.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	keepAlive     = 2 * time.Minute
)

// pipes is a listener whose connections are in memory, and say where they come from.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type placed struct {
	net.Conn
	from netip.AddrPort
}

func (c placed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }

// strangers is a server that knows the bearer of a tenant's name, and clients of it.
type strangers struct {
	*pipes
	t        *testing.T
	listener *Listener
	end      func()
}

// serveStrangers serves within the bubble of a test; end ends it.
func serveStrangers(t *testing.T, most int) *strangers {
	t.Helper()
	s := &strangers{t: t, pipes: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}}
	s.listener = Listen(s.pipes, Bounds{Most: most, Fair: 4})
	srv := &http.Server{
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: keepAlive, ConnContext: WithConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, tenant, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && !Shown(r.Context(), tenant) {
				w.Header().Set("Connection", "close")
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}),
	}
	served := make(chan error)
	go func() { served <- srv.Serve(s.listener) }()
	s.end = func() {
		if err := srv.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		<-served
	}
	return s
}

// dial connects from an address.
func (s *strangers) dial(from string) net.Conn {
	s.t.Helper()
	here, there := net.Pipe()
	s.conns <- placed{there, netip.AddrPortFrom(netip.MustParseAddr(from), 1000)}
	return here
}

// say sends what a client sends.
func say(c net.Conn, format string, args ...any) error {
	_, err := fmt.Fprintf(c, format, args...)
	return err
}

// ask makes a request; a tenant of "" shows no token.
func ask(c net.Conn, tenant string) (closes bool, err error) {
	token := ""
	if tenant != "" {
		token = "Authorization: Bearer " + tenant + "\r\n"
	}
	if err := say(c, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", token); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.Close, err
}

// gone reports whether the server has closed a connection.
func gone(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, c) // it may have been told why
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// A peer that takes all connections, with half headers or idle ones, keeps no other peer out, with
// a token or without.
func TestStrangersLeaveRoom(t *testing.T) {
	for name, begin := range map[string]func(net.Conn) error{
		"half headers": func(c net.Conn) error { return say(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Half") },
		"nothing said": func(net.Conn) error { return nil },
		"idle":         func(c net.Conn) error { _, err := ask(c, ""); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveStrangers(t, 50)
				defer s.end()
				kept := s.dial("192.0.2.1")
				if _, err := ask(kept, "acme"); err != nil {
					t.Fatal(err)
				}
				var held []net.Conn
				for range 49 {
					c := s.dial("198.51.100.7")
					if err := begin(c); err != nil {
						t.Fatal(err)
					}
					held = append(held, c)
				}
				began := time.Now()
				for _, tenant := range []string{"acme", ""} { // as soon as a moment has passed
					c := s.dial("192.0.2.2")
					defer c.Close()
					if _, err := ask(c, tenant); err != nil || time.Since(began) > grace {
						t.Errorf("another peer, tenant %q: %v after %v", tenant, err, time.Since(began))
					}
				}
				time.Sleep(grace)
				synctest.Wait()
				left := 0
				for _, c := range held {
					if !gone(c) {
						left++
					}
				}
				if left != s.listener.perPeer {
					t.Errorf("the peer has %d connections, want %d", left, s.listener.perPeer)
				}
				time.Sleep(strangerTime)
				synctest.Wait()
				for _, c := range held {
					if !gone(c) {
						t.Error("a stranger's connection is open after its time")
						break
					}
				}
				if _, err := ask(kept, "acme"); err != nil {
					t.Errorf("who showed a token: %v", err)
				}
				kept.Close()
				for _, c := range held {
					c.Close()
				}
			})
		})
	}
}

// Peers of many addresses, none beyond its bound, keep no other peer out either.
func TestManyStrangersLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveStrangers(t, 50)
		defer s.end()
		for i := range 50 {
			c := s.dial(fmt.Sprint("198.51.100.", i))
			defer c.Close()
		}
		began := time.Now()
		for _, tenant := range []string{"acme", "", "acme"} {
			c := s.dial("192.0.2.2")
			defer c.Close()
			if _, err := ask(c, tenant); err != nil || time.Since(began) > grace {
				t.Errorf("tenant %q: %v after %v", tenant, err, time.Since(began))
			}
		}
	})
}

// Who has a token has the server's time: for a slow body, and until the next request.
func TestKnownPeersHaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveStrangers(t, 50)
		defer s.end()
		c := s.dial("192.0.2.1")
		defer c.Close()
		if err := say(c, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Length: 2\r\n\r\n1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(bodyTimeout - time.Second)
		if err := say(c, "2"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		time.Sleep(keepAlive - time.Second)
		if _, err := ask(c, "acme"); err != nil {
			t.Error(err)
		}
	})
}

// HTTP/2 reads without a deadline: a stranger's connection has one all the same, until it
// shows a token.
func TestStrangersWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		p := Listen(l, Bounds{Most: 50, Fair: 4})
		defer p.Close()
		here, there := net.Pipe()
		defer here.Close()
		l.conns <- placed{there, netip.MustParseAddrPort("192.0.2.1:1000")}
		c, err := p.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if !Shown(WithConn(t.Context(), c), "acme") {
			t.Error("a tenant may not keep its first connection")
		}
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		time.Sleep(time.Hour)
		if err := say(here, "x"); err != nil {
			t.Error(err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

// A tenant with tokens does not hold all connections either: what is beyond its share is
// closed behind its request.
func TestConnectionsOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveStrangers(t, 50)
		defer s.end()
		var kept, closed int
		for range 60 {
			c := s.dial("192.0.2.1")
			defer c.Close()
			closes, err := ask(c, "evil")
			if err != nil {
				t.Fatal(err)
			}
			if kept++; closes {
				kept--
				closed++
				c.Close()
				synctest.Wait()
			}
		}
		if kept != 40 || closed != 20 {
			t.Errorf("%d are kept and %d closed", kept, closed)
		}
		c := s.dial("192.0.2.2")
		defer c.Close()
		if closes, err := ask(c, "acme"); err != nil || closes {
			t.Errorf("another tenant: %v, %v", closes, err)
		}
	})
}

// Peers are told apart by address, those of IPv6 by the network of a subscriber.
func TestOrigin(t *testing.T) {
	at := func(ip string) netip.Prefix {
		return Origin(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 1)))
	}
	if at("192.0.2.1") != at("::ffff:192.0.2.1") || at("2001:db8::1") != at("2001:db8::ffff:1") || at("fe80::1%eth0") != at("fe80::2%eth1") {
		t.Error("one peer has two names")
	}
	if at("192.0.2.1") == at("192.0.2.2") || at("2001:db8:0:1::1") == at("2001:db8:0:2::1") || at("::1") == at("127.0.0.1") || Origin(&net.UnixAddr{}) == at("127.0.0.1") {
		t.Error("two peers have one name")
	}
}
