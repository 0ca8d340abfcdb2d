// Package sqlite is the journal store in one SQLite file, the embedded default.
//
// Invariants:
//   - one connection writes, under one lock, with synchronous=FULL in WAL mode: an
//     accepted batch has been synced. Readers have connections of their own and
//     keep no transaction open between two records;
//   - the fence is judged inside the writing transaction, against the rows, so two
//     processes on one file are safe. They are slow, though; Options.Exclusive
//     refuses the second one;
//   - a file is a journal if its application_id is applicationID. Any other file, and a
//     newer format, is refused and left as it was;
//   - after a failed write or sync nothing is written before Reopen.
//
// Rows are kept in the order of commit and found through an index by position.
// Clustered by session instead, every session of a group commit dirties a page of
// its own: at 64 sessions with one record each that wrote half as fast.
//
// It does not search: recall and ad-hoc questions are SQL over the view journal.
package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// FileName is the journal's name when Options.Path is a directory.
const FileName = "journal.db"

// applicationID marks journals: "stil" as PRAGMA application_id.
const applicationID = 0x7374696c

// Options say where the file is and how it is shared.
type Options struct {
	// Path of the file, or of a directory to hold FileName. Open creates a missing file or
	// directory, with rights for the owner alone.
	Path string
	// BusyTimeout is how long to wait for another process; 0 is 5 s.
	BusyTimeout time.Duration
	// Readers bounds the reading connections; 0 is 4.
	Readers int
	// Exclusive takes a lock beside the file, and fails (OWNED) when another
	// store of this or another process holds it.
	Exclusive bool
	// ReadOnly opens an existing file to read it: nothing of it is created, migrated or changed,
	// every write is refused (READ_ONLY), and neither the file nor its directory need be
	// writable. A file of an older format is read from a temporary copy.
	ReadOnly bool

	// fail, in tests, is called before each step of a commit.
	fail func(step string) error
	// vfs, in tests, is the file system that SQLite uses.
	vfs string
}

// store implements journal.Store.
type store struct {
	*tables
	opts  Options
	path  string
	owner *os.File // holds the exclusive lock; nil without
	here  here     // the lock of a host that attends
	view  view     // how a read-only store reads

	log    sync.Mutex   // held while the log is moved; taken before write
	logged atomic.Int64 // bytes of rows since it was moved
	synced atomic.Int64 // see Syncs
	moved  bool         // the log was moved to its end: the next commit begins it anew; under write
	moving atomic.Bool  // a move runs or is about to
	movers sync.WaitGroup

	write  sync.Mutex // held for a write; guards w, failed and ground
	w      *writer
	failed error
	ground ground

	pool   sync.RWMutex // guards r against Reopen and Close
	r      *readers     // nil once closed
	closed bool         // under both locks
}

var _ journal.Store = (*store)(nil)

// Open opens the file, or creates it. Failures are ERR_CONFIG for the options, and
// ERR_JOURNAL: FORMAT for a foreign file or a newer format, OWNED, BUSY or IO, and with
// ReadOnly NOT_FOUND for a missing file and FORMAT for one that was never finished.
func Open(opts Options) (journal.Store, error) {
	s, err := openStore(opts)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openStore(opts Options) (*store, error) {
	if opts.Path == "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "path", Detail: "the journal needs a path"}
	}
	if opts.BusyTimeout <= 0 {
		opts.BusyTimeout = 5 * time.Second
	}
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	if opts.ReadOnly {
		return openReadOnly(opts)
	}
	path, err := place(opts.Path)
	if err != nil {
		return nil, err
	}
	if err := plausibleLog(path); err != nil {
		return nil, err
	}
	s := &store{opts: opts, path: path}
	s.tables = sqlstore.New(s.dialect())
	if opts.Exclusive {
		if s.owner, err = own(path + ".lock"); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		if s.owner != nil {
			s.owner.Close()
		}
		return nil, err
	}
	return s, nil
}

// place returns the path of the file and creates a missing one. It never opens an existing
// file, because closing it would drop the locks that SQLite holds on it in this process.
func place(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", journal.Fail(journal.ReasonIO, err, "the journal's path")
	}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		if path = filepath.Join(path, FileName); isDir(path) || filepath.Base(filepath.Dir(path)) == FileName {
			return "", journal.Fail(journal.ReasonFormat, nil, "%s is a directory, and no journal", FileName)
		}
	} else if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", journal.Fail(journal.ReasonIO, bare(err), "the journal's directory cannot be made")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", journal.Fail(journal.ReasonIO, bare(err), "the journal file cannot be made or found")
	}
	return path, f.Close()
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// bare drops the path from an error of package os: errors name no host path.
func bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// open waits for other processes for up to BusyTimeout. SQLite's own wait does not cover the
// change to WAL mode, which two processes that create one file both try.
func (s *store) open() error {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := s.attach()
		if journal.ReasonOf(err) != journal.ReasonBusy || time.Since(start) > s.opts.BusyTimeout {
			return err
		}
	}
}

func (s *store) attach() error {
	if s.opts.ReadOnly {
		return s.look()
	}
	return s.connect()
}

func (s *store) connect() error {
	if err := claim(s.dsn()); err != nil {
		return err
	}
	if err := migrate(s.dsn("journal_mode(WAL)", "synchronous(FULL)")); err != nil {
		return err
	}
	w, err := newWriter(s.dsn("journal_mode(WAL)", "synchronous(FULL)", "secure_delete(ON)", "wal_autocheckpoint("+strconv.Itoa(mostFrames)+")"))
	if err != nil {
		return err
	}
	r, err := newReaders(s.dsn("query_only(1)"), s.opts.Readers)
	if err != nil {
		_ = w.close() // the first error is returned
		return err
	}
	s.w, s.r = w, r
	return s.ground.begin(s.path)
}

// dsn names the file to the driver, with pragmas for each connection.
func (s *store) dsn(pragmas ...string) string {
	if s.opts.ReadOnly {
		return s.uri(s.view.path, s.view.mode, pragmas...)
	}
	return s.uri(s.path, "_txlock=immediate", pragmas...)
}

func (s *store) uri(path, mode string, pragmas ...string) string {
	u := (&url.URL{Path: path}).EscapedPath()
	q := "?" + mode + "&_pragma=busy_timeout(" + strconv.FormatInt(s.opts.BusyTimeout.Milliseconds(), 10) + ")"
	for _, p := range pragmas {
		q += "&_pragma=" + p
	}
	if s.opts.vfs != "" {
		q += "&vfs=" + s.opts.vfs
	}
	return "file:" + u + q
}

// failure classifies an error of the driver. An error that is not known to be harmless is
// IO, and so sticky.
func failure(err error, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	reason := journal.ReasonIO
	var e *sqlite.Error
	if errors.As(err, &e) {
		what += grown(e.Code())
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			reason = journal.ReasonBusy
		case sqlite3.SQLITE_CONSTRAINT:
			reason = journal.ReasonCorrupt // the heads say it cannot happen
		case sqlite3.SQLITE_TOOBIG:
			reason = journal.ReasonInvalid
		}
	}
	return journal.Fail(reason, err, "%s", what)
}

// readFailure classifies an error of a read: bytes that are no table, or columns of a wrong
// type, are CORRUPT.
func readFailure(err error, what string) error {
	var typed *messages.Error
	if errors.As(err, &typed) {
		return err
	}
	reason := journal.ReasonCorrupt
	var e *sqlite.Error
	if errors.As(err, &e) {
		what += grown(e.Code())
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			reason = journal.ReasonBusy
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
			reason = journal.ReasonIO
		}
	}
	return journal.Fail(reason, err, "%s", what)
}

// grown says which file could not grow where SQLite's text is an I/O error like any other: on
// a full disk it is this one that fails first when a journal is opened.
func grown(code int) string {
	if code == sqlite3.SQLITE_IOERR_SHMSIZE {
		return ": the file beside it, " + FileName + "-shm, cannot grow; the disk may be full"
	}
	return ""
}

func errClosed() error { return journal.Fail(journal.ReasonClosed, nil, "the store is closed") }

// Immediate implements journal.Store: a commit waits for the disk.
func (s *store) Immediate() bool { return false }

// Reopen implements journal.Store.
func (s *store) Reopen() error {
	s.log.Lock()
	defer s.log.Unlock()
	s.write.Lock()
	defer s.write.Unlock()
	s.pool.Lock()
	defer s.pool.Unlock()
	if s.closed {
		return errClosed()
	}
	if err := s.rescue(); err != nil {
		s.failed = err
		return err
	}
	if s.w != nil {
		_ = s.w.close() // opening the file again reports what is wrong with it
		s.w = nil
	}
	if s.r != nil {
		_ = s.r.close()
		s.r = nil
	}
	if err := s.view.close(s); err != nil {
		s.failed = err
		return err
	}
	if err := s.open(); err != nil {
		s.failed = err
		return err
	}
	s.failed = nil
	return nil
}

// Close implements journal.Store. It may be called twice.
func (s *store) Close() error {
	defer s.movers.Wait()
	s.log.Lock()
	defer s.log.Unlock()
	s.write.Lock()
	defer s.write.Unlock()
	s.pool.Lock()
	defer s.pool.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.r != nil {
		errs = append(errs, s.r.close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	s.r, s.w = nil, nil
	errs = append(errs, s.view.close(s))
	if s.owner != nil {
		errs = append(errs, s.owner.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return failure(err, "closing the journal")
	}
	return nil
}

// Check lets SQLite examine the whole file: pages, indexes, constraints. It takes as long as
// reading the file. The error is CORRUPT with the first fault found.
func (s *store) Check(ctx context.Context) error {
	return s.reading(ctx, "checking the file", func(c sqlstore.Conn) error {
		var verdict string
		if err := c.Row("PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
			return err
		}
		if verdict != "ok" {
			return journal.Fail(journal.ReasonCorrupt, nil, "%s", verdict)
		}
		return nil
	})
}

// prepared is a statement on the writing connection, without database/sql in
// between: its locks and conversions cost about as much as a small insert.
type prepared struct{ driver.Stmt }

func (p prepared) exec(args []driver.NamedValue) error {
	_, err := p.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return err
}

func (p prepared) query(args []driver.NamedValue) (driver.Rows, error) {
	return p.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), args)
}
