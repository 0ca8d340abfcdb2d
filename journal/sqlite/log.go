package sqlite

import (
	"context"
	"database/sql"
)

// A commit goes into SQLite's log. Its pages are moved into the file beside the commits
// that follow, on a connection of its own: done within one, as SQLite does by itself,
// it would hold up every session for as long as a dozen commits take.
const (
	// moveAfter is about how many bytes of rows are in the log when it is moved. The log is
	// twice as long then, with the pages of the indexes.
	moveAfter = 4 << 20
	// moveWhole bounds the bytes that are moved while commits wait: the log can be moved to
	// its end, and begun anew, only while no commit is written.
	moveWhole = 512 << 10
	// mostPasses bounds how often new commits are moved before commits have to wait.
	mostPasses = 4
	// mostFrames is the pages of the log at which a commit moves them itself, because
	// commits were faster than the mover.
	mostFrames = 16_000
)

// rowBytes is about the size of a row without its longest column.
const rowBytes = 128

// grown adds the bytes of a commit, and starts moving the log when it is long. s.write is
// held.
func (s *store) grown(n int64) {
	if s.logged.Add(n) >= moveAfter && s.moving.CompareAndSwap(false, true) {
		s.movers.Go(func() {
			defer s.moving.Store(false)
			s.move()
		})
	}
}

// move moves the log into the file. A failed move is tried again when the log has grown by
// moveAfter once more; no commit is lost, because the log alone makes commits durable.
func (s *store) move() {
	s.log.Lock()
	defer s.log.Unlock()
	if !s.usable() {
		return
	}
	db, err := sql.Open("sqlite", s.dsn("synchronous(FULL)"))
	if err != nil {
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for range mostPasses {
		grown := s.logged.Swap(0)
		if err := s.pass(db, grown); err != nil {
			return
		}
		if s.logged.Load() <= moveWhole {
			break
		}
	}
	s.write.Lock()
	defer s.write.Unlock()
	if s.pass(db, s.logged.Load()) == nil { // the next commit begins the log anew, unless a reader is still in it
		s.logged.Store(0)
		s.moved = true
	}
	s.stick(s.stands(true))
}

// usable reports whether the file is open and has not failed.
func (s *store) usable() bool {
	s.write.Lock()
	defer s.write.Unlock()
	return s.writable() == nil
}

// pass moves the pages that the log has now, which has grown by so many bytes since it was moved.
func (s *store) pass(db *sql.DB, grown int64) error {
	var busy, log, done int64
	err := db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &done)
	if err == nil && grown > 0 {
		s.synced.Add(2) // the log, then the file
	}
	return err
}

// written counts the syncs of a transaction that has written. s.write is held.
func (s *store) written() {
	s.synced.Add(1)
	if s.moved {
		s.moved = false
		s.synced.Add(1) // the head of a new log
	}
}

// Syncs is how often this store has waited for the disk: once for each transaction that wrote, and
// three times for each move of the log. It leaves out opening the journal, erasures, and the rare
// move that a commit does itself. A move beside a long read is counted as three where it is two.
func (s *store) Syncs() int64 { return s.synced.Load() }

// settle empties the log after an erasure.
func (s *store) settle() {
	s.log.Lock() // waits for a move of the log
	defer s.log.Unlock()
	s.write.Lock()
	defer s.write.Unlock()
	if s.writable() == nil {
		checkpoint(s.w.conn)
		s.stick(s.stands(true))
	}
}

// checkpoint moves the log into the file and empties it, as far as readers let
// it: erased bytes must not stay in the log.
func checkpoint(c *sql.Conn) {
	var busy, log, done int64
	// A reader may prevent it; the next checkpoint then does it, and nothing is lost.
	_ = c.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
}
