package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
)

const (
	// watchEvery is how often a Client looks whether those live that answer it.
	watchEvery = 100 * time.Millisecond
	dialWait   = 2 * time.Second
	// TakeWait is how long a host has, to whom a request is forwarded, to say that it has taken
	// it. What it does then may take as long as it does for its own clients.
	TakeWait = 3 * time.Second
	// readBytes is how much of an answer is read at once, and then passed on at once.
	readBytes = 16 << 10
	// idle bounds the connections to a host that are kept for further requests.
	idle = 256
)

// Event is what a Client counts.
type Event string

// The events.
const (
	Forwarded Event = "forwarded" // a request went to another host
	Misled    Event = "moved"     // the other host did not run the session
	Broken    Event = "broken"    // the other host did not answer, or not to the end
)

// The errors of requests to other hosts.
var (
	ErrGone = errors.New("host: the host that answers has lost its lease")
	ErrSlow = errors.New("host: the host that runs the session does not take the request")
)

// Client sends requests to other hosts. Its methods are safe for concurrent use.
type Client struct {
	Secret  []byte
	Self    func() string       // id of this host
	Peers   func() []stile.Peer // hosts of the cluster
	Now     func() time.Time    // by the clock that the hosts share
	Leaving context.Context     // over when this host stops
	IdleFor time.Duration       // how long a connection is kept for further requests
	Count   func(Event)

	once      sync.Once
	transport *http.Transport
	lives     lives
	dial      func(ctx context.Context, network, address string) (net.Conn, error) // of tests

	mu      sync.Mutex
	flights map[*flight]struct{} // requests that another host answers
	some    chan struct{}        // capacity 1: there are flights again; made by Watch
}

// flight is a request that another host answers.
type flight struct {
	to     stile.Peer
	life   *life
	began  time.Time
	cancel context.CancelCauseFunc
}

// Transport returns the connections to other hosts.
func (c *Client) Transport() *http.Transport {
	c.once.Do(func() {
		c.transport = &http.Transport{
			DialContext: c.dialer(), DisableCompression: true, MaxIdleConnsPerHost: idle, IdleConnTimeout: c.IdleFor,
			ReadBufferSize: readBytes,
		}
	})
	return c.transport
}

// Watch cancels requests to hosts that have lost their lease, or give no sign of life, until ctx is
// over: a host that is frozen or cut off closes no connection.
func (c *Client) Watch(ctx context.Context) {
	some := make(chan struct{}, 1)
	c.mu.Lock()
	c.some = some
	c.mu.Unlock()
	tick := time.NewTimer(watchEvery)
	defer tick.Stop()
	var signs sync.WaitGroup
	defer signs.Wait()
	for {
		select {
		case <-tick.C:
			if !c.look() {
				continue
			}
			tick.Reset(watchEvery)
			for _, l := range c.lives.all() {
				if l.silent() > SignEvery && l.asked.CompareAndSwap(false, true) {
					signs.Go(func() {
						defer l.asked.Store(false)
						c.sign(ctx, l)
					})
				}
			}
		case <-some: // a host with nothing to do does not wake up for it
			tick.Reset(watchEvery)
		case <-ctx.Done():
			return
		}
	}
}

// look cancels requests to hosts that have lost their lease or are silent, and reports whether there are any
// requests.
func (c *Client) look() (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.flights) == 0 {
		return false
	}
	peers := c.Peers()
	for f := range c.flights {
		i := slices.IndexFunc(peers, func(p stile.Peer) bool { return p.ID == f.to.ID })
		// One that has just come is in no list yet, and has the lease that it came with.
		if i < 0 && time.Since(f.began) > f.to.Left || i >= 0 && peers[i].Left <= 0 {
			f.cancel(ErrGone)
		} else if f.life.silent() > SilentFor {
			f.cancel(ErrSilent)
		}
	}
	return true
}

// Begin returns the context of a request to another host, and what ends it. The context is over when
// that host loses its lease, with the cause ErrGone, gives no sign of life, with the cause ErrSilent, or
// this one stops.
func (c *Client) Begin(ctx context.Context, to stile.Peer) (context.Context, func()) {
	c.Count(Forwarded)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if c.Leaving.Err() == nil { // else it is one of the last attempts
		stop = context.AfterFunc(c.Leaving, func() { cancel(context.Cause(c.Leaving)) })
	}
	f := &flight{to: to, life: c.lives.begin(to), began: time.Now(), cancel: cancel}
	c.fly(f)
	return context.WithValue(ctx, lifeKey{}, f.life), func() {
		c.mu.Lock()
		delete(c.flights, f)
		c.mu.Unlock()
		c.lives.end(f.life)
		stop()
		cancel(nil)
	}
}

// fly adds a flight, and wakes Watch for the first one.
func (c *Client) fly(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights == nil {
		c.flights = map[*flight]struct{}{}
	}
	c.flights[f] = struct{}{}
	if len(c.flights) == 1 {
		select {
		case c.some <- struct{}{}:
		default: // Watch looks anyway
		}
	}
}

// Request is a client's request, for another host: with what the host wants by it, and the proof.
func (c *Client) Request(ctx context.Context, r *http.Request, body []byte, to stile.Peer, wants string) *http.Request {
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI, out.Host = "http", to.Address, "", r.Host
	Drop(out.Header)
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	if len(body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	named := out.Header.Get("User-Agent") != ""
	if !named {
		delete(out.Header, "User-Agent") // no empty one is sent, so the proof must not cover it
	}
	Sign(c.Secret, out, body, Claim{From: c.Self(), To: to.ID, Peer: r.RemoteAddr, For: wants, At: c.Now()})
	if !named {
		out.Header["User-Agent"] = []string{""} // else the library names itself
	}
	return out
}

// Send sends a request to another host. The error is ErrSlow when that host has not taken it in
// time: it says so with an answer of its own before the one that counts. It is ErrSilent when the host has
// taken it, and gives no sign of life.
func (c *Client) Send(out *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(out.Context())
	late := time.AfterFunc(TakeWait, func() { cancel(ErrSlow) })
	l := lifeIn(ctx)
	taken := func(int, textproto.MIMEHeader) error { late.Stop(); l.hear(); return nil }
	resp, err := c.Transport().RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: taken})))
	late.Stop()
	if err != nil {
		c.Count(Broken)
		if cause := context.Cause(ctx); errors.Is(cause, ErrSlow) || errors.Is(cause, ErrSilent) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	l.hear()
	resp.Body = &ending{resp.Body, l, cancel}
	if _, ok := HasMoved(resp); ok {
		c.Count(Misled)
	}
	return resp, nil
}

// ending is a body whose request ends with it.
type ending struct {
	io.ReadCloser
	life   *life
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if n > 0 {
		e.life.hear()
	}
	return n, err
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}

// Refuse answers a host that this one does not run the session: nothing was done but that erased
// sessions of a user are gone.
func Refuse(w http.ResponseWriter, erased int) {
	w.Header().Set(Moved, strconv.Itoa(1+erased))
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// HasMoved reports whether another host's answer is that of Refuse, and what was erased there.
func HasMoved(resp *http.Response) (erased int, ok bool) {
	n, err := strconv.Atoi(resp.Header.Get(Moved))
	return n - 1, err == nil && n > 0 && resp.StatusCode == http.StatusMisdirectedRequest
}
