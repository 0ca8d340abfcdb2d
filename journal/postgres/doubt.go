package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

const (
	sqlStatus = "SELECT coalesce(pg_xact_status($1::text::xid8), '')"

	// FOR UPDATE makes the transaction write: one that wrote nothing would not wait for
	// the standbys that an acknowledgement promises.
	sqlThere = `SELECT r.hash FROM heads h JOIN records r ON r.session = h.id
		WHERE h.inc = $1 AND r.seq = $2 FOR UPDATE OF h`
)

// settle finds out on a new connection whether t was committed on the old one. The server
// may still work on it, because it does not notice at once that the client is gone. So
// settle waits until the transaction ends, and then looks for its records. The error means
// that the outcome could not be found out in time.
func (s *Store) settle(t *transaction, deadline time.Time) (there bool, err error) {
	for {
		status, err := s.status(t.xid)
		switch {
		case err == nil && status == "in progress":
			if time.Now().After(deadline) || !s.pause(firstPause) {
				return false, journal.Fail(journal.ReasonUnavailable, nil,
					"the connection broke in a commit that the server has not ended yet; the head will tell what became of it")
			}
			continue
		case err != nil && s.w.lost(err):
			s.disconnect()
			if err := s.await(deadline); err != nil {
				return false, journal.Fail(journal.ReasonUnavailable, err,
					"the connection broke in a commit; the head will tell what became of it")
			}
			continue
		}
		// The error comes from a server that does not know the transaction, such as a
		// standby that took over. The records that it has count.
		break
	}
	for _, c := range t.group {
		if !c.won {
			continue
		}
		found, err := s.holds(c.inc, c.last())
		if err != nil {
			if s.w.lost(err) || !s.rollback() {
				s.disconnect()
			}
			return false, journal.Fail(journal.ReasonUnavailable, s.target.quiet(err),
				"the connection broke in a commit; the head will tell what became of it")
		}
		// All sessions were in one transaction: one of them answers for all.
		return found, nil
	}
	return false, nil
}

// status returns what the server knows of a transaction: pg_xact_status.
func (s *Store) status(xid string) (status string, err error) {
	ctx, cancel := s.bounded()
	defer cancel()
	err = s.w.conn.QueryRow(ctx, sqlStatus, xid).Scan(&status)
	return status, err
}

// holds reports whether the journal has a record, as durably as every acknowledged one.
func (s *Store) holds(inc messages.Incarnation, r *messages.Record) (bool, error) {
	ctx, cancel := s.bounded()
	defer cancel()
	found := false
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	b.Queue(sqlThere, inc, r.Seq).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var hash []byte
			if err := rows.Scan(&hash); err != nil {
				return err
			}
			found = string(hash) == string(r.Hash[:])
		}
		return rows.Err()
	})
	var done pgconn.CommandTag
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		done = tag
		return nil
	})
	s.w.local = false
	if err := s.w.conn.SendBatch(ctx, b).Close(); err != nil {
		return false, err
	}
	if done.String() != "COMMIT" || s.w.local {
		return false, errors.New("the server could not say it for good")
	}
	return found, nil
}
