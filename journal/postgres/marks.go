package postgres

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// mark is a record that the server has acknowledged.
type mark struct {
	inc  messages.Incarnation
	seq  int64
	hash messages.Digest
}

// told is what the server has acknowledged: the latest of some sessions, the newest last. A server
// that takes the place of another one and has all of them has all that was acknowledged to this
// host: commits are in one order. It is safe for concurrent use.
type told struct {
	mu      sync.Mutex
	marks   []mark
	missing error // what the next commit answers
}

// maxMarks is more than one, because a session may be deleted.
const maxMarks = 8

func (t *told) note(m mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks = append(slices.DeleteFunc(t.marks, func(old mark) bool { return old.inc == m.inc }), m)
	if n := len(t.marks); n > maxMarks {
		t.marks = slices.Delete(t.marks, 0, n-maxMarks)
	}
}

// gap says once what is missing.
func (t *told) gap() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err, t.missing = t.missing, nil
	return err
}

const sqlMark = "SELECT h.seq, r.hash FROM heads h LEFT JOIN records r ON r.session = h.id AND r.seq = $2 WHERE h.inc = $1"

// querier is a connection, or a pool of them.
type querier interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// compare looks whether what was acknowledged is there. What is missing is the answer to the next
// commit, and reported here.
func (s *Store) compare(ctx context.Context, c querier) (missing, err error) {
	s.told.mu.Lock()
	all := slices.Clone(s.told.marks)
	s.told.mu.Unlock()
	if len(all) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	for _, m := range all {
		b.Queue(sqlMark, m.inc, m.seq).Query(func(rows pgx.Rows) error {
			for rows.Next() { // a session that was deleted has no row
				var seq int64
				var hash []byte
				if err := rows.Scan(&seq, &hash); err != nil {
					return err
				}
				switch {
				case seq < m.seq:
					missing = journal.Fail(journal.ReasonLost, nil, "the database has lost what it had acknowledged: session %s was at record %d, and is at %d; other sessions may have lost records too", m.inc, m.seq, seq)
				case hash != nil && !bytes.Equal(hash, m.hash[:]):
					missing = journal.Fail(journal.ReasonLost, nil, "the database has lost what it had acknowledged: record %d of session %s is another one; other sessions may have lost records too", m.seq, m.inc)
				}
			}
			return rows.Err()
		})
	}
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if missing != nil {
		s.told.mu.Lock()
		defer s.told.mu.Unlock()
		s.told.missing, s.told.marks = missing, nil
	}
	return missing, nil
}
