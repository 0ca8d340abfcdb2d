package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"iter"

	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// writing runs f in a transaction of its own on the writing connection. ctx is checked
// before and not passed to SQLite, so that a write is not interrupted half-way.
func (s *store) writing(ctx context.Context, what string, f func(sqlstore.Conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	clear(s.w.heads) // f may change the rows, and our own changes leave data_version as it is
	err := s.inTransaction(f)
	if err == nil {
		err = s.stands(false)
	}
	if err != nil {
		err = failure(err, what)
		s.stick(err)
	}
	return err
}

func (s *store) inTransaction(f func(sqlstore.Conn) error) error {
	tx, err := s.w.conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := f(transaction{tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// transaction implements sqlstore.Conn.
type transaction struct{ *sql.Tx }

func (t transaction) Row(stmt string, args ...any) sqlstore.Row { return t.QueryRow(stmt, args...) }

func (t transaction) Rows(stmt string, args ...any) iter.Seq2[sqlstore.Row, error] {
	return found(t.Query(stmt, args...))
}

func (t transaction) Exec(stmt string, args ...any) (int64, error) {
	return changed(t.Tx.Exec(stmt, args...))
}

func (s *store) register(_ sqlstore.Conn, sid string, inc messages.Incarnation) error {
	return s.w.raw(func(driver.ConnPrepareContext) error {
		_, err := s.w.register(sid, inc)
		return err
	})
}

// PutMeta implements journal.Store.
func (s *store) PutMeta(ctx context.Context, key string, value []byte) error {
	return s.writing(ctx, "writing a value", func(c sqlstore.Conn) error {
		_, err := c.Exec(sqlstore.PutMeta, key, sqlstore.Present(value))
		return err
	})
}

// Delete implements journal.Store.
func (s *store) Delete(ctx context.Context, inc messages.Incarnation) error {
	err := s.tables.Delete(ctx, inc)
	if err == nil {
		s.settle()
	}
	return err
}

// Erase implements journal.Store. Freed space is overwritten (secure_delete), and
// the log is emptied as far as readers let it.
func (s *store) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	n, err := s.tables.Erase(ctx, inc, from, to)
	if err == nil {
		s.settle()
	}
	return n, err
}

func eraseBodies(c sqlstore.Conn, id int64, seqs []int64, digests [][]byte) (int64, error) {
	for i, seq := range seqs {
		if _, err := c.Exec("UPDATE records SET salt = NULL, body = NULL, digest = $1 WHERE pos = $2", digests[i], position(id, seq)); err != nil {
			return 0, err
		}
	}
	return int64(len(seqs)), nil
}

func dropBlobs(c sqlstore.Conn, id int64, digests [][]byte) error {
	for _, d := range digests {
		if _, err := c.Exec("DELETE FROM blobs WHERE session = $1 AND digest = $2", id, d); err != nil {
			return err
		}
	}
	return nil
}
