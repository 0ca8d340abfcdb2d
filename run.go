package stile

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Run is what one submit started.
type Run struct {
	session *Session
	ordinal int64
	seq     int64
	joined  bool
	merged  bool        // its input was to join the run at its next turn
	end     *hub.Waiter // nil for a handle that came later than the run
	failed  atomic.Bool // end gave an error: ask the journal from now on
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
	// Next is the run that takes up what was merged into this one too late for a turn of
	// it; 0 when there is none.
	Next int64
}

// Ordinal is the run's number in its session, from 1. Of a merged submit it is that of
// the run it joins.
func (r *Run) Ordinal() int64 { return r.ordinal }

// Joined tells that an idempotency key named an earlier submit.
func (r *Run) Joined() bool { return r.joined }

// Decision waits until the run has ended and its end is on disk. It may be called
// at any time and as often as one likes. A run that a crash left open goes on with
// it. Of a merged submit it is the decision of the run that took it up: the one it
// joined, or, when that one ended first, the next.
func (r *Run) Decision(ctx context.Context) (Outcome, error) {
	o, err := r.decision(ctx)
	if err != nil || !r.merged || o.Next == 0 {
		return o, err
	}
	next, _, err := r.takenUp(ctx)
	if err != nil || next == r.ordinal {
		return o, err
	}
	return (&Run{session: r.session, ordinal: next, seq: r.seq}).decision(ctx)
}

// takenUp gives the run that took a merged input up, its own as long as it may, and the
// record that says so.
func (r *Run) takenUp(ctx context.Context) (run, at int64, err error) {
	for rec, err := range readRecords(ctx, r.session.rt.store, r.session.inc, r.seq) {
		if err != nil {
			return 0, 0, closedError(err)
		}
		if rec.Run != r.ordinal {
			continue
		}
		switch b := rec.Body.(type) {
		case *messages.TurnBegin:
			if slices.Contains(b.Merged, r.seq) {
				return r.ordinal, rec.Seq, nil
			}
		case *messages.RunEnd:
			return cmp.Or(b.Next, r.ordinal), rec.Seq, nil
		}
	}
	return r.ordinal, 0, nil
}

func (r *Run) decision(ctx context.Context) (Outcome, error) {
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
	o := Outcome{Decision: end.Decision, Reason: end.Reason, Detail: end.Detail, Turns: end.Turns, EndSeq: ended.Seq, Next: end.Next}
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
		end, over := r.Body.(*messages.RunEnd)
		if over && run > 0 && end.Next == run { // it takes up what another one left, and has no input of its own
			known = true
		}
		if r.Run != run {
			continue
		}
		if over {
			return decided, r, nil
		}
		switch r.Body.(type) {
		case *messages.Input:
			known = true
		case *messages.TurnDecided:
			decided = r
		}
	}
	if !known {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Reason: journal.ReasonNotFound, Field: "run", Detail: "the session has no run " + strconv.FormatInt(run, 10)}
	}
	return nil, nil, nil
}

// Cancel stops the run, also one that still waits.
func (r *Run) Cancel(ctx context.Context, by string) error {
	_, err := r.session.rt.host.Cancel(ctx, r.session.key, r.session.agent.agent, r.ordinal, by)
	return err
}

// Events follows the run from its input to its run.end. Ranging over it again
// starts from the input again. Of a merged submit that its run did not take up, those of
// the next run follow.
func (r *Run) Events(ctx context.Context) iter.Seq2[Update, error] {
	return r.Resume(ctx, Position{Seq: max(0, r.seq-1)})
}

// Resume is Events behind a position that an earlier stream of this run came to.
func (r *Run) Resume(ctx context.Context, from Position) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		ordinal := r.ordinal
		if r.merged && from.Seq > r.seq {
			if next, at, err := r.takenUp(ctx); err == nil && next != r.ordinal && at <= from.Seq {
				ordinal = next
			}
		}
		mine := func(u Update) bool {
			if u.Delta != nil {
				return u.Delta.Run == ordinal
			}
			return u.Record.Run == ordinal
		}
		last := func(u Update) bool {
			if u.Record == nil || u.Record.Run != ordinal {
				return false
			}
			end, ok := u.Record.Body.(*messages.RunEnd)
			if ok && r.merged && ordinal == r.ordinal && end.Next > 0 {
				if next, _, err := r.takenUp(ctx); err == nil && next != ordinal {
					ordinal = next
					return false
				}
			}
			return ok
		}
		r.session.rt.follow(ctx, r.session.sid, r.session.inc, from, mine, last)(yield)
	}
}

// closedError makes the end of the runtime a typed error.
func closedError(err error) error {
	if errors.Is(err, hub.ErrStopped) || journal.ReasonOf(err) == journal.ReasonClosed {
		return errClosed()
	}
	return err
}
