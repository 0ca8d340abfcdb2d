package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// maxMetaKeyBytes bounds a meta key, which an index has to hold.
const maxMetaKeyBytes = 1024

// writing runs f in a transaction of its own, beside the commits. Each f is safe to repeat:
// after UNAVAILABLE the caller repeats it, or looks whether it was done.
func (s *Store) writing(ctx context.Context, what string, f func(sqlstore.Conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.write.Lock()
	err := s.writable()
	s.write.Unlock()
	if err != nil {
		return err
	}
	if err = s.inTransaction(ctx, f); err == nil {
		return nil
	}
	if s.life.Err() != nil {
		return errClosed()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = s.failure(err, what)
	s.write.Lock()
	s.stick(err)
	s.write.Unlock()
	return err
}

func (s *Store) inTransaction(ctx context.Context, f func(sqlstore.Conn) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	tx, err := s.pool.BeginTx(ctx, options)
	if err != nil && ctx.Err() == nil && journal.ReasonOf(s.failure(err, "")) == journal.ReasonUnavailable {
		s.pool.Reset() // the server may have restarted under idle connections
		tx, err = s.pool.BeginTx(ctx, options)
	}
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := f(conn{ctx, tx}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func register(c sqlstore.Conn, sid string, inc messages.Incarnation) error {
	if _, err := c.Exec(sqlRetire, []string{sid}); err != nil {
		return err
	}
	n := heads([]*chain{{next: journal.NewHead(sid, inc)}})
	_, err := c.Exec(sqlCreate, []messages.Incarnation{inc}, []string{sid}, n.seq, n.hash, n.epoch, n.run, n.turn, n.open, n.queued, n.closed, n.wake)
	return err
}

// PutMeta implements journal.Store. A key has at most 1024 bytes of text.
func (s *Store) PutMeta(ctx context.Context, key string, value []byte) error {
	return s.writing(ctx, "writing a value", func(c sqlstore.Conn) error {
		if len(key) > maxMetaKeyBytes || !plain(key) {
			return journal.Fail(journal.ReasonInvalid, nil, "a meta key has at most %d bytes of text", maxMetaKeyBytes)
		}
		if len(value) > MaxValueBytes {
			return journal.Fail(journal.ReasonInvalid, nil, "meta value %s of %d bytes; the limit is %d", key, len(value), int64(MaxValueBytes))
		}
		_, err := c.Exec(sqlstore.PutMeta, key, sqlstore.Present(value))
		return err
	})
}

func eraseBodies(c sqlstore.Conn, id int64, seqs []int64, digests [][]byte) (int64, error) {
	return c.Exec(`UPDATE records r SET salt = NULL, body = NULL, digest = n.digest
		FROM unnest($2::bigint[], $3::bytea[]) AS n (seq, digest)
		WHERE r.session = $1 AND r.seq = n.seq AND r.body IS NOT NULL`, id, seqs, digests)
}

func dropBlobs(c sqlstore.Conn, id int64, digests [][]byte) error {
	_, err := c.Exec("DELETE FROM blobs WHERE session = $1 AND digest = ANY($2)", id, digests)
	return err
}
