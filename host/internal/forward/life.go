package forward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed14be6753/stile"
)

// A host that has its lease may still be out of reach of another host: packets between the two vanish,
// and no connection closes. So a Client asks a host for a sign of life when it waits for an answer and has
// heard nothing for a while, over a new connection, and gives the host's answers up without one.

// Alive is what a host wants that asks another one for a sign of life: any answer is one.
const Alive = "alive"

const (
	// SignEvery is how long a host that has to answer may be silent before it is asked for a sign of life.
	SignEvery = time.Second
	// SilentFor is how long it may be silent until its answers are given up.
	SilentFor = SignEvery + TakeWait
)

// ErrSilent means that a host which has its lease gives no sign of life.
var ErrSilent = errors.New("host: the host that answers gives no sign of life")

// lives are the hosts that have something to answer.
type lives struct {
	mu sync.Mutex
	of map[string]*life // by id
}

// life is what is known of such a host.
type life struct {
	to      stile.Peer
	flights int // under the lock of lives
	heard   atomic.Pointer[time.Time]
	asked   atomic.Bool // for a sign of life
}

type lifeKey struct{}

// lifeIn returns the host that answers a request with this context.
func lifeIn(ctx context.Context) *life {
	l, _ := ctx.Value(lifeKey{}).(*life)
	return l
}

// begin notes that a host has one answer more to give.
func (l *lives) begin(to stile.Peer) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[to.ID]
	if one == nil {
		one = &life{to: to}
		one.hear()
		if l.of == nil {
			l.of = map[string]*life{}
		}
		l.of[to.ID] = one
	}
	one.flights++
	return one
}

// end notes that it has one less.
func (l *lives) end(one *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.flights--; one.flights == 0 {
		delete(l.of, one.to.ID)
	}
}

// all returns the hosts that have something to answer.
func (l *lives) all() (all []*life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.of {
		all = append(all, one)
	}
	return all
}

// hear notes a sign of life. l may be nil.
func (l *life) hear() {
	if l != nil {
		now := time.Now()
		l.heard.Store(&now)
	}
}

func (l *life) silent() time.Duration { return time.Since(*l.heard.Load()) }

// sign asks a host for a sign of life.
func (c *Client) sign(ctx context.Context, l *life) {
	ctx, cancel := context.WithTimeout(ctx, TakeWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.to.Address+"/healthz", nil)
	if err != nil {
		return // no such address is in the list of hosts
	}
	t := &http.Transport{DialContext: c.dialer(), DisableKeepAlives: true}
	resp, err := t.RoundTrip(c.Request(ctx, r, nil, l.to, Alive))
	switch {
	case err == nil:
		_ = resp.Body.Close() // nothing of it is read
		l.hear()
	case errors.Is(err, syscall.ECONNREFUSED): // its machine has answered; a process that ends closes its connections
		l.hear()
	}
}

// dialer dials other hosts. Keep-alives find a single connection that is dead, while others live.
func (c *Client) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if c.dial != nil {
		return c.dial
	}
	return (&net.Dialer{Timeout: dialWait, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}}).DialContext
}
