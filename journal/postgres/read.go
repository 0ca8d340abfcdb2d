package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A Read fetches so much at once; between two fetches nothing is held.
const (
	pageRecords = 256
	pageBytes   = 1 << 20
)

const (
	sqlHead   = "SELECT " + headColumns + " FROM heads WHERE sid = $1 AND live"
	sqlHeadOf = "SELECT " + headColumns + " FROM heads WHERE inc = $1"
	sqlHash   = "SELECT hash FROM records WHERE session = $1 AND seq = $2"
	// The page is measured before it is fetched: what lies behind pageBytes does not
	// travel. It is measured by itself, because joined with the rows the planner of a
	// young table compares each with each.
	sqlPage = `SELECT seq, epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig FROM records
		WHERE session = $1 AND seq BETWEEN $2 AND (
			SELECT max(seq) FROM (
				SELECT seq, sum(n) OVER (ORDER BY seq) - n AS before FROM (
					SELECT seq, coalesce(octet_length(body), 0) + 256 AS n FROM records
					WHERE session = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq LIMIT $4) sizes) sums
			WHERE before < $5)
		ORDER BY seq`
	sqlBlob     = "SELECT data FROM blobs WHERE session = $1 AND digest = $2"
	sqlSnapped  = "SELECT seq, hash, format, state, sum FROM snapshots WHERE session = $1"
	sqlMeta     = "SELECT value FROM meta WHERE key = $1"
	sqlSessions = "SELECT " + headColumns + ` FROM heads
		WHERE sid >= $1 AND sid < $1 || chr(1114111) AND (sid, inc) > ($2, $3)`
	sqlPending = " AND wake = 0 AND (open OR queued > 0)"
	sqlLive    = " AND live"
	sqlOrdered = " ORDER BY sid, inc LIMIT $4"
	// A page does not end between sessions of one time.
	sqlWakes = "SELECT " + headColumns + ` FROM heads WHERE wake > 0 AND wake > $1 AND live AND wake <= coalesce(
		(SELECT wake FROM heads WHERE wake > 0 AND wake > $1 AND live ORDER BY wake LIMIT 1 OFFSET $2 - 1), 9223372036854775807)
		ORDER BY wake, sid, inc`
)

// querier is a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// reading runs f, which only reads, on a connection of the pool; once more on a new
// one when the first was found dead, as all are after a restart of the server.
func (s *Store) reading(ctx context.Context, what string, f func(q querier) error) error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.life.Err() != nil {
			return errClosed()
		}
		err := f(s.pool)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.life.Err() != nil:
			return errClosed()
		}
		err = s.readFailure(err, what)
		if journal.ReasonOf(err) != journal.ReasonUnavailable || try == 2 {
			return err
		}
		s.pool.Reset()
	}
}

// scan reads one row of headColumns.
func (r *row) scan(from pgx.Row) error {
	h := &r.head
	var hash []byte
	err := from.Scan(&r.id, &h.SID, &h.Inc, &h.Live, &h.Seq, &hash, &h.Epoch, &h.Run, &h.Turn, &h.Open, &h.Queued, &h.Closed, &h.Wake)
	if err != nil {
		return err
	}
	if len(hash) != len(h.Hash) || r.id <= 0 || h.Seq < 0 || h.Seq > journal.MaxSeq {
		return journal.Fail(journal.ReasonCorrupt, nil, "the row of session %s is damaged", h.SID)
	}
	copy(h.Hash[:], hash)
	return nil
}

// session reads the row of an incarnation; suffix may lock it.
func session(ctx context.Context, q querier, inc messages.Incarnation, suffix string) (row, error) {
	var r row
	err := r.scan(q.QueryRow(ctx, sqlHeadOf+suffix, inc))
	if errors.Is(err, pgx.ErrNoRows) {
		return r, journal.Fail(journal.ReasonNotFound, nil, "no session %s", inc)
	}
	if err == nil && r.head.Inc != inc {
		err = journal.Fail(journal.ReasonCorrupt, nil, "the index of heads is damaged")
	}
	return r, err
}

// Head implements journal.Store.
func (s *Store) Head(ctx context.Context, sid string) (journal.Head, error) {
	var r row
	err := s.reading(ctx, "reading a head", func(q querier) error {
		err := pgx.ErrNoRows
		if plain(sid) {
			err = r.scan(q.QueryRow(ctx, sqlHead, sid))
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no session %s", sid)
		}
		if err == nil && r.head.SID != sid {
			return journal.Fail(journal.ReasonCorrupt, nil, "the index of heads is damaged")
		}
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return r.head, nil
}

// HeadOf implements journal.Store.
func (s *Store) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	var r row
	err := s.reading(ctx, "reading a head", func(q querier) (err error) {
		r, err = session(ctx, q, inc, "")
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return r.head, nil
}

// Sessions implements journal.Store.
func (s *Store) Sessions(ctx context.Context, q journal.Query) ([]journal.Head, error) {
	sql := sqlSessions
	if q.Pending {
		sql += sqlPending
	}
	if !q.Retired {
		sql += sqlLive
	}
	if !plain(q.Prefix) || !plain(q.AfterSID) {
		return nil, s.reading(ctx, "", func(querier) error { return nil }) // no session has such a name
	}
	return s.list(ctx, sql+sqlOrdered, q.Prefix, q.AfterSID, q.AfterInc, q.Page())
}

// Wakes implements journal.Store.
func (s *Store) Wakes(ctx context.Context, after int64, limit int) ([]journal.Head, error) {
	q := journal.Query{Limit: limit}
	return s.list(ctx, sqlWakes, after, int64(q.Page()))
}

// list reads the heads that a query selects.
func (s *Store) list(ctx context.Context, sql string, args ...any) ([]journal.Head, error) {
	var heads []journal.Head
	err := s.reading(ctx, "listing sessions", func(c querier) error {
		heads = nil
		rows, err := c.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := r.scan(rows); err != nil {
				return err
			}
			heads = append(heads, r.head)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}

// Read implements journal.Store.
func (s *Store) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		var r row
		var prev messages.Digest
		next, last := max(from, 1), to
		if to <= 0 || to > journal.MaxSeq {
			last = journal.MaxSeq
		}
		if next > last {
			next, last = 1, 0 // an empty range of an existing session is no error
		}
		err := s.reading(ctx, "reading a head", func(q querier) (err error) {
			if r, err = session(ctx, q, inc, ""); err != nil || next > last {
				return err
			}
			prev, err = before(ctx, q, &r, next)
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for next <= last {
			var page []*messages.Record
			err := s.reading(ctx, "reading records", func(q querier) (err error) {
				page, err = records(ctx, q, &r, next, last, prev)
				return err
			})
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) == 0 {
				return
			}
			end := page[len(page)-1]
			next, prev = end.Seq+1, end.Hash
		}
	}
}

// before is the hash that record seq continues; zero when that is missing, which
// the chain check then names.
func before(ctx context.Context, q querier, r *row, seq int64) (d messages.Digest, err error) {
	if seq == 1 {
		return journal.Genesis(r.head.SID, r.head.Inc), nil
	}
	var hash []byte
	err = q.QueryRow(ctx, sqlHash, r.id, seq-1).Scan(&hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, nil
	}
	copy(d[:], hash)
	return d, err
}

// records fetches one page. Beside an error it gives the records before it.
func records(ctx context.Context, q querier, r *row, from, to int64, prev messages.Digest) ([]*messages.Record, error) {
	rows, err := q.Query(ctx, sqlPage, r.id, from, to, pageRecords, pageBytes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []*messages.Record
	at := from
	for rows.Next() {
		rec := &messages.Record{SID: r.head.SID, Inc: r.head.Inc, Prev: prev}
		if err := scanRecord(rows, rec); err != nil {
			return page, journal.Fail(journal.ReasonCorrupt, err, "session %s: the row of record %d or later", r.head.SID, at)
		}
		at, prev = rec.Seq+1, rec.Hash
		page = append(page, rec)
	}
	return page, rows.Err()
}

func scanRecord(rows pgx.Rows, rec *messages.Record) error {
	var ts int64
	var kind string
	var salt, body, digest, hash, kid, sig []byte
	err := rows.Scan(&rec.Seq, &rec.Epoch, &rec.Run, &rec.Turn, &kind, &ts, &salt, &body, &digest, &hash, &kid, &sig)
	if err != nil {
		return err
	}
	switch {
	case len(hash) != len(rec.Hash):
		return fmt.Errorf("the hash has %d bytes", len(hash))
	case body != nil && len(salt) != len(rec.Salt), body == nil && (salt != nil || len(digest) != len(rec.BodyDigest)):
		return errors.New("neither a body with its salt nor the digest of an erased one")
	}
	rec.TS = time.Unix(0, ts).UTC()
	rec.Body = &messages.Undecoded{Of: messages.Kind(kind)}
	copy(rec.Hash[:], hash)
	if body != nil {
		copy(rec.Salt[:], salt)
		rec.Raw = body
		rec.BodyDigest = sha256.Sum256(append(salt, body...))
	} else {
		copy(rec.BodyDigest[:], digest)
	}
	if kid != nil || sig != nil {
		rec.Sig = &messages.Receipt{KID: string(kid), Sig: sig}
	}
	return nil
}

// Blob implements journal.Store.
func (s *Store) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	var data []byte
	err := s.reading(ctx, "reading a blob", func(q querier) error {
		r, err := session(ctx, q, inc, "")
		if err != nil {
			return err
		}
		err = q.QueryRow(ctx, sqlBlob, r.id, d[:]).Scan(&data)
		if errors.Is(err, pgx.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no blob %s", r.head.SID, d)
		}
		if err == nil && messages.Digest(sha256.Sum256(data)) != d {
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: blob %s has other bytes", r.head.SID, d)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Snapshot implements journal.Store.
func (s *Store) Snapshot(ctx context.Context, inc messages.Incarnation) (journal.Snapshot, error) {
	var snap journal.Snapshot
	err := s.reading(ctx, "reading a snapshot", func(q querier) error {
		r, err := session(ctx, q, inc, "")
		if err != nil {
			return err
		}
		var hash, sum []byte
		err = q.QueryRow(ctx, sqlSnapped, r.id).Scan(&snap.Seq, &hash, &snap.Format, &snap.State, &sum)
		if errors.Is(err, pgx.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no snapshot", r.head.SID)
		}
		if err != nil {
			return err
		}
		copy(snap.Hash[:], hash)
		if want := snapshotSum(inc, &snap); len(hash) != len(snap.Hash) || string(want[:]) != string(sum) {
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: the snapshot of record %d is damaged", r.head.SID, snap.Seq)
		}
		return nil
	})
	if err != nil {
		return journal.Snapshot{}, err
	}
	return snap, nil
}

// Meta implements journal.Store.
func (s *Store) Meta(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := s.reading(ctx, "reading a value", func(q querier) error {
		err := pgx.ErrNoRows
		if plain(key) {
			err = q.QueryRow(ctx, sqlMeta, key).Scan(&value)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no value %s", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}
