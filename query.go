package stile

import (
	"context"
	"iter"
	"slices"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// RecordQuery selects records of a session. The zero value selects all of them.
type RecordQuery struct {
	From, To int64           // positions, both included; 0 is the first, or the last
	Kinds    []messages.Kind // none means all
	Run      int64           // ordinal; 0 means all
	Turn     int64           // index; 0 means all
	// Latest selects the last so many of what fits, and reads the journal backwards no
	// farther than it must; 0 means all.
	Latest int
}

// fits reports whether a record is selected.
func (q *RecordQuery) fits(r *Record) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Body.Kind())) && (q.Run == 0 || r.Run == q.Run) && (q.Turn == 0 || r.Turn == q.Turn)
}

// Query reads the records that q selects, in the order of the journal. Bodies are typed;
// erased ones are *messages.Undecoded. It ends at the first error.
func (s *Session) Query(ctx context.Context, q RecordQuery) iter.Seq2[*Record, error] {
	if q.Latest > 0 {
		return s.latest(ctx, q)
	}
	return func(yield func(*Record, error) bool) {
		for r, err := range s.rt.store.Read(ctx, s.inc, q.From, q.To) {
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
func (s *Session) latest(ctx context.Context, q RecordQuery) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var found []*Record // the last one first
		for r, err := range journal.Backward(ctx, s.rt.store, s.inc, q.From, q.To, latestPage) {
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

// latestPage is how many records latest begins to look at.
const latestPage = 128
