package sqlstore

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/seed14be6753/stile/journal"
)

// Places returns what journal.Places describes, from the index of recalls. It first puts some of
// what is new into the index; a journal that is open for reading is scanned instead.
func (t *Tables) Places(ctx context.Context, q journal.RecallQuery) (found []journal.Recollection, more, behind bool, err error) {
	if t.d.Unindexed != nil {
		found, more, err = journal.ScanPlaces(ctx, t.d.Unindexed, q)
		return found, more, false, err
	}
	if err := q.Check(); err != nil {
		return nil, false, false, err
	}
	if behind, err = t.indexSome(ctx, q.Owner, journal.MaxCaughtUp); err != nil {
		return nil, false, false, err
	}
	err = t.d.Reading(ctx, "searching texts", func(c Conn) error {
		var n Narrow
		if t.d.Narrowed != nil {
			var err error
			if n, err = t.d.Narrowed(c, q.Words); err != nil {
				return err
			}
		}
		stmt, args := t.placesStatement(&q, n)
		var all []journal.Recollection
		for row, err := range c.Rows(stmt, args...) {
			if err != nil {
				return err
			}
			var f journal.Recollection
			var p place
			if err := row.Scan(&f.SID, &p.inc, &f.Seq, &p.ts, &f.Role); err != nil {
				return err
			}
			if f.Inc, f.TS, err = p.of(f.SID, q.Owner); err != nil {
				return err
			}
			all = append(all, f)
		}
		most := len(all) == journal.MaxMatches
		found, more = journal.Newest(all, q.Limit)
		more = more || most
		return nil
	})
	return found, more, behind, err
}

// placesStatement selects sid, inc, seq, ts and role of texts that have all words.
func (t *Tables) placesStatement(q *journal.RecallQuery, n Narrow) (stmt string, args []any) {
	d, from, where := &t.d, "recall", ""
	if n.Table != "" {
		args = append(args, n.Arg)
		from, where = n.Table+" CROSS JOIN recall", n.Match+" AND "
	}
	args = append(args, q.Owner, q.Except[:])
	where += fmt.Sprintf("recall.owner = $%d AND h.inc <> $%d", len(args)-1, len(args))
	for _, w := range q.Words {
		args = append(args, w)
		where += " AND " + d.Has("recall.folded", fmt.Sprintf("$%d", len(args)))
	}
	recall := d.shape.Recall
	return "SELECT h.sid, h.inc, " + recall.seq + ", recall.ts, recall.role FROM " + from + " CROSS JOIN " + d.shape.Table + " h WHERE " +
		strings.TrimSpace(where) + " AND h.id = " + recall.session + " AND " + d.shape.Live + " ORDER BY " + d.Latest + fmt.Sprintf(" LIMIT %d", journal.MaxMatches), args
}

// indexSome brings the index of an owner up to date for at most so many sessions, those of a page
// in one transaction, and reports whether others are left.
func (t *Tables) indexSome(ctx context.Context, owner string, most int) (left bool, err error) {
	for after, done := int64(math.MinInt64), 0; ; {
		behind, err := t.behind(ctx, owner, after)
		if err != nil || len(behind) == 0 {
			return false, err
		}
		if done += len(behind); done > most {
			return true, nil
		}
		for len(behind) > 0 {
			var at int
			var whole bool
			err := t.d.Writing(ctx, "indexing what can be recalled", func(c Conn) error {
				sum := int64(0)
				for at, whole = 0, true; at < len(behind) && whole && sum < indexSpan; at++ {
					var to int64
					if to, whole, err = t.indexSession(c, owner, behind[at], 0); err != nil {
						return err
					}
					sum += to
				}
				return nil
			})
			if err != nil {
				return false, err
			}
			if !whole { // the rest of a long session, a span at a time
				if err := t.catchUp(ctx, owner, behind[at-1]); err != nil {
					return false, err
				}
			}
			after, behind = behind[at-1], behind[at:]
		}
	}
}
