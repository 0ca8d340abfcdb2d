package lease

import "time"

// Clock is the database's clock as a host knows it: between two readings the host's monotonic clock
// goes on from the last one. Hosts whose wall clocks differ agree by it when a question expires and
// which day it is. The zero Clock was never read, and shows the host's own time.
type Clock struct{ said, at time.Time }

// Read returns the clock after the database said a time in an answer that was asked for at sent and
// had come at a moment. Its clock shows between said and said + (at - sent) then. A time within those
// bounds goes on, so that a slow answer does not move the clock.
func (c Clock) Read(said, sent, at time.Time) Clock {
	now, latest := said, said.Add(at.Sub(sent))
	if !c.at.IsZero() {
		switch was := c.Now(at); {
		case was.After(latest):
			now = latest
		case was.After(said):
			now = was
		}
	}
	return Clock{said: now, at: at}
}

// Now is the time by the database's clock, about, at a moment of the host's.
func (c Clock) Now(at time.Time) time.Time {
	if c.at.IsZero() {
		return at
	}
	return c.said.Add(at.Sub(c.at))
}
