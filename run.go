package stile

import (
	"context"
	"iter"

	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/messages"
)

// Run is what one submit started.
type Run struct {
	session *Session
	at      follow.Run
	joined  bool
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
	// Output is the answer as JSON, where the agent wants one that fits a schema.
	Output []byte
	// Next is the run that takes up what was merged into this one too late for a turn of
	// it; 0 when there is none.
	Next int64
}

// Ordinal is the run's number in its session, from 1. Of a merged submit it is that of
// the run it joins.
func (r *Run) Ordinal() int64 { return r.at.Ordinal }

// Joined reports whether an idempotency key named an earlier submit.
func (r *Run) Joined() bool { return r.joined }

// Decision waits until the run has ended and its end is on disk. It may be called
// at any time and as often as one likes. A run that a crash left open goes on with
// it. Of a merged submit it is the decision of the run that took it up: the one it
// joined, or, when that one ended first, the next.
func (r *Run) Decision(ctx context.Context) (Outcome, error) {
	decided, ended, err := r.at.Wait(ctx)
	if err != nil {
		return Outcome{}, err
	}
	return outcome(decided, ended), nil
}

func outcome(decided, ended *Record) Outcome {
	end := ended.Body.(*messages.RunEnd)
	o := Outcome{Decision: end.Decision, Reason: end.Reason, Detail: end.Detail, Turns: end.Turns, EndSeq: ended.Seq, Next: end.Next}
	if end.Output != "" {
		o.Output = []byte(end.Output)
	}
	if decided != nil {
		o.Turn, _ = decided.Body.(*messages.TurnDecided)
		o.DecidedSeq = decided.Seq
	}
	return o
}

// Cancel stops the run, also one that still waits.
func (r *Run) Cancel(ctx context.Context, by string) error {
	_, err := r.session.rt.host.Cancel(ctx, r.session.key, r.session.agent.Actor, r.at.Ordinal, by)
	return err
}

// Events follows the run from its input to its run.end. Ranging over it again
// starts from the input again. Of a merged submit that its run did not take up, those of
// the next run follow.
func (r *Run) Events(ctx context.Context) iter.Seq2[Update, error] {
	return r.Resume(ctx, Position{Seq: max(0, r.at.Seq-1)})
}

// Resume is Events behind a position that an earlier stream of this run came to.
func (r *Run) Resume(ctx context.Context, from Position) iter.Seq2[Update, error] {
	return r.at.Updates(ctx, from)
}

// Simple follows the run as Events does, in the words of docs/spec/cogency.md §3: think,
// respond, call and so on to end. With tokens texts come while they grow. after is the ID of
// the last event seen, "" for none; any other text is ERR_INVALID.
func (r *Run) Simple(ctx context.Context, after string, tokens bool) iter.Seq2[SimpleEvent, error] {
	if after == "" {
		after = Position{Seq: max(0, r.at.Seq-1)}.String()
	}
	return r.session.simple(r.Resume, tokens).Events(ctx, after)
}

// OnWait returns a context under which Events and Resume call f, on the goroutine that
// ranges over them, before they wait for more updates. A writer that sends updates on
// gathers them until then.
func OnWait(ctx context.Context, f func()) context.Context { return follow.OnWait(ctx, f) }
