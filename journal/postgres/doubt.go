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

	// The lock is there to be written: a transaction that wrote nothing would not
	// wait for the standbys that an acknowledgement promises.
	sqlThere = `SELECT r.hash FROM heads h JOIN records r ON r.session = h.id
		WHERE h.inc = $1 AND r.seq = $2 FOR UPDATE OF h`
)

// settle finds out on a new connection whether t was committed on the old one. The
// old session may still be at it: it does not notice at once that nobody listens.
// So first its transaction has to end, and then its records are there or are not.
// The error says that neither could be told in time.
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
		// An error is one of a server that has never heard of the transaction, such as
		// a standby that took over. What it has is what counts.
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
		// It was one transaction: one session answers for all.
		return found, nil
	}
	return false, nil
}

// status is the server's word on a transaction.
func (s *Store) status(xid string) (status string, err error) {
	ctx, cancel := s.bounded()
	defer cancel()
	err = s.w.conn.QueryRow(ctx, sqlStatus, xid).Scan(&status)
	return status, err
}

// holds tells whether a record is there, as durably as any that is acknowledged.
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
