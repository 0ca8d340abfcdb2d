package host

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/responses"
)

// One call of a client of OpenAI's is one run. Such a client repeats a request by itself when
// no answer came in its time, and marks the repeat; a repeat joins the run of the request
// before.

// retryHeader has the number of a repeat, 0 for the first request, in the official clients.
const retryHeader = "X-Stainless-Retry-Count"

const (
	// joinWithin is how long after its end a run is joined by a repeat.
	joinWithin = time.Minute
	// repeatWithin is how long the run of a call without a session waits for a repeat, when its
	// client marks repeats and has hung up before the answer began. The clients wait 8 seconds
	// at most.
	repeatWithin = 10 * time.Second
	// A call is remembered while a request follows it, and then so long; maxCalls bounds those
	// that no request follows.
	callKept = 10 * time.Minute
	maxCalls = 16384
)

// callID is a digest of a caller, a route, a session and a body.
type callID [sha256.Size]byte

// idOfCall digests what a repeat has in common with the request before.
func idOfCall(p principal, route, session string, body []byte) (id callID) {
	h := sha256.New()
	for _, part := range []string{p.tenant, p.user, route, session} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash takes all
		h.Write([]byte(part))
	}
	h.Write(body)
	h.Sum(id[:0])
	return id
}

// call is what a client asked for once, in one request or several.
type call struct {
	id      callID
	settled chan struct{} // closed when run is known, or that there is none
	run     *stile.Run    // nil when none began
	session string        // its id for the caller
	name    string        // of the session's incarnation, as ids of answers begin
	// Of the Responses API: what names the answer, and what of the request was passed over.
	response *responses.ID
	over     []string
	created  time.Time
	// ephemeral says that no other client knows of the session.
	ephemeral bool

	// The lock of calls is held for these.
	followers int
	waiting   alarm         // for a repeat
	rest      *list.Element // in calls.rested, while no request follows it
	left      time.Time
}

// calls are those of late. Its methods are safe for concurrent use.
type calls struct {
	mu     sync.Mutex
	by     map[callID]*call
	rested list.List // the one that was left first is in front
}

// begin makes a call, which a later repeat finds.
func (cs *calls) begin(id callID) *call {
	c := &call{id: id, settled: make(chan struct{}), followers: 1}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for e := cs.rested.Front(); e != nil; e = cs.rested.Front() {
		if old := e.Value.(*call); cs.rested.Len() < maxCalls && time.Since(old.left) < callKept {
			break
		}
		cs.drop(e.Value.(*call))
	}
	if old := cs.by[id]; old != nil { // the same words in another call: a repeat is one of the newest
		cs.drop(old)
	}
	if cs.by == nil {
		cs.by = map[callID]*call{}
	}
	cs.by[id] = c
	return c
}

// drop forgets a call. The lock is held.
func (cs *calls) drop(c *call) {
	if c.rest != nil {
		cs.rested.Remove(c.rest)
		c.rest = nil
	}
	if cs.by[c.id] == c {
		delete(cs.by, c.id)
	}
}

// join finds the call that a repeat is of: one whose run is in flight, or ended a moment ago.
// nil is none. now is the clock by which runs end.
func (cs *calls) join(ctx context.Context, id callID, now func() time.Time) (*call, error) {
	cs.mu.Lock()
	c := cs.by[id]
	if c == nil {
		cs.mu.Unlock()
		return nil, nil
	}
	c.followers++
	if c.rest != nil {
		cs.rested.Remove(c.rest)
		c.rest = nil
	}
	if c.waiting != nil {
		c.waiting.Stop()
		c.waiting = nil
	}
	cs.mu.Unlock()
	select {
	case <-c.settled:
	case <-ctx.Done():
		cs.unfollow(c)
		return nil, ctx.Err()
	}
	if c.run != nil {
		o, ended, err := c.run.Outcome(ctx)
		if err == nil && (!ended || now().Sub(o.Ended) < joinWithin) {
			return c, nil
		}
	}
	cs.unfollow(c)
	return nil, nil
}

// unfollow counts out a request that followed a call. last reports whether none does.
func (cs *calls) unfollow(c *call) (last bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.followers--; c.followers > 0 {
		return false
	}
	switch {
	case cs.by[c.id] != c: // forgotten already
	case c.run == nil:
		cs.drop(c)
	default:
		c.left = time.Now()
		c.rest = cs.rested.PushBack(c)
	}
	return true
}

// await has f called after d, unless a repeat comes before or another request follows the call.
func (cs *calls) await(c *call, ring func(time.Duration, func()) alarm, d time.Duration, f func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.followers > 0 || c.waiting != nil {
		return
	}
	c.waiting = ring(d, func() {
		cs.mu.Lock()
		alone := c.followers == 0
		cs.mu.Unlock()
		if alone {
			f()
		}
	})
}

// marksRepeats reports whether a client numbers its requests, and which repeat this is.
func marksRepeats(r *http.Request) (repeat int, marks bool) {
	n, err := strconv.Atoi(r.Header.Get(retryHeader))
	return n, err == nil && n >= 0
}

// asked returns the call of a request: that of the request before, when this is a repeat, or a
// new one whose run begin begins. Each is given back by unasked.
//
// A client that goes away while begin submits does not undo the submit, so that a repeat finds
// its run.
func (s *Server) asked(r *http.Request, session string, body []byte, begin func(context.Context, *call) error) (c *call, err error) {
	id := idOfCall(s.principal(r.Context()), r.URL.Path, session, body)
	if n, _ := marksRepeats(r); n > 0 {
		if c, err = s.calls.join(r.Context(), id, s.now); err != nil {
			return nil, err
		}
		if c != nil {
			trailOf(r.Context()).about(c.session, c.run.Ordinal())
			return c, nil
		}
	}
	c = s.calls.begin(id)
	c.created = s.now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	err = begin(ctx, c)
	close(c.settled)
	if err != nil {
		s.calls.unfollow(c)
		return nil, err
	}
	return c, nil
}

// unasked ends a request's part in a call. Of a session that no other client knows, the run is
// cancelled when the client has gone without its answer; if the client marks repeats and no
// answer has begun, once no repeat has come.
func (s *Server) unasked(r *http.Request, c *call, answering, ended bool) {
	last := s.calls.unfollow(c)
	if !last || !c.ephemeral || ended || r.Context().Err() == nil {
		return
	}
	by := s.principal(r.Context()).user
	cancel := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
		defer cancel()
		if err := c.run.Cancel(ctx, by); err != nil && s.leaving.Err() == nil {
			s.log.Warn("a run that no caller waits for was not cancelled", zap.Error(err))
		}
	}
	if _, marks := marksRepeats(r); marks && !answering && s.leaving.Err() == nil {
		s.calls.await(c, s.ring, repeatWithin, cancel)
		return
	}
	cancel()
}
