package lease

import (
	"slices"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Found is what a look at a session has found.
type Found int

// The values of Found.
const (
	Unknown       Found = iota // the session cannot be read, or not be taken up
	Idle                       // nothing of it is open, or it waits for its alarm
	Runs                       // it runs at this host
	HeldElsewhere              // something of it is open, and another live host has it
)

// Look is a look at a session.
type Look struct {
	Found Found
	Head  messages.Digest // of the journal, before the session was claimed; of HeldElsewhere alone
}

// Pauses between looks at a session that another host has: the first, doubled up to the last.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = time.Minute
)

// debt is a look that the host owes at one session.
type debt struct {
	looks bool            // the host looks at it now
	again bool            // it has stopped once more since that look began
	began time.Time       // of that look
	next  time.Time       // no look before that
	pause time.Duration   // before the last look, while another host has the session
	head  messages.Digest // at which another host had it; zero before the first such look
	doubt time.Time       // up to then the database may make the session this host's
}

// Owe says that a session, which is the host's or may be, has stopped in the middle. The host looks
// at it; until then it does not give it up, so that others do if the host dies.
func (s *Sessions) Owe(sid string) { s.owes(sid) }

func (s *Sessions) owes(sid string) *debt {
	if s.owed == nil {
		s.owed = map[string]*debt{}
	}
	d := s.owed[sid]
	switch {
	case d == nil:
		d = &debt{}
		s.owed[sid] = d
	case d.looks:
		d.again = true
	default:
		*d = debt{doubt: d.doubt}
	}
	return d
}

// Doubt says that a claim of a session got no answer, and may get to the database until a moment. The
// host owes it a look, and one more behind that moment.
func (s *Sessions) Doubt(sid string, until time.Time) {
	d := s.owes(sid)
	d.doubt = later(d.doubt, until)
}

// Due lists the sessions that the host has to look at now, in order.
func (s *Sessions) Due(now time.Time) (sids []string) {
	for sid, d := range s.owed {
		if !d.looks && !now.Before(d.next) {
			sids = append(sids, sid)
		}
	}
	slices.Sort(sids)
	return sids
}

// Looks says that the host looks at a session that it owes.
func (s *Sessions) Looks(sid string, now time.Time) {
	if d := s.owed[sid]; d != nil {
		d.looks, d.began = true, now
	}
}

// Looked takes note of what came of that look. It reports whether the database is to be told that the
// session is given up.
//
// That another host has a session does not pay the debt. Its own look may have come between two
// batches of this host, and have found nothing to do: then it gives the session up, and what came
// behind that is nowhere. A host that runs a session writes to it first of all. So this host looks
// again, ever more rarely, until the journal goes on.
func (s *Sessions) Looked(sid string, look Look, now time.Time) (given bool) {
	d := s.owed[sid]
	if d == nil {
		return false
	}
	d.looks = false
	if d.again {
		*d = debt{doubt: d.doubt}
		return false
	}
	switch {
	case look.Found == Unknown:
	case look.Found == HeldElsewhere && (d.head.IsZero() || d.head == look.Head):
		d.head, d.pause = look.Head, min(max(2*d.pause, firstPause), lastPause)
		d.next = now.Add(d.pause)
	case d.began.Before(d.doubt):
		d.head, d.pause, d.next = messages.Digest{}, 0, d.doubt
	default:
		if !d.doubt.IsZero() && !s.Has(sid) { // the database may believe that it is this host's
			s.leaves(sid)
		}
		delete(s.owed, sid)
		_, given = s.leaving[sid]
	}
	return given
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
