package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
)

// What a client sends is believed as it arrives, whatever the client's request has in its head.
func TestRequestArrives(t *testing.T) {
	c := &Client{Secret: secret, Self: func() string { return "f" }, Now: func() time.Time { return noon }}
	for _, one := range []struct {
		name string
		head http.Header
		body string
	}{
		{"plain", http.Header{"User-Agent": {"curl"}, "Accept": {"a", "b"}}, "body"},
		{"no user agent", http.Header{"Accept": {"*/*"}}, "body"},
		{"an empty user agent", http.Header{"User-Agent": {""}}, "body"},
		{"no head", http.Header{}, ""},
		{"of a connection", http.Header{"Connection": {"close, x-hop"}, "X-Hop": {"1"}, "Te": {"trailers"}, "Content-Length": {"9"}}, "body"},
		{"a forged proof", http.Header{Proof: {"from=x"}}, ""},
	} {
		r := request(one.body)
		r.Header = one.head
		out := c.Request(context.Background(), r, []byte(one.body), stile.Peer{ID: "t", Address: "10.0.0.1:8472"}, "")
		var wire bytes.Buffer
		if err := out.Write(&wire); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatal(err)
		}
		claim, err := (&Verifier{Secret: secret}).Verify(got, noon)
		if err != nil || claim.From != "f" || claim.To != "t" {
			t.Errorf("%s: %+v, %v", one.name, claim, err)
			continue
		}
		if b, err := io.ReadAll(got.Body); err != nil || string(b) != one.body {
			t.Errorf("%s: the body is %q, %v", one.name, b, err)
		}
	}
}

// A request ends when its host loses its lease, also the first one after a time without any, in which
// a client looks at nothing.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		var gone atomic.Bool
		c := &Client{Leaving: t.Context(), Count: func(Event) {}, Peers: func() []stile.Peer {
			looks.Add(1)
			if gone.Load() {
				return []stile.Peer{{ID: "a"}}
			}
			return []stile.Peer{{ID: "a", Left: time.Second}}
		}}
		go c.Watch(t.Context())
		for range 3 {
			time.Sleep(time.Minute)
			if n := looks.Swap(0); n != 0 {
				t.Errorf("it looked %d times without a request", n)
			}
			gone.Store(false)
			one, end := c.Begin(t.Context(), stile.Peer{ID: "a", Left: time.Second})
			two, also := c.Begin(t.Context(), stile.Peer{ID: "b", Left: 600 * time.Millisecond})
			time.Sleep(500 * time.Millisecond)
			if one.Err() != nil || two.Err() != nil {
				t.Errorf("%v, %v: the hosts live", context.Cause(one), context.Cause(two))
			}
			gone.Store(true)
			time.Sleep(4 * watchEvery)
			if !errors.Is(context.Cause(one), ErrGone) || !errors.Is(context.Cause(two), ErrGone) {
				t.Errorf("%v, %v: the hosts are gone", context.Cause(one), context.Cause(two))
			}
			end()
			also()
			time.Sleep(2 * watchEvery) // it sees that there are none
			looks.Store(0)
		}
	})
}
