package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

const (
	// indexSpan is how many positions one transaction puts into the index of recalls:
	// commits wait for it.
	indexSpan = 2048
	// scanTexts is how many texts of a user are looked through one by one; of more, those
	// with the words' letters are found first.
	scanTexts = 2000
	trigram   = 3 // runes that the index of texts goes by
)

// Recall implements journal.Store. It first puts what is new of the owner's sessions
// into the index; a journal that is open for reading is scanned instead.
func (s *store) Recall(ctx context.Context, q journal.RecallQuery) ([]journal.Recollection, error) {
	if s.opts.ReadOnly {
		return journal.Scan(ctx, s, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := s.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	var hits []journal.Recollection
	err := s.reading(ctx, func(r *readers) (err error) {
		hits, err = r.recall(&q)
		return err
	})
	return hits, err
}

// index brings the index of an owner up to date, one session after the other, a span at a
// time. Sessions come in the order of their numbers and each gets on with every span, so
// that no damage of the file makes it go on for ever.
func (s *store) index(ctx context.Context, owner string) error {
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
func (s *store) behind(ctx context.Context, owner string, after int64) (all []int64, err error) {
	err = s.reading(ctx, func(r *readers) error {
		rows, err := r.db.Query(`SELECT s.id FROM sessions s LEFT JOIN recall_marks m ON m.session = s.id
			WHERE s.sid >= ?1 AND s.sid < ?1 || char(1114111) AND s.seq > coalesce(m.seq, 0) AND s.id > ?2 ORDER BY s.id LIMIT 256`, owner, after)
		if err != nil {
			return readFailure(err, "looking for what can be recalled")
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return readFailure(err, "looking for what can be recalled")
			}
			all = append(all, id)
		}
		if err := rows.Err(); err != nil {
			return readFailure(err, "looking for what can be recalled")
		}
		return nil
	})
	return all, err
}

// catchUp puts a session into the index.
func (s *store) catchUp(ctx context.Context, owner string, id int64) error {
	for from, to, last := int64(0), int64(0), false; !last; from = to {
		err := s.writing(ctx, "indexing what can be recalled", func(tx *sql.Tx) (err error) {
			to, last, err = indexSession(tx, owner, id, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// indexSession puts the next span of a session into the index, which is from a position
// on, or further. It tells how far the session is in it, and whether that is all.
func indexSession(tx *sql.Tx, owner string, id, from int64) (to int64, last bool, err error) {
	var mark, seq int64
	err = tx.QueryRow(`SELECT coalesce(m.seq, 0), s.seq FROM sessions s LEFT JOIN recall_marks m ON m.session = s.id
		WHERE s.id = ? AND s.sid >= ?2 AND s.sid < ?2 || char(1114111)`, id, owner).Scan(&mark, &seq)
	if errors.Is(err, sql.ErrNoRows) { // it was deleted meanwhile, and its number may be another's
		return from, true, nil
	}
	if err != nil {
		return from, false, err
	}
	switch {
	case mark < 0 || seq > journal.MaxSeq:
		return from, false, journal.Fail(journal.ReasonCorrupt, nil, "session %d has %d records, %d of them indexed", id, seq, mark)
	case mark < from || mark >= seq: // it is another's, or somebody else was quicker
		return from, true, nil
	}
	to = min(seq, mark+indexSpan)
	var there bool
	if err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM records WHERE pos = ?)", position(id, to)).Scan(&there); err != nil {
		return from, false, err
	}
	if !there {
		return from, false, journal.Fail(journal.ReasonCorrupt, nil, "a session has %d records, and record %d is not there", seq, to)
	}
	if err := indexSpanOf(tx, owner, id, mark+1, to); err != nil {
		return from, false, err
	}
	_, err = tx.Exec("INSERT INTO recall_marks (session, seq) VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET seq = excluded.seq", id, to)
	return to, to == seq, err
}

// indexSpanOf puts what was said in some records of a session into the index.
func indexSpanOf(tx *sql.Tx, owner string, id, from, to int64) error {
	rows, err := tx.Query(`SELECT pos, type, ts, body FROM records WHERE pos BETWEEN ? AND ? AND type IN (?, ?, ?) AND body IS NOT NULL ORDER BY pos`,
		position(id, from), position(id, to), string(journal.SaidKinds[0]), string(journal.SaidKinds[1]), string(journal.SaidKinds[2]))
	if err != nil {
		return err
	}
	defer rows.Close()
	type text struct {
		pos, ts int64
		role    messages.Role
		text    string
	}
	var all []text
	for rows.Next() {
		var t text
		var kind string
		var body []byte
		if err := rows.Scan(&t.pos, &kind, &t.ts, &body); err != nil {
			return err
		}
		b, err := journal.DecodeBody(messages.Kind(kind), body)
		if err != nil {
			return journal.Fail(journal.ReasonCorrupt, err, "the body of a record that can be recalled")
		}
		var ok bool
		if t.role, t.text, ok = journal.Said(b); ok {
			all = append(all, t)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	for _, t := range all {
		_, err := tx.Exec("INSERT OR IGNORE INTO recall (id, owner, ts, role, shown, folded) VALUES (?, ?, ?, ?, ?, ?)",
			t.pos, owner, t.ts, string(t.role), journal.Show(t.text), journal.Fold(t.text))
		if err != nil {
			return err
		}
	}
	return nil
}

// unindex takes records of a session out of the index, inside the transaction that
// erases them.
func unindex(tx *sql.Tx, id, from, to int64) error {
	_, err := tx.Exec("DELETE FROM recall WHERE id BETWEEN ? AND ?", position(id, from), position(id, to))
	return err
}

// recall asks the index.
func (r *readers) recall(q *journal.RecallQuery) ([]journal.Recollection, error) {
	var many int64
	if err := r.db.QueryRow("SELECT count(*) FROM (SELECT 1 FROM recall WHERE owner = ? LIMIT ?)", q.Owner, scanTexts+1).Scan(&many); err != nil {
		return nil, readFailure(err, "recalling")
	}
	var words, runes, where strings.Builder
	args := []any{q.Owner, q.Except[:], q.Limit}
	for i, w := range q.Words {
		if i > 0 {
			words.WriteString(" + ")
			runes.WriteString(" + ")
		}
		args = append(args, w)
		found := fmt.Sprintf("(instr(c.folded, ?%d) > 0)", len(args))
		words.WriteString(found)
		fmt.Fprintf(&runes, "%d * %s", utf8.RuneCountInString(w), found)
	}
	if match, ok := matching(q.Words); ok && many > scanTexts {
		args = append(args, match)
		fmt.Fprintf(&where, " AND c.id IN (SELECT rowid FROM recall_text WHERE recall_text MATCH ?%d)", len(args))
	}
	rows, err := r.db.Query(`SELECT * FROM (
		SELECT s.sid, s.inc, c.id & 4294967295 AS seq, c.ts, c.role, c.shown, `+words.String()+` AS words, `+runes.String()+` AS runes
		FROM recall c JOIN sessions s ON s.id = c.id >> 32 WHERE c.owner = ?1 AND s.inc <> ?2`+where.String()+`)
		WHERE words > 0 ORDER BY words DESC, runes DESC, ts DESC, inc DESC, seq DESC LIMIT ?3`, args...)
	if err != nil {
		return nil, readFailure(err, "recalling")
	}
	defer rows.Close()
	var hits []journal.Recollection
	for rows.Next() {
		var h journal.Recollection
		var inc []byte
		var ts int64
		if err := rows.Scan(&h.SID, &inc, &h.Seq, &ts, &h.Role, &h.Shown, &h.Words, &h.Runes); err != nil {
			return nil, readFailure(err, "recalling")
		}
		if len(inc) != len(h.Inc) || !strings.HasPrefix(h.SID, q.Owner) {
			return nil, journal.Fail(journal.ReasonCorrupt, nil, "the index of what can be recalled is damaged")
		}
		copy(h.Inc[:], inc)
		h.TS = time.Unix(0, ts).UTC()
		hits = append(hits, h)
	}
	if err := rows.Err(); err != nil {
		return nil, readFailure(err, "recalling")
	}
	return hits, nil
}

// matching is the full-text query for texts that have all the letters of one of the
// words, three in a row at a time: more than those that hold it. ok is false when a word
// is too short for that.
func matching(words []string) (match string, ok bool) {
	var b strings.Builder
	for i, w := range words {
		letters := []rune(w)
		if len(letters) < trigram {
			return "", false
		}
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteByte('(')
		for j := 0; j+trigram <= len(letters); j++ {
			if j > 0 {
				b.WriteString(" AND ")
			}
			b.WriteString(`"` + strings.ReplaceAll(string(letters[j:j+trigram]), `"`, `""`) + `"`)
		}
		b.WriteByte(')')
	}
	return b.String(), true
}

// Heard implements journal.Store, from the same index.
func (s *store) Heard(ctx context.Context, q journal.HeardQuery) ([]journal.Heard, error) {
	if s.opts.ReadOnly {
		return journal.ScanHeard(ctx, s, q)
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := s.index(ctx, q.Owner); err != nil {
		return nil, err
	}
	var all []journal.Heard
	err := s.reading(ctx, func(r *readers) error {
		rows, err := r.db.Query(`SELECT s.sid, s.inc, c.id & 4294967295 AS seq, c.ts FROM recall c JOIN sessions s ON s.id = c.id >> 32
			WHERE c.owner = ?1 AND c.role = ?2 AND (c.ts, s.inc, c.id & 4294967295) > (?3, ?4, ?5)
			ORDER BY c.ts, s.inc, seq LIMIT ?6`, q.Owner, string(messages.RoleUser), nanos(q.After.TS), q.After.Inc[:], q.After.Seq, q.Limit)
		if err != nil {
			return readFailure(err, "looking for messages of a user")
		}
		defer rows.Close()
		for rows.Next() {
			var h journal.Heard
			var inc []byte
			var ts int64
			if err := rows.Scan(&h.SID, &inc, &h.Seq, &ts); err != nil {
				return readFailure(err, "looking for messages of a user")
			}
			if len(inc) != len(h.Inc) || !strings.HasPrefix(h.SID, q.Owner) {
				return journal.Fail(journal.ReasonCorrupt, nil, "the index of what can be recalled is damaged")
			}
			copy(h.Inc[:], inc)
			h.TS = time.Unix(0, ts).UTC()
			all = append(all, h)
		}
		if err := rows.Err(); err != nil {
			return readFailure(err, "looking for messages of a user")
		}
		return nil
	})
	return all, err
}

// nanos is a time as the index has it; the zero one is before all.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}
