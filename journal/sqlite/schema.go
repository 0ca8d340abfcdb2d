package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// claim checks that the file is a journal before anything is changed in it: it marks an
// empty file and refuses a foreign one.
func claim(dsn string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return failure(err, "opening the journal")
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if id, _, err := identity(ctx, db); err != nil || id == applicationID {
		return err
	}
	// Another process may be creating this file: id and tables must be read in one
	// transaction to be judged together.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return foreign(err)
	}
	defer tx.Rollback()
	id, tables, err := identity(ctx, tx)
	if err != nil || id == applicationID {
		return err
	}
	if id != 0 || tables != 0 {
		return journal.Fail(journal.ReasonFormat, nil, "the file is a SQLite database of something else")
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return failure(err, "marking the journal")
	}
	if err := tx.Commit(); err != nil {
		return failure(err, "marking the journal")
	}
	return nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// identity returns the file's application_id and the count of its tables.
func identity(ctx context.Context, q querier) (id, tables int64, err error) {
	if err := q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return 0, 0, foreign(err)
	}
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return 0, 0, foreign(err)
	}
	return id, tables, nil
}

// foreign turns SQLite's "not a database" into FORMAT.
func foreign(err error) error {
	typed := readFailure(err, "opening the journal")
	if journal.ReasonOf(typed) == journal.ReasonCorrupt {
		return journal.Fail(journal.ReasonFormat, err, "the file is no journal, or it is damaged")
	}
	return typed
}

// migrate brings the file to this version's format.
func migrate(dsn string) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return failure(err, "reading the migrations")
	}
	want, err := sqlstore.NewestMigration(dir)
	if err != nil {
		return failure(err, "reading the migrations")
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return failure(err, "opening the journal")
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	// Two processes may find the same new file. One of them fails inside a migration that
	// the other has applied by then, and succeeds when it tries again.
	for try := 0; ; try++ {
		have, err := format(db)
		switch {
		case err != nil:
			return err
		case have > want:
			return journal.Fail(journal.ReasonFormat, nil, "the file has format %d; this version knows %d", have, want)
		case have == want:
			return nil
		case try > tries: // in a damaged table goose finds nothing to do
			return journal.Fail(journal.ReasonFormat, nil, "the file's table of versions is damaged: it says %d after migrations to %d", have, want)
		}
		if err := begun(db); err != nil {
			return err
		}
		if err = up(db, dir); err != nil && (try == tries || diskFailed(err)) {
			return err
		}
	}
}

// tries bounds how often a failed migration is tried again.
const tries = 3

// errOlder is the cause of an error of known: the file is of an older format, which migrate
// brings to this version's.
var errOlder = errors.New("an older version wrote the file")

// known returns an error when this version cannot read the file as it is. It changes nothing.
func known(dsn string) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return failure(err, "opening the journal")
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	id, tables, err := identity(context.Background(), db)
	switch {
	case err != nil:
		return err
	case id == 0 && tables == 0:
		return journal.Fail(journal.ReasonFormat, nil, "the file is empty: no journal was begun in it")
	case id != applicationID:
		return journal.Fail(journal.ReasonFormat, nil, "the file is a SQLite database of something else")
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return failure(err, "reading the migrations")
	}
	want, err := sqlstore.NewestMigration(dir)
	if err != nil {
		return failure(err, "reading the migrations")
	}
	have, err := format(db)
	switch {
	case err == nil && have > want:
		err = journal.Fail(journal.ReasonFormat, nil, "the file has format %d; this version knows %d", have, want)
	case err == nil && have < want:
		err = journal.Fail(journal.ReasonFormat, errOlder, "the file has format %d; this version reads %d", have, want)
	}
	return err
}

// format returns the file's version, 0 for a file without one. It reads the table itself
// because goose takes seconds to give up on a damaged one.
func format(db *sql.DB) (int64, error) {
	var tables int64
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE name = ?", goose.DefaultTablename).Scan(&tables); err != nil {
		return 0, foreign(err)
	}
	if tables == 0 {
		return 0, nil
	}
	var version sql.NullInt64
	if err := db.QueryRow("SELECT max(version_id) FROM " + goose.DefaultTablename + " WHERE is_applied").Scan(&version); err != nil {
		return 0, foreign(err)
	}
	return version.Int64, nil
}

// begun refuses a damaged file: one with tables that has no table of versions, or lacks the
// first version in it. Goose would begin such a file anew, or retry for a while.
func begun(db *sql.DB) error {
	var all, ours int64
	if err := db.QueryRow("SELECT count(*), count(*) FILTER (WHERE name = ?) FROM sqlite_master", goose.DefaultTablename).Scan(&all, &ours); err != nil {
		return foreign(err)
	}
	if all == 0 {
		return nil
	}
	first := int64(-1)
	if ours > 0 {
		if err := db.QueryRow("SELECT coalesce(min(version_id), -1) FROM " + goose.DefaultTablename).Scan(&first); err != nil {
			return foreign(err)
		}
	}
	if first != 0 {
		return journal.Fail(journal.ReasonFormat, nil, "the file's table of versions is damaged")
	}
	return nil
}

// diskFailed reports whether err is a failure of the disk, which another try does not mend,
// and not a lost race.
func diskFailed(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

func up(db *sql.DB, dir fs.FS) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	if err != nil {
		return failure(err, "reading the format version")
	}
	if _, err := p.Up(context.Background()); err != nil {
		return failure(err, "migrating the journal")
	}
	return nil
}
