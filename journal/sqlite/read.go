package sqlite

import (
	"context"
	"database/sql"
	"iter"
	"strconv"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

var statements = sqlstore.Shape{
	Table: "sessions", Records: sqlstore.Packed("records", "pos"), Recall: sqlstore.Packed("recall", "id"),
	Live: "h.live = 1", Waiting: "h.wake = 0 AND (h.open = 1 OR h.queued > 0)", Suspended: "h.wake > 0", Ended: "h.open = 0 AND h.run > 0",
	Last: "char(1114111)",
}.Statements()

var sqlPage = `SELECT pos >> 32, pos & 4294967295, epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig FROM records
	WHERE pos BETWEEN ($1 << 32 | $2) AND ($1 << 32 | $3) ORDER BY pos LIMIT ` + strconv.Itoa(sqlstore.PageRecords)

// tables are the journal in the file.
type tables = sqlstore.Tables

func (s *store) dialect() sqlstore.Dialect {
	d := sqlstore.Dialect{
		Reading: s.reading, Writing: s.writing,
		Plain:    func(string) bool { return true },
		Fits:     func(string, *journal.Snapshot) error { return nil },
		Register: s.register,
		Has:      func(text, part string) string { return "instr(" + text + ", " + part + ") > 0" },
		Titled:   titled, Narrowed: narrowed, Latest: "recall.id DESC",
		Recall: recall, Index: index, EraseBodies: eraseBodies, DropBlobs: dropBlobs,
		Statements: statements, Page: sqlPage,
	}
	if s.opts.ReadOnly {
		d.Unindexed = s
	}
	return d
}

// readers are the reading connections with their statements.
type readers struct {
	db       *sql.DB
	prepared map[string]*sql.Stmt
}

func newReaders(dsn string, n int) (*readers, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, failure(err, "opening the journal for reading")
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	r := &readers{db: db, prepared: make(map[string]*sql.Stmt)}
	for _, stmt := range append(statements.Frequent(), sqlPage) {
		if r.prepared[stmt], err = db.Prepare(stmt); err != nil {
			db.Close()
			return nil, readFailure(err, "opening the journal for reading")
		}
	}
	return r, nil
}

func (r *readers) close() error { return r.db.Close() }

// Row implements sqlstore.Conn.
func (r *readers) Row(stmt string, args ...any) sqlstore.Row {
	if p := r.prepared[stmt]; p != nil {
		return p.QueryRow(args...)
	}
	return r.db.QueryRow(stmt, args...)
}

// Rows implements sqlstore.Conn.
func (r *readers) Rows(stmt string, args ...any) iter.Seq2[sqlstore.Row, error] {
	if p := r.prepared[stmt]; p != nil {
		return found(p.Query(args...))
	}
	return found(r.db.Query(stmt, args...))
}

// Exec implements sqlstore.Conn.
func (r *readers) Exec(stmt string, args ...any) (int64, error) {
	return changed(r.db.Exec(stmt, args...))
}

// found returns rows, which it closes.
func found(rows *sql.Rows, err error) iter.Seq2[sqlstore.Row, error] {
	return func(yield func(sqlstore.Row, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if !yield(rows, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func changed(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// reading runs f with the readers. ctx is checked before and not passed to SQLite: every
// statement is short, and to interrupt SQLite costs a goroutine for each.
func (s *store) reading(ctx context.Context, what string, f func(sqlstore.Conn) error) error {
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
	if err := f(s.r); err != nil {
		return readFailure(err, what)
	}
	return nil
}
