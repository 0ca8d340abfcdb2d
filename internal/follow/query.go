package follow

import (
	"context"
	"iter"
	"slices"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Query selects records of a session. The zero value selects all of them.
type Query struct {
	From, To int64           // positions, both included; 0 is the first, or the last
	Kinds    []messages.Kind // none means all
	Run      int64           // ordinal; 0 means all
	Turn     int64           // index; 0 means all
	// Latest selects the last so many matching records, and reads the journal backwards
	// only as far as needed; 0 means all.
	Latest int
}

// fits reports whether a record is selected.
func (q *Query) fits(r *messages.Record) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Body.Kind())) && (q.Run == 0 || r.Run == q.Run) && (q.Turn == 0 || r.Turn == q.Turn)
}

// Select iterates over the records that q selects, in the order of the journal, with decoded
// bodies; erased ones are *messages.Undecoded. It ends at the first error.
func (q Query) Select(ctx context.Context, store journal.Store, inc messages.Incarnation) iter.Seq2[*messages.Record, error] {
	if q.Latest > 0 {
		return q.latest(ctx, store, inc)
	}
	return func(yield func(*messages.Record, error) bool) {
		for r, err := range store.Read(ctx, inc, q.From, q.To) {
			switch {
			case err == nil && !q.fits(r):
				continue
			case err == nil:
				r, err = journal.Typed(r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// latest reads backwards.
func (q Query) latest(ctx context.Context, store journal.Store, inc messages.Incarnation) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		var found []*messages.Record // the last one first
		for r, err := range journal.Backward(ctx, store, inc, q.From, q.To, latestPage) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !q.fits(r) {
				continue
			}
			if found = append(found, r); len(found) == q.Latest {
				break
			}
		}
		for _, r := range slices.Backward(found) {
			if r, err := journal.Typed(r); !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// latestPage is the first window of latest, in records.
const latestPage = 128
