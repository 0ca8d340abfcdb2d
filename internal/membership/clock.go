package membership

import (
	"sync/atomic"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
)

// Clock is a lease.Clock that its host reads with each renewal. It is safe for concurrent use, once it
// was read for the first time; one goroutine reads it at a time.
type Clock struct{ last atomic.Pointer[lease.Clock] }

// Read notes what the database said, as lease.Clock.Read does.
func (c *Clock) Read(said, sent, at time.Time) {
	var was lease.Clock
	if last := c.last.Load(); last != nil {
		was = *last
	}
	is := was.Read(said, sent, at)
	c.last.Store(&is)
}

// Now is the time by the database's clock, about.
func (c *Clock) Now() time.Time { return c.last.Load().Now(time.Now()) }
