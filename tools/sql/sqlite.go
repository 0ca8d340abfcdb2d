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

// maxValueBytes bounds a string or blob that a statement makes or reads: an interrupt does
// not end the making of one, and twice what an answer may have is of no use.
const maxValueBytes = 2 * MaxBytes

// hold bounds what statements of a connection can do, beside what parse refuses: values
// that take longer than a statement may, and pragmas, also those that are tables, which
// know the paths of the host.
func hold(ctx context.Context, c driver.Conn) error {
	auth, ok := c.(sqlite.AuthorizerRegisterer)
	if !ok {
		return errors.New("the driver of SQLite has no authorizer")
	}
	if err := auth.RegisterAuthorizer(func(action sqlite.AuthorizerActionCode, what, _, _, _ string) sqlite.AuthorizerReturnCode {
		switch {
		case action == sqlite.AuthAttach, action == sqlite.AuthDetach, action == sqlite.AuthPragma && what != "application_id":
			return sqlite.AuthorizerDeny
		}
		return sqlite.AuthorizerOK
	}); err != nil {
		return err
	}
	db := stdsql.OpenDB(lent{c}) // the driver takes limits by way of database/sql alone
	defer db.Close()
	own, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer own.Close()
	_, err = sqlite.Limit(own, sqlite3.SQLITE_LIMIT_LENGTH, maxValueBytes)
	return err
}

// lent is a connection that outlives its pool.
type lent struct{ driver.Conn }

// Connect implements driver.Connector, with Driver.
func (l lent) Connect(context.Context) (driver.Conn, error) { return l, nil }
func (l lent) Driver() driver.Driver                        { return new(sqlite.Driver) }

// Close implements driver.Conn and closes nothing. Unwrap gives the connection to the driver.
func (l lent) Close() error        { return nil }
func (l lent) Unwrap() driver.Conn { return l.Conn }

// SQLite is one file. where gives its path, for each connection anew; a file that is
// not there is not made.
func SQLite(where func() (path string, err error)) *Backend {
	return &Backend{
		Mark: "?",
		Connect: func(ctx context.Context, write bool) (driver.Conn, error) {
			path, err := where()
			if err != nil {
				return nil, err
			}
			q := "?mode=ro&_pragma=query_only(1)"
			if write {
				q = "?mode=rw&_txlock=immediate&_pragma=foreign_keys(1)"
			}
			c, err := new(sqlite.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + q + "&_pragma=busy_timeout(" + busyMS + ")&_pragma=trusted_schema(0)")
			if err != nil {
				return nil, err
			}
			if err := hold(ctx, c); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return c, nil
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
