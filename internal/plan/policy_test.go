package plan

import (
	"fmt"
	"testing"
	"time"
)

// Pauses stay as they are without a backoff; with one they grow to the bound, each within a
// quarter of what it would be, another for each call and the same whenever it is asked for.
func TestPause(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		p    Policy
		want [4]time.Duration
		grow bool
	}{
		{Policy{}, [4]time.Duration{s, s, s, s}, false},
		{Policy{Delay: 3 * s, Backoff: 1}, [4]time.Duration{3 * s, 3 * s, 3 * s, 3 * s}, false},
		{Policy{Delay: NoDelay, Backoff: 5}, [4]time.Duration{}, false},
		{Policy{Backoff: 2}, [4]time.Duration{s, 2 * s, 4 * s, 8 * s}, true},
		{Policy{Delay: s / 2, Backoff: 3}, [4]time.Duration{s / 2, 3 * s / 2, 9 * s / 2, 27 * s / 2}, true},
		{Policy{Delay: 20 * s, Backoff: 99}, [4]time.Duration{20 * s, 60 * s, 60 * s, 60 * s}, true}, // the bounds
	} {
		for i, want := range c.want {
			n := i + 1
			seen := map[time.Duration]bool{}
			for call := range 200 {
				key := fmt.Sprint("key", call)
				got := c.p.Pause(n, key)
				if got != c.p.Pause(n, key) {
					t.Fatalf("%+v, %d: two pauses of one call", c.p, n)
				}
				if seen[got] = true; !c.grow && got != want || got < want*3/4 || got > min(want*5/4, MaxRetryDelay) {
					t.Fatalf("%+v, %d: %s, want about %s", c.p, n, got, want)
				}
			}
			if c.grow && len(seen) < 50 {
				t.Errorf("%+v, %d: %d pauses for 200 calls", c.p, n, len(seen))
			}
		}
	}
}
