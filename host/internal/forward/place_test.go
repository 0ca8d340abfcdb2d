package forward

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPlace(t *testing.T) {
	const lease = 2 * time.Second
	free := Spot{MaxRuns: 100, Left: lease, Lease: lease}
	with := func(change func(*Spot)) Spot {
		s := free
		change(&s)
		return s
	}
	busy := with(func(s *Spot) { s.Runs = 10 })
	for _, c := range []struct {
		name  string
		spots []Spot
		want  []int // that are chosen, and no others
	}{
		{"none", nil, []int{-1}},
		{"one", []Spot{busy}, []int{0}},
		{"two", []Spot{busy, free}, []int{1}},
		{"equals", []Spot{free, free, free}, []int{0, 1, 2}},
		{"never the one with most to do", []Spot{free, busy, free}, []int{0, 2}},
		{"one that drains, or was slow", []Spot{busy, with(func(s *Spot) { s.Away = true })}, []int{0}},
		{"one that says nothing", []Spot{busy, with(func(s *Spot) { s.MaxRuns = 0 })}, []int{0}},
		{"one that loses its lease", []Spot{busy, with(func(s *Spot) { s.Left = lease/3 - 1 })}, []int{0}},
		{"one that has missed a renewal", []Spot{busy, with(func(s *Spot) { s.Left = lease / 3 })}, []int{1}},
		{"one that is full", []Spot{busy, with(func(s *Spot) { s.Runs = 100 })}, []int{0}},
		{"one that is full by what was sent", []Spot{busy, with(func(s *Spot) { s.Runs, s.SentRuns = 98, 2 })}, []int{0}},
		{"all are full", []Spot{with(func(s *Spot) { s.Runs = 100 }), with(func(s *Spot) { s.Runs = 101 })}, []int{-1}},
		{"a larger one", []Spot{busy, with(func(s *Spot) { s.Runs, s.MaxRuns = 50, 1000 })}, []int{1}},
		{"what was sent", []Spot{busy, with(func(s *Spot) { s.SentRuns = 11 })}, []int{0}},
		{"sessions", []Spot{with(func(s *Spot) { s.Sessions = 1 }), free}, []int{1}},
		{"sessions that were sent", []Spot{with(func(s *Spot) { s.SentSessions = 2 }), with(func(s *Spot) { s.Sessions = 1 })}, []int{1}},
		{"a run is more than some sessions", []Spot{with(func(s *Spot) { s.Runs = 1 }), with(func(s *Spot) { s.Sessions = 15 })}, []int{1}},
		{"many sessions are more than a run", []Spot{with(func(s *Spot) { s.Runs = 1 }), with(func(s *Spot) { s.Sessions = 17 })}, []int{0}},
	} {
		got := map[int]bool{}
		for a := range uint64(6) {
			for b := range uint64(6) {
				got[Place(c.spots, a, b)] = true
			}
		}
		for _, i := range c.want {
			if !got[i] {
				t.Errorf("%s: %d is never chosen", c.name, i)
			}
			delete(got, i)
		}
		if len(got) > 0 {
			t.Errorf("%s: %v are chosen as well", c.name, got)
		}
	}
}

// Hosts that say only twice in a second what they have to do are loaded alike, whichever of them
// is asked: all requests come to one, or to all of them, and runs take between nothing and long.
func TestPlaceBalances(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const (
		lease  = 2 * time.Second
		step   = 5 * time.Millisecond
		begins = 4000
	)
	for range 5 {
		hosts, doors := 2+rnd.IntN(7), 1
		if rnd.IntN(2) == 0 {
			doors = hosts
		}
		type end struct {
			at   time.Duration
			host int
		}
		runs, sessions, began := make([]int, hosts), make([]int, hosts), make([]int, hosts)
		said, seen, sends := make([]Spot, hosts), make([][]Spot, doors), make([]Sends, doors)
		begin := time.Unix(1000, 0)
		var ends []end
		longest := 1 + rnd.Int64N(int64(4*time.Second))
		perStep := 1 + rnd.IntN(8)
		next := make([]time.Duration, hosts) // renewals
		for i := range next {
			next[i] = time.Duration(rnd.Int64N(int64(lease / 4)))
			said[i] = Spot{ID: string(rune('a' + i)), Said: begin, MaxRuns: 4096, Left: lease, Lease: lease}
		}
		for door := range doors {
			seen[door] = slices.Clone(said)
		}
		all, worst, steps := 0, 0.0, 0
		for now := time.Duration(0); all < begins; now += step {
			for i := range hosts {
				if now < next[i] {
					continue
				}
				next[i] = now + lease/4
				said[i].Said, said[i].Runs, said[i].Sessions = begin.Add(now), runs[i], sessions[i]
				if i < doors {
					seen[i] = slices.Clone(said)
				}
			}
			ends = slices.DeleteFunc(ends, func(e end) bool {
				if e.at <= now {
					runs[e.host]--
				}
				return e.at <= now
			})
			for range perStep {
				door := rnd.IntN(doors)
				sends[door].Count(seen[door], begin.Add(now))
				at := Place(seen[door], rnd.Uint64(), rnd.Uint64())
				sends[door].Note(said[at].ID, true, begin.Add(now), lease)
				all++
				runs[at]++
				sessions[at]++
				began[at]++
				ends = append(ends, end{now + time.Duration(rnd.Int64N(longest)), at})
			}
			sum := 0
			for _, n := range runs {
				sum += n
			}
			if all > begins/4 {
				worst += float64(slices.Max(runs)) - float64(sum)/float64(hosts)
				steps++
			}
		}
		mean := float64(all) / float64(hosts)
		if most := float64(slices.Max(began)); most > 1.3*mean {
			t.Errorf("%d hosts, of which %d are asked, began %v", hosts, doors, began)
		}
		perLease := float64(perStep) * float64(lease/4/step) // what begins between two renewals
		if above := worst / float64(steps); above > 0.35*perLease+6 {
			t.Errorf("%d hosts, of which %d are asked: the busiest has %.1f runs above the mean; %v begin between two renewals", hosts, doors, above, perLease)
		}
	}
}

// A session counts until its host has told of it, a run as long as it may take the host to say that
// it is over.
func TestSends(t *testing.T) {
	const lease = 2 * time.Second
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var s Sends
	for _, ms := range []int{0, 600, 1000} {
		s.Note("a", ms > 0, at(ms), lease)
	}
	s.Note("b", true, at(1100), lease)
	for _, c := range []struct {
		said, now, runs, sessions int
	}{
		{0, 1100, 2, 3},
		{1, 1101, 1, 2},
		{1001, 1100, 2, 0},
		{1001, 1501, 0, 0},
	} {
		spots := []Spot{{ID: "c", SentRuns: 7, SentSessions: 7}, {ID: "a", Said: at(c.said), Lease: lease}}
		if s.Count(spots, at(c.now)); spots[1].SentRuns != c.runs || spots[1].SentSessions != c.sessions || spots[0].SentRuns != 0 || spots[0].SentSessions != 0 {
			t.Errorf("%+v: %+v", c, spots)
		}
	}
	if s.Note("c", true, at(2601), lease); len(s.late) != 3 {
		t.Errorf("%d are remembered", len(s.late))
	}
}
