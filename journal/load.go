package journal

import (
	"context"

	"github.com/seed14be6753/stile/messages"
)

// Load reads a whole history, checks its chain against the head, and returns the head and
// the decoded records. The records are shared with the store: do not change them.
//
// Failures: NOT_FOUND; ERASED when a body was erased; CORRUPT, naming the first record that
// is not what was written, or the position where the history ends too early. It never
// returns a record whose chain does not hold.
func Load(ctx context.Context, s Store, inc messages.Incarnation) (Head, []*messages.Record, error) {
	head, err := s.HeadOf(ctx, inc)
	if err != nil {
		return Head{}, nil, err
	}
	recs, err := load(ctx, s, &head, Anchor{Hash: Genesis(head.SID, inc)})
	if err != nil {
		return Head{}, nil, err
	}
	// The summary in the head is derived; a wrong one would hide work from the scan.
	derived := NewHead(head.SID, inc)
	derived.Live, derived.Epoch = head.Live, head.Epoch
	for _, r := range recs {
		derived.advance(r)
	}
	if derived != head {
		return Head{}, nil, Fail(ReasonCorrupt, nil, "session %s: the head does not summarise the %d records", head.SID, head.Seq)
	}
	return head, recs, nil
}

// LoadAfter reads the records after an anchor, usually that of a snapshot: the snapshot's
// state and these records are the session. The error is CORRUPT when the chain does not
// pass through the anchor.
func LoadAfter(ctx context.Context, s Store, inc messages.Incarnation, from Anchor) (Head, []*messages.Record, error) {
	head, err := s.HeadOf(ctx, inc)
	if err != nil {
		return Head{}, nil, err
	}
	recs, err := load(ctx, s, &head, from)
	if err != nil {
		return Head{}, nil, err
	}
	return head, recs, nil
}

// LoadBehind is LoadAfter, and also checks the last back records of the session, even those
// before the anchor, because a host reads them too. Their chain must pass through the anchor
// and reach the head.
func LoadBehind(ctx context.Context, s Store, inc messages.Incarnation, from Anchor, back int64) (Head, []*messages.Record, error) {
	head, err := s.HeadOf(ctx, inc)
	if err != nil {
		return Head{}, nil, err
	}
	if from.Seq <= 0 || from.Seq > head.Seq {
		return Head{}, nil, Fail(ReasonCorrupt, nil, "session %s: there is no record %d", head.SID, from.Seq)
	}
	start := max(1, min(from.Seq, head.Seq-back+1))
	var tail []*messages.Record
	for r, err := range ReadHeld(ctx, s, inc, start, Anchor{Seq: head.Seq, Hash: head.Hash}) {
		if err != nil {
			return Head{}, nil, err
		}
		if r.Seq == from.Seq && r.Hash != from.Hash {
			return Head{}, nil, Fail(ReasonCorrupt, nil, "session %s: the chain does not go through the anchor at %d", head.SID, from.Seq)
		}
		if r.Seq <= from.Seq || r.Seq > head.Seq {
			continue
		}
		if r.Raw == nil {
			return Head{}, nil, Fail(ReasonErased, nil, "session %s: record %d is erased", head.SID, r.Seq)
		}
		if r, err = Typed(r); err != nil {
			return Head{}, nil, err
		}
		tail = append(tail, r)
	}
	return head, tail, nil
}

func load(ctx context.Context, s Store, head *Head, from Anchor) ([]*messages.Record, error) {
	c := chain{sid: head.SID, inc: head.Inc, at: from}
	var recs []*messages.Record
	// The count comes from the file: it does not size an allocation by itself.
	if n := head.Seq - from.Seq; n > 0 {
		recs = make([]*messages.Record, 0, min(n, 4096))
	}
	if head.Seq > from.Seq {
		for r, err := range s.Read(ctx, head.Inc, from.Seq+1, head.Seq) {
			if err != nil {
				return nil, err
			}
			if what, detail := c.next(r); what != "" {
				return nil, Fail(ReasonCorrupt, nil, "session %s: record %d: %s: %s", head.SID, r.Seq, what, detail)
			}
			if _, ok := r.Body.(*messages.Undecoded); ok {
				own := *r
				if err := Decode(&own); err != nil {
					return nil, err
				}
				r = &own
			}
			recs = append(recs, r)
		}
	}
	if c.at.Seq != head.Seq || c.at.Hash != head.Hash {
		return nil, Fail(ReasonCorrupt, nil, "session %s: the chain ends at %d and does not meet the head at %d", head.SID, c.at.Seq, head.Seq)
	}
	return recs, nil
}
