package lease

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Keeper decides when a host renews its lease, and when it has lost it. It has no clock and asks
// no database: who keeps the lease says what happened, and when, by a clock that only goes forward.
type Keeper struct {
	term       Term
	next, sent time.Time
}

// Keep keeps a lease whose first renewal was sent at a moment, and was taken.
func Keep(length time.Duration, sent time.Time) Keeper {
	k := Keeper{term: Term{Length: length}, sent: sent}
	k.term.Renewed(sent)
	k.next = k.term.Next()
	return k
}

// Next is when the host has to do something about its lease.
func (k *Keeper) Next() time.Time { return k.next }

// MostRenewals is how many a lease's length may have at most, however much happens.
const MostRenewals = 32

// Woken is when the host renews its lease if something has happened among the hosts.
func (k *Keeper) Woken() time.Time { return earlier(k.next, k.sent.Add(k.term.Length/MostRenewals)) }

// Until is when the lease ends, if it is not renewed.
func (k *Keeper) Until() time.Time { return k.term.Until() }

// Send has the host renew its lease now; by the end of the lease it gives that up. ok is false
// when the lease is over: the host stops what it runs, and joins again as another one.
func (k *Keeper) Send(now time.Time) (ok bool) {
	if !k.term.Held(now) {
		return false
	}
	k.sent = now
	return true
}

// Failed takes note that it is not known what became of the renewal.
func (k *Keeper) Failed(now time.Time) {
	k.next = earlier(now.Add(k.term.Length/16), k.term.Until())
}

// Refused takes note that the database does not know the lease any more.
func (k *Keeper) Refused(now time.Time) {
	k.term.Refused()
	k.next = now
}

// Renewed takes note that the database took the renewal. ok is false when the answer came too
// late: the host has stopped believing in its lease by then.
func (k *Keeper) Renewed(now time.Time) (ok bool) {
	if !k.term.Held(now) {
		k.next = now
		return false
	}
	k.term.Renewed(k.sent)
	k.next = k.term.Next()
	return true
}

// endMargin is added to the end of another host's lease: the database tells it in microseconds.
const endMargin = time.Millisecond

// Others takes note of the hosts as a renewal has found them. The host looks again when the first
// lease of another one ends, if that is not renewed: one that lives renews before, so only a dead
// one is waited for. The database read its clock before now: by then the lease is over there, too.
func (k *Keeper) Others(now time.Time, self uuid.UUID, hosts []Host) {
	for i := range hosts {
		if h := &hosts[i]; h.ID != self && h.Live() {
			k.next = earlier(k.next, now.Add(h.Left+endMargin))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Sessions are those that a host has, and those of them that it gives up. The zero value has none.
//
// Those of leaving that are owed leave behind the look, if nothing of them runs by then.
type Sessions struct {
	held, leaving map[string]struct{}
	unsure        map[string]time.Time // releases that may still get to the database, until then
	owed          map[string]*debt     // sessions that may have something open and run nowhere
}

// Wants says that the host is to run a session: it does not give it up any more. mine is false when
// the database has to be asked for it first; not before a moment, up to which a release may get
// there that had no answer.
func (s *Sessions) Wants(sid string) (mine bool, before time.Time) {
	delete(s.leaving, sid)
	if before, unsure := s.unsure[sid]; unsure {
		return false, before
	}
	return s.Has(sid), time.Time{}
}

// Has reports whether the host has a session.
func (s *Sessions) Has(sid string) bool {
	_, mine := s.held[sid]
	return mine
}

// Claimed takes note that the database has made a session the host's.
func (s *Sessions) Claimed(sid string) {
	if s.held == nil {
		s.held = map[string]struct{}{}
	}
	s.held[sid] = struct{}{}
	delete(s.leaving, sid)
	delete(s.unsure, sid)
}

// GiveUp says that nothing of a session runs any more. It reports whether the database is to be told
// now: of a session that is owed it is told behind the look.
func (s *Sessions) GiveUp(sid string) bool {
	if !s.Has(sid) {
		return false
	}
	s.leaves(sid)
	return s.owed[sid] == nil
}

func (s *Sessions) leaves(sid string) {
	if s.leaving == nil {
		s.leaving = map[string]struct{}{}
	}
	s.leaving[sid] = struct{}{}
}

// Leaving lists the sessions that the database is to be told of, in order.
func (s *Sessions) Leaving() (sids []string) {
	for sid := range s.leaving {
		if s.owed[sid] == nil {
			sids = append(sids, sid)
		}
	}
	slices.Sort(sids)
	return sids
}

// GivenUp takes note that the database has been told of sessions.
func (s *Sessions) GivenUp(sids []string) {
	for _, sid := range sids {
		delete(s.held, sid)
		delete(s.leaving, sid)
		delete(s.unsure, sid)
	}
}

// Unsure takes note that it is not known whether the database was told of sessions, and that it may
// still be until a moment. They are to be given up again.
func (s *Sessions) Unsure(sids []string, until time.Time) {
	if s.unsure == nil {
		s.unsure = map[string]time.Time{}
	}
	for _, sid := range sids {
		if _, leaving := s.leaving[sid]; leaving || s.Has(sid) {
			s.unsure[sid] = until
		}
	}
}

// Settled is when a release, which the database takes for so long from now on, has got there or
// never does, whichever of the clocks goes faster.
func Settled(now time.Time, length time.Duration) time.Time { return now.Add(length + length/margin) }

// Lost takes note that the host has lost its lease, and with it all sessions. It looks at them when
// it has one again: the journal may take what was on its way when the lease ended, and others
// have looked before that.
func (s *Sessions) Lost() {
	for _, d := range s.owed {
		d.doubt = time.Time{} // of a host without a lease the database makes nothing
	}
	for sid := range s.held {
		s.Owe(sid)
	}
	clear(s.held)
	clear(s.leaving)
	clear(s.unsure)
}

// Len counts the sessions that the host has.
func (s *Sessions) Len() int { return len(s.held) }

// Answer is what the database's answer to a claim means to the claimer: nil where the session is its.
func Answer(sid string, self uuid.UUID, owner Host) error {
	switch owner.ID {
	case self:
		return nil
	case uuid.UUID{}:
		return Lost()
	}
	return Refuse(sid, owner)
}

// Dead lists the other hosts whose lease is over: what they had is for anybody to take.
func Dead(self uuid.UUID, hosts []Host) (dead []uuid.UUID) {
	for i := range hosts {
		if h := &hosts[i]; h.ID != self && !h.Live() {
			dead = append(dead, h.ID)
		}
	}
	return dead
}
