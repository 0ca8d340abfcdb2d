package host

import (
	"testing"
	"time"
)

// A request waits for a turn of a host that leaves, however long it takes, within reason; and not so
// long for a host that cannot be found.
func TestWaits(t *testing.T) {
	began := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	until := began.Add(forwardPatience)
	for _, c := range []struct {
		after  time.Duration
		leaves bool
		pause  time.Duration
		more   bool
	}{
		{0, false, forwardPause, true},
		{forwardPatience, false, forwardPause, true},
		{forwardPatience + 1, false, forwardPause, false},
		{forwardPatience + 1, true, drainPause, true},
		{drainPatience - 1, true, drainPause, true},
		{drainPatience, true, drainPause, false},
	} {
		if pause, more := pauseOf(began, until, began.Add(c.after), c.leaves); more != c.more || more && pause != c.pause {
			t.Errorf("after %v, leaves %v: %v, %v", c.after, c.leaves, pause, more)
		}
	}
}
