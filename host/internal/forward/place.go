package forward

import "time"

// Spot is a host at which a session may begin, as it said last of itself.
type Spot struct {
	ID       string
	Said     time.Time // when, about
	Runs     int       // in flight, or waiting
	MaxRuns  int       // at which it takes no more; 0 of a host that does not say
	Sessions int       // in its memory

	SentRuns, SentSessions int // see Sends.Count

	Away  bool          // it drains, or has just not taken a session
	Left  time.Duration // of its lease
	Lease time.Duration // how long that is
}

const (
	// sessionsPerRun is how many sessions in memory are as much to do as a run in flight.
	sessionsPerRun = 16
	// A host of whose lease less than a third is left has missed two renewals.
	leastLeft = 3
)

// takes reports whether a session may begin at the host.
func (s *Spot) takes() bool {
	return !s.Away && s.Left >= s.Lease/leastLeft && s.Runs+s.SentRuns < s.MaxRuns
}

// weight is what the host has to do, of what it can: 1 is as many runs as it takes.
func (s *Spot) weight() float64 {
	return (float64(s.Runs+s.SentRuns) + float64(s.Sessions+s.SentSessions)/sessionsPerRun) / float64(s.MaxRuns)
}

// Place chooses the host at which a session begins: of two at random the one that has less to
// do. What hosts say of themselves is as old as their last renewal; would all take the least
// one, all would take the same. a and b are random. It returns -1 when no host takes any.
func Place(spots []Spot, a, b uint64) int {
	takers := make([]int, 0, len(spots))
	for i := range spots {
		if spots[i].takes() {
			takers = append(takers, i)
		}
	}
	n := uint64(len(takers))
	switch n {
	case 0:
		return -1
	case 1:
		return takers[0]
	}
	one := a % n
	other := (one + 1 + b%(n-1)) % n
	first, second := takers[one], takers[other]
	if spots[second].weight() < spots[first].weight() {
		return second
	}
	return first
}

// Sends are the sessions that a host has begun of late, each where it was placed.
type Sends struct{ late []send } // in order

type send struct {
	to  string
	at  time.Time
	run bool // with the first message
}

// Note takes note of a session that is begun at a host; lease is that of hosts.
func (s *Sends) Note(to string, run bool, now time.Time, lease time.Duration) {
	old := 0
	for old < len(s.late) && now.Sub(s.late[old].at) > lease {
		old++
	}
	s.late = append(s.late[old:], send{to, now, run})
}

// Count sets what was sent to hosts. Sessions stay, and those count that a host has not told of
// yet. Runs end: those count that were sent in a quarter of a lease, the time between two
// renewals, whichever of them a host has told of. Else the host that spoke last would seem to have
// least to do.
func (s *Sends) Count(spots []Spot, now time.Time) {
	for i := range spots {
		spots[i].SentRuns, spots[i].SentSessions = 0, 0
	}
	for _, one := range s.late {
		for i := range spots {
			spot := &spots[i]
			if spot.ID != one.to {
				continue
			}
			if !one.at.Before(spot.Said) {
				spot.SentSessions++
			}
			if one.run && now.Sub(one.at) <= spot.Lease/4 {
				spot.SentRuns++
			}
			break
		}
	}
}
