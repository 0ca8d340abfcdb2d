package journal

import (
	"context"
	"iter"

	"github.com/google/uuid"
	"github.com/seed14be6753/stile/messages"
)

// The windows in which Backward reads, in records. Most callers look for a record near
// the end: a small first window finds it, and windows that grow reach far in few reads.
// A window is in memory as a whole, so its size has a bound.
const (
	firstWindow  = 64
	windowGrowth = 4
	mostWindow   = 4096
)

// Backward iterates over the records from..to, both included, from the last to the first;
// from and to are those of Store.Read. It reads a window of records at the end of the span
// first, and earlier windows as the caller goes on; window is the size of the first window
// in records, and 0 takes the default. The records are as the store returns them: Typed
// decodes a body. The iteration ends at the first error.
func Backward(ctx context.Context, s Store, inc messages.Incarnation, from, to, window int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		from, to, window := max(from, 1), to, window
		atHead := false // to is at most the head's position
		if window <= 0 {
			window = firstWindow
		}
		if to <= 0 {
			head, err := s.HeadOf(ctx, inc)
			if err != nil {
				yield(nil, err)
				return
			}
			to, atHead = head.Seq, true
		}
		var page []*messages.Record
		for ; to >= from; window *= windowGrowth {
			window = min(window, mostWindow)
			start := max(from, to-window+1)
			page = page[:0]
			for r, err := range s.Read(ctx, inc, start, to) {
				if err != nil {
					yield(nil, err)
					return
				}
				page = append(page, r)
			}
			for i := len(page) - 1; i >= 0; i-- {
				if !yield(page[i], nil) {
					return
				}
			}
			to = start - 1
			if len(page) == 0 && !atHead { // the span ends behind the head, maybe far
				head, err := s.HeadOf(ctx, inc)
				if err != nil {
					yield(nil, err)
					return
				}
				to, atHead = min(to, head.Seq), true
			}
		}
	}
}

// Typed returns a record of a store with its body decoded. It copies a record that it has
// to decode, and never changes r. A record whose body was erased is returned as it is: its
// body is *messages.Undecoded. The error is that of Decode.
func Typed(r *messages.Record) (*messages.Record, error) {
	if _, ok := r.Body.(*messages.Undecoded); !ok || r.Raw == nil {
		return r, nil
	}
	own := *r
	return &own, Decode(&own)
}

// ReadTyped is Store.Read with decoded bodies. The iteration ends at the first error.
func ReadTyped(ctx context.Context, s Store, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for r, err := range s.Read(ctx, inc, from, to) {
			if err == nil {
				r, err = Typed(r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Opened reads session.opened, the first record of a session. The error is NOT_FOUND when
// the session has no record or the body of the first one was erased.
func Opened(ctx context.Context, s Store, inc messages.Incarnation) (*messages.SessionOpened, error) {
	for r, err := range s.Read(ctx, inc, 1, 1) {
		if err == nil {
			r, err = Typed(r)
		}
		if err != nil {
			return nil, err
		}
		if b, ok := r.Body.(*messages.SessionOpened); ok {
			return b, nil
		}
	}
	return nil, Fail(ReasonNotFound, nil, "the session has no first record")
}

// ParseIncarnation reads the incarnation that a record names. Errors are ERR_JOURNAL.
func ParseIncarnation(s string) (messages.Incarnation, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, &messages.Error{Code: messages.ErrJournal, Detail: "an incarnation is a UUID", Cause: err}
	}
	return id, nil
}
