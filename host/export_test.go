package host

import (
	"maps"
	"slices"
	"time"
)

// Alarm is a timer that calls a function.
type Alarm = alarm

// Ring has servers that are made take their alarms from elsewhere, until the function that
// comes back is called.
func Ring(by func(time.Duration, func()) Alarm) (undo func()) {
	was := ring
	ring = by
	return func() { ring = was }
}

// Patterns are the routes that ask for a token.
func (s *Server) Patterns() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for p := range maps.Keys(s.scopes) {
			if s.scopes[p] != public && !yield(p) {
				return
			}
		}
	})
}

// Scope is what a route asks for.
func (s *Server) Scope(pattern string) string { return string(s.needs(pattern)) }

// LastRequests sets how long requests have to end, until the function that comes back is
// called.
func LastRequests(d time.Duration) (undo func()) {
	was := lastRequests
	lastRequests = d
	return func() { lastRequests = was }
}

// Problem is the body of every error.
type Problem = problem

// ApprovalView is a call that waits.
type ApprovalView = approvalView

// Retain begins what deletes old sessions, until the function that comes back is called.
func (s *Server) Retain() (stop func()) { return s.retain() }

// SetNow has the server go by another clock, as in a cluster.
func (s *Server) SetNow(now func() time.Time) { s.now = now }
