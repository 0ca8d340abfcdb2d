//go:build !lite

package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/postgrestest"
)

// starting is a host that has been started. Its log and its output are lines that come as they are
// written.
func starting(t *testing.T, env map[string]string, args ...string) (lines <-chan string, stop context.CancelFunc, status <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said, ended := make(chan string, 1024), make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- execute(ctx, append([]string{"serve", example("plain/agent.yaml"), "--listen", "127.0.0.1:0"}, args...), console{
			in: strings.NewReader(""), out: told(said), err: told(said), env: func(name string) string { return env[name] },
		})
	}()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		<-done
	})
	return said, cancel, ended
}

// told is a writer that passes on what is written.
type told chan<- string

func (w told) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// until waits for a line that has a text, and returns it.
func until(t *testing.T, lines <-chan string, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	var before []string
	for {
		select {
		case line := <-lines:
			if strings.Contains(line, text) {
				return line
			}
			before = append(before, line)
		case <-deadline:
			t.Fatalf("no %q behind %q", text, before)
		}
	}
}

const waitsFor = "waiting for the database of the journal"

// awayURL is the URL of a database at a port that no process listens at. The kernel gives it to no
// listener that asks for any port.
const awayURL = "postgres://ada:hunter2@127.0.0.1:1/x?sslmode=disable"

// A database that starts behind the host is waited for. A wrong password and an unknown database are told
// at once.
func TestServeWaitsForTheDatabase(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	env := map[string]string{envJournal: server.URL()}
	for what, wrong := range map[string]func(*url.URL){
		"password": func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong") },
		"database": func(u *url.URL) { u.Path = "/nowhere" },
	} {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		wrong(u)
		a := call{args: []string{"serve", example("plain/agent.yaml"), "--listen", "127.0.0.1:0", "--dir", t.TempDir()}, env: map[string]string{envJournal: u.String()}}.do(t)
		if a.status != int(exitUsage) || strings.Contains(a.err, waitsFor) {
			t.Errorf("a wrong %s: status %d, %s", what, a.status, a.err)
		}
	}
	server.Kill()
	lines, stop, status := starting(t, env, "--dir", filepath.Join(t.TempDir(), "a"))
	until(t, lines, waitsFor)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, lines, "the database of the journal answers")
	until(t, lines, "listening on")
	stop()
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
}

// A host that is told to stop while it waits stops at once and without an error, in a cluster and
// without one. Its port is not open before. Other commands do not wait.
func TestServeStopsWhileItWaits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("0123456789abcdef", 4))
	config := write(t, dir, "stile.yaml", "auth: tokens\ndir: "+dir+"\ncluster:\n  address: "+free(t)+"\n  secret_file: secret\n")
	env := map[string]string{envJournal: awayURL}
	for _, args := range [][]string{{"--dir", filepath.Join(dir, "a")}, {"--config", config}} {
		listen := free(t)
		lines, stop, status := starting(t, env, append(args, "--listen", listen)...)
		line := until(t, lines, waitsFor)
		if !strings.Contains(line, "dial") || strings.Contains(line, "hunter2") {
			t.Errorf("%q: it says %s", args, line)
		}
		if c, err := net.Dial("tcp", listen); err == nil {
			c.Close()
			t.Errorf("%q: its port is open", args)
		}
		stop()
		if got := <-status; got != 0 {
			t.Errorf("%q: status %d", args, got)
		}
		until(t, lines, "stopped before the host served")
	}
	a := call{args: []string{"hosts", "list"}, env: env}.do(t)
	if a.status != int(exitFailure) || !strings.Contains(a.err, "UNAVAILABLE") {
		t.Errorf("another command: status %d, %s", a.status, a.err)
	}
}

// cutting passes bytes on to a database. At one write of its clients it breaks all connections, as the end of
// the server would, and then refuses the next one.
type cutting struct {
	net.Listener
	socket string
	work   sync.WaitGroup

	mu      sync.Mutex
	writes  int // of clients, so far
	at      int // the write that does not get there; 0 is none
	refuses bool
	conns   map[net.Conn]bool
}

func newCutting(t *testing.T, socket string) *cutting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutting{Listener: l, socket: socket, conns: map[net.Conn]bool{}}
	c.work.Go(c.accept)
	return c
}

// end ends all connections, and waits until nothing runs any more.
func (c *cutting) end() {
	c.Close()
	c.mu.Lock()
	c.cut()
	c.mu.Unlock()
	c.work.Wait()
}

// cut breaks all connections. c.mu is held.
func (c *cutting) cut() {
	for conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// begin counts anew, up to the write of the cut.
func (c *cutting) begin(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes, c.at = 0, at
}

func (c *cutting) accept() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", c.socket)
		c.mu.Lock()
		if refused := c.refuses; err != nil || refused {
			c.refuses = false
			c.mu.Unlock()
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		c.conns[client], c.conns[server] = true, true
		c.mu.Unlock()
		c.work.Go(func() {
			defer server.Close()
			b := make([]byte, 64<<10)
			for {
				n, err := client.Read(b)
				if err != nil || c.cuts() {
					return
				}
				if _, err := server.Write(b[:n]); err != nil {
					return
				}
			}
		})
		c.work.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server) // until one of them is closed
		})
	}
}

// cuts counts a write of a client, and reports whether the connections were cut at it.
func (c *cutting) cuts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes++; c.writes != c.at {
		return false
	}
	c.cut()
	c.refuses = true
	return true
}

// A database that goes away while the host starts, in a cluster, at whichever write, is waited for as one
// that is away before. Attempts that fail leave nothing: no goroutine, and no lease beside that of the host.
func TestServeWaitsInTheMiddle(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 23))
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	proxy := newCutting(t, server.Socket())
	defer proxy.end()
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("0123456789abcdef", 4))
	config := write(t, dir, "stile.yaml", "auth: none\ndir: "+dir+"\ncluster:\n  address: 127.0.0.1:0\n  secret_file: secret\n")
	env := map[string]string{envJournal: server.Through(proxy.Addr().String())}
	serves := func(at int) (waited bool) {
		proxy.begin(at)
		lines, stop, status := starting(t, env, "--config", config)
		var said []string
		for !strings.Contains(strings.Join(said, ""), "listening on") {
			select {
			case line := <-lines:
				said = append(said, line)
				waited = waited || strings.Contains(line, waitsFor)
			case got := <-status:
				t.Fatalf("seed %d, a cut at write %d: status %d behind %q", seed, at, got, said)
			}
		}
		proxy.begin(0)
		if live, err := postgrestest.Query(server.URL(), "SELECT count(*) FROM stile.hosts WHERE until > clock_timestamp()"); err != nil || live != "1" {
			t.Errorf("seed %d, a cut at write %d: %s hosts have a lease: %v", seed, at, live, err)
		}
		stop()
		if got := <-status; got != 0 {
			t.Errorf("seed %d, a cut at write %d: status %d", seed, at, got)
		}
		return waited
	}
	serves(0) // the schema and the keys are made
	if at := 1 + rnd.IntN(40); !serves(at) {
		t.Errorf("seed %d, a cut at write %d: no word of a wait", seed, at)
	}
	serves(41 + rnd.IntN(40)) // the last writes of a start are tried again by themselves
}

// A host whose database is away at its end has done what it was told to do: its lease ends by itself.
func TestServeEndsWithoutTheDatabase(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("0123456789abcdef", 4))
	config := write(t, dir, "stile.yaml", "auth: none\ndir: "+dir+"\ncluster:\n  address: 127.0.0.1:0\n  secret_file: secret\n")
	lines, stop, status := starting(t, map[string]string{envJournal: server.URL()}, "--config", config)
	until(t, lines, "listening on")
	server.Kill()
	stop()
	until(t, lines, "the lease of this host ends by itself")
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
}
