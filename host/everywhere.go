package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// A user is erased at every host of a cluster: each ends the sessions that it runs, and removes
// the folders that are on its own disk.

const erasePattern = "DELETE /v1/users/{user}"

// erasing is the erasure of a user at several hosts.
type erasing struct {
	c     *cluster
	w     http.ResponseWriter
	r     *http.Request
	next  http.Handler
	user  string
	count int // of sessions
}

// everywhere erases a user here and at all other hosts.
func (c *cluster) everywhere(w http.ResponseWriter, r *http.Request, next http.Handler) {
	// A client that goes away leaves no half of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*deleteWait)
	defer cancel()
	e := &erasing{c: c, w: w, r: r.WithContext(ctx), next: next}
	done := map[string]bool{}
	for ok := e.here(); ok; {
		to, more := c.unasked(done)
		if !more {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(erasedUser{User: e.user, Sessions: e.count}) // the client may have gone
			return
		}
		var again bool
		if again, ok = e.at(to); again {
			ok = e.here()
		} else {
			done[to.ID] = true
		}
	}
}

// unasked is a live host that has not erased the user yet.
func (c *cluster) unasked(done map[string]bool) (stile.Peer, bool) {
	for _, p := range c.s.rt.Peers() {
		if !p.Self && p.Left > 0 && !done[p.ID] {
			return p, true
		}
	}
	return stile.Peer{}, false
}

// here erases what this host can reach, and has the hosts that run the others erase theirs. It reports
// whether nothing is left; else the answer is given.
func (e *erasing) here() bool {
	for until := time.Now().Add(forwardPatience); ; {
		d, answer := &misdirected{}, &forward.Recorder{Head: e.w.Header().Clone()}
		e.next.ServeHTTP(answer, e.r.WithContext(context.WithValue(e.r.Context(), misdirectedKey{}, d)))
		if !d.moved {
			return e.takes(answer)
		}
		if e.count += d.erased; d.erased > 0 {
			until = time.Now().Add(forwardPatience)
		}
		owner, ok, err := e.c.s.rt.Owner(e.r.Context(), d.sid)
		if err == nil && ok && !owner.Self {
			before := e.count
			if _, ok := e.at(owner); !ok {
				return false
			}
			if e.count > before {
				until = time.Now().Add(forwardPatience)
			}
		}
		select {
		case <-time.After(forwardPause):
		case <-e.r.Context().Done():
			until = time.Time{}
		}
		if time.Now().After(until) {
			e.left("no host erases " + d.sid + " at the moment")
			return false
		}
	}
}

// at has another host erase what it runs. It reports whether the host came to a session of yet
// another one; ok is false when the answer is given.
func (e *erasing) at(to stile.Peer) (again, ok bool) {
	c := e.c
	ctx, done := c.client.Begin(e.r.Context(), to)
	defer done()
	resp, err := c.client.Send(c.client.Request(ctx, e.r, nil, to, ""))
	if err != nil {
		if errors.Is(context.Cause(ctx), forward.ErrGone) {
			return true, true // what it had is for others
		}
		e.left("the host " + to.Address + " does not answer")
		return false, false
	}
	defer resp.Body.Close()
	if n, moved := forward.HasMoved(resp); moved {
		e.count += n
		return true, true
	}
	answer := &forward.Recorder{Status: resp.StatusCode, Head: e.w.Header().Clone()}
	answer.Head.Set("Content-Type", resp.Header.Get("Content-Type"))
	if after := resp.Header.Get("Retry-After"); after != "" {
		answer.Head.Set("Retry-After", after)
	}
	if _, err := answer.Body.ReadFrom(http.MaxBytesReader(nil, resp.Body, maxBody)); err != nil {
		e.left("the host " + to.Address + " has not answered whole")
		return false, false
	}
	return false, e.takes(answer)
}

// takes counts what an answer tells. One that is no success is passed on: it reports false.
func (e *erasing) takes(answer *forward.Recorder) bool {
	var v erasedUser
	if answer.Status == http.StatusOK && json.Unmarshal(answer.Body.Bytes(), &v) == nil {
		e.user = v.User
		e.count += v.Sessions
		return true
	}
	for name, values := range answer.Head {
		e.w.Header()[name] = values
	}
	e.w.WriteHeader(answer.Status)
	_, _ = e.w.Write(answer.Body.Bytes())
	return false
}

// left says that more is to be erased.
func (e *erasing) left(why string) {
	e.c.s.refuse(e.w, e.r, tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, stile.ReasonElsewhere, fmt.Sprintf("%s: %d sessions are erased, and there may be more: ask again", why, e.count), time.Second))
}
