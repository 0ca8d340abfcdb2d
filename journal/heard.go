package journal

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// MaxHeard bounds the inputs that one HeardQuery returns.
const MaxHeard = 1000

// Heard is the place of one user input among all inputs of that user, across sessions.
type Heard struct {
	SID string
	TS  time.Time
	Inc messages.Incarnation
	Seq int64
}

// Compare orders inputs by time first, because positions count within a session alone.
func (h Heard) Compare(o Heard) int {
	return cmp.Or(h.TS.Compare(o.TS), bytes.Compare(h.Inc[:], o.Inc[:]), cmp.Compare(h.Seq, o.Seq))
}

// HeardQuery selects inputs of a user, in the order of Heard.Compare.
type HeardQuery struct {
	Owner string // the beginning of the user's SIDs, "tenant:user:"
	After Heard  // the zero one is before all
	Limit int    // 0 is MaxHeard
}

// Check sets the default limit and returns INVALID for a query without an owner.
func (q *HeardQuery) Check() error {
	if strings.Count(q.Owner, ":") != 2 || !strings.HasSuffix(q.Owner, ":") || strings.HasPrefix(q.Owner, ":") || strings.Contains(q.Owner, "::") {
		return Fail(ReasonInvalid, nil, "a query for messages without an owner")
	}
	if q.Limit <= 0 || q.Limit > MaxHeard {
		q.Limit = MaxHeard
	}
	return nil
}

// ScanHeard implements Store.Heard without an index, by reading every session of the owner.
func ScanHeard(ctx context.Context, s Store, q HeardQuery) ([]Heard, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var first []Heard
	for head, err := range sessionsOf(ctx, s, q.Owner) {
		if err != nil {
			return nil, err
		}
		for rec, err := range s.Read(ctx, head.Inc, 0, 0) {
			if err != nil {
				return nil, err
			}
			if rec.Raw == nil || rec.Body.Kind() != messages.KindInput {
				continue
			}
			h := Heard{SID: head.SID, TS: rec.TS, Inc: head.Inc, Seq: rec.Seq}
			if h.Compare(q.After) <= 0 {
				continue
			}
			body, err := DecodeBody(messages.KindInput, rec.Raw)
			if err != nil {
				return nil, err
			}
			if _, _, ok := Said(body); !ok {
				continue
			}
			at, _ := slices.BinarySearchFunc(first, h, Heard.Compare)
			if at < q.Limit {
				first = slices.Insert(first, at, h)
				first = first[:min(len(first), q.Limit)]
			}
		}
	}
	return first, nil
}
