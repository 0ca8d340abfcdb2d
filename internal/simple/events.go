package simple

import (
	"context"
	"iter"
	"slices"

	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Stream is what is told.
type Stream struct {
	Store  journal.Store
	Inc    messages.Incarnation
	Resume func(context.Context, messages.Position) iter.Seq2[messages.Update, error]
	Tokens bool // texts while they grow
}

// Events tells what lies behind the event with the id after, "" for all, and then what comes.
// It ends as the updates do, and with the session. An id that is none is ERR_INVALID.
func (s Stream) Events(ctx context.Context, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t := Teller{Tokens: s.Tokens}
		p, err := parseID(after)
		if err == nil {
			err = s.recall(ctx, &t, p.at.Seq)
		}
		if err != nil {
			yield(Event{}, follow.Closed(err))
			return
		}
		t.from(p)
		for u, err := range s.Resume(ctx, p.at) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if err := s.declare(ctx, &t, u.Record); err != nil {
				yield(Event{}, follow.Closed(err))
				return
			}
			for _, e := range t.Tell(u) {
				if !yield(e, nil) {
					return
				}
			}
			if u.Record != nil && u.Record.Body.Kind() == messages.KindSessionClosed {
				return // after that comes nothing
			}
		}
	}
}

// recall has a teller know what the reader of a position has been told: it tells it, to
// nobody, the records of the run that was in flight there.
func (s Stream) recall(ctx context.Context, t *Teller, to int64) error {
	if to == 0 {
		return nil
	}
	var run []*messages.Record
	for r, err := range journal.Backward(ctx, s.Store, s.Inc, 1, to, 0) {
		if err == nil {
			r, err = journal.Typed(r)
		}
		if err != nil {
			return err
		}
		if r.Body.Kind() == messages.KindRunEnd {
			break
		}
		run = append(run, r)
		if r.Body.Kind() == messages.KindRunBegin {
			break
		}
	}
	for _, r := range slices.Backward(run) {
		t.Tell(messages.Update{Record: r})
	}
	return nil
}

// declare has a teller know a call that ends and was declared in an earlier run: nobody
// waited for it, so it outlived that run and is not among what recall told.
func (s Stream) declare(ctx context.Context, t *Teller, r *messages.Record) error {
	if r == nil {
		return nil
	}
	end, ok := r.Body.(*messages.ActionEnded)
	if !ok || t.call(r.Turn, end.ID) != nil {
		return nil
	}
	for of, err := range journal.Backward(ctx, s.Store, s.Inc, 1, r.Seq-1, 0) {
		if err == nil {
			of, err = journal.Typed(of)
		}
		if err != nil {
			return err
		}
		if b, ok := of.Body.(*messages.ActionDeclared); ok && of.Turn == r.Turn && b.ID == end.ID {
			t.declared(of.Turn, b)
			return nil
		}
	}
	return nil
}
