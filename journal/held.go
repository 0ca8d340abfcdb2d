package journal

import (
	"context"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// ReadHeld is Store.Read from a record to the end of a session, and checks every record up
// to at: its hash is right, it continues the record before, and the chain reaches at. at is
// an anchor that the caller trusts, such as the head it woke from; records after it are not
// checked. CORRUPT names the first record that is not what was written. A forged record may
// only show when the chain misses at, so the records count when the iteration has ended
// without an error.
func ReadHeld(ctx context.Context, s Store, inc messages.Incarnation, from int64, at Anchor) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		c := chain{inc: inc}
		for r, err := range s.Read(ctx, inc, from, 0) {
			if err == nil && r.Seq <= at.Seq {
				if c.sid == "" {
					c.sid, c.at = r.SID, Anchor{Seq: max(from, 1) - 1, Hash: r.Prev}
				}
				err = c.holds(r, at)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if c.at.Seq < at.Seq && max(from, 1) <= at.Seq {
			yield(nil, Fail(ReasonCorrupt, nil, "session %s: the records end at %d, before %d", c.sid, c.at.Seq, at.Seq))
		}
	}
}

// holds checks a record at or before at.
func (c *chain) holds(r *messages.Record, at Anchor) error {
	if what, detail := c.next(r); what != "" {
		return Fail(ReasonCorrupt, nil, "session %s: record %d: %s: %s", r.SID, r.Seq, what, detail)
	}
	if r.Seq == at.Seq && r.Hash != at.Hash {
		return Fail(ReasonCorrupt, nil, "session %s: record %d is not the one that was written", r.SID, r.Seq)
	}
	return nil
}

// BackwardHeld is Backward from the end of a session, with the checks of ReadHeld. Going
// backward, each record is checked before it is yielded.
func BackwardHeld(ctx context.Context, s Store, inc messages.Incarnation, window int64, at Anchor) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		next := at // the place of the record that comes now
		for r, err := range Backward(ctx, s, inc, 0, 0, window) {
			if err == nil && r.Seq <= at.Seq {
				if r.Seq != next.Seq {
					err = Fail(ReasonCorrupt, nil, "session %s: record %d is missing", r.SID, next.Seq)
				} else {
					c := chain{sid: r.SID, inc: inc, at: Anchor{Seq: r.Seq - 1, Hash: r.Prev}}
					err = c.holds(r, next)
					next = Anchor{Seq: r.Seq - 1, Hash: r.Prev}
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if next == at && at.Seq > 0 {
			yield(nil, Fail(ReasonCorrupt, nil, "the records end before %d", at.Seq))
		}
	}
}
