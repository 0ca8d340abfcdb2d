package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// An increment is a SQLite file with what a journal has beyond earlier copies of it:
//
//	increment          one row: format of the journal, count of its sessions and of their records
//	sessions, listings, meta, records, blobs    rows that are new or changed
//	removed_sessions, removed_listings, removed_meta    keys of rows that are gone
//	erased             ranges of records without a body that no increment before it names
//
// Rows of sessions, listings and meta are compared as a whole. Records and blobs are never
// changed but by an erasure, so that the records behind the last head are the new ones.

// Extent says how much a journal had when an increment was made.
type Extent struct {
	Sessions, Records int64
	// Changed are the sessions with records in the increment.
	Changed []messages.Incarnation
}

// BackupSince writes into the new file dest what the journal at path has beyond the copies in
// chain: one that Backup made, and the increments of BackupSince behind it, in order. It reads
// one moment of the journal, also while a host works on it. Restore puts them together.
//
// A chain that the journal does not continue is ERR_JOURNAL: FORMAT for copies of another
// format of the file, CORRUPT for a session that is another one than in the copies.
// BackupSince then removes dest.
func BackupSince(ctx context.Context, path, dest string, chain ...string) (x Extent, err error) {
	f, err := os.OpenFile(dest, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return x, journal.Fail(journal.ReasonIO, bare(err), "the increment cannot be made")
	}
	defer func() {
		if err != nil {
			os.Remove(dest)
		}
	}()
	err = onFile(ctx, absolute(dest), "mode=rw&_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)", func(db *sql.DB) error {
		was, err := earlier(ctx, db, chain)
		if err != nil {
			return err
		}
		if err := attached(ctx, db, path, "mode=ro", func() error { return was.candidates(ctx, db) }); err != nil {
			return err
		}
		for _, file := range chain {
			if err := attached(ctx, db, file, "mode=ro&immutable=1", func() error { return execute(ctx, db, blobsOfMember) }); err != nil {
				return err
			}
		}
		return attached(ctx, db, path, "mode=ro", func() (err error) {
			x, err = difference(ctx, db, was)
			return err
		})
	})
	if err != nil {
		if journal.ReasonOf(err) == "" {
			err = journal.Fail(journal.ReasonIO, err, "copying what is new in the journal")
		}
		return x, err
	}
	return x, durable(dest)
}

// compared are the tables whose rows are compared as a whole, with their keys.
var compared = []struct{ table, key string }{{"sessions", "id"}, {"listings", "session"}, {"meta", "key"}}

// were is what the copies of a chain hold together, in tables was_… of the connection.
type were struct {
	format int64
}

// earlier reads the members of a chain into the tables was_….
func earlier(ctx context.Context, db *sql.DB, chain []string) (w were, err error) {
	if len(chain) == 0 {
		return w, journal.Fail(journal.ReasonInvalid, nil, "an increment without a copy that it continues")
	}
	for i, file := range chain {
		err := attached(ctx, db, file, "mode=ro&immutable=1", func() error {
			made, err := isIncrement(ctx, db)
			if err != nil {
				return err
			}
			if made != (i > 0) {
				return journal.Fail(journal.ReasonInvalid, nil, "a chain is a whole copy and increments behind it")
			}
			format, err := memberFormat(ctx, db, made)
			if err != nil {
				return err
			}
			if i == 0 {
				w.format = format
				return execute(ctx, db, wholeMember)
			}
			if format != w.format {
				return journal.Fail(journal.ReasonFormat, nil, "an increment of format %d behind a copy of format %d", format, w.format)
			}
			return execute(ctx, db, incrementMember)
		})
		if err != nil {
			return w, err
		}
	}
	return w, nil
}

// Statements on an attached member m of a chain. They keep the tables was_… what the chain holds.
var (
	wholeMember     = made("CREATE TEMP TABLE was_%t AS SELECT * FROM m.%t; CREATE UNIQUE INDEX temp.was_%t_key ON was_%t (%k);") + "CREATE TEMP TABLE was_erased (session, first, last);"
	incrementMember = made("DELETE FROM was_%t WHERE %k IN (SELECT %k FROM m.removed_%t); INSERT OR REPLACE INTO was_%t SELECT * FROM m.%t;") + "INSERT INTO was_erased SELECT * FROM m.erased;"
	// blobsOfMember collects the blobs of sessions that have changed since. A removed session may have left
	// its number to another one.
	blobsOfMember = "INSERT INTO was_blobs SELECT b.session, b.digest FROM candidates c CROSS JOIN m.blobs b ON b.session = c.id;"
)

func made(stmts string) string {
	var b strings.Builder
	for _, c := range compared {
		b.WriteString(strings.NewReplacer("%t", c.table, "%k", c.key).Replace(stmts))
	}
	return b.String()
}

// candidates are the sessions that go on from the chain. Their blobs of the chain are not copied again; not
// so those of a session of which records were erased one by one, because a blob may have gone and come back.
func (w were) candidates(ctx context.Context, db *sql.DB) error {
	format, err := memberFormat(ctx, db, false)
	if err != nil {
		return err
	}
	if format != w.format {
		return journal.Fail(journal.ReasonFormat, nil, "the backup is of format %d of the journal, which has format %d now: make a whole one", w.format, format)
	}
	return execute(ctx, db, `CREATE TEMP TABLE candidates AS SELECT w.id FROM was_sessions w JOIN m.sessions s ON s.id = w.id AND s.inc = w.inc
		WHERE s.seq > w.seq AND w.id NOT IN (SELECT session FROM was_erased);
	CREATE TEMP TABLE was_blobs (session, digest);`)
}

// difference copies what the attached journal m has beyond the tables was_….
func difference(ctx context.Context, db *sql.DB, w were) (x Extent, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return x, err
	}
	defer tx.Rollback()
	run := func(stmts string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, stmts, args...)
		}
	}
	run("CREATE INDEX temp.was_blobs_key ON was_blobs (session, digest)")
	run("CREATE TABLE increment AS SELECT ? AS format, count(*) AS sessions, coalesce(sum(seq), 0) AS records FROM m.sessions", w.format)
	run("CREATE TABLE removed_sessions AS SELECT id, inc FROM was_sessions w WHERE NOT EXISTS (SELECT 1 FROM m.sessions s WHERE s.id = w.id AND s.inc = w.inc)")
	run("CREATE TABLE removed_listings AS SELECT session FROM was_listings EXCEPT SELECT session FROM m.listings")
	run("CREATE TABLE removed_meta AS SELECT key FROM was_meta EXCEPT SELECT key FROM m.meta")
	for _, c := range compared {
		run("CREATE TABLE " + c.table + " AS SELECT * FROM m." + c.table + " EXCEPT SELECT * FROM was_" + c.table)
	}
	run("CREATE TEMP TABLE parts AS SELECT s.id, s.sid, s.inc, s.seq, coalesce(w.seq, 0) AS behind, w.hash FROM sessions s LEFT JOIN was_sessions w ON w.id = s.id AND w.inc = s.inc")
	run(`CREATE TABLE records AS SELECT r.* FROM parts p CROSS JOIN m.records r ON r.pos > (p.id << 32 | p.behind) AND r.pos <= (p.id << 32 | p.seq)`)
	run(`CREATE TABLE blobs AS SELECT b.* FROM parts p CROSS JOIN m.blobs b ON b.session = p.id
		WHERE p.seq > p.behind AND NOT EXISTS (SELECT 1 FROM was_blobs o WHERE o.session = b.session AND o.digest = b.digest)`)
	run(`CREATE TABLE erased AS SELECT pos >> 32 AS session, min(pos) & 4294967295 AS first, max(pos) & 4294967295 AS last
		FROM (SELECT pos, pos - row_number() OVER (ORDER BY pos) AS island FROM (SELECT pos FROM m.records NOT INDEXED WHERE body IS NULL))
		GROUP BY pos >> 32, island EXCEPT SELECT session, first, last FROM was_erased`)
	if err != nil {
		return x, err
	}
	var other string
	err = tx.QueryRowContext(ctx, `SELECT p.sid FROM parts p WHERE p.behind > 0 AND NOT EXISTS
		(SELECT 1 FROM m.records r WHERE r.pos = (p.id << 32 | p.behind) AND r.hash = p.hash) LIMIT 1`).Scan(&other)
	if err == nil {
		return x, journal.Fail(journal.ReasonCorrupt, nil, "session %s does not continue the backup: make a whole one", other)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return x, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT sessions, records FROM increment").Scan(&x.Sessions, &x.Records); err != nil {
		return x, err
	}
	for row, err := range found(tx.QueryContext(ctx, "SELECT inc FROM parts WHERE seq > behind")) {
		var inc []byte
		if err == nil {
			err = row.Scan(&inc)
		}
		if err != nil {
			return x, err
		}
		if len(inc) != len(messages.Incarnation{}) {
			return x, journal.Fail(journal.ReasonCorrupt, nil, "an incarnation of %d bytes", len(inc))
		}
		x.Changed = append(x.Changed, messages.Incarnation(inc))
	}
	return x, tx.Commit()
}

// Restore brings the copy of a journal at path, made by Backup, up to the last of the
// increments that were made behind it, in order. Then it removes what later copies and
// increments of the same journal say to be removed or erased, and takes the small values
// beside the sessions from them. No host may use the copy. On an error the copy is neither the
// one nor the other: discard it.
func Restore(ctx context.Context, path string, increments, later []string) error {
	erased := false
	for _, file := range increments {
		some, err := apply(ctx, path, file)
		if err != nil {
			return err
		}
		erased = erased || some
	}
	for _, file := range later {
		some, err := forget(ctx, path, file)
		if err != nil {
			return err
		}
		erased = erased || some
	}
	if erased { // bytes of it can be left in pages that insertions have split
		err := onFile(ctx, absolute(path), "mode=rw&_pragma=journal_mode(DELETE)", func(db *sql.DB) error { return execute(ctx, db, "VACUUM") })
		if err != nil {
			return journal.Fail(journal.ReasonIO, err, "removing what was erased")
		}
	}
	return durable(absolute(path))
}

// apply brings a copy up to one increment, and reports whether something was erased for it.
func apply(ctx context.Context, path, increment string) (erased bool, err error) {
	gone, err := goneIn(ctx, path, increment)
	if err != nil {
		return false, err
	}
	if err := gone.remove(ctx, path); err != nil {
		return false, err
	}
	err = onFile(ctx, absolute(path), "mode=rw&_pragma=journal_mode(MEMORY)&_pragma=secure_delete(1)", func(db *sql.DB) error {
		return attached(ctx, db, increment, "mode=ro&immutable=1", func() error {
			format, err := memberFormat(ctx, db, true)
			if err != nil {
				return err
			}
			var mine int64
			if err := db.QueryRowContext(ctx, "SELECT max(version_id) FROM main.goose_db_version WHERE is_applied").Scan(&mine); err != nil {
				return err
			}
			if mine != format {
				return journal.Fail(journal.ReasonFormat, nil, "the increment is of format %d of the journal, the copy of format %d: restore them with the version that made them, and upgrade behind it", format, mine)
			}
			return execute(ctx, db, `BEGIN;
				DELETE FROM main.listings WHERE session IN (SELECT session FROM m.removed_listings);
				DELETE FROM main.meta WHERE key IN (SELECT key FROM m.removed_meta);
				UPDATE main.sessions SET live = 0 WHERE id IN (SELECT id FROM m.sessions);
				INSERT OR REPLACE INTO main.sessions SELECT * FROM m.sessions;
				DELETE FROM main.listings WHERE session IN (SELECT session FROM m.listings);
				INSERT INTO main.listings SELECT * FROM m.listings;
				INSERT OR REPLACE INTO main.meta SELECT * FROM m.meta;
				INSERT INTO main.records SELECT * FROM m.records;
				INSERT OR IGNORE INTO main.blobs (session, digest, data) SELECT session, digest, data FROM m.blobs;
				COMMIT;`)
		})
	})
	if err != nil {
		if journal.ReasonOf(err) == "" {
			err = journal.Fail(journal.ReasonCorrupt, err, "the increment does not continue the copy of the journal")
		}
		return false, err
	}
	// Behind the insertions: what a later record names as well stays.
	return gone.some(), gone.erase(ctx, path)
}

// forget removes from a copy what one later copy or increment lacks.
func forget(ctx context.Context, path, later string) (erased bool, err error) {
	gone, err := goneIn(ctx, path, later)
	if err != nil {
		return false, err
	}
	if err := gone.remove(ctx, path); err != nil {
		return false, err
	}
	if err := gone.erase(ctx, path); err != nil {
		return false, err
	}
	err = onFile(ctx, absolute(path), "mode=rw&_pragma=journal_mode(MEMORY)&_pragma=secure_delete(1)", func(db *sql.DB) error {
		return attached(ctx, db, later, "mode=ro&immutable=1", func() error {
			removed := "SELECT key FROM main.meta EXCEPT SELECT key FROM m.meta"
			if gone.increment {
				removed = "SELECT key FROM m.removed_meta"
			}
			return execute(ctx, db, "DELETE FROM main.meta WHERE key IN ("+removed+"); INSERT OR REPLACE INTO main.meta SELECT * FROM m.meta;")
		})
	})
	if err != nil {
		return false, journal.Fail(journal.ReasonIO, err, "what was removed later")
	}
	return gone.some(), nil
}

// gone is what a later copy or increment lacks of the sessions of a copy.
type gone struct {
	increment bool
	sessions  []messages.Incarnation
	erased    []erasedRange
}

type erasedRange struct {
	inc         messages.Incarnation
	first, last int64
}

// goneIn lists what of the copy at path is removed or erased in another file.
func goneIn(ctx context.Context, path, later string) (g gone, err error) {
	err = onFile(ctx, absolute(path), "mode=ro", func(db *sql.DB) error {
		return attached(ctx, db, later, "mode=ro&immutable=1", func() error {
			if g.increment, err = isIncrement(ctx, db); err != nil {
				return err
			}
			removed := "SELECT s.inc FROM main.sessions s WHERE NOT EXISTS (SELECT 1 FROM m.sessions o WHERE o.inc = s.inc)"
			// Numbers of sessions are the same in all copies of a journal, unless a removed session has left
			// its number to another one: the incarnation decides.
			erased := `SELECT s.inc, r.pos & 4294967295, r.pos & 4294967295 FROM m.records o NOT INDEXED
				CROSS JOIN main.records r ON r.pos = o.pos AND r.hash = o.hash AND r.body IS NOT NULL
				CROSS JOIN main.sessions s ON s.id = r.pos >> 32 WHERE o.body IS NULL ORDER BY r.pos`
			if g.increment {
				removed = "SELECT s.inc FROM main.sessions s JOIN m.removed_sessions o ON o.id = s.id AND o.inc = s.inc"
				erased = `SELECT s.inc, e.first, e.last FROM m.erased e JOIN main.sessions s ON s.id = e.session
					WHERE EXISTS (SELECT 1 FROM main.records r WHERE r.pos BETWEEN (e.session << 32 | e.first) AND (e.session << 32 | e.last) AND r.body IS NOT NULL)
					AND NOT EXISTS (SELECT 1 FROM m.sessions o WHERE o.id = s.id AND o.inc <> s.inc)
					AND NOT EXISTS (SELECT 1 FROM m.removed_sessions o WHERE o.id = s.id) ORDER BY e.session, e.first`
			}
			for row, err := range found(db.QueryContext(ctx, removed)) {
				var inc []byte
				if err == nil {
					err = row.Scan(&inc)
				}
				if err != nil {
					return err
				}
				g.sessions = append(g.sessions, messages.Incarnation(inc))
			}
			for row, err := range found(db.QueryContext(ctx, erased)) {
				var inc []byte
				var e erasedRange
				if err == nil {
					err = row.Scan(&inc, &e.first, &e.last)
				}
				if err != nil {
					return err
				}
				e.inc = messages.Incarnation(inc)
				if n := len(g.erased); n > 0 && g.erased[n-1].inc == e.inc && g.erased[n-1].last+1 == e.first {
					g.erased[n-1].last = e.last
					continue
				}
				g.erased = append(g.erased, e)
			}
			return nil
		})
	})
	if err != nil && journal.ReasonOf(err) == "" {
		err = journal.Fail(journal.ReasonCorrupt, err, "what a later backup has removed")
	}
	return g, err
}

func (g *gone) some() bool { return len(g.sessions)+len(g.erased) > 0 }

func (g *gone) remove(ctx context.Context, path string) error {
	if len(g.sessions) == 0 {
		return nil
	}
	return onStore(path, func(s journal.Store) error {
		for _, inc := range g.sessions {
			if err := s.Delete(ctx, inc); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *gone) erase(ctx context.Context, path string) error {
	if len(g.erased) == 0 {
		return nil
	}
	return onStore(path, func(s journal.Store) error {
		for _, e := range g.erased {
			h, err := s.HeadOf(ctx, e.inc)
			if err != nil {
				return err
			}
			if e.first > h.Seq { // a range that begins behind an earlier copy
				continue
			}
			if _, err := s.Erase(ctx, e.inc, e.first, e.last); err != nil {
				return err
			}
		}
		return nil
	})
}

func onStore(path string, do func(journal.Store) error) (err error) {
	s, err := Open(Options{Path: absolute(path)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

// attached runs do while the file is attached to the connection as m.
func attached(ctx context.Context, db *sql.DB, file, mode string, do func() error) (err error) {
	if _, err := os.Stat(file); err != nil {
		return journal.Fail(journal.ReasonNotFound, bare(err), "there is no copy of the journal")
	}
	u := url.URL{Scheme: "file", Path: absolute(file), RawQuery: mode}
	if _, err := db.ExecContext(ctx, "ATTACH ? AS m", u.String()); err != nil {
		return err
	}
	defer func() {
		if _, failed := db.ExecContext(context.WithoutCancel(ctx), "DETACH m"); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	return do()
}

func execute(ctx context.Context, db *sql.DB, stmts string) error {
	_, err := db.ExecContext(ctx, stmts)
	return err
}

// isIncrement reports whether the attached file is an increment.
func isIncrement(ctx context.Context, db *sql.DB) (yes bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM m.sqlite_master WHERE name = 'increment'").Scan(&yes)
	return yes, err
}

// memberFormat returns the format of the journal that the attached file is or was made of.
func memberFormat(ctx context.Context, db *sql.DB, increment bool) (format int64, err error) {
	from := "SELECT max(version_id) FROM m.goose_db_version WHERE is_applied"
	if increment {
		from = "SELECT format FROM m.increment"
	}
	err = db.QueryRowContext(ctx, from).Scan(&format)
	return format, err
}

// absolute returns path such that SQLite does not read it as the host of an address.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
