package host

import "time"

// LastRequests sets how long requests have to end, until the function that comes back is
// called.
func LastRequests(d time.Duration) (undo func()) {
	was := lastRequests
	lastRequests = d
	return func() { lastRequests = was }
}

// Problem is the body of every error.
type Problem = problem
