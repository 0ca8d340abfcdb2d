package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed14be6753/stile/tools"
)

// journalID marks a journal of stile, as PRAGMA application_id: it is no relic.
const journalID = 0x7374696c

// busyMS is how long a statement waits for another that writes.
const busyMS = "5000"

// SQLite is one file. where gives its path, for each connection anew; a file that is
// not there is not made.
func SQLite(where func() (path string, err error)) *Backend {
	return &Backend{
		Mark: "?",
		Connect: func(_ context.Context, write bool) (driver.Conn, error) {
			path, err := where()
			if err != nil {
				return nil, err
			}
			q := "?mode=ro&_pragma=query_only(1)"
			if write {
				q = "?mode=rw&_txlock=immediate&_pragma=foreign_keys(1)"
			}
			return new(sqlite.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + q + "&_pragma=busy_timeout(" + busyMS + ")&_pragma=trusted_schema(0)")
		},
		Driver: new(sqlite.Driver),
		Begin: func(ctx context.Context, tx *stdsql.Tx, _ time.Duration) error {
			var id int64
			if err := tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
				return err
			}
			if id == journalID {
				return tools.Refuse(ReasonUnavailable, "the file is a journal of stile")
			}
			return nil
		},
		Said: func(err error) (text string, ok bool) {
			var e *sqlite.Error
			if !errors.As(err, &e) {
				return "", false
			}
			switch e.Code() & 0xff {
			case sqlite3.SQLITE_CANTOPEN:
				return "the file is not there, or cannot be opened", false
			case sqlite3.SQLITE_NOTADB:
				return "the file is no database", false
			case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT:
				return e.Error(), false // what became of a commit nobody knows
			}
			return e.Error(), true
		},
	}
}
