package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal"
)

const (
	// boardConns bounds the connections on which notes are read and changed, beside the one that
	// listens. They are apart from those of readers: who calls must not wait behind a long history.
	boardConns = 2
	// boardCheck is how often a host that hears nothing asks whether notes have changed: a
	// connection that is dead says nothing either.
	boardCheck = 2 * time.Second
	// boardWait bounds one statement of the connection that listens.
	boardWait = 5 * time.Second
)

// notes is the board.Port of a journal.
type notes struct {
	store   *Store
	pool    *pgxpool.Pool
	channel string

	mu       sync.Mutex // guards what follows
	watchers map[*watcher]struct{}
	listens  bool
	clock    lease.Clock
}

// watcher is told of changes of a kind.
type watcher struct {
	kind string
	look func(ctx context.Context, at time.Time, version int64, lost bool)

	calls sync.Mutex // held for a call
	ended bool
}

// Board opens what the hosts of this journal tell each other. All callers share one.
func (s *Store) Board() (board.Port, error) {
	s.write.Lock()
	defer s.write.Unlock()
	switch {
	case s.closed:
		return nil, errClosed()
	case s.opts.ReadOnly:
		return nil, journal.Fail(journal.ReasonReadOnly, nil, "the journal was opened for reading")
	case s.board != nil:
		return s.board, nil
	}
	conf, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, s.failure(err, "preparing connections")
	}
	conf.ConnConfig = s.config()
	conf.MaxConns, conf.MinConns, conf.MaxConnIdleTime = boardConns, 0, 5*time.Minute
	conf.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := s.verify(ctx, c) // notes are as durable as records
		return err
	}
	pool, err := pgxpool.NewWithConfig(s.life, conf)
	if err != nil {
		return nil, s.failure(err, "preparing connections")
	}
	// Notifications are of a whole database, which may have several journals.
	sum := sha256.Sum256([]byte(s.opts.Schema))
	s.board = &notes{store: s, pool: pool, channel: "stile_notes_" + hex.EncodeToString(sum[:8]), watchers: map[*watcher]struct{}{}}
	return s.board, nil
}

const (
	// Both bring the time, also where there is no board yet.
	sqlBoards   = "SELECT clock_timestamp(), COALESCE(kind, ''), COALESCE(version, 0) FROM (SELECT 1) AS one LEFT JOIN boards ON true"
	sqlBoard    = "SELECT clock_timestamp(), COALESCE(version, 0), COALESCE(dropped, 0) FROM (SELECT 1) AS one LEFT JOIN boards ON kind = $1"
	sqlNotes    = "SELECT id, body, seal, version FROM notes WHERE kind = $1 AND version > $2 ORDER BY born"
	sqlPutNote  = "INSERT INTO notes (kind, id, body, seal, version) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, seal = excluded.seal, version = excluded.version"
	sqlDropNote = "DELETE FROM notes WHERE kind = $1 AND id = ANY($2)"
	// The row is a change's until its end.
	sqlNewBoard = "INSERT INTO boards (kind, version, dropped) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING"
	sqlHold     = "SELECT version FROM boards WHERE kind = $1 FOR UPDATE"
	sqlChanged  = "UPDATE boards SET version = $2, dropped = CASE WHEN $3 THEN $2 ELSE dropped END WHERE kind = $1"
)

// Read implements board.Port.
func (n *notes) Read(ctx context.Context, kind string, after int64) (all []board.Note, version int64, whole bool, err error) {
	// One snapshot: what a version says is what is there.
	err = pgx.BeginTxFunc(ctx, n.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var dropped int64
		var said time.Time
		sent := time.Now()
		if err := tx.QueryRow(ctx, sqlBoard, kind).Scan(&said, &version, &dropped); err != nil {
			return err
		}
		n.hears(said, sent)
		if whole = after == 0 || after > version || after < dropped; whole {
			after = 0
		} else if after == version {
			return nil
		}
		all, err = read(ctx, tx, kind, after)
		return err
	})
	return all, version, whole, n.failure(err, "reading what hosts tell each other")
}

// hears notes what the database's clock showed, in an answer that has come now.
func (n *notes) hears(said, sent time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock = n.clock.Read(said, sent, time.Now())
}

// Now implements board.Port.
func (n *notes) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clock.Now(time.Now())
}

func read(ctx context.Context, tx pgx.Tx, kind string, after int64) ([]board.Note, error) {
	rows, err := tx.Query(ctx, sqlNotes, kind, after)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (one board.Note, err error) {
		err = row.Scan(&one.ID, &one.Body, &one.Seal, &one.Version)
		return one, err
	})
}

// Change implements board.Port.
func (n *notes) Change(ctx context.Context, kind string, f func([]board.Note) ([]board.Note, []string, error)) error {
	var refused error
	err := pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlNewBoard, kind); err != nil {
			return err
		}
		var version int64
		if err := tx.QueryRow(ctx, sqlHold, kind).Scan(&version); err != nil {
			return err
		}
		all, err := read(ctx, tx, kind, 0)
		if err != nil {
			return err
		}
		put, drop, err := f(all)
		if refused = err; err != nil {
			return err
		}
		if len(put)+len(drop) == 0 {
			return nil
		}
		version++
		b := &pgx.Batch{}
		if len(drop) > 0 {
			b.Queue(sqlDropNote, kind, drop)
		}
		for i := range put {
			b.Queue(sqlPutNote, kind, put[i].ID, put[i].Body, put[i].Seal, version)
		}
		b.Queue(sqlChanged, kind, version, len(drop) > 0)
		b.Queue("SELECT pg_notify($1, '')", n.channel)
		return tx.SendBatch(ctx, b).Close()
	})
	if refused != nil {
		return refused
	}
	return n.failure(err, "writing what hosts tell each other")
}

// Watch implements board.Port.
func (n *notes) Watch(kind string, look func(ctx context.Context, at time.Time, version int64, lost bool)) (stop func()) {
	w := &watcher{kind: kind, look: look}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watchers[w] = struct{}{}
	if !n.listens {
		n.listens = true
		n.store.hosts.Go(func() { n.listen(n.store.life) })
	}
	return func() {
		n.mu.Lock()
		delete(n.watchers, w)
		n.mu.Unlock()
		w.calls.Lock()
		defer w.calls.Unlock()
		w.ended = true
	}
}

// listen tells watchers of changes until the store is closed.
func (n *notes) listen(ctx context.Context) {
	lost := false
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		if n.hear(ctx, &lost) {
			pause = firstPause
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// hear listens on one connection until it breaks. heard reports whether it ever did.
func (n *notes) hear(ctx context.Context, lost *bool) (heard bool) {
	try, cancel := context.WithTimeout(ctx, n.store.opts.Outage)
	c, err := pgx.ConnectConfig(try, n.store.config())
	cancel()
	if err != nil {
		return false
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = c.Close(end)
		cancel()
	}()
	first, cancel := context.WithTimeout(ctx, boardWait)
	_, err = c.Exec(first, "LISTEN "+pgx.Identifier{n.channel}.Sanitize())
	cancel()
	for err == nil {
		asked := time.Now()
		look, cancel := context.WithTimeout(ctx, boardWait)
		now := map[string]int64{}
		var rows pgx.Rows
		if rows, err = c.Query(look, sqlBoards); err == nil {
			var said time.Time
			var kind string
			var version int64
			_, err = pgx.ForEachRow(rows, []any{&said, &kind, &version}, func() error {
				now[kind] = version
				return nil
			})
			if err == nil {
				n.hears(said, asked)
			}
		}
		cancel()
		if err != nil {
			break
		}
		heard = true
		n.tell(ctx, asked, now, *lost)
		*lost = false
		wait, cancel := context.WithTimeout(ctx, boardCheck)
		if _, bad := c.WaitForNotification(wait); bad != nil && (wait.Err() == nil || ctx.Err() != nil) {
			err = bad
		}
		cancel()
	}
	*lost = true // what was told meanwhile
	return heard
}

func (n *notes) tell(ctx context.Context, at time.Time, now map[string]int64, lost bool) {
	n.mu.Lock()
	all := make([]*watcher, 0, len(n.watchers))
	for w := range n.watchers {
		all = append(all, w)
	}
	n.mu.Unlock()
	for _, w := range all {
		w.calls.Lock()
		if !w.ended {
			w.look(ctx, at, now[w.kind], lost)
		}
		w.calls.Unlock()
	}
}

func (n *notes) failure(err error, what string) error {
	if err == nil {
		return nil
	}
	return n.store.ended(n.store.readFailure(err, what))
}
