package follow

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/seed14be6753/stile/internal/answer"
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
	Merged  bool  // its input should join the run at its next turn
	// End waits for the end as it happens; nil for a run that is looked up later.
	End *hub.Waiter
	// Session wakes the session, so that an open run goes on that no process runs.
	Session interface{ Wake(context.Context) error }

	failed atomic.Bool // End returned an error: read the journal from now on
}

// Wait waits until the run has ended and its end is durable, and returns its outcome. For a
// merged input that is the run that took it up: the one it joined, or the next if that one
// ended before.
func (r *Run) Wait(ctx context.Context) (*answer.Account, error) {
	a, err := r.wait(ctx)
	if err != nil {
		return nil, err
	}
	next, err := r.next(ctx, a)
	if err != nil || next == nil {
		return a, err
	}
	return next.wait(ctx)
}

// next returns the run that took up a merged input if its own run ended without it; nil
// otherwise.
func (r *Run) next(ctx context.Context, a *answer.Account) (*Run, error) {
	if !r.Merged || a.Ended.Body.(*messages.RunEnd).Next == 0 {
		return nil, nil
	}
	next, _, err := r.takenUp(ctx)
	if err != nil || next == r.Ordinal {
		return nil, err
	}
	return &Run{Source: r.Source, SID: r.SID, Inc: r.Inc, Session: r.Session, Ordinal: next, Seq: r.Seq}, nil
}

func (r *Run) wait(ctx context.Context) (*answer.Account, error) {
	if r.End != nil && !r.failed.Load() {
		_, ended, err := r.End.Wait(ctx)
		if err == nil {
			if a, ok := r.End.Heard().(*answer.Account); ok && a.Whole() {
				return a, nil
			}
			return r.account(ctx, ended)
		}
		if ctx.Err() == nil {
			// The session's journal refused, or the runtime closed. The run may have
			// ended nevertheless; if not, it may end under a later activation, which a
			// later call waits for.
			if a, look := r.look(ctx); look == nil && a != nil {
				return a, nil
			}
		}
		r.failed.Store(true)
		return nil, Closed(err)
	}
	w := r.Hub.Await(r.SID, r.Ordinal, nil)
	defer w.Cancel()
	a, err := r.look(ctx)
	if err == nil && a == nil {
		// The session may sleep, or the process that ran it may have died. Once awake,
		// it goes on with an open run.
		err = r.Session.Wake(ctx)
	}
	if err == nil && a == nil {
		var ended *messages.Record
		if _, ended, err = w.Wait(ctx); err == nil {
			a, err = r.account(ctx, ended)
		}
	}
	if err != nil {
		return nil, Closed(err)
	}
	return a, nil
}

// account returns the outcome of a run that has ended. Its input is before it, except for an
// input that was merged into it, or joined such an input.
func (r *Run) account(ctx context.Context, ended *messages.Record) (*answer.Account, error) {
	a, err := r.read(ctx, max(1, r.Seq), ended)
	if err == nil && r.Seq > 1 && !a.Whole() {
		a, err = r.read(ctx, 1, ended)
	}
	return a, err
}

// read reads the run's records back from its end to its beginning, not beyond from.
func (r *Run) read(ctx context.Context, from int64, ended *messages.Record) (*answer.Account, error) {
	var recs []*messages.Record
	for rec, err := range journal.Backward(ctx, r.Store, r.Inc, from, ended.Seq, 0) {
		if err != nil {
			return nil, Closed(err)
		}
		if rec.Run != r.Ordinal {
			continue
		}
		if kind := rec.Body.Kind(); answer.Wants(kind) {
			recs = append(recs, rec)
		} else if kind == messages.KindInput && ended.Body.(*messages.RunEnd).Turns == 0 {
			break // it has no run.begin
		}
		if rec.Body.Kind() == messages.KindRunBegin {
			break
		}
	}
	a := new(answer.Account)
	for _, rec := range slices.Backward(recs) {
		typed, err := journal.Typed(rec)
		if err != nil {
			return nil, Closed(err)
		}
		a.Take(typed)
	}
	a.Ended = ended
	return a, nil
}

// Look returns what Wait would, from the journal; nil for a run that is in flight or queued. The
// error is ERR_NOT_FOUND for a run that was not submitted.
func (r *Run) Look(ctx context.Context) (*answer.Account, error) {
	a, err := r.look(ctx)
	if err != nil || a == nil {
		return nil, err
	}
	next, err := r.next(ctx, a)
	if err != nil || next == nil {
		return a, err
	}
	return next.look(ctx)
}

func (r *Run) look(ctx context.Context) (*answer.Account, error) {
	head, err := r.Store.HeadOf(ctx, r.Inc)
	if err != nil {
		return nil, err
	}
	if head.Run == r.Ordinal && head.Open {
		return nil, nil // in flight: no need to read
	}
	known := r.Seq > 0
	var a answer.Account
	for rec, err := range r.Store.Read(ctx, r.Inc, r.Seq, 0) {
		if err != nil {
			return nil, err
		}
		mine, kind := rec.Run == r.Ordinal, rec.Body.Kind()
		known = known || mine && kind == messages.KindInput
		if kind != messages.KindRunEnd && !(mine && answer.Wants(kind)) {
			continue
		}
		if rec, err = journal.Typed(rec); err != nil {
			return nil, err
		}
		end, over := rec.Body.(*messages.RunEnd)
		if over && r.Ordinal > 0 && end.Next == r.Ordinal { // it continues another run, and has no input of its own
			known = true
		}
		if !mine {
			continue
		}
		if a.Take(rec); over && !a.Whole() { // the input came in the midst of the run
			return r.account(ctx, rec)
		} else if over {
			return &a, nil
		}
	}
	if !known {
		return nil, &messages.Error{Code: messages.ErrNotFound, Reason: journal.ReasonNotFound, Field: "run", Detail: "the session has no run " + strconv.FormatInt(r.Ordinal, 10)}
	}
	return nil, nil
}

// takenUp returns the run that took up a merged input, or its own while that still may, and the
// record of it.
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

// Updates yields the updates of the run after a position, up to its run.end. For a merged input
// that its run did not take up, those of the next run follow.
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

// Text yields the run's text in pieces as it grows; see answer.Stream. It ends with the run.
// ended is called with the outcome of the run; the iteration ends with its error. lenient is
// answer.Stream's.
func (r *Run) Text(ctx context.Context, lenient bool, ended func(*answer.Account) error) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := answer.Stream{Account: answer.Account{Most: -1}, Lenient: lenient}
		if r.Merged {
			s.Merged = r.Seq
		}
		for u, err := range r.Updates(ctx, messages.Position{Seq: max(0, r.Seq-1)}) {
			var piece string
			if err == nil {
				piece, err = s.Take(u)
			}
			if piece != "" && !yield(piece, nil) {
				return
			}
			if err == nil && s.Ended != nil {
				err = ended(&s.Account)
			}
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}
