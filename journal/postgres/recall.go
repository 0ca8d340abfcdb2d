package postgres

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// indexSpan is how many positions one transaction puts into the index of recalls: who
// appends to that session waits for it.
const indexSpan = 2048

const (
	sqlBehind = `SELECT h.id FROM heads h LEFT JOIN recall_marks m ON m.session = h.id
		WHERE h.sid >= $1 AND h.sid < $1 || chr(1114111) AND h.seq > coalesce(m.seq, 0) AND h.id > $2 ORDER BY h.id LIMIT 256`
	sqlBehindOne = "SELECT seq FROM heads WHERE id = $1 AND sid >= $2 AND sid < $2 || chr(1114111) FOR UPDATE"
	sqlSaid      = `SELECT seq, type, ts, body FROM records
		WHERE session = $1 AND seq BETWEEN $2 AND $3 AND type = ANY($4) AND body IS NOT NULL ORDER BY seq`
	sqlIndex = `INSERT INTO recall (session, seq, owner, ts, role, shown, folded)
		SELECT $1, n.seq, $2, n.ts, n.role, n.shown, n.folded
		FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[]) AS n (seq, ts, role, shown, folded) ON CONFLICT DO NOTHING`
	// The pattern is what an index by trigrams can use, where the operator made one; how
	// many words there are decides.
	sqlRecall = `SELECT sid, inc, seq, ts, role, shown, words, runes FROM (
		SELECT h.sid, h.inc, c.seq, c.ts, c.role, c.shown,
			(SELECT count(*) FROM unnest($3::text[]) AS w (word) WHERE position(w.word IN c.folded) > 0) AS words,
			(SELECT coalesce(sum(w.n), 0)::bigint FROM unnest($3::text[], $4::bigint[]) AS w (word, n) WHERE position(w.word IN c.folded) > 0) AS runes
		FROM recall c JOIN heads h ON h.id = c.session
		WHERE c.owner = $1 AND h.inc <> $2 AND c.folded LIKE ANY($5::text[])) hits
		WHERE words > 0 ORDER BY words DESC, runes DESC, ts DESC, inc DESC, seq DESC LIMIT $6`
	sqlHeard = `SELECT h.sid, h.inc, c.seq, c.ts FROM recall c JOIN heads h ON h.id = c.session
		WHERE c.owner = $1 AND c.role = $2 AND (c.ts, h.inc, c.seq) > ($3, $4, $5) ORDER BY c.ts, h.inc, c.seq LIMIT $6`
)

// Recall implements journal.Store. It first puts what is new of the owner's sessions
// into the index; a journal that is open for reading is scanned instead.
func (s *Store) Recall(ctx context.Context, q journal.RecallQuery) ([]journal.Recollection, error) {
	if s.opts.ReadOnly {
		return journal.Scan(ctx, s, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := s.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	patterns, runes := make([]string, len(q.Words)), make([]int64, len(q.Words))
	for i, w := range q.Words {
		patterns[i] = "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(w) + "%"
		runes[i] = int64(utf8.RuneCountInString(w))
	}
	var hits []journal.Recollection
	err := s.reading(ctx, "recalling", func(c querier) error {
		hits = nil
		rows, err := c.Query(ctx, sqlRecall, q.Owner, q.Except, q.Words, runes, patterns, q.Limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h journal.Recollection
			var ts int64
			if err := rows.Scan(&h.SID, &h.Inc, &h.Seq, &ts, &h.Role, &h.Shown, &h.Words, &h.Runes); err != nil {
				return err
			}
			if !strings.HasPrefix(h.SID, q.Owner) {
				return journal.Fail(journal.ReasonCorrupt, nil, "the index of what can be recalled is damaged")
			}
			h.TS = time.Unix(0, ts).UTC()
			hits = append(hits, h)
		}
		return rows.Err()
	})
	return hits, err
}

// index brings the index of an owner up to date, one session after the other, a span at a
// time. Sessions come in the order of their numbers and each gets on with every span, so
// that no damage of the tables makes it go on for ever.
func (s *Store) index(ctx context.Context, owner string) error {
	for after := int64(math.MinInt64); ; {
		behind, err := s.behind(ctx, owner, after)
		if err != nil || len(behind) == 0 {
			return err
		}
		for _, after = range behind {
			if err := s.catchUp(ctx, owner, after); err != nil {
				return err
			}
		}
	}
}

// behind are the next sessions of an owner that have records which are not in the index.
func (s *Store) behind(ctx context.Context, owner string, after int64) (all []int64, err error) {
	err = s.reading(ctx, "looking for what can be recalled", func(c querier) error {
		rows, err := c.Query(ctx, sqlBehind, owner, after)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return all, err
}

// catchUp puts a session into the index.
func (s *Store) catchUp(ctx context.Context, owner string, id int64) error {
	for from, to, last := int64(0), int64(0), false; !last; from = to {
		err := s.writing(ctx, "indexing what can be recalled", func(tx pgx.Tx) (err error) {
			to, last, err = indexSession(ctx, tx, owner, id, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexSession puts the next span of a session into the index, which is from a position
// on, or further. It tells how far the session is in it, and whether that is all. The
// head is locked, so that nothing is erased between reading and writing.
func indexSession(ctx context.Context, tx pgx.Tx, owner string, id, from int64) (to int64, last bool, err error) {
	var mark, seq int64
	err = tx.QueryRow(ctx, sqlBehindOne, id, owner).Scan(&seq)
	if errors.Is(err, pgx.ErrNoRows) { // it was deleted meanwhile
		return from, true, nil
	}
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT coalesce(max(seq), 0) FROM recall_marks WHERE session = $1", id).Scan(&mark)
	}
	if err != nil {
		return from, false, err
	}
	switch {
	case mark < 0 || seq > journal.MaxSeq:
		return from, false, journal.Fail(journal.ReasonCorrupt, nil, "session %d has %d records, %d of them indexed", id, seq, mark)
	case mark < from || mark >= seq: // somebody else was quicker
		return from, true, nil
	}
	to = min(seq, mark+indexSpan)
	var there bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM records WHERE session = $1 AND seq = $2)", id, to).Scan(&there); err != nil {
		return from, false, err
	}
	if !there {
		return from, false, journal.Fail(journal.ReasonCorrupt, nil, "a session has %d records, and record %d is not there", seq, to)
	}
	if err := indexSpanOf(ctx, tx, owner, id, mark+1, to); err != nil {
		return from, false, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO recall_marks (session, seq) VALUES ($1, $2) ON CONFLICT (session) DO UPDATE SET seq = excluded.seq", id, to)
	return to, to == seq, err
}

// indexSpanOf puts what was said in some records of a session into the index.
func indexSpanOf(ctx context.Context, tx pgx.Tx, owner string, id, from, to int64) error {
	kinds := make([]string, len(journal.SaidKinds))
	for i, k := range journal.SaidKinds {
		kinds[i] = string(k)
	}
	rows, err := tx.Query(ctx, sqlSaid, id, from, to, kinds)
	if err != nil {
		return err
	}
	defer rows.Close()
	var seqs, times []int64
	var roles, shown, folded []string
	for rows.Next() {
		var at, ts int64
		var kind string
		var body []byte
		if err := rows.Scan(&at, &kind, &ts, &body); err != nil {
			return err
		}
		b, err := journal.DecodeBody(messages.Kind(kind), body)
		if err != nil {
			return journal.Fail(journal.ReasonCorrupt, err, "the body of a record that can be recalled")
		}
		if role, text, ok := journal.Said(b); ok {
			seqs, times, roles = append(seqs, at), append(times, ts), append(roles, string(role))
			shown, folded = append(shown, journal.Show(text)), append(folded, journal.Fold(text))
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(seqs) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, sqlIndex, id, owner, seqs, times, roles, shown, folded)
	return err
}

// Heard implements journal.Store, from the same index.
func (s *Store) Heard(ctx context.Context, q journal.HeardQuery) ([]journal.Heard, error) {
	if s.opts.ReadOnly {
		return journal.ScanHeard(ctx, s, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := s.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	after := int64(math.MinInt64)
	if !q.After.TS.IsZero() {
		after = q.After.TS.UnixNano()
	}
	var all []journal.Heard
	err := s.reading(ctx, "looking for messages of a user", func(c querier) error {
		all = nil
		rows, err := c.Query(ctx, sqlHeard, q.Owner, string(messages.RoleUser), after, q.After.Inc, q.After.Seq, q.Limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h journal.Heard
			var ts int64
			if err := rows.Scan(&h.SID, &h.Inc, &h.Seq, &ts); err != nil {
				return err
			}
			if !strings.HasPrefix(h.SID, q.Owner) {
				return journal.Fail(journal.ReasonCorrupt, nil, "the index of what can be recalled is damaged")
			}
			h.TS = time.Unix(0, ts).UTC()
			all = append(all, h)
		}
		return rows.Err()
	})
	return all, err
}
