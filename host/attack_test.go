package host_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// dialRaw connects without a client's manners.
func (d *door) dialRaw() *net.TCPConn {
	d.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// A header that is too large is refused, whether in one line or in many.
func TestHugeHeaders(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	for name, header := range map[string]string{
		"one line":   "X-Long: " + strings.Repeat("x", 256<<10) + "\r\n",
		"many lines": strings.Repeat("X-Many: x\r\n", 30000),
		"the path":   "",
	} {
		c := d.dialRaw()
		path := "/v1/agents"
		if header == "" {
			path += "?" + strings.Repeat("x", 256<<10)
		}
		go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, header)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			continue // it hung up while it was still being sent to
		}
		res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
	d.call(200, nil, "GET", "/v1/agents", "")
}

// Half headers and idle connections on all the places that there are keep nobody out.
func TestConnectionsHeldByStrangers(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "read")
	d := serve(t, host.Config{Access: k, MaxConnections: 50}, agentOf("talker", speaks(nil, always())))
	for i := range 100 {
		c := d.dialRaw()
		if i%2 == 0 {
			fmt.Fprint(c, "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nX-Half")
		} else {
			fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(secret)...)
}

// A compressed body is no JSON: nothing is unpacked.
func TestCompressedBody(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	var bomb bytes.Buffer
	for _, member := range []struct {
		text  string
		times int
	}{{`{"agent": "talker", "id": "`, 1}, {strings.Repeat("x", 1<<20), 64}, {`"}`, 1}} {
		var one bytes.Buffer
		z := gzip.NewWriter(&one)
		if _, err := io.WriteString(z, member.text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		bomb.Write(bytes.Repeat(one.Bytes(), member.times)) // members follow one another
	}
	d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions", bomb.String(), "Content-Encoding", "gzip")
	if res := d.ask("POST", "/v1/chat/completions", bomb.String(), "Content-Encoding", "gzip"); res.StatusCode != 400 {
		t.Errorf("a chat: %s", res.Status)
	}
}

// Who closes its half of the connection has hung up: its stream ends, and its place is
// free when the connection is closed.
func TestHalfClosed(t *testing.T) {
	d := serve(t, host.Config{MaxStreams: 1}, agentOf("talker", speaks(nil, always())))
	d.session("s", "talker")
	for range 3 {
		c := d.dialRaw()
		if _, err := io.WriteString(c, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v, %v", res, err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Fatal(err)
		}
	}
}

// hasty is a listener on whose connections a second of a deadline is a millisecond.
type hasty struct {
	net.Listener
	t    *testing.T
	over chan struct{} // gets one for each connection that the host closes
}

func (l hasty) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &hastyConn{Conn: c, hasty: l}, c.(*net.TCPConn).SetWriteBuffer(4 << 10) // it is full soon
}

type hastyConn struct {
	net.Conn
	hasty
	timed atomic.Bool
	once  sync.Once
}

func (c *hastyConn) SetWriteDeadline(at time.Time) error {
	c.timed.Store(!at.IsZero())
	if !at.IsZero() {
		at = time.Now().Add(time.Until(at) / 1000)
	}
	return c.Conn.SetWriteDeadline(at)
}

func (c *hastyConn) Write(p []byte) (int, error) {
	if !c.timed.Load() {
		c.t.Errorf("%d bytes are written without a deadline", len(p))
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(p)
}

func (c *hastyConn) Close() error {
	c.once.Do(func() { c.over <- struct{}{} })
	return c.Conn.Close()
}

// Who asks for ordinary answers and reads none is cut, and holds nothing.
func TestUnreadAnswers(t *testing.T) {
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{}, 1)
	d := serveOn(t, hasty{Listener: l, t: t, over: over}, host.Config{}, agentOf("talker", speaks(nil, always())))
	for _, path := range []string{"/openapi.json", "/v1/agents"} {
		c := d.dialRaw()
		go func() { // what the host does not read blocks it
			for {
				if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
					return
				}
			}
		}()
		<-over
		c.Close()
	}
}

// pipes is a listener whose connections stay in the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) dial() net.Conn {
	mine, its := net.Pipe()
	p.conns <- its
	return mine
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Who sends a header, or a body, a byte at a time is cut.
func TestSlowSenders(t *testing.T) {
	for name, c := range map[string]struct {
		head  string
		limit time.Duration
	}{
		"nothing":  {"", 31 * time.Second},
		"a header": {"GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", 11 * time.Second},
		"a body":   {"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				d := serveOn(t, l, host.Config{}, agentOf("talker", speaks(nil, always())))
				mine := l.dial()
				go io.Copy(io.Discard, mine)
				began := time.Now()
				_, err := io.WriteString(mine, c.head)
				for err == nil && time.Since(began) < time.Hour {
					<-time.After(time.Second)
					_, err = io.WriteString(mine, "x")
				}
				if took := time.Since(began); err == nil || took > c.limit {
					t.Errorf("it was listened to for %v, %v", took, err)
				}
				mine.Close()
				if err := d.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
