package plan

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of a policy (docs/spec/streaming.md §§3.1, 5.3).
const (
	DefaultTimeout    = 300 * time.Second
	MaxTimeout        = 3600 * time.Second
	MaxRetries        = 5
	DefaultRetryDelay = time.Second
	MaxRetryDelay     = 60 * time.Second
	MaxBackoff        = 10
)

// Policy is how often and how long an action is tried.
type Policy struct {
	Timeout time.Duration // of one attempt; 0 is DefaultTimeout
	Retries int           // further attempts after the first
	// Delay precedes each further attempt; 0 is DefaultRetryDelay, and a host that
	// wants none says NoDelay.
	Delay time.Duration
	// Backoff is what each pause is times the one before, and has them spread; at most 1
	// leaves them all as Delay is.
	Backoff int
}

// NoDelay is a delay of 0, as a host says it.
const NoDelay = -time.Nanosecond

// PolicyOf is the policy of an action under a host's delay.
func PolicyOf(a *messages.Action, delay time.Duration) Policy {
	return Policy{Timeout: a.Timeout, Retries: a.Retry, Delay: cmp.Or(a.RetryDelay, delay), Backoff: a.Backoff}.Bounded()
}

// Pause is the time between failed attempt n, from 1, and the next: at most MaxRetryDelay.
// One that grows is up to a quarter shorter or longer, so that calls that failed together do
// not come back together. key, the call's idempotency key, and n say by how much: the same
// for a replay, and another for each call.
func (p Policy) Pause(n int, key string) time.Duration {
	p = p.Bounded()
	d := max(p.Delay, 0)
	if p.Backoff <= 1 {
		return d
	}
	for i := 1; i < n && d < MaxRetryDelay; i++ {
		d = min(d*time.Duration(p.Backoff), MaxRetryDelay)
	}
	const quarter = 250 // of a thousand
	h := fnv.New64a()
	h.Write([]byte(key + "#" + strconv.Itoa(n)))
	spread := time.Duration(h.Sum64()%(2*quarter+1)) - quarter
	return min(d+d/1000*spread, MaxRetryDelay)
}

// Bounded returns p with defaults filled in and limits capped.
func (p Policy) Bounded() Policy {
	p.Timeout = min(cmp.Or(max(p.Timeout, 0), DefaultTimeout), MaxTimeout)
	p.Retries = min(max(p.Retries, 0), MaxRetries)
	p.Backoff = min(max(p.Backoff, 1), MaxBackoff)
	p.Delay = min(cmp.Or(p.Delay, DefaultRetryDelay), MaxRetryDelay)
	if p.Delay < 0 {
		p.Delay = NoDelay
	}
	return p
}

// Deadline returns the deadline of an attempt that begins now: its own, or until, the end of
// the turn, if that comes first (docs/spec/design.md §8). A zero until is no bound.
func (p Policy) Deadline(now, until time.Time) time.Time {
	d := now.Add(p.Bounded().Timeout)
	if !until.IsZero() && until.Before(d) {
		return until
	}
	return d
}

// Failure is the way an attempt failed.
type Failure uint8

// The failures. After the first four the executor answered; the others left no answer.
const (
	Erred    Failure = iota + 1 // the executor returned an error
	Denied                      // policy or a person denied it
	NoTarget                    // there is no such target
	Stopped                     // the executor confirmed that it stopped, or never began
	TimedOut
	Panicked
	Lost // the connection broke, or the grace of a cancel is over
	numFailures
)

// String returns the reason that is recorded if the executor gave none.
func (f Failure) String() string {
	return [...]string{"?", "error", "denied", "unknown_target", "cancelled", "timeout", "panic", "lost", "?"}[min(f, numFailures)]
}

// Answered reports whether the executor reported the outcome of the attempt.
func (f Failure) Answered() bool { return f <= Stopped }

// An Attempt is a failed attempt, as Policy.After judges it.
type Attempt struct {
	N       int // from 1
	Failure Failure
	Reason  string // of the executor; "" takes the failure's name
	Class   messages.Class
	Key     string // of the call, for Policy.Pause
	Now     time.Time
	Until   time.Time // when the turn is over; zero is no bound
}

// Next is what follows a failed attempt: with Retry, attempt N at time At; else the end of the
// action in State for Reason.
type Next struct {
	Retry  bool
	N      int
	At     time.Time
	State  State
	Reason string
}

// After decides what follows a failed attempt. It retries errors, panics and timeouts after a
// pause, but not what was denied, has no target or was cancelled (docs/spec/streaming.md §5.3).
// An effectful attempt without an answer may have happened: it ends as unknown and is not
// repeated. A keyed one is repeated under its key, and unknown after the last attempt
// (docs/spec/design.md §7). No attempt is planned after the end of the turn.
func (p Policy) After(a Attempt) Next {
	p = p.Bounded()
	end := Next{N: a.N, State: Failed, Reason: a.Reason}
	if end.Reason == "" {
		end.Reason = a.Failure.String()
	}
	effectful := a.Class == messages.Effectful || a.Class == ""
	switch {
	case a.Failure == Stopped:
		end.State = Cancelled
		return end
	case a.Failure == Denied || a.Failure == NoTarget:
		return end
	case !a.Failure.Answered() && effectful:
		end.State = Unknown
		return end
	}
	if !a.Failure.Answered() && a.Class == messages.Keyed {
		end.State = Unknown
	}
	at := a.Now.Add(p.Pause(a.N, a.Key))
	if a.N > p.Retries || !a.Until.IsZero() && !at.Before(a.Until) {
		return end
	}
	return Next{Retry: true, N: a.N + 1, At: at, State: Running}
}
