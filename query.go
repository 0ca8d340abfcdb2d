package stile

import (
	"context"
	"iter"

	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/messages"
)

// RecordQuery selects records of a session. The zero value selects all of them.
type RecordQuery struct {
	From, To int64           // positions, both included; 0 is the first, or the last
	Kinds    []messages.Kind // none means all
	Run      int64           // ordinal; 0 means all
	Turn     int64           // index; 0 means all
	// Latest selects the last n of the matching records, and reads the journal backwards
	// only until it has found them; 0 means all.
	Latest int
}

// Query reads the records that q selects, in the order of the journal. Bodies are typed;
// erased ones are *messages.Undecoded. It ends at the first error.
func (s *Session) Query(ctx context.Context, q RecordQuery) iter.Seq2[*Record, error] {
	return follow.Query(q).Select(ctx, s.rt.store, s.inc)
}

// Query reads the records of an incarnation that q selects, as Session.Query does. It wakes no
// session.
func (a *Archive) Query(ctx context.Context, inc messages.Incarnation, q RecordQuery) iter.Seq2[*Record, error] {
	return follow.Query(q).Select(ctx, a.store, inc)
}
