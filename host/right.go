package host

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// A request that lasts, such as a stream or a call that waits for a run, is its caller's
// for as long as the caller has the right to it. The guard watches the right of every
// request, so that a new route is watched without a word of its own.

// How a right is watched. A right that is lost ends its request within rightEvery +
// rightBound; a look that gets no answer is repeated, and after rightTries repeats, 15
// seconds at most after the last good look, the request ends.
const (
	rightEvery = 10 * time.Second // between two looks
	rightBound = time.Second      // of a look
	rightPause = time.Second      // before a look is repeated
	rightTries = 2
)

// alarm is a timer that calls a function.
type alarm interface {
	Stop() bool
	Reset(time.Duration) bool
}

// ring makes an alarm. It is a variable for tests, and read when a Server is made.
var ring = func(d time.Duration, f func()) alarm { return time.AfterFunc(d, f) }

// right is the right of a request's caller. Its methods are safe for concurrent use.
type right struct {
	ctx    context.Context // of the request; ends with the right
	cancel context.CancelCauseFunc
	ask    func(context.Context) error

	mu     sync.Mutex
	next   alarm
	over   bool
	missed int // looks in a row that got no answer
}

type rightKey struct{}

// lostError is why a right is lost.
type lostError struct{ why error }

// Error implements error.
func (e *lostError) Error() string { return e.why.Error() }

// Unwrap lets errors.As find the refusal.
func (e *lostError) Unwrap() error { return e.why }

func rightOf(ctx context.Context) *right {
	r, _ := ctx.Value(rightKey{}).(*right)
	return r
}

// lost tells why the caller of the request that ctx belongs to may not have its answer
// any more; nil while the right holds.
func lost(ctx context.Context) error {
	r := rightOf(ctx)
	if r == nil || r.ctx.Err() == nil {
		return nil
	}
	if no := (*lostError)(nil); errors.As(context.Cause(r.ctx), &no) {
		return no.why
	}
	return nil
}

// orLost is err, or why the right was lost: what ended because of that says so.
func orLost(ctx context.Context, err error) error {
	if no := lost(ctx); no != nil {
		return no
	}
	return err
}

// hold watches the right of a request until end is called. When it is lost the request's
// context ends.
func (s *Server) hold(r *http.Request) (held *http.Request, end func()) {
	p, known := knownAs(r)
	if !known || s.cfg.Access == nil {
		return r, func() {}
	}
	began := time.Now()
	w := &right{ask: func(ctx context.Context) error { return s.still(ctx, p, began) }}
	var ctx context.Context
	ctx, w.cancel = context.WithCancelCause(r.Context())
	w.ctx = context.WithValue(ctx, rightKey{}, w)
	w.mu.Lock()
	w.next = s.ring(rightEvery, w.look)
	w.mu.Unlock()
	return r.WithContext(w.ctx), w.end
}

func (w *right) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.next.Stop()
	w.cancel(nil)
}

// look asks whether the right holds.
func (w *right) look() {
	ctx, cancel := context.WithTimeout(w.ctx, rightBound)
	defer cancel()
	err := w.ask(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.ctx.Err() != nil {
		return
	}
	var e *messages.Error
	silent := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Reason == access.ReasonUnavailable
	switch {
	case err == nil:
		w.missed = 0
		w.next.Reset(rightEvery)
	case silent && w.missed < rightTries:
		w.missed++
		w.next.Reset(rightPause)
	case silent:
		w.cancel(&lostError{access.Denied(access.ReasonUnavailable, "whether the token is still good cannot be found out")})
	default:
		w.cancel(&lostError{err})
	}
}

// still reports whether the caller of a request that began then may still have its answer:
// meanwhile the token may have expired, been revoked, or changed in what it may, its key
// may be gone, or its user erased.
func (s *Server) still(ctx context.Context, p principal, began time.Time) error {
	if s.erased.after(p.tenant, p.user, began) {
		e := refusal(http.StatusNotFound, messages.ErrNotFound, "", "the user was erased")
		e.Reason = reasonErased
		return e
	}
	id, err := s.cfg.Access.Authenticate(ctx, p.bearer)
	switch {
	case err != nil:
		return err
	case !id.May(p.scope), id.Tenant != p.tenant, id.User != p.identity.User, p.user != id.User && !id.May(access.Users):
		return access.Denied(access.ReasonScope, "the token has lost a right")
	}
	return nil
}

// reasonErased is why a request of a user ends who was erased meanwhile.
const reasonErased = "ERASED"

// erasures are the users that were erased a moment ago. Its methods are safe for
// concurrent use.
type erasures struct {
	mu sync.Mutex
	at map[[2]string]time.Time // by tenant and user
}

// How long an erasure is remembered, so that each open request has looked for it, and how
// many are.
const (
	erasureKept = 4 * (rightEvery + rightBound)
	maxErasures = 4096
)

// room reports whether one more can be remembered.
func (e *erasures) room() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for who, at := range e.at {
		if time.Since(at) > erasureKept {
			delete(e.at, who)
		}
	}
	return len(e.at) < maxErasures
}

func (e *erasures) add(tenant, user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = map[[2]string]time.Time{}
	}
	e.at[[2]string{tenant, user}] = time.Now()
}

// after reports whether a user was erased after that time.
func (e *erasures) after(tenant, user string, began time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.at[[2]string{tenant, user}]
	return ok && at.After(began)
}
