package sqlite

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// Reading alone. A journal in WAL mode is three files: the database, the log, and an
// index of the log in shared memory, which SQLite must be able to make. There are
// four ways, tried in this order:
//
//	shared     the index is there or can be made: SQLite reads file and log, also
//	           beside a running host
//	immutable  the directory cannot be written and there is no log: no process has the
//	           file open, and it is read as it is
//	copied     the directory cannot be written and there is a log, as a kill or a
//	           backup leaves it: file and log are copied to the system's folder for
//	           temporary files and read there. To leave the log out would be easy, and
//	           would hide what was acknowledged last.
//	upgraded   the file has an older format: a copy is made in the same way, brought to
//	           this version's format and read. It takes as much room as the journal, and
//	           shows the journal of that moment; the file itself stays as it is.
//
// Reading removes the index and the empty log that it has made.
type view struct {
	mode  string // of the URI
	path  string // of the file that is read
	copy  string // the directory of a copy; "" without
	clean bool   // there was no log before
}

func openReadOnly(opts Options) (*store, error) {
	if opts.Exclusive {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "exclusive", Detail: "a journal opened for reading cannot be exclusive"}
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, journal.Fail(journal.ReasonIO, err, "the journal's path")
	}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		path = filepath.Join(path, FileName)
	}
	switch fi, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil, journal.Fail(journal.ReasonNotFound, bare(err), "there is no journal")
	case err != nil:
		return nil, journal.Fail(journal.ReasonIO, bare(err), "the journal file")
	case !fi.Mode().IsRegular():
		return nil, journal.Fail(journal.ReasonFormat, nil, "the journal is no regular file")
	}
	s := &store{opts: opts, path: path}
	s.tables = sqlstore.New(s.dialect())
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// look finds a way to read the file and opens it.
func (s *store) look() error {
	err := s.find()
	if !errors.Is(err, errOlder) {
		return err
	}
	if err := s.upgraded(); err != nil {
		return errors.Join(err, s.view.close(s))
	}
	return nil
}

// find finds a way to read a file of this version's format.
func (s *store) find() error {
	log, err := size(s.path + "-wal")
	if err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "the journal's log")
	}
	s.view = view{mode: "mode=ro", path: s.path, clean: log < 0}
	err = s.read()
	if !unwritable(err) {
		return err
	}
	if log <= 0 {
		s.view = view{mode: "mode=ro&immutable=1", path: s.path}
		return s.read()
	}
	if err := s.copied(); err != nil {
		return errors.Join(err, s.view.close(s))
	}
	return nil
}

func (s *store) copied() error {
	if err := s.copy("a journal with a log in a directory that cannot be written"); err != nil {
		return err
	}
	return s.read()
}

// upgraded reads a copy of a file of an older format, in this version's.
func (s *store) upgraded() error {
	if s.view.copy == "" {
		if err := s.view.close(s); err != nil {
			return err
		}
		if err := s.copy("a journal of an older format"); err != nil {
			return err
		}
	}
	if err := known(s.dsn()); err != nil && !errors.Is(err, errOlder) {
		return err // an empty file would become a journal
	}
	if err := migrate(s.uri(s.view.path, "_txlock=immediate")); err != nil {
		return err
	}
	return s.read()
}

// copy makes the view one of a copy, of which what says what is copied.
func (s *store) copy(what string) error {
	dir, err := os.MkdirTemp("", "stile-journal")
	if err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "%s is read from a copy, which cannot be made", what)
	}
	s.view = view{mode: "mode=rw", path: filepath.Join(dir, FileName), copy: dir}
	// The log is copied first: what a host moves into the file meanwhile is then in both.
	for _, suffix := range []string{"-wal", ""} {
		err := duplicate(s.path+suffix, s.view.path+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return journal.Fail(journal.ReasonIO, bare(err), "copying the journal in order to read it")
		}
	}
	return nil
}

// read opens the readers on the file that the view names.
func (s *store) read() error {
	err := known(s.dsn())
	if err == nil {
		s.r, err = newReaders(s.dsn("query_only(1)"), s.opts.Readers)
	}
	return err
}

// close removes the files that the view has made.
func (v *view) close(s *store) error {
	was := *v
	*v = view{}
	switch {
	case was.copy != "":
		if err := os.RemoveAll(was.copy); err != nil {
			return journal.Fail(journal.ReasonIO, bare(err), "removing the copy of the journal")
		}
	case was.clean:
		// SQLite removes an index and an empty log itself, under its own locks, when
		// the last connection that may write closes. Where that cannot be, they stay.
		if log, err := size(s.path + "-wal"); err == nil && log == 0 {
			if db, err := sql.Open("sqlite", s.uri(s.path, "mode=rw")); err == nil {
				_ = db.QueryRow("SELECT 1 FROM sqlite_master LIMIT 1").Scan(new(int64))
				_ = db.Close()
			}
		}
	}
	return nil
}

// unwritable reports whether SQLite could not make the files it needs beside the journal.
func unwritable(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_READONLY
}

// size is a file's length, -1 when there is none.
func size(path string) (int64, error) {
	fi, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func duplicate(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
