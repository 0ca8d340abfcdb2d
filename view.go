package stile

import (
	"context"

	"github.com/seed14be6753/stile/journal"
)

// Head returns the journal's summary of the session, without reading its records.
func (s *Session) Head(ctx context.Context) (Head, error) {
	h, err := s.rt.store.HeadOf(ctx, s.inc)
	return h, closedError(err)
}

// Outcome returns how the run ended, without waiting; ended is false while the run is in
// flight or queued. A run that does not exist is ERR_NOT_FOUND.
func (r *Run) Outcome(ctx context.Context) (o Outcome, ended bool, err error) {
	a, err := r.at.Look(ctx)
	if err != nil || a == nil {
		return Outcome{}, false, closedError(err)
	}
	return outcome(a), true, nil
}

// Seq returns the position of the run's input; 0 for a handle made by Session.Run.
func (r *Run) Seq() int64 { return r.at.Seq }

// AppendUpdate appends an update as JSON: a record as exports have it, or
// {"type":"delta"} with unit, kind, offset and text, or {"type":"retract"} with unit
// and offset.
func AppendUpdate(buf []byte, u Update) ([]byte, error) { return journal.AppendUpdate(buf, u), nil }
