// Package share divides the limits of tenants among the hosts of a cluster: each host has a part
// of a limit, within which it asks no other host.
//
// Invariants:
//   - the parts of all hosts together are never more than the limit, but for what was used before
//     it could be counted (runs go on over a limit of the day);
//   - a host gives a part up before it says so, and uses a part only after it was told so; so a
//     word that is lost, late or repeated leaves a part unused, and never used twice;
//   - what was used on a day is one number for each life of a host, which only grows: to say it
//     twice counts once.
//
// It keeps no table, and has no clock. The table is the database's; see Grant for what its
// statement computes.
package share

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Kind is a quantity of which a tenant has so much.
type Kind string

// The kinds. Those of a day are counted from midnight (UTC) on; the others are what is in use at
// the moment, and nothing when the host is gone.
const (
	Requests Kind = "requests" // thousandths of a request a second
	Burst    Kind = "burst"    // thousandths of a request at once
	Runs     Kind = "runs"
	Streams  Kind = "streams"
	Sessions Kind = "sessions" // places for some that begin; the table counts those that exist as used by others
	Tokens   Kind = "tokens"   // of a day, as those that follow
	Cost     Kind = "cost"     // millionths of a dollar
	Bytes    Kind = "bytes"    // of the journal
)

// Unnamed is a regular expression of the SIDs of sessions that no limit counts: a client began one without a name.
const Unnamed = `^[^:]*:[^:]*:chat-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`

// Name names a quantity of a tenant.
type Name struct {
	Tenant string
	Kind   Kind
	Day    string // in UTC, as 2026-11-21; "" of what is in use at the moment
}

// Ask is what a host says of a quantity, and the part that it wants.
type Ask struct {
	Name
	Limit int64 // of the tenant, at all hosts; 0 for none
	Used  int64 // by this life of the host
	Held  int64 // the part that the host has, or has kept of what it had
	Want  int64 // the part that it wants, at least Used
}

// Share is what a host has of a quantity.
type Share struct {
	Name
	Held      int64 // the host may use so much
	Used      int64 // by other hosts
	Elsewhere int64 // the parts of other hosts
	Others    int   // other hosts that have a part, or want one
	Short     bool  // another host wants more than it has
}

// Idle reports whether other hosts have parts that they do not use.
func (s *Share) Idle() bool { return s.Elsewhere > s.Used }

// Room reports whether the host may have more of a limit than it got: it asked for less.
func (s *Share) Room(limit int64) bool { return Free(limit, s.Elsewhere) > s.Held }

// Table is where the parts of all hosts are kept.
type Table interface {
	// Share notes what a host uses, and tells its parts, at most those that it wants. turn grows
	// with each call of a host's life: a call that comes late changes nothing. No part comes back
	// to a host without a lease.
	Share(ctx context.Context, host uuid.UUID, turn int64, asks []Ask) ([]Share, error)
	// Used returns what hosts other than this one use of each kind, on a day or at the moment.
	Used(ctx context.Context, host uuid.UUID, tenant, day string) (map[Kind]int64, error)
	// Forget forgets what was used before a day, and parts of hosts that are gone.
	Forget(ctx context.Context, day string) error
}

// Host is this host at the table.
type Host interface {
	// Life is this life of the host; held is false while it has no lease, and no part is its own.
	Life() (id uuid.UUID, held bool)
	// Hosts counts the hosts of the cluster that are there, this one among them.
	Hosts() int
	// Lease is how long a host that says nothing keeps its parts.
	Lease() time.Duration
	Table
}

// Grant is the part that a host gets: what it has used; else what it wants, of what it had and
// what is free. had is the part that the table knows of. free is what no host has and this one may
// take, if it is known for certain; else 0. A part is never cut: the host itself asks for less.
func Grant(a Ask, had, free int64) int64 {
	if a.Limit <= 0 {
		return a.Used
	}
	had = min(had, a.Held)
	return max(a.Used, min(a.Want, max(had, free)))
}

// Free is what a host may have of a limit, of which others have so much.
func Free(limit, elsewhere int64) int64 { return max(0, limit-elsewhere) }

// Want is the part that a host wants of what it counts. more is how many wait for room, active
// whether the host has used any since it asked last, and hosts how many there are in all. A host
// that is idle wants what it uses and no more. One that is not wants some in advance, so that it
// need not ask each time: so little that the others find some as well, and none when one of them
// found too little.
func Want(limit, used, more int64, active bool, last Share, hosts int) int64 {
	if limit <= 0 {
		return used
	}
	want := used + more
	if active && !last.Short {
		want += max(0, limit-want-last.Used) / int64(2*max(1, hosts))
	}
	return max(used, min(want, limit))
}

// smooth is the part of a rate's limit that each active host counts for, whatever it is asked: the
// parts follow the requests, and a host that has just begun has some.
const smooth = 8

// WantRate is the part of a rate that a host wants, which is asked so often.
func WantRate(limit, asked int64, last Share) int64 {
	if last.Others == 0 {
		return limit
	}
	each := limit/smooth + 1
	own, all := float64(asked+each), float64(asked+last.Used)+float64(each)*float64(last.Others+1)
	return int64(float64(limit) * own / all)
}
