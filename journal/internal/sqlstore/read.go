package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A Read fetches so much at once; between two fetches nothing is held.
const (
	PageRecords = 256
	PageBytes   = 1 << 20
)

// session reads the row of an incarnation; suffix may lock it.
func (t *Tables) session(c Conn, inc messages.Incarnation, suffix string) (s Session, err error) {
	err = s.Scan(c.Row(t.d.HeadOf+suffix, inc[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return s, journal.Fail(journal.ReasonNotFound, nil, "no session %s", inc)
	}
	if err == nil && s.Head.Inc != inc {
		err = journal.Fail(journal.ReasonCorrupt, nil, "the index of %s is damaged", t.d.shape.Table)
	}
	return s, err
}

// Head implements journal.Store.
func (t *Tables) Head(ctx context.Context, sid string) (journal.Head, error) {
	var s Session
	err := t.d.Reading(ctx, "reading a head", func(c Conn) error {
		err := sql.ErrNoRows
		if t.d.Plain(sid) {
			err = s.Scan(c.Row(t.d.Head, sid))
		}
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no session %s", sid)
		}
		if err == nil && s.Head.SID != sid {
			return journal.Fail(journal.ReasonCorrupt, nil, "the index of %s is damaged", t.d.shape.Table)
		}
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return s.Head, nil
}

// HeadOf implements journal.Store.
func (t *Tables) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	var s Session
	err := t.d.Reading(ctx, "reading a head", func(c Conn) (err error) {
		s, err = t.session(c, inc, "")
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return s.Head, nil
}

// Sessions implements journal.Store.
func (t *Tables) Sessions(ctx context.Context, q journal.Query) ([]journal.Head, error) {
	if !t.d.Plain(q.Prefix) || !t.d.Plain(q.AfterSID) {
		return nil, t.d.Reading(ctx, "", func(Conn) error { return nil }) // no session has such a name
	}
	return t.list(ctx, t.d.sessions(q.Pending, q.Retired), q.Prefix, q.AfterSID, q.AfterInc[:], q.Page())
}

// Bytes returns the size of the bodies and blobs of all sessions, live or not, whose SID begins
// with prefix. It reads none of them.
func (t *Tables) Bytes(ctx context.Context, prefix string) (n int64, err error) {
	if !t.d.Plain(prefix) {
		return 0, nil // no session has such a name
	}
	err = t.d.Reading(ctx, "measuring sessions", func(c Conn) error { return c.Row(t.d.kept, prefix).Scan(&n) })
	return n, err
}

// Wakes implements journal.Store.
func (t *Tables) Wakes(ctx context.Context, after int64, limit int) ([]journal.Head, error) {
	q := journal.Query{Limit: limit}
	return t.list(ctx, t.d.Wakes, after, int64(q.Page()))
}

// list reads the heads that a statement selects.
func (t *Tables) list(ctx context.Context, stmt string, args ...any) ([]journal.Head, error) {
	var heads []journal.Head
	err := t.d.Reading(ctx, "listing sessions", func(c Conn) error {
		heads = nil
		for row, err := range c.Rows(stmt, args...) {
			var s Session
			if err == nil {
				err = s.Scan(row)
			}
			if err != nil {
				return err
			}
			heads = append(heads, s.Head)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return heads, nil
}

// Read implements journal.Store.
func (t *Tables) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		var s Session
		var prev messages.Digest
		next, last := max(from, 1), to
		if to <= 0 || to > journal.MaxSeq {
			last = journal.MaxSeq
		}
		if next > last {
			next, last = 1, 0 // an empty range of an existing session is no error
		}
		err := t.d.Reading(ctx, "reading a head", func(c Conn) (err error) {
			if s, err = t.session(c, inc, ""); err != nil || next > last {
				return err
			}
			prev, err = t.before(c, &s, next)
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for next <= last {
			var page []*messages.Record
			err := t.d.Reading(ctx, "reading records", func(c Conn) (err error) {
				page, err = t.records(c, &s, next, last, prev)
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
func (t *Tables) before(c Conn, s *Session, seq int64) (d messages.Digest, err error) {
	if seq == 1 {
		return journal.Genesis(s.Head.SID, s.Head.Inc), nil
	}
	var hash []byte
	err = c.Row(t.d.Hash, s.ID, seq-1).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return d, nil
	}
	copy(d[:], hash)
	return d, err
}

// records fetches one page. Beside an error it gives the records before it.
func (t *Tables) records(c Conn, s *Session, from, to int64, prev messages.Digest) ([]*messages.Record, error) {
	var page []*messages.Record
	at, size := from, 0
	for row, err := range c.Rows(t.d.Page, s.ID, from, to) {
		if err != nil {
			return page, err
		}
		rec := &messages.Record{SID: s.Head.SID, Inc: s.Head.Inc, Prev: prev}
		if err := scanRecord(row, s.ID, rec); err != nil {
			return page, journal.Fail(journal.ReasonCorrupt, err, "session %s: the row of record %d or later", s.Head.SID, at)
		}
		at, size, prev = rec.Seq+1, size+len(rec.Raw)+256, rec.Hash
		page = append(page, rec)
		if size >= PageBytes {
			break
		}
	}
	return page, nil
}

func scanRecord(row Row, id int64, rec *messages.Record) error {
	var session, ts int64
	var kind string
	var salt, body, digest, hash, kid, sig []byte
	err := row.Scan(&session, &rec.Seq, &rec.Epoch, &rec.Run, &rec.Turn, &kind, &ts, &salt, &body, &digest, &hash, &kid, &sig)
	if err != nil {
		return err
	}
	switch {
	case session != id:
		return errors.New("the index by position is damaged")
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
func (t *Tables) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	var data []byte
	err := t.d.Reading(ctx, "reading a blob", func(c Conn) error {
		s, err := t.session(c, inc, "")
		if err != nil {
			return err
		}
		err = c.Row(SelectBlob, s.ID, d[:]).Scan(&data)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no blob %s", s.Head.SID, d)
		}
		if err == nil && messages.Digest(sha256.Sum256(data)) != d {
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: blob %s has other bytes", s.Head.SID, d)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Snapshot implements journal.Store.
func (t *Tables) Snapshot(ctx context.Context, inc messages.Incarnation) (journal.Snapshot, error) {
	var snap journal.Snapshot
	err := t.d.Reading(ctx, "reading a snapshot", func(c Conn) error {
		s, err := t.session(c, inc, "")
		if err != nil {
			return err
		}
		var hash, sum []byte
		err = c.Row(SelectSnapshot, s.ID).Scan(&snap.Seq, &hash, &snap.Format, &snap.State, &sum)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "session %s: no snapshot", s.Head.SID)
		}
		if err != nil {
			return err
		}
		copy(snap.Hash[:], hash)
		if want := SnapshotSum(inc, &snap); len(hash) != len(snap.Hash) || string(want[:]) != string(sum) {
			return journal.Fail(journal.ReasonCorrupt, nil, "session %s: the snapshot of record %d is damaged", s.Head.SID, snap.Seq)
		}
		return nil
	})
	if err != nil {
		return journal.Snapshot{}, err
	}
	return snap, nil
}

// Meta implements journal.Store.
func (t *Tables) Meta(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := t.d.Reading(ctx, "reading a value", func(c Conn) error {
		err := sql.ErrNoRows
		if t.d.Plain(key) {
			err = c.Row(SelectMeta, key).Scan(&value)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonNotFound, nil, "no value %s", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}
