package sqlite

import (
	"context"
	"database/sql"
)

// A commit goes into SQLite's log. Its pages are moved into the file beside the commits
// that follow, on a connection of its own: done within one, as SQLite does by itself,
// it would hold up every session for as long as a dozen commits take.
const (
	// moveAfter is how many bytes of rows are in the log, about, when it is moved. It has
	// twice as many then, with the pages of the indexes.
	moveAfter = 4 << 20
	// moveWhole is how many bytes commits may wait for: only while none is written the log
	// is moved to its end, and begun anew.
	moveWhole = 512 << 10
	// mostPasses is how often what came meanwhile is moved before commits wait.
	mostPasses = 4
	// mostFrames is how many pages the log has when a commit moves them itself: it was
	// faster than who moves it.
	mostFrames = 16_000
)

// rowBytes is what a row has beside its longest column, about.
const rowBytes = 128

// grown notes what a commit wrote, and has the log moved when it has become long. It is
// called under s.write.
func (s *store) grown(n int64) {
	if s.logged.Add(n) >= moveAfter && s.moving.CompareAndSwap(false, true) {
		s.movers.Go(func() {
			defer s.moving.Store(false)
			s.move()
		})
	}
}

// move moves the log into the file. If it fails it is tried again when the log has grown
// as much again, and nothing is lost: what was committed rests on the log alone.
func (s *store) move() {
	s.log.Lock()
	defer s.log.Unlock()
	s.logged.Store(0)
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
		s.logged.Store(0)
		if err := pass(db); err != nil {
			return
		}
		if s.logged.Load() <= moveWhole {
			break
		}
	}
	s.write.Lock()
	defer s.write.Unlock()
	if pass(db) == nil { // the next commit begins the log anew, unless a reader is still in it
		s.logged.Store(0)
	}
	s.stick(s.stands(true))
}

// usable tells that the file is open and has not failed.
func (s *store) usable() bool {
	s.write.Lock()
	defer s.write.Unlock()
	return s.writable() == nil
}

// pass moves what the log has now.
func pass(db *sql.DB) error {
	var busy, log, done int64
	return db.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &done)
}

// settle empties the log after an erasure.
func (s *store) settle() {
	s.log.Lock() // who moves it would be in the way
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
	// A reader that is in the way leaves it to the next checkpoint; nothing is lost.
	_ = c.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
}
