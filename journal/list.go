package journal

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// List iterates over the sessions whose SID begins with prefix, in order of SID, retired
// incarnations included. It starts after the session prefix + after; "" starts at the first.
// It reads a page at a time, and ends at the first error.
func List(ctx context.Context, s Store, prefix, after string) iter.Seq2[Head, error] {
	return func(yield func(Head, error) bool) {
		q := Query{Prefix: prefix, Retired: true}
		if after != "" {
			q.AfterSID, q.AfterInc = prefix+after, uuid.Max
		}
		for {
			page, err := s.Sessions(ctx, q)
			if err != nil {
				yield(Head{}, err)
				return
			}
			for _, h := range page {
				if !yield(h, nil) {
					return
				}
			}
			if len(page) < q.Page() {
				return
			}
			last := page[len(page)-1]
			q.AfterSID, q.AfterInc = last.SID, last.Inc
		}
	}
}

// Parent returns the action and session for which a child session runs; nil for a top-level
// session, and for a session whose first record was erased.
func Parent(ctx context.Context, s Store, inc messages.Incarnation) (*messages.ParentLink, error) {
	opened, err := Opened(ctx, s, inc)
	if err != nil {
		if reason := ReasonOf(err); reason == ReasonErased || reason == ReasonNotFound {
			err = nil
		}
		return nil, err
	}
	return opened.Parent, nil
}
