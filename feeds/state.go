package feeds

import (
	"errors"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A state is what an awake session knows of one feed, and what it decides of it: to take the
// value at hand, to fetch, to join the fetch that runs, or to refuse. It has no clock, goroutine
// or lock: time and values are arguments, and its session hands it one thing at a time.
type state struct {
	entry   *Entry
	at      *place        // where its value was last, which the cache may have lost
	fetch   *Fetch        // that waits for a worker or runs; nil for none
	start   Ticket        // of the wheel, which ends with fetch; the zero Ticket for none
	crashes *Crashes      // nil for none
	reason  string        // why the last fetch failed (Why); "" when it did not
	changes *subscription // to the feed of another host; nil for none
}

// A step is what happens when a feed is wanted.
type step uint8

const (
	stepTake   step = iota // its value is fresh enough
	stepRefuse             // it crashed: it is not fetched yet, or not any more
	stepJoin               // a fetch of it waits or runs
	stepBegin              // it is fetched
)

// wanted decides for a prompt, or a feed that refers to this one. v is the value at hand, if it
// is known; force is set when a value that is fresh enough does not do.
func (s *state) wanted(v Value, known, force bool, now time.Time) step {
	switch {
	case s.crashes != nil && !s.crashes.May(now):
		return stepRefuse
	case !force && known && (s.entry.fresh(v, now) || s.changes.heard()):
		return stepTake
	case s.fetch != nil:
		return stepJoin
	}
	return stepBegin
}

// due decides for a start of the wheel. A prompt that came first may have fetched the feed: that
// was this start's fetch.
func (s *state) due(v Value, known bool, now time.Time) step {
	if known && !v.Failed && now.Sub(v.At) < Tick {
		return stepTake
	}
	return s.wanted(v, known, true, now)
}

// ended takes the end of the fetch that ran, and reports whether it was the crash with which the
// feed is given up. After a crash everything of the feed begins anew but its value, which stays
// in the cache, and the count of its crashes.
func (s *state) ended(now time.Time, err error) (givenUp bool) {
	s.fetch, s.reason = nil, Why(err)
	if err == nil && s.crashes == nil {
		return false
	}
	var c Crashes
	if s.crashes != nil {
		c = *s.crashes
	}
	switch {
	case crashOf(err) != nil:
		c = c.Crashed(now)
		s.crashes = &c
		return c.Disabled()
	case err == nil:
		if c = c.Succeeded(); c.forgettable(now) {
			s.crashes = nil
		} else {
			s.crashes = &c
		}
	}
	return false
}

// next returns when the wheel may start the feed again: the zero time is at its interval. off
// reports that it does not.
func (s *state) next() (at time.Time, off bool) {
	if s.crashes == nil {
		return time.Time{}, false
	}
	return s.crashes.Next(), s.crashes.Disabled()
}

// refusal is the error of stepRefuse.
func (s *state) refusal() error {
	if s.crashes.Disabled() {
		return fail(messages.ErrCrash, ReasonDisabled, "it crashed %d times within %s", BackOffTimes+1, BackOffWindow)
	}
	return fail(messages.ErrCrash, ReasonBackOff, "it crashed and is restarted at %s", s.crashes.Next().UTC().Format(time.RFC3339))
}

// empty reports whether the state says nothing that a new one would not.
func (s *state) empty() bool { return s.fetch == nil && s.crashes == nil && s.reason == "" }

// is reports whether the state is that of a feed. An entry with another version is another feed.
func (s *state) is(e *Entry) bool { return s.entry.ID == e.ID && s.entry.Version == e.Version }

// crashOf returns the panic with which a fetch ended; nil for any other end. The crash of a feed
// that this one refers to is not its own.
func crashOf(err error) *PanicError {
	if err == nil {
		return nil
	}
	var p *PanicError
	if !errors.As(err, &p) || isReason(err, ReasonNeeds) {
		return nil
	}
	return p
}
