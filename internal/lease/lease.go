// Package lease is what hosts that share a journal know of each other, and what a host may
// believe of its own lease.
//
// Invariants:
//   - a host believes in its lease no longer than the database does: it counts from the moment
//     at which it sent the renewal, by a clock that is never set, and stops a margin earlier;
//   - a lease that was over is never believed in again: the host comes back as another one.
//
// Leases keep hosts from stepping on each other. What a session is, the fence decides.
//
// The words that this room and membership use:
//   - A host's life is the time in which it has one lease, under one id. A process that loses its lease
//     and joins again begins another life.
//   - A host claims a session before it runs it, and gives it up when nothing of it runs any more.
//   - A look reads whether something of a session is open, and takes the session up if so.
//   - A host owes a look at a session that stopped in the middle, or whose claim got no answer. The debt
//     is paid when the session rests, runs at this host, or goes on at another one.
//   - A claim is in doubt while it has no answer: the database may make the session the host's until the
//     claim runs out.
//   - A release is unsure while it has no answer, in the same way.
package lease

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// Lengths of a lease.
const (
	Default  = 2 * time.Second
	Shortest = 500 * time.Millisecond
	Longest  = time.Minute
)

// Host is one host of a journal, as the database has it.
type Host struct {
	// ID is of one life of a host: one that starts again, or whose lease was over, has another.
	ID       uuid.UUID
	Address  string // where other hosts reach it
	Version  string
	Draining bool          // it takes no sessions any more
	Left     time.Duration // of its lease, by the database's clock; not positive when it is over
	Until    time.Time     // when that is over by this host's clock; set by who renews
	Load     Load
}

// Load is what a host has to do. It says so with each renewal.
type Load struct {
	Runs     int // in flight, or waiting
	MaxRuns  int // at which it takes no more; 0 of a host that says nothing
	Sessions int // that are its own
}

// Live reports whether the host's lease goes on.
func (h *Host) Live() bool { return h.Left > 0 }

// Table is where hosts and leases are kept: a database, whose clock is the only one that counts.
type Table interface {
	// Join enters a host, with a lease from now on. One that was at its address before has none
	// any more. Where nothing is remembered of who had which session, as after a crash of the
	// database, it enters no host and says after which time to try again: by then no host believes
	// in a lease from before. A database that has lost what it had acknowledged says so, once.
	Join(ctx context.Context, host Host, length time.Duration) (wait time.Duration, err error)
	// Renew lengthens the lease of a host, notes its load, and tells the time and all hosts, those included whose
	// lease is over and who left sessions. ok is false when the lease was over: it stays over.
	Renew(ctx context.Context, id uuid.UUID, length time.Duration, draining bool, load Load) (ok bool, now time.Time, hosts []Host, err error)
	// Now is the time by the database's clock.
	Now(ctx context.Context) (time.Time, error)
	// Hosts lists the hosts, as Renew does.
	Hosts(ctx context.Context) ([]Host, error)
	// Drain has a host take no further session; there is false when it has no lease.
	Drain(ctx context.Context, id uuid.UUID) (there bool, err error)
	// Resign ends the lease of a host. The sessions that it still has are for others to take.
	Resign(ctx context.Context, id uuid.UUID) error
	// Claim makes a session a host's, unless another live host has it: then that is the owner. The
	// owner is empty when the claimer has no lease. What gets to the database at until or later, by
	// its clock, makes nothing the host's, and fails.
	Claim(ctx context.Context, id uuid.UUID, sid string, until time.Time) (owner Host, err error)
	// Owners returns the live hosts that have sessions, by SID.
	Owners(ctx context.Context, sids ...string) (map[string]Host, error)
	// GiveUp gives sessions up that a host has. What gets to the database at until or later, by its
	// clock, does nothing: the host may have claimed them again.
	GiveUp(ctx context.Context, id uuid.UUID, sids []string, until time.Time) error
	// Left lists sessions of a host, at most limit, in an order of the asker's own. A host without
	// a lease and without sessions is forgotten.
	Left(ctx context.Context, id, asker uuid.UUID, limit int) ([]string, error)
	// Listen calls hear with what hosts do, as it happens, on a connection of its own, until that
	// breaks or ctx ends. First it calls hear with the zero Notice: what happened before was not
	// heard. hear must not wait for long.
	Listen(ctx context.Context, hear func(Notice)) error
	Close()
}

// Notice is something that a host has done: it has claimed a session; or with no SID it has come,
// drains, or has left.
type Notice struct {
	Host uuid.UUID
	SID  string
}

// ReasonElsewhere means that another host runs the session.
const ReasonElsewhere = "ELSEWHERE"

// ReasonNoLease means that this host has no lease: it cannot renew it, or has just begun.
const ReasonNoLease = "NO_LEASE"

// Elsewhere says that another host runs a session.
type Elsewhere struct {
	SID  string
	Host Host
}

// Error implements error.
func (e *Elsewhere) Error() string { return "it is at " + e.Host.Address }

// Refuse is the error of a session that another host runs.
func Refuse(sid string, owner Host) error {
	return &messages.Error{Code: messages.ErrBusy, Reason: ReasonElsewhere, Detail: "another host runs " + sid, Cause: &Elsewhere{sid, owner}}
}

// Lost is the error of a host that has no lease.
func Lost() *messages.Error {
	return &messages.Error{Code: messages.ErrBusy, Reason: ReasonNoLease, Detail: "this host has lost its lease, and runs no session until it has one again"}
}

// Owner returns the host that an error of Refuse names.
func Owner(err error) (Host, bool) {
	var e *Elsewhere
	if errors.As(err, &e) {
		return e.Host, true
	}
	return Host{}, false
}

// Term is what a host believes of its own lease. Times are of one clock that only goes forward.
type Term struct {
	Length time.Duration
	until  time.Time
	over   bool
}

// margin is the part of a lease for which its host has stopped already.
const margin = 8

// Renewed takes note of a renewal that the database took, and that was sent at a moment.
func (t *Term) Renewed(sent time.Time) {
	if until := sent.Add(t.Length - t.Length/margin); until.After(t.until) && !t.over {
		t.until = until
	}
}

// Refused takes note that the database does not know the lease any more.
func (t *Term) Refused() { t.over = true }

// Held reports whether the lease holds. Once it does not, it never does again.
func (t *Term) Held(now time.Time) bool {
	if !t.over && !now.Before(t.until) {
		t.over = true
	}
	return !t.over
}

// Until is when the lease ends, if it is not renewed.
func (t *Term) Until() time.Time { return t.until }

// Next is when to renew: a quarter of the lease after the last renewal was sent, so that two
// attempts may fail.
func (t *Term) Next() time.Time {
	return t.until.Add(t.Length/4 - (t.Length - t.Length/margin))
}
