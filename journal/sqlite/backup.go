package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"

	"github.com/seed14be6753/stile/journal"
)

// Backup copies the journal at path into the new file dest, also while a host works on it.
// The copy has what was acknowledged at one moment, and no erased bytes. It is checked and
// synced when Backup returns. Failures are ERR_JOURNAL; Backup then removes the copy.
func Backup(ctx context.Context, path, dest string) (err error) {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		path = filepath.Join(path, FileName)
	}
	// SQLite would read a relative path as the host of an address.
	if path, err = filepath.Abs(path); err == nil {
		dest, err = filepath.Abs(dest)
	}
	if err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "the journal's path")
	}
	if _, err := os.Stat(path); err != nil {
		return journal.Fail(journal.ReasonNotFound, bare(err), "there is no journal")
	}
	// Created here, so that no other user may read it and no existing file is overwritten.
	f, err := os.OpenFile(dest, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "the copy cannot be made")
	}
	if err := f.Close(); err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "the copy cannot be made")
	}
	defer func() {
		if err != nil {
			os.Remove(dest)
		}
	}()
	if err := onFile(ctx, path, "mode=ro", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", dest)
		return err
	}); err != nil {
		return journal.Fail(journal.ReasonIO, err, "copying the journal")
	}
	if err := onFile(ctx, dest, "mode=ro&immutable=1", func(db *sql.DB) error {
		var verdict string
		if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return errors.New(verdict)
		}
		return nil
	}); err != nil {
		return journal.Fail(journal.ReasonCorrupt, err, "the copy of the journal")
	}
	return durable(dest)
}

func onFile(ctx context.Context, path, mode string, do func(*sql.DB) error) (err error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: mode + "&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	return do(db)
}

// durable makes a file and its name outlive a crash.
func durable(path string) error {
	for _, name := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(name)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return journal.Fail(journal.ReasonIO, bare(err), "the copy of the journal")
		}
	}
	return nil
}
