package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// A host of a cluster answers any request: one for a session that another host runs it forwards
// to that host's own door, with the caller's token. A request is forwarded once: the host that it
// came to is asked again when the other one does not run the session after all, or dies. Streams
// of events go on behind the last whole event, wherever their session goes.

const (
	// forwardPatience is how long a request waits for a host that runs its session: longer than a
	// lease that is not renewed, or than a turn of a host that stops.
	forwardPatience = 15 * time.Second
	// forwardPause is the least time between two attempts.
	forwardPause = 20 * time.Millisecond
	// drainPatience is how long a request waits for a host that gives the session up behind its
	// turn, which may take long, and drainPause the time between two attempts then.
	drainPatience = 10 * time.Minute
	drainPause    = 200 * time.Millisecond
	// lastAttempts is how long requests that waited here, for a turn to end, may go on to look for
	// another host when this one stops: most of what they have to end.
	lastAttempts = 4 * time.Second
	// forwardLook is how often a host looks whether those live that it forwards to.
	forwardLook = 100 * time.Millisecond
	dialWait    = 2 * time.Second
	// takeWait is how long a host has, to whom a request is forwarded, to say that it has taken
	// it. What it does then may take as long as it does for its own clients.
	takeWait = 3 * time.Second
)

// Events that metrics count beside those of leases.
const (
	eventForwarded = "forwarded" // a request went to another host
	eventMoved     = "moved"     // the other host did not run the session
	eventBroken    = "broken"    // the other host did not answer, or not to the end
	eventForged    = "forged"    // a request at the hosts' door proved nothing
)

// cluster forwards requests.
type cluster struct {
	s         *Server
	home      string // of this host's sessions of the Model Context Protocol
	secret    []byte
	proofs    forward.Verifier
	transport *http.Transport
	flights   sync.Map // *flight: requests that another host answers
}

// flight is a request that another host answers.
type flight struct {
	to     stile.Peer
	began  time.Time
	cancel context.CancelCauseFunc
}

var (
	errPeerGone = errors.New("host: the host that answers has lost its lease")
	errPeerSlow = errors.New("host: the host that runs the session does not take the request")
)

func (s *Server) newCluster() (*cluster, error) {
	if !s.rt.Clustered() {
		return nil, nil
	}
	if len(s.cfg.ClusterSecret) < forward.MinSecret {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.secret_file", Detail: "want a secret of at least " + strconv.Itoa(forward.MinSecret) + " bytes, the same for all hosts"}
	}
	if s.cfg.ClusterListener == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.address", Detail: "the host does not listen for other hosts"}
	}
	home := ""
	for _, p := range s.rt.Peers() {
		if p.Self {
			home = homeOf(p.Address)
		}
	}
	return &cluster{
		s: s, home: home, secret: s.cfg.ClusterSecret, proofs: forward.Verifier{Secret: s.cfg.ClusterSecret},
		transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialWait}).DialContext, DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: keepAlive / 2,
		},
	}, nil
}

// listen serves the hosts' door until the function that comes back is called.
func (c *cluster) listen() (stop func(context.Context)) {
	srv := &http.Server{
		Handler: c.door(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(c.s.log.Named("cluster")),
	}
	looks, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = srv.Serve(c.s.cfg.ClusterListener) })
	work.Go(func() { c.look(looks) })
	return func(ctx context.Context) {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		cancel()
		work.Wait()
		c.transport.CloseIdleConnections()
	}
}

// look ends what hosts were asked that have lost their lease: one that is frozen closes no
// connection.
func (c *cluster) look(ctx context.Context) {
	tick := time.NewTicker(forwardLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		peers := c.s.rt.Peers()
		c.flights.Range(func(k, _ any) bool {
			f := k.(*flight)
			i := slices.IndexFunc(peers, func(p stile.Peer) bool { return p.ID == f.to.ID })
			// One that has just come is in no list yet, and has the lease that it came with.
			if i < 0 && time.Since(f.began) > f.to.Left || i >= 0 && peers[i].Left <= 0 {
				f.cancel(errPeerGone)
			}
			return true
		})
	}
}

// claimKey has the forward.Claim of a request from another host.
type claimKey struct{}

func forwarded(ctx context.Context) bool { return ctx.Value(claimKey{}) != nil }

// forwardedFor is what another host wants by a request.
func forwardedFor(ctx context.Context) string {
	claim, _ := ctx.Value(claimKey{}).(forward.Claim)
	return claim.For
}

// door answers other hosts. What it lets in has a caller's token, and goes the way of every
// request.
func (c *cluster) door() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forged := func(err error) {
			c.s.rt.Metrics().Cluster(eventForged)
			c.s.log.Warn("a request at the door for hosts is refused", zap.String("peer", r.RemoteAddr), zap.Error(err))
			write(w, refusal(http.StatusForbidden, messages.ErrDenied, forward.Proof, err.Error()))
		}
		if r.Header.Get(forward.Proof) == "" { // its body is not read
			w.Header().Set("Connection", "close")
			forged(forward.ErrForged)
			return
		}
		if !isSocket(r) { // its answer comes at once
			w.WriteHeader(http.StatusProcessing)
		}
		_, pattern := c.s.mux.Handler(r)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyOf(pattern)))
		if err != nil {
			write(w, tooLarge(pattern))
			return
		}
		claim, err := c.proofs.Verify(r, body, c.s.rt.ClusterTime())
		if err != nil {
			forged(err)
			return
		}
		if claim.To != c.self() {
			moved(w, &redirect{})
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		r.RemoteAddr = claim.Peer
		c.s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), claimKey{}, claim)))
	})
}

// moved answers a host that this one does not run the session.
func moved(w http.ResponseWriter, d *redirect) {
	w.Header().Set(forward.Moved, strconv.Itoa(1+d.erased))
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// hasMoved reports whether another host's answer is that of moved, and what was erased there.
func hasMoved(resp *http.Response) (erased int, ok bool) {
	n, err := strconv.Atoi(resp.Header.Get(forward.Moved))
	return n - 1, err == nil && n > 0 && resp.StatusCode == http.StatusMisdirectedRequest
}

func (c *cluster) self() string {
	for _, p := range c.s.rt.Peers() {
		if p.Self {
			return p.ID
		}
	}
	return ""
}

// redirect is what a request finds out about where its session is.
type redirect struct {
	moved  bool   // the session is not here; nothing was done
	sid    string // that session, where it is known
	cut    bool   // the stream of events ended before its end
	erased int    // sessions of the user, before it came to that one
}

type redirectKey struct{}

func redirectOf(ctx context.Context) *redirect {
	d, _ := ctx.Value(redirectKey{}).(*redirect)
	return d
}

// goesElsewhere reports whether another host may answer what this one refuses.
func (p *problem) goesElsewhere() bool {
	return p.Reason == stile.ReasonElsewhere || p.Reason == stile.ReasonNoLease || p.Reason == reasonStopping
}

// following reports whether a request waits for what happens in a session.
func following(r *http.Request, pattern string) bool {
	switch pattern {
	case "GET /v1/sessions/{id}/events", "GET /v1/sessions/{id}/runs/{run}/events":
		return true
	case "GET /v1/sessions/{id}/runs/{run}":
		return r.URL.Query().Has("wait")
	}
	return false
}

const (
	submitPattern = "POST /v1/sessions/{id}/runs"
	beginPattern  = "POST /v1/sessions"
)

// serve answers a request, here or at the host that runs its session.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	p, known := knownAs(r)
	switch {
	case !known:
	case strings.HasSuffix(pattern, " "+toolsPath):
		c.tools(w, r, pattern, next)
		return
	case pattern == erasePattern && !forwarded(r.Context()):
		c.everywhere(w, r, next)
		return
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	id := ""
	if _, path, _ := strings.Cut(pattern, " "); strings.HasPrefix(path, "/v1/sessions/{id}") {
		id = inPath(r, pattern, "{id}")
	}
	if !known || reads && (id == "" || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/records") || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/export") || strings.HasPrefix(pattern, "GET /v1/sessions/{id}/parts")) {
		next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil { // the handler meets it as well, and says so
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		next.ServeHTTP(w, r)
		return
	}
	if pattern == submitPattern && r.Header.Get(keyHeader) == "" {
		r.Header.Set(keyHeader, "host-"+uuid.NewString()) // it may have to be asked again
	}
	sid := ""
	if id != "" {
		sid = p.sid(id)
	}
	t := &trip{c: c, w: &passed{ResponseWriter: w, head: w.Header().Clone()}, r: r, body: body, next: next, pattern: pattern, sid: sid, asks: !reads || following(r, pattern)}
	t.run()
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// trip is a request on its way to the host that answers it.
type trip struct {
	c       *cluster
	w       *passed
	r       *http.Request
	body    []byte
	next    http.Handler
	pattern string
	sid     string    // "" for a request whose path names no session
	asks    bool      // who runs the session, before anything else
	cut     bool      // the stream has ended, and it is not known where it goes on
	resumed bool      // r is the one by which a stream goes on
	slow    string    // which host has not taken it
	leaves  bool      // the host that runs the session gives it up behind its turn
	found   *redirect // of the last attempt here
}

// outcome is what came of an attempt.
type outcome int

const (
	settled   outcome = iota
	elsewhere         // nothing was done, and another attempt may find who does it
	unknown           // the other host went away, and it is not known what it did
	cutOff            // a stream of events has ended before its end
)

func (t *trip) run() {
	in := forwarded(t.r.Context())
	began := time.Now()
	until, leaving := began.Add(forwardPatience), t.c.s.leaving.Done()
	for {
		out := cutOff // still, until it is known where the stream goes on
		if !t.cut {
			out = t.once(in)
		}
		switch {
		case out == settled:
			return
		case in && t.w.began: // the host that forwarded it goes on from here
			panic(http.ErrAbortHandler)
		case in:
			moved(t.w, t.found)
			return
		case out == unknown && t.slow != "":
			t.refuse(t.slow + ": look what came of it, and ask again")
			return
		case out == unknown:
			t.refuse("the host that ran the session went away in the middle of the request: look what came of it, and ask again")
			return
		case out == cutOff && !t.w.events:
			panic(http.ErrAbortHandler)
		case out == cutOff && !t.cut:
			until, t.cut = time.Now().Add(forwardPatience), true
			fallthrough
		case out == cutOff:
			t.cut = !t.resume()
		}
		if _, some := t.other(); !some && t.c.s.draining.Load() && out == elsewhere && !t.w.began {
			t.c.s.refuse(t.w, t.r, t.c.s.taking())
			return
		}
		pause, more := waits(began, until, time.Now(), t.leaves && out == elsewhere && leaving != nil)
		if !more {
			t.refuse(cmp.Or(t.slow, "no host runs the session at the moment"))
			return
		}
		select {
		case <-time.After(pause):
		case <-t.r.Context().Done():
			t.refuse("the request has ended")
			return
		case <-leaving:
			if t.w.began || t.w.events || following(t.r, t.pattern) || t.r.URL.Query().Has("stream") {
				t.stops()
				return
			}
			leaving, until = nil, time.Now().Add(lastAttempts) // what held it here has ended
		}
	}
}

// waits tells how long a request waits for its next attempt, and whether there is one: up to a
// time; and longer for a host that leaves, and gives its session up behind the turn.
func waits(began, until, now time.Time, leaves bool) (pause time.Duration, more bool) {
	if leaves {
		return drainPause, now.Sub(began) < drainPatience
	}
	return forwardPause, !now.After(until)
}

// refuse ends a request that no host answers.
func (t *trip) refuse(detail string) {
	if t.w.began {
		panic(http.ErrAbortHandler)
	}
	t.c.s.refuse(t.w, t.r, tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, stile.ReasonElsewhere, detail, time.Second))
}

// stops tells the reader of a stream that this host stops.
func (t *trip) stops() {
	if !t.w.events {
		t.refuse("the host is stopping")
		return
	}
	_, _ = t.w.ResponseWriter.Write([]byte("event: leaving\ndata: {\"detail\":\"the host stops; come back with the last id\"}\n\n")) // it is stopping
}

// once makes one attempt.
func (t *trip) once(in bool) outcome {
	s := t.c.s
	if in || t.sid == "" && !s.draining.Load() {
		return t.here()
	}
	if t.sid != "" && (t.asks || t.resumed) {
		owner, ok, err := s.rt.Owner(t.r.Context(), t.sid)
		t.leaves = err == nil && ok && (owner.Draining || owner.Self && s.draining.Load())
		switch {
		case err != nil:
		case ok && !owner.Self:
			return t.there(owner)
		case ok && t.resumed: // over the own door, as from another host
			return t.there(owner)
		case ok:
			return t.here()
		}
	}
	if s.draining.Load() || s.rt.Draining() {
		if p, ok := t.other(); ok {
			return t.there(p)
		}
	}
	if t.resumed {
		for _, p := range s.rt.Peers() {
			if p.Self {
				return t.there(p)
			}
		}
	}
	return t.here()
}

// other is a host that takes sessions, while this one does not.
func (t *trip) other() (stile.Peer, bool) {
	var all []stile.Peer
	for _, p := range t.c.s.rt.Peers() {
		if !p.Self && !p.Draining && p.Left > 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return stile.Peer{}, false
	}
	n := uint(0)
	for _, b := range []byte(t.sid) {
		n = n*31 + uint(b)
	}
	return all[n%uint(len(all))], true
}

// here has this host answer.
func (t *trip) here() outcome {
	d := &redirect{}
	r := t.r.WithContext(context.WithValue(t.r.Context(), redirectKey{}, d))
	r.Body = io.NopCloser(bytes.NewReader(t.body))
	t.w.mark, t.found = d, d
	t.next.ServeHTTP(t.w, r)
	t.w.mark = nil
	switch {
	case d.cut:
		return cutOff
	case d.moved && !t.w.began:
		if t.asks = true; t.sid == "" {
			t.sid = d.sid // the path names no session, as of chat completions
		}
		t.w.head = t.w.ResponseWriter.Header().Clone()
		return elsewhere
	}
	return settled
}

// there has another host answer.
func (t *trip) there(to stile.Peer) outcome {
	c := t.c
	c.s.rt.Metrics().Cluster(eventForwarded)
	ctx, done := c.flies(t.r.Context(), to)
	defer done()
	if isSocket(t.r) {
		return t.socket(c.request(ctx, t.r, t.body, to, ""), t.r.Header.Get("Upgrade"))
	}
	resp, err := c.send(c.request(ctx, t.r, t.body, to, ""))
	if err != nil {
		if errors.Is(err, errPeerSlow) {
			t.slow = "the host that runs the session, " + to.Address + ", has not taken the request within " + takeWait.String()
		}
		var op *net.OpError
		switch {
		case t.r.Context().Err() != nil:
			return elsewhere // the client has gone
		case errors.As(err, &op) && op.Op == "dial", t.repeatable():
			return elsewhere
		}
		return unknown
	}
	defer resp.Body.Close()
	if _, ok := hasMoved(resp); ok {
		return elsewhere
	}
	return t.copied(ctx, resp)
}

// flies makes the context of a request to another host. It ends when that host loses its lease, or
// this one stops.
func (c *cluster) flies(ctx context.Context, to stile.Peer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if c.s.leaving.Err() == nil { // else it is one of the last attempts
		stop = context.AfterFunc(c.s.leaving, func() { cancel(errLeaving) })
	}
	f := &flight{to: to, began: time.Now(), cancel: cancel}
	c.flights.Store(f, struct{}{})
	return ctx, func() {
		c.flights.Delete(f)
		stop()
		cancel(nil)
	}
}

// request is a client's request, for another host: with what the host wants by it, and the proof.
func (c *cluster) request(ctx context.Context, r *http.Request, body []byte, to stile.Peer, wants string) *http.Request {
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI, out.Host = "http", to.Address, "", r.Host
	forward.Drop(out.Header)
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	if len(body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if out.Header["User-Agent"] == nil {
		out.Header["User-Agent"] = []string{""} // else the library names itself
	}
	forward.Sign(c.secret, out, body, forward.Claim{From: c.self(), To: to.ID, Peer: r.RemoteAddr, For: wants, At: c.s.rt.ClusterTime()})
	return out
}

// send sends a request to another host. The error is errPeerSlow when that host has not taken it in
// time: it says so with an answer of its own before the one that counts.
func (c *cluster) send(out *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(out.Context())
	late := time.AfterFunc(takeWait, func() { cancel(errPeerSlow) })
	taken := func(int, textproto.MIMEHeader) error { late.Stop(); return nil }
	resp, err := c.transport.RoundTrip(out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: taken})))
	late.Stop()
	if err != nil {
		c.s.rt.Metrics().Cluster(eventBroken)
		if errors.Is(context.Cause(ctx), errPeerSlow) {
			err = errPeerSlow
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &ending{resp.Body, cancel}
	if _, ok := hasMoved(resp); ok {
		c.s.rt.Metrics().Cluster(eventMoved)
	}
	return resp, nil
}

// ending is a body whose request ends with it.
type ending struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}

// repeatable reports whether a request does no more when it is made twice.
func (t *trip) repeatable() bool {
	return t.r.Method == http.MethodGet || t.r.Method == http.MethodHead || t.pattern == submitPattern ||
		t.pattern == beginPattern && t.r.Header.Get(keyHeader) != ""
}

// copied passes an answer on.
func (t *trip) copied(ctx context.Context, resp *http.Response) outcome {
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if t.w.began {
		switch {
		case resp.StatusCode == http.StatusNoContent:
			return settled // all of it was seen
		case resp.StatusCode != http.StatusOK || !events:
			return cutOff
		}
	} else {
		forward.Drop(resp.Header)
		for name, values := range resp.Header {
			if t.w.ResponseWriter.Header()[name] == nil { // what this host says of every answer
				t.w.head[name] = values
			}
		}
		if n := resp.ContentLength; n >= 0 && !events {
			t.w.head.Set("Content-Length", strconv.FormatInt(n, 10))
		}
		t.w.WriteHeader(resp.StatusCode)
		if events && t.w.FlushError() != nil { // the first one may be long in coming
			return settled
		}
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, bad := t.w.Write(buf[:n]); bad != nil {
				return settled // the client is gone
			}
			if events && t.w.FlushError() != nil {
				return settled
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return settled
		case t.r.Context().Err() != nil:
			return settled
		case errors.Is(context.Cause(ctx), errLeaving) && events:
			t.stops()
			return settled
		case events:
			t.c.s.rt.Metrics().Cluster(eventBroken)
			return cutOff
		default:
			t.c.s.rt.Metrics().Cluster(eventBroken)
			panic(http.ErrAbortHandler)
		}
	}
}

// socket passes a WebSocket on. Its client comes back by itself when the other host goes.
func (t *trip) socket(out *http.Request, upgrade string) (o outcome) {
	proof := out.Header.Clone()
	p := &httputil.ReverseProxy{
		Transport: t.c.transport, FlushInterval: -1, ErrorLog: zap.NewStdLog(t.c.s.log.Named("cluster")),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host, pr.Out.Header = out.URL, out.Host, proof
			pr.Out.Header.Set("Connection", "Upgrade")
			pr.Out.Header.Set("Upgrade", upgrade)
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.Header.Get(forward.Moved) != "" {
				return errPeerGone
			}
			for name := range t.w.head {
				if name != "Connection" && name != "Upgrade" {
					resp.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { o = elsewhere },
	}
	p.ServeHTTP(t.w.ResponseWriter, out)
	return o
}

// resume makes the request by which a stream goes on behind its last event. It reports false
// when no host tells which run was begun.
func (t *trip) resume() bool {
	r := t.r.Clone(t.r.Context())
	if t.pattern == submitPattern && !t.resumed {
		run, ok := t.submitted()
		if !ok {
			return false
		}
		q := url.Values{}
		for _, name := range []string{"stream", "format"} {
			if v := t.r.URL.Query().Get(name); v != "" {
				q.Set(name, v)
			}
		}
		r.Method, t.body = http.MethodGet, nil
		r.URL = &url.URL{Path: t.r.URL.Path + "/" + strconv.FormatInt(run.Run, 10) + "/events", RawQuery: q.Encode()}
		r.Header.Del("Content-Type")
		r.Header.Set("Last-Event-ID", run.Position)
	}
	if last := t.w.told.Last; last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	t.r, t.resumed = r, true
	return true
}

// submitted asks which run a submit has begun.
func (t *trip) submitted() (v runView, ok bool) {
	r := t.r.Clone(t.r.Context())
	r.URL = &url.URL{Path: t.r.URL.Path}
	var answer memo
	again := &trip{c: t.c, w: &passed{ResponseWriter: &answer, head: http.Header{}}, r: r, body: t.body, next: t.next, pattern: submitPattern, sid: t.sid, asks: true, resumed: true}
	if again.once(false) != settled || answer.status != http.StatusAccepted {
		return v, false
	}
	return v, json.Unmarshal(answer.body.Bytes(), &v) == nil
}

// memo is an answer that is kept.
type memo struct {
	status int
	body   bytes.Buffer
	head   http.Header
}

func (m *memo) Header() http.Header {
	if m.head == nil {
		m.head = http.Header{}
	}
	return m.head
}
func (m *memo) WriteHeader(status int)            { m.status = status }
func (m *memo) Write(p []byte) (n int, err error) { return m.body.Write(p) }

// passed is the answer to a trip: what an attempt writes that is not the last is dropped, and
// events are passed on whole.
type passed struct {
	http.ResponseWriter
	head   http.Header // of the attempt
	mark   *redirect   // of an attempt here
	began  bool
	events bool
	told   forward.Events
}

// Header implements http.ResponseWriter.
func (p *passed) Header() http.Header {
	if p.began {
		return p.ResponseWriter.Header()
	}
	return p.head
}

func (p *passed) dropping() bool { return !p.began && p.mark != nil && p.mark.moved }

// WriteHeader implements http.ResponseWriter.
func (p *passed) WriteHeader(status int) {
	if p.began || p.dropping() {
		return
	}
	h := p.ResponseWriter.Header()
	for name, values := range p.head {
		h[name] = values
	}
	if status >= http.StatusOK {
		p.began, p.events = true, strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *passed) Write(b []byte) (int, error) {
	if p.dropping() {
		return len(b), nil
	}
	p.WriteHeader(http.StatusOK)
	if !p.events {
		return p.ResponseWriter.Write(b)
	}
	whole, err := p.told.Whole(b)
	if err == nil && len(whole) > 0 {
		_, err = p.ResponseWriter.Write(whole)
	}
	return len(b), err
}

// FlushError is what http.ResponseController flushes with.
func (p *passed) FlushError() error {
	if p.dropping() {
		return nil
	}
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (p *passed) Unwrap() http.ResponseWriter { return p.ResponseWriter }
