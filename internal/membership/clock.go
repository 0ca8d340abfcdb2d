package membership

import (
	"sync/atomic"
	"time"
)

// Clock is the database's clock as a host knows it: between two readings the host's monotonic clock
// goes on from the last one. Hosts whose wall clocks differ agree by it when a question expires and
// which day it is. It is safe for concurrent use, and is read before anybody asks for the time.
type Clock struct{ last atomic.Pointer[reading] }

// reading is what the database's clock said, and when.
type reading struct{ said, at time.Time }

func (r *reading) now(at time.Time) time.Time { return r.said.Add(at.Sub(r.at)) }

// Read notes what the database said in an answer that was asked for at sent and had come at a
// moment. Its clock shows between said and said + (at - sent) then. A time within those bounds goes
// on, so that a slow answer does not move the clock.
func (c *Clock) Read(said, sent, at time.Time) {
	now, latest := said, said.Add(at.Sub(sent))
	if last := c.last.Load(); last != nil {
		switch was := last.now(at); {
		case was.After(latest):
			now = latest
		case was.After(said):
			now = was
		}
	}
	c.last.Store(&reading{said: now, at: at})
}

// Now is the time by the database's clock, about.
func (c *Clock) Now() time.Time { return c.last.Load().now(time.Now()) }
