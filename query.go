package stile

import (
	"context"
	"iter"
	"slices"

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

// fits tells whether a record is selected.
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
				r, err = typed(r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// latestPage is how many records latest begins to look at.
const latestPage = 128

// latest reads backwards, twice as far each time.
func (s *Session) latest(ctx context.Context, q RecordQuery) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		head, err := s.rt.store.HeadOf(ctx, s.inc)
		if err != nil {
			yield(nil, err)
			return
		}
		first, next := max(q.From, 1), head.Seq+1
		if q.To > 0 && q.To < head.Seq {
			next = q.To + 1
		}
		var found []*Record
		for step := int64(latestPage); len(found) < q.Latest && next > first; step *= 2 {
			to := next - 1
			next = max(first, next-step)
			page, err := s.page(ctx, next, to, &q)
			if err != nil {
				yield(nil, err)
				return
			}
			found = append(page, found...)
		}
		for _, r := range found[max(0, len(found)-q.Latest):] {
			if r, err := typed(r); !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (s *Session) page(ctx context.Context, from, to int64, q *RecordQuery) (page []*Record, err error) {
	for r, err := range s.rt.store.Read(ctx, s.inc, from, to) {
		if err != nil {
			return nil, err
		}
		if q.fits(r) {
			page = append(page, r)
		}
	}
	return page, nil
}
