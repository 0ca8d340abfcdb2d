package share

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestGrant(t *testing.T) {
	for _, c := range []struct {
		name                    string
		limit, used, held, want int64
		had, free               int64
		granted                 int64
	}{
		{"what is free", 10, 0, 0, 4, 0, 10, 4},
		{"no more than is free", 10, 0, 0, 9, 0, 3, 3},
		{"nothing is free, or not known to be", 10, 2, 4, 9, 4, 0, 4},
		{"given up", 10, 1, 1, 1, 6, 4, 1},
		{"kept less than the table knows", 10, 1, 3, 9, 6, 0, 3},
		{"never cut", 10, 1, 6, 6, 6, 2, 6},
		{"what was used is a fact", 10, 8, 2, 8, 2, 0, 8},
		{"without a limit", 0, 8, 0, 8, 0, 0, 8},
	} {
		if got := Grant(Ask{Limit: c.limit, Used: c.used, Held: c.held, Want: c.want}, c.had, c.free); got != c.granted {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}

func TestWant(t *testing.T) {
	for _, c := range []struct {
		name              string
		limit, used, more int64
		active            bool
		last              Share
		hosts             int
		want              int64
	}{
		{"idle", 100, 3, 0, false, Share{}, 3, 3},
		{"one waits", 100, 3, 1, false, Share{}, 3, 4},
		{"some in advance", 100, 3, 1, true, Share{Used: 36}, 3, 14},
		{"alone", 100, 0, 0, true, Share{}, 1, 50},
		{"little is left", 6, 0, 1, true, Share{}, 3, 1},
		{"nothing is left", 6, 2, 1, true, Share{Used: 5}, 3, 3},
		{"another is short", 100, 3, 1, true, Share{Short: true}, 3, 4},
		{"no more than all", 10, 9, 5, true, Share{}, 3, 10},
		{"over the limit", 10, 12, 1, true, Share{}, 3, 12},
		{"without a limit", 0, 12, 1, true, Share{}, 3, 12},
	} {
		if got := Want(c.limit, c.used, c.more, c.active, c.last, c.hosts); got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
	}
	for _, c := range []struct {
		name  string
		asked int64
		last  Share
		want  int64
	}{
		{"alone", 0, Share{}, 8000},
		{"beside one that has as much", 4000, Share{Others: 1, Used: 4000}, 4000},
		{"beside one that is asked more", 1000, Share{Others: 1, Used: 4000}, 2286},
		{"beside two that have just begun", 8000, Share{Others: 2}, 6544},
	} {
		if got := WantRate(8000, c.asked, c.last); got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}

// The requests that hosts let in are never more than one bucket would let in over any time, but
// for one at each host whose part of the burst is less; and all are let in, in the end, that one
// bucket would.
func TestBucketsTogether(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		n := 1 + rnd.IntN(4)
		rate, burst := int64(Unit)*(1+rnd.Int64N(20)), int64(Unit)*(1+rnd.Int64N(20))
		buckets := make([]Bucket, n)
		freeRate, freeBurst := rate, burst
		at := time.Unix(1000, 0)
		var taken []time.Time
		for range 400 {
			at = at.Add(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
			b := &buckets[rnd.IntN(n)]
			switch rnd.IntN(6) {
			case 0:
				r, s := rnd.Int64N(b.rate+1), rnd.Int64N(b.burst+1)
				hadRate, hadBurst := b.rate, b.burst
				kept := b.Give(at, r, s)
				freeRate, freeBurst = freeRate+hadRate-r, freeBurst+hadBurst-kept
			case 1:
				r, s := rnd.Int64N(freeRate+1), rnd.Int64N(freeBurst+1)
				b.Get(at, b.rate+r, b.burst+s)
				freeRate, freeBurst = freeRate-r, freeBurst-s
			default:
				if wait := b.Take(at); wait == 0 {
					taken = append(taken, at)
				} else if b.rate > 0 {
					again := *b
					if more := again.Take(at.Add(wait)); more != 0 {
						t.Fatalf("after a wait of %v it is %v more", wait, more)
					}
				}
			}
		}
		small := n // parts of the burst are of any size here
		for i := range taken {
			for j := i; j < len(taken); j++ {
				most := float64(burst+rate*int64(taken[j].Sub(taken[i]))/int64(time.Second))/Unit + float64(small)
				if got := float64(j - i + 1); got > most+1e-6 {
					t.Fatalf("%v let in within %v, of %d a second and %d at once at %d hosts", got, taken[j].Sub(taken[i]), rate/Unit, burst/Unit, n)
				}
			}
		}
	}
	var b Bucket
	now := time.Unix(1000, 0)
	if b.Take(now) == 0 || b.Take(now.Add(time.Hour)) == 0 {
		t.Error("a host without a part lets a request in")
	}
	b.Get(now.Add(time.Hour), 2*Unit, 3*Unit)
	for i := range 4 {
		if wait := b.Take(now.Add(time.Hour)); (wait == 0) != (i < 3) {
			t.Errorf("request %d waits %v", i, wait)
		}
	}
	if kept := b.Give(now.Add(time.Hour), 0, 0); kept != 3*Unit || b.Full(now.Add(time.Hour)) {
		t.Errorf("of what was just taken %d is kept", kept)
	}
	if b.rate != 0 {
		t.Errorf("its rate is %d", b.rate)
	}
}
