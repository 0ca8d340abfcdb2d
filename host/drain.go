package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
)

// LeftError means that a host stopped with turns in flight: their journal has all that
// was acknowledged, and the next start goes on with them.
type LeftError struct{ Turns int64 }

// Error implements error.
func (e *LeftError) Error() string {
	return fmt.Sprintf("%d turns were in flight when the host stopped", e.Turns)
}

// lastRequests is how long requests may take to end when no turn is in flight any more.
var lastRequests = 5 * time.Second // a variable for tests

// noticed is how long a host of a cluster answers after /readyz has begun to fail. A balancer that
// asks twice a second, and believes the second answer, sends it nothing more by then.
const noticed = 2 * time.Second

// drainLook is how often the host looks whether the last turn has ended.
const drainLook = 10 * time.Millisecond

// taking refuses work when the host is about to stop, or has no memory for it.
func (s *Server) taking() error {
	if s.draining.Load() {
		return tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, reasonStopping, "the host is stopping", 5*time.Second)
	}
	if s.used().tight() {
		return tooFull()
	}
	return nil
}

const reasonStopping = "STOPPING"

// drain takes no more work and waits until no turn is in flight, or ctx ends. Turns that
// wait for approval are suspended, which is settled.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Store(true)
	until := time.Now().Add(noticed)
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	turns := &s.rt.Counters().InFlight
	if n := turns.Load(); n > 0 {
		s.log.Info("stopping: turns in flight may end", zap.Int64("turns", n))
	}
	s.rt.Drain()
	for turns.Load() > 0 {
		select {
		case <-tick.C:
			s.rt.Drain() // what is idle by now
		case <-ctx.Done():
			if n := turns.Load(); n > 0 {
				return &LeftError{n}
			}
		}
	}
	s.caughtUp(ctx)
	if s.cluster != nil && len(s.cluster.others()) > 0 { // they answer what still comes here
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
		}
	}
	return nil
}

// lastEvents is how long streams of runs that have ended may take to tell of it.
const lastEvents = time.Second

// caughtUp waits until the streams that end with a run have ended, which those of
// waiting runs do not.
func (s *Server) caughtUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastEvents)
	defer cancel()
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for s.follow.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// followed counts a stream that ends with a run until it is released.
func (s *Server) followed(release func()) func() {
	s.follow.Add(1)
	return func() {
		s.follow.Add(-1)
		release()
	}
}
