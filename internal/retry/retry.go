// Package retry decides what follows a model's failure: another attempt, the next key,
// the next model of the list, or the end of the run.
//
// Invariant: a decision is a function of the policy, the attempt and the failure. It
// draws no random number and reads no clock, so that a replayed run waits as the first
// one did.
//
// It asks no model and does not wait: the driver of the stream acts on the answer.
package retry

import (
	"time"

	"github.com/seed14be6753/stile/llm"
)

// Defaults of Policy.
const (
	DefaultAttempts = 3
	DefaultBase     = 500 * time.Millisecond
	DefaultCap      = 20 * time.Second
)

// Policy says what to do after a failed attempt. It is a value; the zero value
// takes the defaults.
type Policy struct {
	Attempts int           // attempts per model, the first one included; 0 is DefaultAttempts
	Base     time.Duration // wait after the first failure, doubled after each further one; 0 is DefaultBase
	Cap      time.Duration // longest wait; 0 is DefaultCap
}

// Step is the answer of Policy.Next. The zero value gives up.
type Step struct {
	Do   Do
	Wait time.Duration // before the next attempt; Retry and Rotate only
}

// Do is what follows a failed attempt.
type Do uint8

// What may follow.
const (
	GiveUp   Do = iota // the failure is the run's: HALT(ERR_MODEL)
	Retry              // the same model again, after Wait
	Fallback           // the next model of the list, at once
	Rotate             // the same model with its next key, after Wait; no attempt in Attempt.N
)

// String names the step for logs.
func (d Do) String() string {
	switch d {
	case Retry:
		return "retry"
	case Fallback:
		return "fallback"
	case Rotate:
		return "rotate"
	case GiveUp:
	}
	return "give up"
}

// Attempt describes the attempt that failed.
type Attempt struct {
	N         int   // attempts at this model so far, this one included, rotations not; from 1
	Rotations int   // how often the model changed its key so far
	Delivered int64 // bytes of reply this attempt has handed on
	Models    int   // models left in the fallback list after this one
}

// Next decides what follows a failed attempt.
//
// Once a byte was delivered nothing is tried again: readers have seen it, and a
// second reply would not continue it. A wait that the provider asks for is
// honoured up to Cap; one beyond it is no retry, because the turn's clocks run
// meanwhile, but another model may be asked at once. A failure that is not
// retryable goes to the next model too: it may be the model's own, and
// model.fallback records the switch.
//
// A failure of one key goes to the next key first, at most once through all of them:
// what follows then is as if there were one (docs/spec/cogency.md §12).
func (p Policy) Next(a Attempt, f llm.Failure) Step {
	if a.Delivered > 0 {
		return Step{Do: GiveUp}
	}
	attempts, limit := p.Attempts, p.Cap
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	if limit <= 0 {
		limit = DefaultCap
	}
	if f.NextKey && a.Rotations < f.Keys-1 && f.RetryAfter <= limit {
		return Step{Do: Rotate, Wait: f.RetryAfter}
	}
	if f.Retryable && a.N < attempts && f.RetryAfter <= limit {
		return Step{Do: Retry, Wait: max(p.backoff(a.N, limit), f.RetryAfter)}
	}
	if a.Models > 0 {
		return Step{Do: Fallback}
	}
	return Step{Do: GiveUp}
}

// backoff is Base·2^(n−1), at most limit.
func (p Policy) backoff(n int, limit time.Duration) time.Duration {
	w := p.Base
	if w <= 0 {
		w = DefaultBase
	}
	for ; n > 1 && w < limit; n-- {
		w *= 2
	}
	return min(w, limit)
}
