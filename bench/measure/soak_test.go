package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// long is a round of so many seconds, with noise.
func long(seconds int, r *rand.Rand, of func(i int, s *Second)) *Round {
	out := &Round{}
	var disk int64
	for i := range seconds {
		disk += 50 * 2000
		s := Second{Sent: 50, Ended: 50, RSS: 100e6 + r.Int64N(4e6), Goroutines: 40 + r.Int64N(6), Descriptors: 20 + r.Int64N(3), P50: 3000 + r.Int64N(500), Disk: disk + r.Int64N(4096)}
		of(i, &s)
		out.Series = append(out.Series, s)
	}
	return out
}

func TestSlopes(t *testing.T) {
	const seed = 11
	for _, c := range []struct {
		name  string
		of    func(i int, s *Second)
		grows string
	}{
		{"steady", func(int, *Second) {}, ""},
		{"warm-up alone", func(i int, s *Second) { s.RSS -= int64(max(30-i, 0)) * 3e6 }, ""},
		{"one spike", func(i int, s *Second) {
			if i == 100 {
				s.RSS, s.P50, s.Goroutines = 1e9, 1e6, 5000
			}
		}, ""},
		{"memory", func(i int, s *Second) { s.RSS += int64(i) * 400_000 }, "memory"},
		{"goroutines", func(i int, s *Second) { s.Goroutines += int64(i) }, "goroutines"},
		{"descriptors", func(i int, s *Second) { s.Descriptors += int64(i) / 4 }, "descriptors"},
		{"latency", func(i int, s *Second) { s.P50 += int64(i) * 20 }, "p50(end)"},
		{"disk", func(i int, s *Second) { s.Disk += int64(i) * int64(i) * 500 }, "disk a run"},
		{"it shrinks", func(i int, s *Second) { s.RSS -= int64(i) * 300_000 }, ""},
	} {
		r := long(200, rand.New(rand.NewPCG(seed, 0)), c.of)
		all := r.Slopes()
		if len(all) != 5 {
			t.Errorf("%s: %d slopes (seed %d)", c.name, len(all), seed)
		}
		for _, s := range all {
			if s.Grows != (s.Name == c.grows) {
				t.Errorf("%s: %s grows: %v, from %.0f to %.0f, p %.3g (seed %d)", c.name, s.Name, s.Grows, s.From, s.To, s.P, seed)
			}
			if math.IsNaN(s.P) || math.IsNaN(s.To) {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
	}
	if (&Round{}).Slopes() != nil || long(25, rand.New(rand.NewPCG(1, 1)), func(int, *Second) {}).Slopes() != nil {
		t.Error("a short load has slopes")
	}
}
