package follow

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Run follows one run of a session to its end. It is safe for concurrent use.
type Run struct {
	Source
	SID     string
	Inc     messages.Incarnation
	Ordinal int64
	Seq     int64 // of its input; 0 when only the ordinal is known
	Merged  bool  // its input was to join the run at its next turn
	// End hears of the end as it happens; nil for a run that is looked up later.
	End *hub.Waiter
	// Session goes on with what is open, when no process is at it.
	Session interface{ Wake(context.Context) error }

	failed atomic.Bool // End gave an error: ask the journal from now on
}

// Wait waits until the run has ended and its end is on disk, and gives the records of its
// last decision (nil without a turn) and of its end. Of a merged input these are those of
// the run that took it up: the one it joined, or, when that one ended first, the next.
func (r *Run) Wait(ctx context.Context) (decided, ended *messages.Record, err error) {
	decided, ended, err = r.wait(ctx)
	if err != nil || !r.Merged || ended.Body.(*messages.RunEnd).Next == 0 {
		return decided, ended, err
	}
	next, _, err := r.takenUp(ctx)
	if err != nil || next == r.Ordinal {
		return decided, ended, err
	}
	return (&Run{Source: r.Source, SID: r.SID, Inc: r.Inc, Session: r.Session, Ordinal: next, Seq: r.Seq}).wait(ctx)
}

func (r *Run) wait(ctx context.Context) (decided, ended *messages.Record, err error) {
	if r.End != nil && !r.failed.Load() {
		decided, ended, err := r.End.Wait(ctx)
		if err == nil {
			return decided, ended, nil
		}
		if ctx.Err() == nil {
			// The session's journal refused, or the runtime closed. The run may have
			// ended all the same; what has not may end under a later activation, which
			// a later call waits for.
			if decided, ended, look := r.Look(ctx); look == nil && ended != nil {
				return decided, ended, nil
			}
		}
		r.failed.Store(true)
		return nil, nil, Closed(err)
	}
	w := r.Hub.Await(r.SID, r.Ordinal)
	defer w.Cancel()
	decided, ended, err = r.Look(ctx)
	if err == nil && ended == nil {
		// The session may sleep, or the process that ran it may be gone. Awake, it goes
		// on with what is open.
		err = r.Session.Wake(ctx)
	}
	if err == nil && ended == nil {
		var waited *messages.Record
		waited, ended, err = w.Wait(ctx)
		if waited != nil {
			decided = waited
		}
	}
	if err != nil {
		return nil, nil, Closed(err)
	}
	return decided, ended, nil
}

// Look reads the run's end from the journal; nil for one that is in flight or waits. A
// run that was not submitted is ERR_NOT_FOUND.
func (r *Run) Look(ctx context.Context) (decided, ended *messages.Record, err error) {
	head, err := r.Store.HeadOf(ctx, r.Inc)
	if err != nil {
		return nil, nil, err
	}
	if head.Run == r.Ordinal && head.Open {
		return nil, nil, nil // in flight: no need to read
	}
	known := r.Seq > 0
	for rec, err := range journal.ReadTyped(ctx, r.Store, r.Inc, r.Seq, 0) {
		if err != nil {
			return nil, nil, err
		}
		end, over := rec.Body.(*messages.RunEnd)
		if over && r.Ordinal > 0 && end.Next == r.Ordinal { // it takes up what another one left, and has no input of its own
			known = true
		}
		if rec.Run != r.Ordinal {
			continue
		}
		if over {
			return decided, rec, nil
		}
		switch rec.Body.(type) {
		case *messages.Input:
			known = true
		case *messages.TurnDecided:
			decided = rec
		}
	}
	if !known {
		return nil, nil, &messages.Error{Code: messages.ErrNotFound, Reason: journal.ReasonNotFound, Field: "run", Detail: "the session has no run " + strconv.FormatInt(r.Ordinal, 10)}
	}
	return nil, nil, nil
}

// takenUp gives the run that took a merged input up, its own as long as it may, and the
// record that says so.
func (r *Run) takenUp(ctx context.Context) (run, at int64, err error) {
	for rec, err := range journal.ReadTyped(ctx, r.Store, r.Inc, r.Seq, 0) {
		if err != nil {
			return 0, 0, Closed(err)
		}
		if rec.Run != r.Ordinal {
			continue
		}
		switch b := rec.Body.(type) {
		case *messages.TurnBegin:
			if slices.Contains(b.Merged, r.Seq) {
				return r.Ordinal, rec.Seq, nil
			}
		case *messages.RunEnd:
			return cmp.Or(b.Next, r.Ordinal), rec.Seq, nil
		}
	}
	return r.Ordinal, 0, nil
}

// Updates follows the run behind a position, up to its run.end. Of a merged input that its
// run did not take up, those of the next run follow.
func (r *Run) Updates(ctx context.Context, from messages.Position) iter.Seq2[messages.Update, error] {
	return func(yield func(messages.Update, error) bool) {
		ordinal := r.Ordinal
		if r.Merged && from.Seq > r.Seq {
			if next, at, err := r.takenUp(ctx); err == nil && next != r.Ordinal && at <= from.Seq {
				ordinal = next
			}
		}
		mine := func(u messages.Update) bool {
			if u.Delta != nil {
				return u.Delta.Run == ordinal
			}
			return u.Record.Run == ordinal
		}
		last := func(u messages.Update) bool {
			if u.Record == nil || u.Record.Run != ordinal {
				return false
			}
			end, ok := u.Record.Body.(*messages.RunEnd)
			if ok && r.Merged && ordinal == r.Ordinal && end.Next > 0 {
				if next, _, err := r.takenUp(ctx); err == nil && next != ordinal {
					ordinal = next
					return false
				}
			}
			return ok
		}
		r.Source.Updates(ctx, r.SID, r.Inc, from, mine, last)(yield)
	}
}
