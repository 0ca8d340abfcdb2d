package postgres

import (
	"context"
	"iter"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

var statements = sqlstore.Shape{
	Table: "heads", Records: sqlstore.Columns("records"), Recall: sqlstore.Columns("recall"),
	Live: "h.live", Waiting: "h.wake = 0 AND (h.open OR h.queued > 0)", Suspended: "h.wake > 0", Ended: "NOT h.open AND h.run > 0",
	Last: "chr(1114111)", Locked: " FOR UPDATE",
}.Statements()

// The page is measured before it is fetched, so that records beyond PageBytes are not
// sent. It is measured in a query of its own: in a join with the rows the planner of a
// young table compares every row with every other.
var sqlPage = `SELECT session, seq, epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig FROM records
	WHERE session = $1 AND seq BETWEEN $2 AND (
		SELECT max(seq) FROM (
			SELECT seq, sum(n) OVER (ORDER BY seq) - n AS before FROM (
				SELECT seq, coalesce(octet_length(body), 0) + 256 AS n FROM records
				WHERE session = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq LIMIT ` + strconv.Itoa(sqlstore.PageRecords) + `) sizes) sums
		WHERE before < ` + strconv.Itoa(sqlstore.PageBytes) + `)
	ORDER BY seq`

// tables are the journal in the database.
type tables = sqlstore.Tables

func (s *Store) dialect() sqlstore.Dialect {
	d := sqlstore.Dialect{
		Reading: s.reading, Writing: s.writing,
		Plain: plain, Fits: fitsSnapshot, Register: register,
		Has:    func(text, part string) string { return "strpos(" + text + ", " + part + ") > 0" },
		Latest: "recall.ts DESC",
		Recall: recall, Index: index, EraseBodies: eraseBodies, DropBlobs: dropBlobs,
		Statements: statements, Page: sqlPage,
	}
	if s.opts.ReadOnly {
		d.Unindexed = s
	}
	return d
}

// conn is a pool or a transaction, for one call.
type conn struct {
	ctx context.Context
	db  interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
}

// Row implements sqlstore.Conn.
func (c conn) Row(stmt string, args ...any) sqlstore.Row {
	return c.db.QueryRow(c.ctx, stmt, args...)
}

// Rows implements sqlstore.Conn.
func (c conn) Rows(stmt string, args ...any) iter.Seq2[sqlstore.Row, error] {
	return func(yield func(sqlstore.Row, error) bool) {
		rows, err := c.db.Query(c.ctx, stmt, args...)
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

// Exec implements sqlstore.Conn.
func (c conn) Exec(stmt string, args ...any) (int64, error) {
	tag, err := c.db.Exec(c.ctx, stmt, args...)
	return tag.RowsAffected(), err
}

// reading runs f, which only reads, on a connection of the pool, and once more on a new
// connection when the first is dead, as all are after a restart of the server.
func (s *Store) reading(ctx context.Context, what string, f func(sqlstore.Conn) error) error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.life.Err() != nil {
			return errClosed()
		}
		err := f(conn{ctx, s.pool})
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
