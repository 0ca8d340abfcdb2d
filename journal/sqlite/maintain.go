package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// writing runs f in a transaction of its own on the writing connection. ctx is
// looked at before and not passed down: a write is not interrupted half-way.
func (s *store) writing(ctx context.Context, what string, f func(tx *sql.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	clear(s.w.heads) // f may change what they say, and our own changes leave data_version as it is
	err := s.inTransaction(f)
	if err != nil {
		err = failure(err, what)
		s.stick(err)
	}
	return err
}

func (s *store) inTransaction(f func(tx *sql.Tx) error) error {
	tx, err := s.w.conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// sessionIn reads the row of an incarnation inside a transaction.
func sessionIn(tx *sql.Tx, inc messages.Incarnation) (session, error) {
	var ses session
	err := ses.scan(tx.QueryRow("SELECT "+headColumns+" FROM sessions WHERE inc = ?", inc[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return ses, journal.Fail(journal.ReasonNotFound, nil, "no session %s", inc)
	}
	return ses, err
}

// Create implements journal.Store.
func (s *store) Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (journal.Head, error) {
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
	var ses session
	err := s.writing(ctx, "creating a session", func(tx *sql.Tx) error {
		var id int64
		err := s.w.raw(func(driver.ConnPrepareContext) (err error) {
			id, err = s.w.register(sid, inc)
			return err
		})
		if err != nil {
			return err
		}
		if err := ses.scan(tx.QueryRow("SELECT "+headColumns+" FROM sessions WHERE sid = ? AND live = 1", sid)); err != nil {
			if id == 0 && errors.Is(err, sql.ErrNoRows) {
				return journal.Fail(journal.ReasonInvalid, nil, "session %s: incarnation %s was used before", sid, inc)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return journal.Head{}, err
	}
	return ses.head, nil
}

// PutSnapshot implements journal.Store.
func (s *store) PutSnapshot(ctx context.Context, inc messages.Incarnation, snap journal.Snapshot) error {
	return s.writing(ctx, "writing a snapshot", func(tx *sql.Tx) error {
		ses, err := sessionIn(tx, inc)
		if err != nil {
			return err
		}
		var hash []byte
		err = tx.QueryRow("SELECT hash FROM records WHERE pos = ?", position(ses.id, snap.Seq&journal.MaxSeq)).Scan(&hash)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if snap.Seq < 1 || snap.Seq > ses.head.Seq || string(hash) != string(snap.Hash[:]) {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: a snapshot of record %d, which is another or not there", ses.head.SID, snap.Seq)
		}
		return s.w.raw(func(driver.ConnPrepareContext) error { return s.w.putSnapshot(&ses, &snap) })
	})
}

// DropSnapshot implements journal.Store.
func (s *store) DropSnapshot(ctx context.Context, inc messages.Incarnation) error {
	return s.writing(ctx, "dropping a snapshot", func(tx *sql.Tx) error {
		ses, err := sessionIn(tx, inc)
		if err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM snapshots WHERE session = ?", ses.id)
		return err
	})
}

// PutMeta implements journal.Store.
func (s *store) PutMeta(ctx context.Context, key string, value []byte) error {
	return s.writing(ctx, "writing a value", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, present(value))
		return err
	})
}

// Delete implements journal.Store.
func (s *store) Delete(ctx context.Context, inc messages.Incarnation) error {
	defer s.Erased()
	err := s.writing(ctx, "deleting a session", func(tx *sql.Tx) error {
		ses, err := sessionIn(tx, inc)
		if err != nil {
			return err
		}
		if err := unindex(tx, ses.id, 0, journal.MaxSeq); err != nil {
			return err
		}
		for _, step := range []struct {
			sql  string
			args []any
		}{
			{"DELETE FROM records WHERE pos BETWEEN ? AND ?", []any{position(ses.id, 0), position(ses.id, journal.MaxSeq)}},
			{"DELETE FROM blobs WHERE session = ?", []any{ses.id}},
			{"DELETE FROM snapshots WHERE session = ?", []any{ses.id}},
			{"DELETE FROM recall_marks WHERE session = ?", []any{ses.id}},
			{"DELETE FROM sessions WHERE id = ?", []any{ses.id}},
		} {
			if _, err := tx.Exec(step.sql, step.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.settle()
	}
	return err
}

// Erase implements journal.Store. Freed space is overwritten (secure_delete), and
// the log is emptied as far as readers let it.
func (s *store) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	defer s.Erased()
	var n int64
	err := s.writing(ctx, "erasing bodies", func(tx *sql.Tx) error {
		ses, err := sessionIn(tx, inc)
		if err != nil {
			return err
		}
		from = max(from, 1)
		if to <= 0 || to > ses.head.Seq {
			to = ses.head.Seq
		}
		e := eraser{tx: tx, ses: &ses, drop: make(map[messages.Digest]bool)}
		if n, err = e.bodies(from, to); err != nil {
			return err
		}
		if err := unindex(tx, ses.id, from, to); err != nil {
			return err
		}
		if from == 1 && to == ses.head.Seq {
			_, err = tx.Exec("DELETE FROM blobs WHERE session = ?", ses.id)
		} else {
			err = e.blobs()
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM snapshots WHERE session = ?", ses.id)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.settle()
	return n, nil
}

type eraser struct {
	tx   *sql.Tx
	ses  *session
	drop map[messages.Digest]bool // blobs that erased bodies name
}

type erased struct {
	pos    int64
	digest [32]byte
}

// bodies replaces salt and body by their digest, page by page.
func (e *eraser) bodies(from, to int64) (int64, error) {
	var n int64
	for next := position(e.ses.id, from); ; {
		page, err := e.page(next, position(e.ses.id, to))
		if err != nil || len(page) == 0 {
			return n, err
		}
		for i := range page {
			_, err := e.tx.Exec("UPDATE records SET salt = NULL, body = NULL, digest = ? WHERE pos = ?", page[i].digest[:], page[i].pos)
			if err != nil {
				return n, err
			}
			n++
		}
		next = page[len(page)-1].pos + 1
	}
}

func (e *eraser) page(from, to int64) ([]erased, error) {
	rows, err := e.tx.Query(`SELECT pos, type, salt, body FROM records
		WHERE pos BETWEEN ? AND ? AND body IS NOT NULL ORDER BY pos LIMIT ?`, from, to, pageRecords)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []erased
	for rows.Next() {
		var one erased
		var kind string
		var salt, body []byte
		if err := rows.Scan(&one.pos, &kind, &salt, &body); err != nil {
			return nil, err
		}
		one.digest = sha256.Sum256(append(salt, body...))
		// A body that cannot be read is erased all the same; its blobs stay.
		if b, err := journal.DecodeBody(messages.Kind(kind), body); err == nil {
			for _, d := range journal.Blobs(b) {
				e.drop[d] = true
			}
		}
		page = append(page, one)
	}
	return page, rows.Err()
}

// blobs removes those that only erased bodies named.
func (e *eraser) blobs() error {
	if len(e.drop) == 0 {
		return nil
	}
	rows, err := e.tx.Query(`SELECT type, body FROM records
		WHERE pos BETWEEN ? AND ? AND body IS NOT NULL AND type IN (?, ?, ?)`,
		position(e.ses.id, 0), position(e.ses.id, journal.MaxSeq), string(messages.KindModelReply), string(messages.KindTurnDecided), string(messages.KindFeedInjected))
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
			return journal.Fail(journal.ReasonCorrupt, err, "session %s: a body that names blobs", e.ses.head.SID)
		}
		for _, d := range journal.Blobs(b) {
			delete(e.drop, d)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for d := range e.drop {
		if _, err := e.tx.Exec("DELETE FROM blobs WHERE session = ? AND digest = ?", e.ses.id, d[:]); err != nil {
			return err
		}
	}
	return nil
}
