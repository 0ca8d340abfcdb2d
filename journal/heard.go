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

// MaxHeard bounds what one query for a user's messages gives.
const MaxHeard = 1000

// Heard is an input of a user, and where it stands among all of that user's, in whatever
// session.
type Heard struct {
	SID string
	TS  time.Time
	Inc messages.Incarnation
	Seq int64
}

// Compare orders them: positions count within a session, so time goes first.
func (h Heard) Compare(o Heard) int {
	return cmp.Or(h.TS.Compare(o.TS), bytes.Compare(h.Inc[:], o.Inc[:]), cmp.Compare(h.Seq, o.Seq))
}

// HeardQuery asks for what a user submitted, in the order of Heard.Compare.
type HeardQuery struct {
	Owner string // the beginning of the user's SIDs, "tenant:user:"
	After Heard  // the zero one is before all
	Limit int    // 0 is MaxHeard
}

// Check completes a query and finds what is wrong with it.
func (q *HeardQuery) Check() error {
	if strings.Count(q.Owner, ":") != 2 || !strings.HasSuffix(q.Owner, ":") || strings.HasPrefix(q.Owner, ":") || strings.Contains(q.Owner, "::") {
		return Fail(ReasonInvalid, nil, "a query for messages without an owner")
	}
	if q.Limit <= 0 || q.Limit > MaxHeard {
		q.Limit = MaxHeard
	}
	return nil
}

// ScanHeard is Store.Heard without an index: it reads every session of the owner.
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
