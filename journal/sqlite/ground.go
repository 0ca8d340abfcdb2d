package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/seed14be6753/stile/journal"
)

// ground is the identity of the file under a store. SQLite goes on writing into a file that
// was unlinked, replaced or cut, and after a restart that is lost. So a commit looks at file
// and log before it is acknowledged: it looks up both names, and reads the file when
// another process has written to it.
type ground struct {
	file os.FileInfo // when first opened; nil before
	log  os.FileInfo // of this opening; nil before its first commit
	size int64       // the most seen: the file never shrinks
	at   time.Time   // the last modification that is accounted for
	lost error       // a failure that Reopen cannot mend
}

// wholeLook is the largest file that is checked as a whole when another process has written
// to it; of a larger file the roots of its trees are checked.
const wholeLook = 16 << 20

// begin records the file as it is. s.write is held.
func (g *ground) begin(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return journal.Fail(journal.ReasonIO, bare(err), "looking at the journal file")
	}
	g.file, g.log, g.size, g.at = fi, nil, fi.Size(), fi.ModTime()
	return nil
}

// stands returns an error when the file is not in its place or not whole. own reports
// whether this store has written to it. s.write is held.
func (s *store) stands(own bool) error {
	g := &s.ground
	if g.lost != nil || g.file == nil {
		return g.lost
	}
	fi, err := s.same(s.path, g.file, "file")
	if err != nil {
		return err
	}
	if fi.Size() < g.size {
		g.lost = journal.Fail(journal.ReasonIO, nil, "the journal file was cut from %d to %d bytes; restore it from a backup and start again", g.size, fi.Size())
		return g.lost
	}
	if s.w != nil {
		if g.log, err = s.same(s.path+"-wal", g.log, "log"); err != nil {
			return err
		}
	}
	if g.size = fi.Size(); !fi.ModTime().Equal(g.at) {
		if g.lost = s.content(!own && !s.moving.Load() && g.size <= wholeLook); g.lost != nil {
			return g.lost
		}
		g.at = fi.ModTime()
	}
	return nil
}

// rescue prepares the file for Reopen to close it. A file that is not whole is left as it is.
// When the log was unlinked, its commits are moved into the file while it is still open.
// s.write is held.
func (s *store) rescue() error {
	err := s.stands(false)
	if err == nil || s.ground.lost != nil || s.w == nil {
		return err
	}
	s.ground.log = nil
	if err := s.stands(false); err != nil {
		return err
	}
	var busy, log, moved int64
	if err := s.w.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &moved); err != nil || moved < log {
		s.ground.lost = journal.Fail(journal.ReasonIO, err, "the journal's log is gone from its place, and what was committed last with it")
	}
	return s.ground.lost
}

// same returns an error when a path no longer names the file that it did. The log exists
// from the first commit on.
func (s *store) same(path string, was os.FileInfo, what string) (os.FileInfo, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && was == nil:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, journal.Fail(journal.ReasonIO, nil, "the journal's %s is gone from its place; put it back", what)
	case err != nil:
		return nil, journal.Fail(journal.ReasonIO, bare(err), "looking at the journal's %s", what)
	case was != nil && !os.SameFile(fi, was):
		return nil, journal.Fail(journal.ReasonIO, nil, "another file is in the place of the journal's %s; put it back", what)
	}
	return fi, nil
}

// content checks the file's content on a new connection, which has no page cached. An error
// that only prevents the check does not count.
func (s *store) content(whole bool) error {
	db, err := sql.Open("sqlite", s.dsn("query_only(1)"))
	if err != nil {
		return nil
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	id, _, err := identity(context.Background(), db)
	if err == nil && id != applicationID {
		err = journal.Fail(journal.ReasonFormat, nil, "it is no journal any more")
	}
	verdict := "ok"
	if err == nil && whole {
		err = db.QueryRow("PRAGMA quick_check(1)").Scan(&verdict)
	} else if err == nil {
		err = db.QueryRow("SELECT (SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM records LIMIT 1))").Scan(new(int64))
	}
	if err != nil {
		if err = readFailure(err, "looking into the journal file"); journal.ReasonOf(err) == journal.ReasonBusy || journal.ReasonOf(err) == journal.ReasonIO {
			return nil
		}
	}
	if err == nil && verdict == "ok" {
		return nil
	}
	return journal.Fail(journal.ReasonIO, err, "the journal file was overwritten; restore it from a backup and start again")
}

// Stands returns an error when the file that the store was opened on is not in its place or
// not whole. It returns nil while a commit is under way, which checks the file itself.
func (s *store) Stands() error {
	if !s.write.TryLock() {
		return nil
	}
	defer s.write.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	err := s.stands(false)
	s.stick(err)
	return err
}

// plausibleLog returns CORRUPT when the file beside a journal cannot be its log: SQLite would
// ignore such a log, and lose the commits that are not yet moved into the file.
func plausibleLog(path string) error {
	f, err := os.Open(path + "-wal")
	if err != nil {
		return nil // there is no log, or SQLite reports the error
	}
	defer f.Close()
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil // it was never begun
	}
	switch head {
	case [4]byte{0x37, 0x7f, 0x06, 0x82}, [4]byte{0x37, 0x7f, 0x06, 0x83}, [4]byte{}:
		return nil
	}
	return journal.Fail(journal.ReasonCorrupt, nil, "%s-wal is no log of a journal: what was committed last is in it; restore it, or move it away to go on without", FileName)
}
