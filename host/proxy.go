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
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

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
	// leastTaken is how long an attempt takes at least that does not count against the patience: the
	// other host was at work, up to the turn's end.
	leastTaken = time.Second + forward.TakeWait
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A proxy passes one request of a client to the host that answers it: this one, or another over the
// door for hosts. When the session has moved, or the other host is gone, it makes another attempt. It is
// for one goroutine.
type proxy struct {
	c       *cluster
	w       *forward.Response
	r       *http.Request
	body    []byte
	next    http.Handler
	pattern string
	sid     string  // "" for a request whose path names no session
	splice  *splice // of an answer for a client of OpenAI; or nil

	// Which host is asked.
	asks    bool         // who runs the session, before anything else
	guessed bool         // a guess of who runs the session was tried
	placed  bool         // it was looked where its session begins
	named   bool         // the client names the session that it begins
	wants   string       // what this host wants by it
	found   *misdirected // of the last attempt here

	// How long the client waits.
	began   time.Time
	until   time.Time       // no attempt after that
	stopped <-chan struct{} // closed when this host stops; nil once that gave the request its last attempts
	leaves  bool            // the host that runs the session gives it up behind its turn

	// What the client is told when no host answers.
	slow string // which host has not taken it
	away string // which host could not be reached

	// Of a stream that a host did not write to its end.
	cut     bool // it is not known where it goes on
	resumed bool // r is the request by which it goes on
}

// outcome is what came of an attempt.
type outcome int

const (
	settled   outcome = iota
	elsewhere         // nothing was done, and another attempt may find who does it
	unknown           // the other host went away, and it is not known what it did
	cutOff            // a stream of events has ended before its end
)

// serve answers the request. For a client it makes attempts until one of them settles it, no host has
// answered in time, or the client or this host goes; for another host one, since that one makes the next.
func (t *proxy) serve() {
	if forwarded(t.r.Context()) {
		if t.locally() != settled {
			t.back()
		}
		return
	}
	t.began = time.Now()
	t.until, t.stopped = t.began.Add(forwardPatience), t.c.s.leaving.Done()
	for !t.try() {
		if !t.wait() {
			return
		}
	}
}

// try makes an attempt, or asks once more where the stream goes on that was cut. It reports whether the
// request is answered.
func (t *proxy) try() bool {
	if t.cut {
		t.cut = !t.resume()
		return false
	}
	tried := time.Now()
	out := t.attempt()
	if time.Since(tried) > leastTaken { // a host had taken the request
		t.until = later(t.until, time.Now().Add(forwardPatience))
	}
	switch out {
	case settled:
		return true
	case unknown:
		t.refuse(cmp.Or(t.slow, "the host that ran the session went away in the middle of the request") + ": look what came of it, and ask again")
		return true
	case cutOff:
		if !t.w.Streams() {
			panic(http.ErrAbortHandler)
		}
		t.until, t.leaves = time.Now().Add(forwardPatience), false
		t.cut = !t.resume()
	case elsewhere:
		if _, some := t.other(); !some && t.c.s.draining.Load() && !t.w.Begun() {
			t.c.s.refuse(t.w, t.r, t.c.s.taking())
			return true
		}
	}
	return false
}

// wait waits until the next attempt. It reports false, and has told the client why, when there is none.
func (t *proxy) wait() bool {
	pause, more := pauseOf(t.began, t.until, time.Now(), t.leaves && t.stopped != nil)
	if !more {
		t.refuse(cmp.Or(t.slow, t.away, "no host runs the session at the moment"))
		return false
	}
	select {
	case <-time.After(pause):
	case <-t.r.Context().Done():
		t.refuse("the request has ended")
		return false
	case <-t.stopped:
		if t.w.Begun() || t.w.Streams() || following(t.r, t.pattern) || t.r.URL.Query().Has("stream") {
			t.stops()
			return false
		}
		t.stopped, t.until = nil, time.Now().Add(lastAttempts) // what held it here has ended
	}
	return true
}

// back gives the request back to the host that forwarded it, which goes on from here.
func (t *proxy) back() {
	if t.w.Begun() {
		panic(http.ErrAbortHandler)
	}
	forward.Refuse(t.w, t.found.erased)
}

// pauseOf returns how long a request waits for its next attempt, and whether there is one: up to a
// time; and longer for a host that leaves, and gives its session up behind the turn.
func pauseOf(began, until, now time.Time, leaves bool) (pause time.Duration, more bool) {
	if leaves {
		return drainPause, now.Sub(began) < drainPatience
	}
	return forwardPause, !now.After(until)
}

// refuse ends a request that no host answers.
func (t *proxy) refuse(detail string) {
	p := tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, stile.ReasonElsewhere, detail, time.Second)
	switch {
	case !t.w.Begun():
		t.c.s.refuse(t.w, t.r, p)
	case t.w.Streams() && t.splice == nil && t.r.URL.Query().Get("format") != "simple":
		t.leaving(detail)
	case t.splice == nil || !t.w.Streams():
		panic(http.ErrAbortHandler)
	default:
		_, _ = t.w.ResponseWriter.Write(t.splice.fail(p)) // a client that is gone reads nothing
	}
}

// stops tells the reader of a stream that this host stops.
func (t *proxy) stops() {
	if !t.w.Streams() {
		t.refuse("the host is stopping")
		return
	}
	if t.splice != nil {
		_, _ = t.w.ResponseWriter.Write(t.splice.fail(leavingChat()))
		return
	}
	t.leaving("the host stops")
}

// leaving tells the reader of a stream why it ends, and that its client shall come back.
func (t *proxy) leaving(why string) {
	data, err := json.Marshal(map[string]string{"detail": why + "; come back with the last id"})
	if err != nil {
		panic(err) // it is a map of strings
	}
	_, _ = t.w.ResponseWriter.Write([]byte("event: leaving\ndata: " + string(data) + "\n\n")) // a client that is gone reads nothing
}

// attempt makes one attempt: at the host where the session is to begin, at the one that is guessed to run
// it, or at the one that is known to.
func (t *proxy) attempt() outcome {
	if out, done := t.place(); done {
		return out
	}
	if t.sid == "" && !t.c.s.draining.Load() {
		return t.locally()
	}
	if out, done := t.guess(); done {
		return out
	}
	if to, another := t.target(); another {
		return t.at(to)
	}
	return t.locally()
}

// guess makes a submit's first attempt at the host that took the last one of the session, if it is known. A
// host takes a submit with the session's lease alone, so a wrong guess does nothing.
func (t *proxy) guess() (out outcome, done bool) {
	if t.pattern != submitPattern || t.guessed || t.resumed || t.c.s.draining.Load() {
		return elsewhere, false
	}
	t.guessed = true
	to, ok := t.c.owners.Guess(t.sid, t.c.s.rt.Peers())
	if !ok {
		return elsewhere, false
	}
	if out = t.at(to); out == elsewhere {
		t.c.owners.Forget(t.sid)
	}
	return out, out != elsewhere
}

// target returns the host that is to answer. another is false where this one does without its door: a
// stream that goes on comes over the door of whichever host writes it.
func (t *proxy) target() (to stile.Peer, another bool) {
	s := t.c.s
	if t.sid != "" && (t.asks || t.resumed) {
		owner, held, err := s.rt.Owner(t.r.Context(), t.sid)
		held = held && err == nil
		t.leaves = held && (owner.Draining || owner.Self && s.draining.Load())
		if held {
			return owner, !owner.Self || t.resumed
		}
	}
	if s.draining.Load() || s.rt.Draining() {
		if p, ok := t.other(); ok {
			return p, true
		}
	}
	if t.resumed {
		for _, p := range s.rt.Peers() {
			if p.Self {
				return p, true
			}
		}
	}
	return stile.Peer{}, false
}

// other is a host that takes sessions, while this one does not.
func (t *proxy) other() (stile.Peer, bool) {
	all := t.c.others()
	if len(all) == 0 {
		return stile.Peer{}, false
	}
	n := uint(0)
	for _, b := range []byte(t.sid) {
		n = n*31 + uint(b)
	}
	return all[n%uint(len(all))], true
}

// locally has this host answer.
func (t *proxy) locally() outcome {
	d := &misdirected{}
	r := t.r.WithContext(context.WithValue(t.r.Context(), misdirectedKey{}, d))
	r.Body = io.NopCloser(bytes.NewReader(t.body))
	t.found = d
	t.w.Attempt(func() bool { return d.moved })
	t.next.ServeHTTP(t.w, r)
	t.w.Attempt(nil)
	switch {
	case d.cut:
		return cutOff
	case d.moved && !t.w.Begun():
		if t.asks = true; t.sid == "" {
			t.sid = d.sid // the path names no session, as of chat completions
		}
		t.w.Reset()
		return elsewhere
	}
	return settled
}

// at has another host answer.
func (t *proxy) at(to stile.Peer) outcome {
	c := t.c
	ctx, done := c.client.Begin(t.r.Context(), to)
	defer done()
	resp, err := c.client.Send(c.client.Request(ctx, t.r, t.body, to, t.wants))
	if err != nil {
		return t.unanswered(to, err)
	}
	defer resp.Body.Close()
	if _, ok := forward.HasMoved(resp); ok {
		return elsewhere
	}
	if t.pattern == submitPattern && resp.StatusCode < http.StatusMultipleChoices {
		c.owners.Learn(t.sid, to.ID)
	}
	return t.copied(ctx, resp)
}

// unanswered returns what came of an attempt at a host that gave no answer.
func (t *proxy) unanswered(to stile.Peer, err error) outcome {
	if t.r.Context().Err() != nil {
		return elsewhere // the client has gone
	}
	t.c.spread.avoid(to.ID, time.Now())
	switch host := "the host that runs the session, " + to.Address; {
	case errors.Is(err, forward.ErrSlow):
		t.slow = host + ", has not taken the request within " + forward.TakeWait.String()
	case errors.Is(err, forward.ErrSilent):
		t.slow = host + ", gives no sign of life"
	}
	var op *net.OpError
	switch {
	case t.slow != "" && isAnswer(t.pattern) && !t.placeable():
		return unknown // if it takes the request after all, it ends the run with it
	case errors.As(err, &op) && op.Op == "dial":
		t.away = "the host that runs the session, " + to.Address + ", cannot be reached"
		return elsewhere
	case t.repeatable():
		return elsewhere
	}
	return unknown
}

// repeatable reports whether a request does no more when it is made twice.
func (t *proxy) repeatable() bool {
	hasKey := t.r.Header.Get(keyHeader) != ""
	switch {
	case t.r.Method == http.MethodGet, t.r.Method == http.MethodHead, t.pattern == submitPattern:
		return true
	case isAnswer(t.pattern):
		return hasKey
	case t.pattern == beginPattern && hasKey && !t.named:
		return true
	}
	return t.placeable()
}
