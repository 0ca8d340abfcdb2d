package stile

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Run is what one submit started.
type Run struct {
	session *Session
	ordinal int64
	seq     int64
	joined  bool
	end     *actors.Waiter // nil for a handle that came later than the run
	failed  atomic.Bool    // end gave an error: ask the journal from now on
}

// Outcome is how a run ended.
type Outcome struct {
	Decision Decision
	Reason   messages.Code // for HALT
	Detail   string
	Turns    int64
	// Turn is the decision of the last turn; nil when the run was cancelled before
	// it began one.
	Turn *messages.TurnDecided
	// Records are the positions of turn.decided (0 without a turn) and run.end.
	DecidedSeq, EndSeq int64
}

// Ordinal is the run's number in its session, from 1.
func (r *Run) Ordinal() int64 { return r.ordinal }

// Joined tells that an idempotency key named an earlier submit.
func (r *Run) Joined() bool { return r.joined }

// Decision waits until the run has ended and its end is on disk. It may be called
// at any time and as often as one likes. A run that a crash left open goes on with
// it.
func (r *Run) Decision(ctx context.Context) (Outcome, error) {
	if r.end != nil && !r.failed.Load() {
		decided, ended, err := r.end.Wait(ctx)
		if err == nil {
			return outcome(decided, ended), nil
		}
		if ctx.Err() == nil {
			// The session's journal refused, or the runtime closed. The run may have
			// ended all the same; what has not may end under a later activation, which
			// a later call waits for.
			if decided, ended, look := r.session.rt.ended(ctx, r.session.inc, r.ordinal, r.seq); look == nil && ended != nil {
				return outcome(decided, ended), nil
			}
		}
		r.failed.Store(true)
		return Outcome{}, closedError(err)
	}
	s := r.session
	w := s.rt.host.Hub().Await(s.sid, r.ordinal)
	defer w.Cancel()
	decided, ended, err := s.rt.ended(ctx, s.inc, r.ordinal, r.seq)
	if err == nil && ended == nil {
		// Nobody may be at it: the session sleeps, or the process that ran it is gone.
		// Awake, it goes on with what is open.
		_, err = s.rt.host.Open(ctx, s.key, s.agent.agent)
	}
	if err == nil && ended == nil {
		var waited *Record
		waited, ended, err = w.Wait(ctx)
		if waited != nil {
			decided = waited
		}
	}
	if err != nil {
		return Outcome{}, closedError(err)
	}
	return outcome(decided, ended), nil
}

func outcome(decided, ended *Record) Outcome {
	end := ended.Body.(*messages.RunEnd)
	o := Outcome{Decision: end.Decision, Reason: end.Reason, Detail: end.Detail, Turns: end.Turns, EndSeq: ended.Seq}
	if decided != nil {
		o.Turn, _ = decided.Body.(*messages.TurnDecided)
		o.DecidedSeq = decided.Seq
	}
	return o
}

// ended looks for the end of a run in the journal; nil for one that is in flight or
// waits. A run that nobody submitted is ERR_CONFIG.
func (rt *Runtime) ended(ctx context.Context, inc messages.Incarnation, run, from int64) (decided, ended *Record, err error) {
	head, err := rt.store.HeadOf(ctx, inc)
	if err != nil {
		return nil, nil, err
	}
	if head.Run == run && head.Open {
		return nil, nil, nil // in flight: no need to read
	}
	known := from > 0
	for r, err := range readRecords(ctx, rt.store, inc, from) {
		if err != nil {
			return nil, nil, err
		}
		if r.Run != run {
			continue
		}
		switch r.Body.(type) {
		case *messages.Input:
			known = true
		case *messages.TurnDecided:
			decided = r
		case *messages.RunEnd:
			return decided, r, nil
		}
	}
	if !known {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "run", Detail: "the session has no run " + strconv.FormatInt(run, 10)}
	}
	return nil, nil, nil
}

// Cancel stops the run, also one that still waits.
func (r *Run) Cancel(ctx context.Context, by string) error {
	_, err := r.session.rt.host.Cancel(ctx, r.session.key, r.session.agent.agent, r.ordinal, by)
	return err
}

// Events follows the run from its input to its run.end. Ranging over it again
// starts from the input again.
func (r *Run) Events(ctx context.Context) iter.Seq2[Update, error] {
	return r.Resume(ctx, Position{Seq: max(0, r.seq-1)})
}

// Resume is Events behind a position that an earlier stream of this run came to.
func (r *Run) Resume(ctx context.Context, from Position) iter.Seq2[Update, error] {
	mine := func(u Update) bool {
		if u.Delta != nil {
			return u.Delta.Run == r.ordinal
		}
		return u.Record.Run == r.ordinal
	}
	last := func(u Update) bool {
		return u.Record != nil && u.Record.Run == r.ordinal && u.Record.Body.Kind() == messages.KindRunEnd
	}
	return r.session.rt.follow(ctx, r.session.sid, r.session.inc, from, mine, last)
}

// closedError makes the end of the runtime a typed error.
func closedError(err error) error {
	if errors.Is(err, actors.ErrStopped) || journal.ReasonOf(err) == journal.ReasonClosed {
		return errClosed()
	}
	return err
}
