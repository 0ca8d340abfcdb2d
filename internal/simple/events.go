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

// Events yields the events after the one with the id after, "" for all, and then new ones. It
// ends as the updates do, and with the session. The error is ERR_INVALID for an invalid id.
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

// recall brings a Teller to the state of a reader at a position: it passes it the records of the
// run that was in flight there, and drops the events.
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

// declare passes a Teller the declaration of a call that ends after its run: the call was
// detached, so recall has not passed it.
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
			t.call(of.Turn, b.ID).waits = nil // it had begun in its run
			return nil
		}
	}
	return nil
}
