package stile

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/messages"
)

// Run is what one submit started.
type Run struct {
	session *Session
	at      follow.Run
	joined  bool
}

// Outcome is how a run ended. A pointer to one is an error: see Err.
type Outcome struct {
	// Run is the ordinal of the run: of a merged submit that of the run which took it up.
	Run      int64
	Decision Decision
	Reason   messages.Code // for HALT
	Detail   string
	Turns    int64
	// Text is the answer of the run: the responses and emissions of all its turns, without
	// text that was taken back, with a blank line between responses and a line end around
	// emissions. Units are the texts it is made of, of the kinds Response and "emit". They are
	// shared and must not be changed.
	Text  string
	Units []UnitText
	// Usage counts the tokens of the run's model replies. CostMicroUSD is the cost of these
	// replies and of the run's actions (child sessions, models that actions call), in
	// millionths of a dollar. Unpriced reports whether a reply without a price is missing in it.
	Usage        messages.Usage
	CostMicroUSD int64
	Unpriced     bool
	// Finish is how the last reply ended; FinishLength means that the model was cut short.
	Finish messages.Finish
	// Began is the time of the run's first turn, Ended that of its end record, both in UTC.
	// Began is zero for a run that was cancelled while it waited.
	Began, Ended time.Time
	// Turn is the decision of the last turn; nil when the run was cancelled before
	// it began one.
	Turn *messages.TurnDecided
	// Records are the positions of turn.decided (0 without a turn) and run.end.
	DecidedSeq, EndSeq int64
	// Output is the answer as JSON when the agent has an output schema; see Decode.
	Output []byte
	// Next is the run that takes up an input which was merged into this run after its last
	// turn began; 0 when there is none.
	Next int64
}

// Duration is the time from Began to Ended.
func (o *Outcome) Duration() time.Duration {
	if o.Began.IsZero() {
		return 0
	}
	return o.Ended.Sub(o.Began)
}

// Decode stores the value of a structured answer (Output) in what v points to, as json.Unmarshal
// does. An outcome without one is ERR_INVALID, field output.
func (o *Outcome) Decode(v any) error {
	if len(o.Output) == 0 {
		return &Error{Code: CodeInvalid, Field: "output", Detail: "the run has no structured answer: it ended " + string(o.Decision) + ", or its agent has no output schema"}
	}
	return json.Unmarshal(o.Output, v)
}

// Err is nil for a run that is DONE. For one that ended HALT or ABORT it is the outcome as an
// *Outcome: errors.As finds it, IsHalt and IsAbort distinguish them, and CodeOf gives the code of
// a HALT.
func (o *Outcome) Err() error {
	if o.Decision == Done {
		return nil
	}
	return o
}

// Error implements error: the decision, and why.
func (o *Outcome) Error() string {
	text := "the run ended " + string(o.Decision)
	if o.Reason != "" {
		text += " (" + string(o.Reason) + ")"
	}
	if o.Detail != "" {
		text += ": " + o.Detail
	}
	return text
}

// Unwrap returns a HALT's code and detail as an *Error; nil for other decisions.
func (o *Outcome) Unwrap() error {
	if o.Decision != Halt {
		return nil
	}
	return &Error{Code: o.Reason, Detail: o.Detail}
}

// Ordinal is the run's number in its session, from 1. Of a merged submit it is that of
// the run it joins.
func (r *Run) Ordinal() int64 { return r.at.Ordinal }

// Joined reports whether an idempotency key named an earlier submit.
func (r *Run) Joined() bool { return r.joined }

// Merged reports whether the input was to join a run in flight. Decision, Text and Events follow
// it to the run that takes it up.
func (r *Run) Merged() bool { return r.at.Merged }

// Decision waits until the run has ended and its end is on disk. It may be called
// at any time and as often as one likes. A run that a crash left open goes on with
// it. Of a merged submit it is the decision of the run that took it up: the one it
// joined, or, when that one ended first, the next.
func (r *Run) Decision(ctx context.Context) (Outcome, error) {
	a, err := r.at.Wait(ctx)
	if err != nil {
		return Outcome{}, err
	}
	return outcome(a), nil
}

// Text waits for the end of the run, as Decision does, and returns its answer (Outcome.Text).
// For a run that ended HALT or ABORT it returns the text so far and an *Outcome as error.
// When Decision fails, the text is "".
func (r *Run) Text(ctx context.Context) (string, error) {
	o, err := r.Decision(ctx)
	if err != nil {
		return "", err
	}
	return o.Text, o.Err()
}

// TextStream yields the text of Text in pieces while it grows, and ends with the run. The
// pieces, joined, are the text. An error is the last element; a run that ended HALT or ABORT
// is an error as in Text.
//
// Yielded text is final: text that the dialect may still replace (kitsu's, until a pass has
// replaced it or the run has ended) is yielded once it can no longer change, and a merged
// submit yields nothing before a run has taken it up. If a crash of the session loses text
// that was yielded, the stream ends with an error for which IsTakenBack is true: the run
// continues, and Text returns the final text. A thought whose opening tag was in the prompt is
// known as one only at its end: it has been yielded then, a blank line and the answer follow, and
// Text has the answer alone.
func (r *Run) TextStream(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if r.at.Seq == 0 { // a run that is looked up, which another process may have left open
			_, ended, err := r.Outcome(ctx)
			if err == nil && !ended {
				err = r.session.Wake(ctx)
			}
			if err != nil {
				yield("", err)
				return
			}
		}
		r.at.Text(ctx, true, func(a *answer.Account) error { o := outcome(a); return o.Err() })(yield)
	}
}

func outcome(a *answer.Account) Outcome {
	end := a.Ended.Body.(*messages.RunEnd)
	o := Outcome{
		Run: a.Ended.Run, Decision: end.Decision, Reason: end.Reason, Detail: end.Detail, Turns: end.Turns, EndSeq: a.Ended.Seq, Next: end.Next,
		Text: a.Text(), Units: a.Units(), Usage: a.Usage, CostMicroUSD: a.Used.CostUSD, Unpriced: a.Unpriced, Finish: a.Finish,
		Began: a.Began, Ended: a.Ended.TS,
	}
	if end.Output != "" {
		o.Output = []byte(end.Output)
	}
	if a.Decided != nil {
		o.Turn, _ = a.Decided.Body.(*messages.TurnDecided)
		o.DecidedSeq = a.Decided.Seq
	}
	return o
}

// Cancel stops the run, also one that is still queued. by is recorded as the principal who
// cancelled.
func (r *Run) Cancel(ctx context.Context, by string) error {
	_, err := r.session.rt.host.Cancel(ctx, r.session.key, r.session.agent.Actor, r.at.Ordinal, by)
	return err
}

// Events follows the run from its input to its run.end. Each range over it starts from the
// input. If the run did not take up a merged submit, the updates of the next run follow.
func (r *Run) Events(ctx context.Context) iter.Seq2[Update, error] {
	return r.Resume(ctx, Position{Seq: max(0, r.at.Seq-1)})
}

// Resume is Events from a position that an earlier stream of this run yielded.
func (r *Run) Resume(ctx context.Context, from Position) iter.Seq2[Update, error] {
	return r.at.Updates(ctx, from)
}

// Simple follows the run as Events does, in the words of docs/spec/cogency.md §3: think,
// respond, call and so on to end. With tokens, texts are yielded while they grow. after is the
// ID of the last event seen, "" for none; any other text is ERR_INVALID.
func (r *Run) Simple(ctx context.Context, after string, tokens bool) iter.Seq2[SimpleEvent, error] {
	if after == "" {
		after = Position{Seq: max(0, r.at.Seq-1)}.String()
	}
	return r.session.simple(r.Resume, tokens).Events(ctx, after)
}

// WithProgress returns a context under which Events and Resume also yield what running tools
// report by ToolCall.Progress: deltas of the kind messages.KindProgress, with the action, how
// much of how many is done, and a line of text. Progress is not in the journal: it is yielded
// to those who follow while it happens, and may come before the record of the action's start.
func WithProgress(ctx context.Context) context.Context { return follow.WithProgress(ctx) }

// OnWait returns a context under which Events and Resume call f, on the goroutine that
// ranges over them, before they wait for more updates. A writer that sends updates on
// gathers them until then.
func OnWait(ctx context.Context, f func()) context.Context { return follow.OnWait(ctx, f) }
