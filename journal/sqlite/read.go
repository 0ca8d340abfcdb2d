package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A Read fetches so much at once; between two fetches nothing is held.
const (
	pageRecords = 256
	pageBytes   = 1 << 20
)

// readers are the reading connections with their statements. None has LIMIT with a bare
// variable: SQLite plans by its value, and so prepares the statement anew each time one
// is bound.
type readers struct {
	db                            *sql.DB
	head, headOf, hash, page      *sql.Stmt
	blob, snapshot, meta, listing *sql.Stmt
	wakes                         *sql.Stmt
}

func newReaders(dsn string, n int) (*readers, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, failure(err, "opening the journal for reading")
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	r := &readers{db: db}
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&r.head, "SELECT " + headColumns + " FROM sessions WHERE sid = ? AND live = 1"},
		{&r.headOf, "SELECT " + headColumns + " FROM sessions WHERE inc = ?"},
		{&r.hash, "SELECT hash FROM records WHERE pos = ?"},
		{&r.page, `SELECT pos, epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig
			FROM records WHERE pos BETWEEN ? AND ? ORDER BY pos LIMIT ` + strconv.Itoa(pageRecords)},
		{&r.blob, "SELECT data FROM blobs WHERE session = ? AND digest = ?"},
		{&r.snapshot, "SELECT seq, hash, format, state, sum FROM snapshots WHERE session = ?"},
		{&r.meta, "SELECT value FROM meta WHERE key = ?"},
		{&r.listing, "SELECT " + headColumns + ` FROM sessions
			WHERE sid >= ?1 AND sid < ?1 || char(1114111) AND (sid, inc) > (?2, ?3)
			AND (?4 OR live = 1) AND (NOT ?5 OR wake = 0 AND (open = 1 OR queued > 0))
			ORDER BY sid, inc LIMIT 0 + ?6`},
		{&r.wakes, "SELECT " + headColumns + " FROM sessions WHERE wake > 0 AND wake > ?1 AND live = 1 AND wake <= coalesce(" +
			"(SELECT wake FROM sessions WHERE wake > 0 AND wake > ?1 AND live = 1 ORDER BY wake LIMIT 1 OFFSET ?2 - 1), 9223372036854775807) ORDER BY wake, sid, inc"},
	} {
		if *p.to, err = db.Prepare(p.sql); err != nil {
			db.Close()
			return nil, readFailure(err, "opening the journal for reading")
		}
	}
	return r, nil
}

func (r *readers) close() error { return r.db.Close() }

// reading runs f with the readers. ctx is looked at before and not passed down:
// every statement here is short, and interrupting SQLite costs a goroutine each.
func (s *store) reading(ctx context.Context, f func(*readers) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.pool.RLock()
	defer s.pool.RUnlock()
	if s.closed {
		return errClosed()
	}
	if s.r == nil {
		return journal.Fail(journal.ReasonIO, nil, "the journal could not be reopened")
	}
	return f(s.r)
}

// scan reads one row of headColumns.
func (ses *session) scan(row interface{ Scan(...any) error }) error {
	h := &ses.head
	var inc, hash []byte
	err := row.Scan(&ses.id, &h.SID, &inc, &h.Live, &h.Seq, &hash, &h.Epoch, &h.Run, &h.Turn, &h.Open, &h.Queued, &h.Closed, &h.Wake)
	if err != nil {
		return err
	}
	if len(inc) != len(h.Inc) || len(hash) != len(h.Hash) || h.Seq < 0 || h.Seq > journal.MaxSeq {
		return journal.Fail(journal.ReasonCorrupt, nil, "the row of session %s is damaged", h.SID)
	}
	copy(h.Inc[:], inc)
	copy(h.Hash[:], hash)
	return nil
}

func (r *readers) session(inc messages.Incarnation) (session, error) {
	var ses session
	err := ses.scan(r.headOf.QueryRow(inc[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return ses, journal.Fail(journal.ReasonNotFound, nil, "no session %s", inc)
	}
	if err != nil {
		return ses, readFailure(err, "reading a head")
	}
	if ses.head.Inc != inc {
		return ses, journal.Fail(journal.ReasonCorrupt, nil, "the index of sessions is damaged")
	}
	return ses, nil
}

// Head implements journal.Store.
func (s *store) Head(ctx context.Context, sid string) (journal.Head, error) {
	var ses session
	err := s.reading(ctx, func(r *readers) error {
		err := ses.scan(r.head.QueryRow(sid))
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no session %s", sid)
		}
		if err != nil {
			return readFailure(err, "reading a head")
		}
		if ses.head.SID != sid {
			return journal.Fail(journal.ReasonCorrupt, nil, "the index of sessions is damaged")
		}
		return nil
	})
	if err != nil {
		return journal.Head{}, err
	}
	return ses.head, nil
}

// HeadOf implements journal.Store.
func (s *store) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	var ses session
	err := s.reading(ctx, func(r *readers) (err error) {
		ses, err = r.session(inc)
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return ses.head, nil
}

// Sessions implements journal.Store.
func (s *store) Sessions(ctx context.Context, q journal.Query) ([]journal.Head, error) {
	return s.heads(ctx, func(r *readers) (*sql.Rows, error) {
		return r.listing.Query(q.Prefix, q.AfterSID, q.AfterInc[:], q.Retired, q.Pending, q.Page())
	})
}

// Wakes implements journal.Store.
func (s *store) Wakes(ctx context.Context, after int64, limit int) ([]journal.Head, error) {
	q := journal.Query{Limit: limit}
	return s.heads(ctx, func(r *readers) (*sql.Rows, error) { return r.wakes.Query(after, q.Page()) })
}

// heads reads the rows of a listing.
func (s *store) heads(ctx context.Context, list func(*readers) (*sql.Rows, error)) ([]journal.Head, error) {
	var heads []journal.Head
	err := s.reading(ctx, func(r *readers) error {
		rows, err := list(r)
		if err != nil {
			return readFailure(err, "listing sessions")
		}
		defer rows.Close()
		for rows.Next() {
			var ses session
			if err := ses.scan(rows); err != nil {
				return readFailure(err, "listing sessions")
			}
			heads = append(heads, ses.head)
		}
		if err := rows.Err(); err != nil {
			return readFailure(err, "listing sessions")
		}
		return nil
	})
	return heads, err
}

// Read implements journal.Store.
func (s *store) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		var ses session
		var prev messages.Digest
		next, last := max(from, 1), to
		if to <= 0 || to > journal.MaxSeq {
			last = journal.MaxSeq
		}
		if next > last {
			next, last = 1, 0 // an empty range of an existing session is no error
		}
		err := s.reading(ctx, func(r *readers) (err error) {
			if ses, err = r.session(inc); err != nil || next > last {
				return err
			}
			prev, err = r.before(&ses, next)
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for next <= last {
			var page []*messages.Record
			err := s.reading(ctx, func(r *readers) (err error) {
				page, err = r.records(&ses, next, last, prev)
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
func (r *readers) before(ses *session, seq int64) (d messages.Digest, err error) {
	if seq == 1 {
		return journal.Genesis(ses.head.SID, ses.head.Inc), nil
	}
	var hash []byte
	err = r.hash.QueryRow(position(ses.id, seq-1)).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return d, nil
	}
	if err != nil {
		return d, readFailure(err, "reading a record")
	}
	copy(d[:], hash)
	return d, nil
}

// records fetches one page. Beside an error it gives the records before it.
func (r *readers) records(ses *session, from, to int64, prev messages.Digest) ([]*messages.Record, error) {
	rows, err := r.page.Query(position(ses.id, from), position(ses.id, to))
	if err != nil {
		return nil, readFailure(err, "reading records")
	}
	defer rows.Close()
	var page []*messages.Record
	at, size := from, 0
	for size < pageBytes && rows.Next() {
		rec := &messages.Record{SID: ses.head.SID, Inc: ses.head.Inc, Prev: prev}
		if err := scanRecord(rows, ses.id, rec); err != nil {
			return page, journal.Fail(journal.ReasonCorrupt, err, "session %s: the row of record %d or later", ses.head.SID, at)
		}
		at, size, prev = rec.Seq+1, size+len(rec.Raw)+256, rec.Hash
		page = append(page, rec)
	}
	if err := rows.Err(); err != nil {
		return page, readFailure(err, "reading records")
	}
	return page, nil
}

func scanRecord(rows *sql.Rows, id int64, rec *messages.Record) error {
	var pos, ts int64
	var kind string
	var salt, body, digest, hash, sig []byte
	var kid sql.NullString
	err := rows.Scan(&pos, &rec.Epoch, &rec.Run, &rec.Turn, &kind, &ts, &salt, &body, &digest, &hash, &kid, &sig)
	if err != nil {
		return err
	}
	rec.Seq = pos & journal.MaxSeq
	switch {
	case pos>>32 != id:
		return errors.New("the index by position is damaged")
	case len(hash) != len(rec.Hash):
		return errors.New("the hash has another length")
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
	if kid.Valid || sig != nil {
		rec.Sig = &messages.Receipt{KID: kid.String, Sig: sig}
	}
	return nil
}

// Blob implements journal.Store.
func (s *store) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	var data []byte
	err := s.reading(ctx, func(r *readers) error {
		ses, err := r.session(inc)
		if err != nil {
			return err
		}
		err = r.blob.QueryRow(ses.id, d[:]).Scan(&data)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no blob %s", ses.head.SID, d)
		}
		if err != nil {
			return readFailure(err, "reading a blob")
		}
		if messages.Digest(sha256.Sum256(data)) != d {
			data = nil
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: blob %s has other bytes", ses.head.SID, d)
		}
		return nil
	})
	return data, err
}

// Snapshot implements journal.Store.
func (s *store) Snapshot(ctx context.Context, inc messages.Incarnation) (journal.Snapshot, error) {
	var snap journal.Snapshot
	err := s.reading(ctx, func(r *readers) error {
		ses, err := r.session(inc)
		if err != nil {
			return err
		}
		var hash, sum []byte
		err = r.snapshot.QueryRow(ses.id).Scan(&snap.Seq, &hash, &snap.Format, &snap.State, &sum)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no snapshot", ses.head.SID)
		}
		if err != nil {
			return readFailure(err, "reading a snapshot")
		}
		copy(snap.Hash[:], hash)
		if want := snapshotSum(inc, &snap); string(want[:]) != string(sum) {
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: the snapshot of record %d is damaged", ses.head.SID, snap.Seq)
		}
		return nil
	})
	if err != nil {
		return journal.Snapshot{}, err
	}
	return snap, nil
}

// Meta implements journal.Store.
func (s *store) Meta(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := s.reading(ctx, func(r *readers) error {
		err := r.meta.QueryRow(key).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no value %s", key)
		}
		if err != nil {
			return readFailure(err, "reading a value")
		}
		return nil
	})
	return value, err
}
