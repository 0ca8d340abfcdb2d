package postgres

import (
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

const (
	sqlIndex = `INSERT INTO recall (session, seq, owner, ts, role, shown, folded)
		SELECT $1, n.seq, $2, n.ts, n.role, n.shown, n.folded
		FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[]) AS n (seq, ts, role, shown, folded) ON CONFLICT DO NOTHING`
	// The pattern lets PostgreSQL use an index by trigrams, if the operator made one; the
	// count of words then decides.
	sqlRecall = `SELECT sid, inc, seq, ts, role, shown, words, runes FROM (
		SELECT h.sid, h.inc, c.seq, c.ts, c.role, c.shown,
			(SELECT count(*) FROM unnest($3::text[]) AS w (word) WHERE position(w.word IN c.folded) > 0) AS words,
			(SELECT coalesce(sum(w.n), 0)::bigint FROM unnest($3::text[], $4::bigint[]) AS w (word, n) WHERE position(w.word IN c.folded) > 0) AS runes
		FROM recall c JOIN heads h ON h.id = c.session
		WHERE c.owner = $1 AND h.inc <> $2 AND c.folded LIKE ANY($5::text[])) hits
		WHERE words > 0 ORDER BY words DESC, runes DESC, ts DESC, inc DESC, seq DESC LIMIT $6`
)

func recall(_ sqlstore.Conn, q *journal.RecallQuery) (string, []any, error) {
	patterns, runes := make([]string, len(q.Words)), make([]int64, len(q.Words))
	for i, w := range q.Words {
		patterns[i] = "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(w) + "%"
		runes[i] = int64(utf8.RuneCountInString(w))
	}
	return sqlRecall, []any{q.Owner, q.Except[:], q.Words, runes, patterns, q.Limit}, nil
}

func index(c sqlstore.Conn, id int64, owner string, t *sqlstore.Texts) error {
	_, err := c.Exec(sqlIndex, id, owner, t.Seqs, t.Times, t.Roles, t.Shown, t.Folded)
	return err
}
