package stile

import (
	"context"

	"github.com/seed14be6753/stile/journal"
)

// Head is what the journal knows of the session without reading it.
func (s *Session) Head(ctx context.Context) (Head, error) {
	h, err := s.rt.store.HeadOf(ctx, s.inc)
	return h, closedError(err)
}

// Outcome is how the run ended; ended is false while it is in flight or waits. It
// waits for nothing. A run that the session does not have is ERR_NOT_FOUND.
func (r *Run) Outcome(ctx context.Context) (o Outcome, ended bool, err error) {
	a, err := r.at.Look(ctx)
	if err != nil || a == nil {
		return Outcome{}, false, closedError(err)
	}
	return outcome(a), true, nil
}

// Seq is the position of the run's input; 0 for a handle made from a number.
func (r *Run) Seq() int64 { return r.at.Seq }

// AppendUpdate appends an update as JSON: a record as exports have it, or
// {"type":"delta"} with unit, kind, offset and text, or {"type":"retract"} with unit
// and offset.
func AppendUpdate(buf []byte, u Update) ([]byte, error) { return journal.AppendUpdate(buf, u), nil }
