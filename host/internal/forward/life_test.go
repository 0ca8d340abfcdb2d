package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
)

// wire is a network to one host, which may swallow all that is sent.
type wire struct {
	away    atomic.Bool // no byte arrives, and no connection ends
	refuses atomic.Bool
	work    sync.WaitGroup
	signs   atomic.Int64
}

func (n *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if n.refuses.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	n.work.Go(func() {
		defer there.Close()
		in := bufio.NewReader(there)
		r, err := http.ReadRequest(in)
		switch {
		case err != nil || n.away.Load():
		case strings.Contains(r.Header.Get(Proof), "for="+Alive):
			n.signs.Add(1)
			_, _ = io.WriteString(there, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			return
		default:
			_, _ = io.WriteString(there, "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n")
		}
		_, _ = io.Copy(io.Discard, in) // it says nothing more
	})
	return here, nil
}

// A host that has its lease and answers slowly is waited for, as long as it gives a sign of life. One
// whose packets vanish is given up within SilentFor, and one that takes no new connection is not.
func TestSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &wire{}
		peer := stile.Peer{ID: "t", Address: "10.0.0.1:8472", Left: time.Hour}
		c := &Client{
			Secret: secret, Self: func() string { return "f" }, Now: time.Now, Peers: func() []stile.Peer { return []stile.Peer{peer} },
			Leaving: t.Context(), Count: func(Event) {}, dial: n.dial,
		}
		looks, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { c.Watch(looks) })
		time.Sleep(time.Minute)
		if got := n.signs.Load(); got != 0 {
			t.Errorf("%d signs of life from a host that has nothing to answer", got)
		}
		ctx, done := c.Begin(t.Context(), peer)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://stile/v1/sessions/ada/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Send(c.Request(ctx, r, nil, peer, ""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := n.signs.Load(); context.Cause(ctx) != nil || got < 50 || got > 60 {
			t.Errorf("%v after %d signs of life", context.Cause(ctx), got)
		}
		n.refuses.Store(true)
		time.Sleep(time.Minute)
		if err := context.Cause(ctx); err != nil {
			t.Errorf("a host that takes no new connection: %v", err)
		}
		n.refuses.Store(false)
		n.away.Store(true)
		began := time.Now()
		if _, err := io.ReadAll(resp.Body); err == nil || !errors.Is(context.Cause(ctx), ErrSilent) {
			t.Errorf("%v, because of %v", err, context.Cause(ctx))
		}
		if took := time.Since(began); took > SilentFor+watchEvery {
			t.Errorf("it took %s", took)
		}
		_ = resp.Body.Close()
		done()
		if all := c.lives.all(); len(all) != 0 {
			t.Errorf("it remembers %d hosts", len(all))
		}
		stop()
		work.Wait()
		c.Transport().CloseIdleConnections()
		n.work.Wait()
	})
}
