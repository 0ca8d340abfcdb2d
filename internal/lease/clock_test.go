package lease

import (
	"testing"
	"time"
)

// A slow answer does not move the clock, and one that contradicts it does: onto the nearest time that
// the database can have.
func TestClock(t *testing.T) {
	here, there := time.Unix(1000, 0), time.Unix(5000, 0) // of the host and of the database, at the start
	var c Clock
	if got := c.Now(here); got != here {
		t.Errorf("before the first answer it shows %s", got)
	}
	for _, one := range []struct {
		what             string
		sent, said, came time.Duration // since the start, said by the database's clock
		want             time.Duration
	}{
		{"the first answer", 0, 0, time.Second, 0},
		{"a quick one says that the first was slow", 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		{"a slow one says nothing new", 3 * time.Second, 3 * time.Second, 5 * time.Second, 5 * time.Second},
		{"a slow one whose question was slow says nothing new", 6 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second},
		{"the database's clock is put forward", 9 * time.Second, 19 * time.Second, 10 * time.Second, 19 * time.Second},
		{"and back", 10 * time.Second, 10 * time.Second, 11 * time.Second, 11 * time.Second},
	} {
		c = c.Read(there.Add(one.said), here.Add(one.sent), here.Add(one.came))
		if got := c.Now(here.Add(one.came)).Sub(there); got != one.want {
			t.Errorf("%s: the clock shows %s, want %s", one.what, got, one.want)
		}
		if got := c.Now(here.Add(one.came + time.Minute)).Sub(there); got != one.want+time.Minute {
			t.Errorf("%s: a minute later it shows %s", one.what, got)
		}
	}
}
