package postgres

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// maxMetaKeyBytes bounds a meta key, which an index has to hold.
const maxMetaKeyBytes = 1024

// writing runs f in a transaction of its own, beside the commits. Everything done
// so may be done again: after UNAVAILABLE the caller does, or looks.
func (s *Store) writing(ctx context.Context, what string, f func(tx pgx.Tx) error) error {
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

func (s *Store) inTransaction(ctx context.Context, f func(tx pgx.Tx) error) error {
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
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

const locked = " FOR UPDATE"

// Create implements journal.Store.
func (s *Store) Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (journal.Head, error) {
	if err := key.Validate(); err != nil {
		return journal.Head{}, err
	}
	sid := key.SID()
	if inc == (messages.Incarnation{}) {
		return journal.Head{}, journal.Fail(journal.ReasonInvalid, nil, "session %s: no incarnation", sid)
	}
	if h, err := s.Head(ctx, sid); err == nil && !h.Closed { // the usual case costs no commit
		return h, nil
	} else if err != nil && !journal.IsNotFound(err) {
		return journal.Head{}, err
	}
	var r row
	err := s.writing(ctx, "creating a session", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRetire, []string{sid}); err != nil {
			return err
		}
		h := journal.NewHead(sid, inc)
		n := heads([]*chain{{next: h}})
		rows, err := tx.Query(ctx, sqlCreate, []messages.Incarnation{inc}, []string{sid}, n.seq, n.hash, n.epoch, n.run, n.turn, n.open, n.queued, n.closed, n.wake)
		if err != nil {
			return err
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		err = r.scan(tx.QueryRow(ctx, sqlHead, sid))
		if errors.Is(err, pgx.ErrNoRows) {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: incarnation %s was used before", sid, inc)
		}
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return r.head, nil
}

// PutSnapshot implements journal.Store.
func (s *Store) PutSnapshot(ctx context.Context, inc messages.Incarnation, snap journal.Snapshot) error {
	return s.writing(ctx, "writing a snapshot", func(tx pgx.Tx) error {
		r, err := session(ctx, tx, inc, locked)
		if err != nil {
			return err
		}
		if len(snap.State) > MaxValueBytes {
			return tooLarge(r.head.SID, "a snapshot", len(snap.State))
		}
		var hash []byte
		err = tx.QueryRow(ctx, sqlHash, r.id, snap.Seq).Scan(&hash)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if snap.Seq < 1 || snap.Seq > r.head.Seq || string(hash) != string(snap.Hash[:]) {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: a snapshot of record %d, which is another or not there", r.head.SID, snap.Seq)
		}
		sum := snapshotSum(inc, &snap)
		_, err = tx.Exec(ctx, sqlSnapshot, r.id, snap.Seq, snap.Hash[:], snap.Format, present(snap.State), sum[:])
		return err
	})
}

// DropSnapshot implements journal.Store.
func (s *Store) DropSnapshot(ctx context.Context, inc messages.Incarnation) error {
	return s.writing(ctx, "dropping a snapshot", func(tx pgx.Tx) error {
		r, err := session(ctx, tx, inc, "")
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM snapshots WHERE session = $1", r.id)
		return err
	})
}

// PutMeta implements journal.Store. A key has at most 1024 bytes of text.
func (s *Store) PutMeta(ctx context.Context, key string, value []byte) error {
	return s.writing(ctx, "writing a value", func(tx pgx.Tx) error {
		if len(key) > maxMetaKeyBytes || !plain(key) {
			return journal.Fail(journal.ReasonInvalid, nil, "a meta key has at most %d bytes of text", maxMetaKeyBytes)
		}
		if len(value) > MaxValueBytes {
			return journal.Fail(journal.ReasonInvalid, nil, "meta value %s of %d bytes; the limit is %d", key, len(value), int64(MaxValueBytes))
		}
		_, err := tx.Exec(ctx, "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, present(value))
		return err
	})
}

// Delete implements journal.Store.
func (s *Store) Delete(ctx context.Context, inc messages.Incarnation) error {
	defer s.Erased()
	return s.writing(ctx, "deleting a session", func(tx pgx.Tx) error {
		r, err := session(ctx, tx, inc, locked)
		if err != nil {
			return err
		}
		for _, sql := range []string{
			"DELETE FROM records WHERE session = $1",
			"DELETE FROM blobs WHERE session = $1",
			"DELETE FROM snapshots WHERE session = $1",
			"DELETE FROM recall WHERE session = $1",
			"DELETE FROM recall_marks WHERE session = $1",
			"DELETE FROM heads WHERE id = $1",
		} {
			if _, err := tx.Exec(ctx, sql, r.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Erase implements journal.Store. Nobody can read the erased bytes any more; on
// the server's disk they stay until VACUUM has used their place again.
func (s *Store) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	defer s.Erased()
	var n int64
	err := s.writing(ctx, "erasing bodies", func(tx pgx.Tx) error {
		r, err := session(ctx, tx, inc, "")
		if err != nil {
			return err
		}
		first, last := max(from, 1), to
		if last <= 0 || last > r.head.Seq {
			last = r.head.Seq
		}
		e := eraser{ctx: ctx, tx: tx, id: r.id, drop: make(map[messages.Digest]bool)}
		if n, err = e.bodies(first, last); err != nil {
			return err
		}
		// From here on nothing may be appended: it could name a blob that is about to go.
		if r, err = session(ctx, tx, inc, locked); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM recall WHERE session = $1 AND seq BETWEEN $2 AND $3", r.id, first, last); err != nil {
			return err
		}
		if first == 1 && last == r.head.Seq {
			_, err = tx.Exec(ctx, "DELETE FROM blobs WHERE session = $1", r.id)
		} else {
			err = e.blobs(r.head.SID)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM snapshots WHERE session = $1", r.id)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

type eraser struct {
	ctx  context.Context // of the one call it serves
	tx   pgx.Tx
	id   int64
	drop map[messages.Digest]bool // blobs that erased bodies name
}

// bodies replaces salt and body by their digest, page by page.
func (e *eraser) bodies(from, to int64) (int64, error) {
	var n int64
	for {
		seqs, digests, err := e.page(from, to)
		if err != nil || len(seqs) == 0 {
			return n, err
		}
		tag, err := e.tx.Exec(e.ctx, `UPDATE records r SET salt = NULL, body = NULL, digest = n.digest
			FROM unnest($2::bigint[], $3::bytea[]) AS n (seq, digest)
			WHERE r.session = $1 AND r.seq = n.seq AND r.body IS NOT NULL`, e.id, seqs, digests)
		if err != nil {
			return n, err
		}
		n += tag.RowsAffected()
		from = seqs[len(seqs)-1] + 1
	}
}

func (e *eraser) page(from, to int64) (seqs []int64, digests [][]byte, err error) {
	rows, err := e.tx.Query(e.ctx, `SELECT seq, type, salt, body FROM records
		WHERE session = $1 AND seq BETWEEN $2 AND $3 AND body IS NOT NULL ORDER BY seq LIMIT $4`, e.id, from, to, pageRecords)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var kind string
		var salt, body []byte
		if err := rows.Scan(&seq, &kind, &salt, &body); err != nil {
			return nil, nil, err
		}
		digest := sha256.Sum256(append(salt, body...))
		seqs, digests = append(seqs, seq), append(digests, digest[:])
		// A body that cannot be read is erased all the same; its blobs stay.
		if b, err := journal.DecodeBody(messages.Kind(kind), body); err == nil {
			for _, d := range journal.Blobs(b) {
				e.drop[d] = true
			}
		}
	}
	return seqs, digests, rows.Err()
}

// blobs removes those that only erased bodies named.
func (e *eraser) blobs(sid string) error {
	if len(e.drop) == 0 {
		return nil
	}
	if err := e.keep(sid); err != nil {
		return err
	}
	var gone [][]byte
	for d := range e.drop {
		gone = append(gone, append([]byte(nil), d[:]...))
	}
	_, err := e.tx.Exec(e.ctx, "DELETE FROM blobs WHERE session = $1 AND digest = ANY($2)", e.id, gone)
	return err
}

// keep takes from drop what a body that stays names.
func (e *eraser) keep(sid string) error {
	rows, err := e.tx.Query(e.ctx, `SELECT type, body FROM records
		WHERE session = $1 AND body IS NOT NULL AND type = ANY($2)`, e.id,
		[]string{string(messages.KindModelReply), string(messages.KindTurnDecided), string(messages.KindFeedInjected)})
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		var body []byte
		if err := rows.Scan(&kind, &body); err != nil {
			return err
		}
		b, err := journal.DecodeBody(messages.Kind(kind), body)
		if err != nil {
			return journal.Fail(journal.ReasonCorrupt, err, "session %s: a body that names blobs", sid)
		}
		for _, d := range journal.Blobs(b) {
			delete(e.drop, d)
		}
	}
	return rows.Err()
}
