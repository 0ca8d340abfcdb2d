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

// journalID marks a journal of stile, as PRAGMA application_id; a relic must not open one.
const journalID = 0x7374696c

// busyMS is how long a statement waits for another that writes, in milliseconds.
const busyMS = "5000"

// maxValueBytes bounds a string or blob that a statement makes or reads, because an interrupt
// does not end the making of one. A longer value would not fit the answer anyway.
const maxValueBytes = 2 * MaxBytes

// hold limits the statements of a connection beside what parse refuses: the size of values,
// and pragmas, also as tables, which have the paths of the host.
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
	db := stdsql.OpenDB(borrowed{c}) // the driver takes limits through database/sql alone
	defer db.Close()
	own, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer own.Close()
	_, err = sqlite.Limit(own, sqlite3.SQLITE_LIMIT_LENGTH, maxValueBytes)
	return err
}

// borrowed is a connection that outlives its pool.
type borrowed struct{ driver.Conn }

// Connect implements driver.Connector, with Driver.
func (l borrowed) Connect(context.Context) (driver.Conn, error) { return l, nil }
func (l borrowed) Driver() driver.Driver                        { return new(sqlite.Driver) }

// Close implements driver.Conn and closes nothing. Unwrap returns the connection, for the driver.
func (l borrowed) Close() error        { return nil }
func (l borrowed) Unwrap() driver.Conn { return l.Conn }

// SQLite returns the backend of one file. where returns its path, and is called for each
// connection; a missing file is not created.
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
		Describe: func(err error) (text string, ok bool) {
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
				return e.Error(), false // the outcome of a commit is unknown
			}
			return e.Error(), true
		},
	}
}
