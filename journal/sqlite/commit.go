package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// writer is the one connection that writes, with its statements.
type writer struct {
	db   *sql.DB
	conn *sql.Conn

	begin, commit, rollback prepared
	version                 prepared
	head, create, retire    prepared
	advance, snapshot       prepared
	listing                 prepared
	records, blobs          insertion
	args                    []driver.NamedValue

	// heads caches rows as the last transactions of this connection left them. The cache is
	// valid as long as no other connection has written: seen is SQLite's data_version, which
	// each transaction compares.
	heads map[messages.Incarnation]*session
	seen  int64

	wrote int64 // bytes of rows in the transaction at hand, about

	kinds map[messages.Kind]driver.Value // see kind
}

// maxHeads bounds the heads kept, about 300 bytes each.
const maxHeads = 2048

// headWidth is the count of sqlstore.HeadColumns.
const headWidth = 13

func newWriter(dsn string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, failure(err, "opening the journal for writing")
	}
	db.SetMaxOpenConns(1)
	w := &writer{db: db, heads: make(map[messages.Incarnation]*session), kinds: make(map[messages.Kind]driver.Value)}
	w.conn, err = db.Conn(context.Background())
	if err == nil {
		err = w.raw(func(c driver.ConnPrepareContext) error { return w.prepare(c) })
	}
	if err != nil {
		_ = w.close() // the first error is returned
		return nil, failure(err, "opening the journal for writing")
	}
	return w, nil
}

// raw runs f with the driver's connection.
func (w *writer) raw(f func(driver.ConnPrepareContext) error) error {
	var failed error
	err := w.conn.Raw(func(c any) error {
		failed = f(c.(driver.ConnPrepareContext))
		return nil // an error here would let database/sql drop the connection
	})
	if err != nil {
		return err
	}
	return failed
}

func (w *writer) prepare(c driver.ConnPrepareContext) error {
	for _, p := range []struct {
		to  *prepared
		sql string
	}{
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
		{&w.version, "PRAGMA data_version"},
		{&w.head, statements.HeadOf},
		{&w.create, `INSERT INTO sessions (sid, inc, live, seq, hash, epoch, run, turn, open, queued, closed)
			VALUES (?, ?, 1, 0, ?, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`},
		{&w.retire, "UPDATE sessions SET live = 0 WHERE sid = ? AND live = 1 AND closed = 1"},
		{&w.advance, `UPDATE sessions SET seq = ?, hash = ?, epoch = ?, run = ?, turn = ?, open = ?, queued = ?, closed = ?,
			wake = ? WHERE id = ?`},
		{&w.listing, sqlstore.PutListing},
		{&w.snapshot, "INSERT OR REPLACE INTO snapshots (session, seq, hash, format, state, sum) VALUES (?, ?, ?, ?, ?, ?)"},
	} {
		s, err := c.PrepareContext(context.Background(), p.sql)
		if err != nil {
			return err
		}
		*p.to = prepared{s}
	}
	err := w.records.prepare(c, "INSERT INTO records (pos, epoch, run, turn, type, ts, salt, body, hash, kid, sig)", 11)
	if err == nil {
		err = w.blobs.prepare(c, "INSERT OR IGNORE INTO blobs (session, digest, data)", 3)
	}
	return err
}

func (w *writer) close() error {
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.raw(func(driver.ConnPrepareContext) error {
			for _, p := range []prepared{
				w.begin, w.commit, w.rollback, w.version, w.head, w.create, w.retire, w.advance, w.snapshot, w.listing,
				w.records.one, w.records.many, w.blobs.one, w.blobs.many,
			} {
				if p.Stmt != nil {
					p.Stmt.Close()
				}
			}
			return nil
		}), w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// bind fills the reused argument list.
func (w *writer) bind(values ...driver.Value) []driver.NamedValue {
	w.args = w.args[:0]
	for i, v := range values {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return w.args
}

// Commit implements journal.Store.
func (s *store) Commit(batches []journal.Batch) []error {
	s.write.Lock()
	defer s.write.Unlock()
	errs := make([]error, len(batches))
	if len(batches) == 0 {
		return errs
	}
	err := s.writable()
	if err == nil {
		err = s.w.raw(func(driver.ConnPrepareContext) error { return s.transaction(batches, errs) })
		if err == nil {
			err = s.stands(false)
		}
	}
	switch {
	case err == nil:
	case len(batches) > 1 && !wholesale(err):
		// The rows of one batch contradict its head, and the transaction is rolled back.
		// Each batch gets a transaction of its own, so that the others are committed.
		for i := range batches {
			errs[i] = s.single(&batches[i])
		}
	default:
		s.stick(err)
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

func (s *store) single(b *journal.Batch) error {
	if err := s.writable(); err != nil {
		return err
	}
	var verdict [1]error
	err := s.w.raw(func(driver.ConnPrepareContext) error { return s.transaction([]journal.Batch{*b}, verdict[:]) })
	if err == nil {
		err = s.stands(false)
	}
	if err != nil {
		s.stick(err)
		return err
	}
	return verdict[0]
}

// wholesale reports whether err is a failure of the transaction, not of one batch.
func wholesale(err error) bool {
	r := journal.ReasonOf(err)
	return r != journal.ReasonCorrupt && r != journal.ReasonInvalid
}

// writable returns why the store refuses to write, or nil. s.write is held.
func (s *store) writable() error {
	if s.closed {
		return errClosed()
	}
	if s.opts.ReadOnly {
		return journal.Fail(journal.ReasonReadOnly, nil, "the journal was opened for reading")
	}
	return s.failed
}

// stick remembers an I/O failure, under s.write.
func (s *store) stick(err error) {
	if s.failed == nil && journal.ReasonOf(err) == journal.ReasonIO {
		s.failed = err
	}
}

// step fails where a test asks for it.
func (s *store) step(name string) error {
	if s.opts.fail != nil {
		return s.opts.fail(name)
	}
	return nil
}

// session is a row of sessions within one transaction.
type session = sqlstore.Session

// transaction decides the batches in order; their errors go to errs. An error that it
// returns is one of the whole transaction, which is then rolled back.
func (s *store) transaction(batches []journal.Batch, errs []error) (err error) {
	w := s.w
	if err := s.step("begin"); err != nil {
		return failure(err, "beginning a commit")
	}
	if err := w.begin.exec(nil); err != nil {
		return failure(err, "beginning a commit")
	}
	defer func() {
		if err != nil {
			// After a failed commit there may be nothing left to roll back.
			_ = w.rollback.exec(nil)
			w.records.drop()
			w.blobs.drop()
			clear(w.heads)
		}
	}()
	if err := w.refresh(); err != nil {
		return failure(err, "reading the data version")
	}
	w.wrote = 0
	touched := make(map[messages.Incarnation]*session, len(batches))
	for i := range batches {
		b := &batches[i]
		ses, err := s.admit(touched, b)
		if err != nil {
			// A refusal has written nothing; anything else ends the transaction.
			if reason := journal.ReasonOf(err); journal.IsFenced(err) || reason == journal.ReasonStaleHead || reason == journal.ReasonInvalid {
				errs[i] = err
				continue
			}
			return err
		}
		if err := s.insert(ses, b); err != nil {
			return failure(err, "writing records")
		}
		if err := w.list(ses, b); err != nil {
			return failure(err, "writing a listing")
		}
		ses.Head = ses.Head.Advance(b)
		if ses.Head.Closed { // its SID is free for a later batch of this group
			if err := w.move(ses); err != nil {
				return err
			}
		}
	}
	if err := w.rest(); err != nil {
		return failure(err, "writing records")
	}
	for _, ses := range touched {
		if err := w.move(ses); err != nil {
			return err
		}
	}
	if err := s.step("commit"); err != nil {
		return failure(err, "committing")
	}
	if err := w.commit.exec(nil); err != nil {
		return failure(err, "committing")
	}
	for inc, ses := range touched {
		w.heads[inc] = ses
	}
	if w.wrote > 0 {
		s.written()
	}
	s.grown(w.wrote)
	return nil
}

// list updates the listing of a session by a batch.
func (w *writer) list(ses *session, b *journal.Batch) error {
	var l journal.Listing
	if !l.Fold(b.Records) {
		return nil
	}
	w.args = w.args[:0]
	for i, v := range sqlstore.ListingRow(ses.ID, b.Inc, b.SID, &l) {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	w.wrote += rowBytes
	return w.listing.exec(w.args)
}

// move writes the row of a session whose head has moved.
func (w *writer) move(ses *session) error {
	h := &ses.Head
	if err := w.advance.exec(w.bind(h.Seq, h.Hash[:], h.Epoch, h.Run, h.Turn, flag(h.Open), h.Queued, flag(h.Closed), h.Wake, ses.ID)); err != nil {
		return failure(err, "writing a head")
	}
	return nil
}

// refresh clears the cached heads if another connection has written. It is called inside a
// transaction.
func (w *writer) refresh() error {
	rows, err := w.version.query(nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	var row [1]driver.Value
	if err := rows.Next(row[:]); err != nil {
		return err
	}
	var now int64
	if !take(row[0], &now) || now != w.seen || len(w.heads) > maxHeads {
		clear(w.heads)
	}
	w.seen = now
	return nil
}

// admit judges b against its row, which it creates for a first batch.
func (s *store) admit(touched map[messages.Incarnation]*session, b *journal.Batch) (*session, error) {
	ses := touched[b.Inc]
	if ses == nil {
		ses = s.w.heads[b.Inc]
	}
	if ses == nil {
		var err error
		if ses, err = s.w.session(b.Inc); err != nil {
			return nil, failure(err, "reading a head")
		}
	}
	if ses == nil {
		fresh := journal.NewHead(b.SID, b.Inc)
		if err := journal.Judge(&fresh, b); err != nil {
			return nil, err
		}
		id, err := s.w.register(b.SID, b.Inc)
		if err != nil {
			return nil, failure(err, "creating a session")
		}
		if id == 0 {
			return nil, journal.Fail(journal.ReasonStaleHead, nil, "session %s: another incarnation is live", b.SID)
		}
		ses = &session{ID: id, Head: fresh}
	} else {
		if ses.Head.SID != b.SID {
			return nil, journal.Fail(journal.ReasonInvalid, nil, "session %s: the incarnation is %s's", b.SID, ses.Head.SID)
		}
		if err := journal.Judge(&ses.Head, b); err != nil {
			return nil, err
		}
	}
	touched[b.Inc] = ses
	return ses, nil
}

// session reads the row of an incarnation; nil without one.
func (w *writer) session(inc messages.Incarnation) (*session, error) {
	rows, err := w.head.query(w.bind(inc[:]))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var row [headWidth]driver.Value
	if err := rows.Next(row[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	ses := new(session)
	if !takeSession(row[:], ses) {
		return nil, journal.Fail(journal.ReasonCorrupt, nil, "the row of session %s is damaged", inc)
	}
	return ses, nil
}

// takeSession reads a row of HeadColumns into ses, and reports whether every column has the
// right type and size.
func takeSession(row []driver.Value, ses *session) bool {
	h := &ses.Head
	var inc, hash []byte
	var live, open, closed int64
	ok := take(row[0], &ses.ID) && take(row[1], &h.SID) && take(row[2], &inc) && take(row[3], &live) &&
		take(row[4], &h.Seq) && take(row[5], &hash) && take(row[6], &h.Epoch) && take(row[7], &h.Run) &&
		take(row[8], &h.Turn) && take(row[9], &open) && take(row[10], &h.Queued) && take(row[11], &closed) &&
		take(row[12], &h.Wake)
	if !ok || len(inc) != len(h.Inc) || len(hash) != len(h.Hash) || ses.ID <= 0 || ses.ID >= 1<<31 ||
		h.Seq < 0 || h.Seq > journal.MaxSeq {
		return false
	}
	copy(h.Inc[:], inc)
	copy(h.Hash[:], hash)
	h.Live, h.Open, h.Closed = live == 1, open == 1, closed == 1
	return true
}

// take reads a column into a variable, and reports whether the types match.
func take[T any](v driver.Value, to *T) bool {
	t, ok := v.(T)
	*to = t
	return ok
}

// register makes inc the live incarnation of sid and returns the id of its row, or 0 when
// another one is live or inc was used before.
func (w *writer) register(sid string, inc messages.Incarnation) (int64, error) {
	if err := w.retire.exec(w.bind(sid)); err != nil {
		return 0, err
	}
	genesis := journal.Genesis(sid, inc)
	res, err := w.create.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), w.bind(sid, inc[:], genesis[:]))
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err == nil && id >= 1<<31 {
		return 0, journal.Fail(journal.ReasonIO, nil, "the file has had too many sessions")
	}
	return id, err
}

func (s *store) insert(ses *session, b *journal.Batch) error {
	w := s.w
	if err := s.step("insert"); err != nil {
		return err
	}
	for _, r := range b.Records {
		var kid, sig driver.Value
		if r.Sig != nil {
			kid, sig = r.Sig.KID, r.Sig.Sig
		}
		err := w.records.add(position(ses.ID, r.Seq), r.Epoch, r.Run, r.Turn, w.kind(r.Body.Kind()), r.TS.UnixNano(),
			r.Salt[:], text(r.Raw), r.Hash[:], kid, sig)
		if err != nil {
			return err
		}
		w.wrote += rowBytes + int64(len(r.Raw))
	}
	for i := range b.Blobs {
		if err := w.blobs.add(ses.ID, b.Blobs[i].Digest[:], sqlstore.Present(b.Blobs[i].Data)); err != nil {
			return err
		}
		w.wrote += rowBytes + int64(len(b.Blobs[i].Data))
	}
	if b.Snapshot != nil {
		w.wrote += rowBytes + int64(len(b.Snapshot.State))
		return w.putSnapshot(ses, b.Snapshot)
	}
	return nil
}

func (w *writer) putSnapshot(ses *session, snap *journal.Snapshot) error {
	sum := sqlstore.SnapshotSum(ses.Head.Inc, snap)
	return w.snapshot.exec(w.bind(ses.ID, snap.Seq, snap.Hash[:], snap.Format, sqlstore.Present(snap.State), sum[:]))
}

// position packs a session's row id and a seq into a key.
func position(id, seq int64) int64 { return id<<32 | seq }

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
