package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Create implements journal.Store.
func (t *Tables) Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (journal.Head, error) {
	if err := key.Validate(); err != nil {
		return journal.Head{}, err
	}
	sid := key.SID()
	if inc == (messages.Incarnation{}) {
		return journal.Head{}, journal.Fail(journal.ReasonInvalid, nil, "session %s: no incarnation", sid)
	}
	if h, err := t.Head(ctx, sid); err == nil && !h.Closed { // the usual case costs no commit
		return h, nil
	} else if err != nil && !journal.IsNotFound(err) {
		return journal.Head{}, err
	}
	var s Session
	err := t.d.Writing(ctx, "creating a session", func(c Conn) error {
		if err := t.d.Register(c, sid, inc); err != nil {
			return err
		}
		err := s.Scan(c.Row(t.d.Head, sid))
		if errors.Is(err, sql.ErrNoRows) {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: incarnation %s was used before", sid, inc)
		}
		return err
	})
	if err != nil {
		return journal.Head{}, err
	}
	return s.Head, nil
}

// PutSnapshot implements journal.Store.
func (t *Tables) PutSnapshot(ctx context.Context, inc messages.Incarnation, snap journal.Snapshot) error {
	return t.d.Writing(ctx, "writing a snapshot", func(c Conn) error {
		s, err := t.session(c, inc, t.d.shape.Locked)
		if err != nil {
			return err
		}
		if err := t.d.Fits(s.Head.SID, &snap); err != nil {
			return err
		}
		var hash []byte
		if snap.Seq >= 1 && snap.Seq <= s.Head.Seq {
			if err := c.Row(t.d.Hash, s.ID, snap.Seq).Scan(&hash); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		if string(hash) != string(snap.Hash[:]) {
			return journal.Fail(journal.ReasonInvalid, nil, "session %s: a snapshot of record %d, which is another or not there", s.Head.SID, snap.Seq)
		}
		_, err = c.Exec(PutSnapshot, SnapshotRow(s.ID, inc, &snap)...)
		return err
	})
}

// DropSnapshot implements journal.Store.
func (t *Tables) DropSnapshot(ctx context.Context, inc messages.Incarnation) error {
	return t.d.Writing(ctx, "dropping a snapshot", func(c Conn) error {
		s, err := t.session(c, inc, "")
		if err == nil {
			_, err = c.Exec(dropSnapshot, s.ID)
		}
		return err
	})
}

// Delete implements journal.Store.
func (t *Tables) Delete(ctx context.Context, inc messages.Incarnation) error {
	defer t.Erased()
	return t.d.Writing(ctx, "deleting a session", func(c Conn) error {
		s, err := t.session(c, inc, t.d.shape.Locked)
		if err != nil {
			return err
		}
		for _, stmt := range t.d.delete {
			if _, err := c.Exec(stmt, s.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// Erase implements journal.Store.
func (t *Tables) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	defer t.Erased()
	var n int64
	err := t.d.Writing(ctx, "erasing bodies", func(c Conn) error {
		s, err := t.session(c, inc, "")
		if err != nil {
			return err
		}
		first, last := max(from, 1), to
		if last <= 0 || last > s.Head.Seq {
			last = s.Head.Seq
		}
		e := eraser{d: &t.d, c: c, id: s.ID, drop: make(map[messages.Digest]bool)}
		if n, err = e.bodies(first, last); err != nil {
			return err
		}
		// From here on nothing may be appended: it could name a blob that is about to go.
		if s, err = t.session(c, inc, t.d.shape.Locked); err != nil {
			return err
		}
		if _, err := c.Exec(t.d.unindex, s.ID, first, last); err != nil {
			return err
		}
		if err := unlist(c, s.ID, first, last); err != nil {
			return err
		}
		if first == 1 && last == s.Head.Seq {
			_, err = c.Exec(dropAllBlobs, s.ID)
		} else {
			err = e.blobs(s.Head.SID)
		}
		if err != nil {
			return err
		}
		_, err = c.Exec(dropSnapshot, s.ID)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

type eraser struct {
	d    *Dialect
	c    Conn
	id   int64
	drop map[messages.Digest]bool // blobs that erased bodies name
}

// bodies replaces salt and body by their digest, page by page.
func (e *eraser) bodies(from, to int64) (int64, error) {
	var all int64
	for {
		seqs, digests, err := e.page(from, to)
		if err != nil || len(seqs) == 0 {
			return all, err
		}
		n, err := e.d.EraseBodies(e.c, e.id, seqs, digests)
		if err != nil {
			return all, err
		}
		all += n
		from = seqs[len(seqs)-1] + 1
	}
}

func (e *eraser) page(from, to int64) (seqs []int64, digests [][]byte, err error) {
	for row, err := range e.c.Rows(e.d.bodies, e.id, from, to, PageRecords) {
		if err != nil {
			return nil, nil, err
		}
		var seq int64
		var kind string
		var salt, body []byte
		if err := row.Scan(&seq, &kind, &salt, &body); err != nil {
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
	return seqs, digests, nil
}

// blobs removes those that only erased bodies named.
func (e *eraser) blobs(sid string) error {
	if len(e.drop) == 0 {
		return nil
	}
	for row, err := range e.c.Rows(e.d.naming, e.id) {
		if err != nil {
			return err
		}
		var kind string
		var body []byte
		if err := row.Scan(&kind, &body); err != nil {
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
	var gone [][]byte
	for d := range e.drop {
		gone = append(gone, d[:])
	}
	return e.d.DropBlobs(e.c, e.id, gone)
}
