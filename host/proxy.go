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
// door for hosts. When the session has moved, or the other host is gone, it makes another attempt.
type proxy struct {
	c       *cluster
	w       *forward.Response
	r       *http.Request
	body    []byte
	next    http.Handler
	pattern string
	sid     string       // "" for a request whose path names no session
	asks    bool         // who runs the session, before anything else
	cut     bool         // the stream has ended, and it is not known where it goes on
	resumed bool         // r is the one by which a stream goes on
	slow    string       // which host has not taken it
	away    string       // which host could not be reached
	placed  bool         // it was looked where its session begins
	named   bool         // the client names the session that it begins
	wants   string       // what this host wants by it
	leaves  bool         // the host that runs the session gives it up behind its turn
	guessed bool         // a guess of who runs the session was tried
	splice  *splice      // of an answer for a client of OpenAI; or nil
	found   *misdirected // of the last attempt here
}

// outcome is what came of an attempt.
type outcome int

const (
	settled   outcome = iota
	elsewhere         // nothing was done, and another attempt may find who does it
	unknown           // the other host went away, and it is not known what it did
	cutOff            // a stream of events has ended before its end
)

func (t *proxy) serve() {
	in := forwarded(t.r.Context())
	began := time.Now()
	until, leaving := began.Add(forwardPatience), t.c.s.leaving.Done()
	for {
		out := cutOff // still, until it is known where the stream goes on
		if tried := time.Now(); !t.cut {
			if out = t.attempt(in); time.Since(tried) > leastTaken { // a host had taken the request
				until = later(until, time.Now().Add(forwardPatience))
			}
		}
		switch {
		case out == settled:
			return
		case in:
			t.back()
			return
		case out == unknown:
			t.refuse(cmp.Or(t.slow, "the host that ran the session went away in the middle of the request") + ": look what came of it, and ask again")
			return
		case out == cutOff && !t.w.Streams():
			panic(http.ErrAbortHandler)
		case out == cutOff && !t.cut:
			until, t.cut = time.Now().Add(forwardPatience), true
			fallthrough
		case out == cutOff:
			t.cut = !t.resume()
		}
		if _, some := t.other(); !some && t.c.s.draining.Load() && out == elsewhere && !t.w.Begun() {
			t.c.s.refuse(t.w, t.r, t.c.s.taking())
			return
		}
		pause, more := waits(began, until, time.Now(), t.leaves && out == elsewhere && leaving != nil)
		if !more {
			t.refuse(cmp.Or(t.slow, t.away, "no host runs the session at the moment"))
			return
		}
		select {
		case <-time.After(pause):
		case <-t.r.Context().Done():
			t.refuse("the request has ended")
			return
		case <-leaving:
			if t.w.Begun() || t.w.Streams() || following(t.r, t.pattern) || t.r.URL.Query().Has("stream") {
				t.stops()
				return
			}
			leaving, until = nil, time.Now().Add(lastAttempts) // what held it here has ended
		}
	}
}

// back gives the request back to the host that forwarded it, which goes on from here.
func (t *proxy) back() {
	if t.w.Begun() {
		panic(http.ErrAbortHandler)
	}
	forward.Refuse(t.w, t.found.erased)
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

// attempt makes one attempt.
func (t *proxy) attempt(in bool) outcome {
	s := t.c.s
	if in {
		return t.locally()
	}
	if out, done := t.place(); done {
		return out
	}
	if t.sid == "" && !s.draining.Load() {
		return t.locally()
	}
	if t.pattern == submitPattern && !t.guessed && !t.resumed && !s.draining.Load() {
		t.guessed = true // a host takes a submit with the session's lease alone: a wrong guess does nothing
		if p, ok := t.c.owners.guess(t.sid, s.rt.Peers()); ok {
			if out := t.at(p); out != elsewhere {
				return out
			}
			t.c.owners.forget(t.sid)
		}
	}
	if t.sid != "" && (t.asks || t.resumed) {
		owner, ok, err := s.rt.Owner(t.r.Context(), t.sid)
		t.leaves = err == nil && ok && (owner.Draining || owner.Self && s.draining.Load())
		switch {
		case err != nil:
		case ok && !owner.Self:
			return t.at(owner)
		case ok && t.resumed: // over the own door, as from another host
			return t.at(owner)
		case ok:
			return t.locally()
		}
	}
	if s.draining.Load() || s.rt.Draining() {
		if p, ok := t.other(); ok {
			return t.at(p)
		}
	}
	if t.resumed {
		for _, p := range s.rt.Peers() {
			if p.Self {
				return t.at(p)
			}
		}
	}
	return t.locally()
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
		if t.r.Context().Err() == nil {
			c.spread.avoid(to.ID, time.Now())
		}
		if errors.Is(err, forward.ErrSlow) {
			t.slow = "the host that runs the session, " + to.Address + ", has not taken the request within " + forward.TakeWait.String()
		}
		if errors.Is(err, forward.ErrSilent) {
			t.slow = "the host that runs the session, " + to.Address + ", gives no sign of life"
		}
		var op *net.OpError
		switch {
		case t.r.Context().Err() != nil:
			return elsewhere // the client has gone
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
	defer resp.Body.Close()
	if _, ok := forward.HasMoved(resp); ok {
		return elsewhere
	}
	if t.pattern == submitPattern && resp.StatusCode < http.StatusMultipleChoices {
		c.owners.learn(t.sid, to.ID)
	}
	return t.copied(ctx, resp)
}

// repeatable reports whether a request does no more when it is made twice.
func (t *proxy) repeatable() bool {
	return t.r.Method == http.MethodGet || t.r.Method == http.MethodHead || t.pattern == submitPattern ||
		isAnswer(t.pattern) && t.r.Header.Get(keyHeader) != "" || t.pattern == beginPattern && t.r.Header.Get(keyHeader) != "" && !t.named || t.placeable()
}
