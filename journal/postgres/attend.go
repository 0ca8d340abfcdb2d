package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

// Several hosts may share a journal: the fence keeps them apart, session by session.
// The fence does not show whether any host runs a session at all. For that every host
// attends: it holds a shared advisory lock on a connection of its own, and the first
// host writes down the time.

const (
	sqlHosts = "hashtextextended('stile hosts ' || $1, 0)"
	// metaHosts is the meta key of the time at which the first host attended.
	metaHosts = "hosts-since"
)

// Attend registers a host that runs sessions of this journal, until leave is called or
// the store is closed; leave is never nil. alone reports whether no other host attends at
// this moment: then no host runs the sessions that are open in the journal.
//
// A host whose connection breaks attends again as soon as it can. A host that attends in
// between believes itself alone, and may take over sessions; the fence then stops their
// first owner, as always.
func (s *Store) Attend(now time.Time) (alone bool, leave func() error, err error) {
	leave = func() error { return nil }
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.writable(); err != nil {
		return false, leave, err
	}
	ctx, cancel := context.WithTimeout(s.life, s.opts.Outage)
	defer cancel()
	c, alone, err := s.attend(ctx, now)
	if err != nil {
		return false, leave, s.failure(err, "attending to the journal")
	}
	watch, stop := context.WithCancel(s.life)
	s.hosts.Go(func() { s.keepAttending(watch, c) })
	return alone, sync.OnceValue(func() error {
		stop()
		return nil
	}), nil
}

// attend connects and takes the lock. A host that can first take it exclusively is alone;
// it holds the exclusive lock for a moment, so waiting for the shared one is short. With a
// zero now it only joins.
func (s *Store) attend(ctx context.Context, now time.Time) (c *pgx.Conn, alone bool, err error) {
	conf := s.config()
	conf.RuntimeParams["statement_timeout"] = "0" // it waits for nothing but its end
	if c, err = pgx.ConnectConfig(ctx, conf); err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			_ = c.Close(context.WithoutCancel(ctx))
			c = nil
		}
	}()
	if !now.IsZero() {
		if err = c.QueryRow(ctx, "SELECT pg_try_advisory_lock("+sqlHosts+")", s.opts.Schema).Scan(&alone); err != nil {
			return c, false, err
		}
	}
	if alone {
		_, err = c.Exec(ctx, sqlstore.PutMeta, metaHosts, []byte(now.UTC().Format(time.RFC3339Nano)))
		if err != nil {
			return c, false, err
		}
	}
	if _, err = c.Exec(ctx, "SELECT pg_advisory_lock_shared("+sqlHosts+")", s.opts.Schema); err != nil {
		return c, false, err
	}
	if alone {
		_, err = c.Exec(ctx, "SELECT pg_advisory_unlock("+sqlHosts+")", s.opts.Schema)
	}
	return c, alone, err
}

// Alone reports whether no other host attends now, which is whether no other connection
// holds the lock of this store's host. It is false while the host takes its lock again.
func (s *Store) Alone() (alone bool, err error) {
	own := s.here.Load()
	if own == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(s.life, s.opts.Outage)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pid = $2) = 1 AND count(*) = 1 FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND ((classid::bigint << 32) | objid::bigint) = `+sqlHosts, s.opts.Schema, int32(own)).Scan(&alone)
	if err != nil {
		return false, s.readFailure(err, "asking who attends to the journal")
	}
	return alone, nil
}

// keepAttending holds the connection, and makes another one when it breaks.
func (s *Store) keepAttending(ctx context.Context, c *pgx.Conn) {
	defer s.here.Store(0)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if c != nil {
			s.here.Store(c.PgConn().PID())
			for err := error(nil); err == nil; { // no notification ever comes: the wait ends with the connection
				_, err = c.WaitForNotification(ctx)
			}
			s.here.Store(0)
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = c.Close(end)
			cancel()
			pause = firstPause
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		try, cancel := context.WithTimeout(ctx, s.opts.Outage)
		c, _, _ = s.attend(try, time.Time{}) // on failure c is nil, and it tries again
		cancel()
	}
}

// Attended reports whether a host of any process attends to the journal, and since when
// the first of them.
func (s *Store) Attended() (since time.Time, attended bool, err error) {
	ctx := s.life
	err = s.reading(ctx, "looking for hosts", func(c sqlstore.Conn) error {
		return c.Row(`SELECT EXISTS (SELECT FROM pg_locks
			WHERE locktype = 'advisory' AND granted AND objsubid = 1
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND (classid::bigint << 32) | objid::bigint = `+sqlHosts+`)`, s.opts.Schema).Scan(&attended)
	})
	if err != nil || !attended {
		return time.Time{}, false, s.ended(err)
	}
	b, err := s.Meta(ctx, metaHosts)
	if err != nil && !journal.IsNotFound(err) {
		return time.Time{}, true, s.ended(err)
	}
	if since, err = time.Parse(time.RFC3339Nano, string(b)); err != nil {
		since = time.Time{} // it is being written
	}
	return since, true, nil
}

// ended returns CLOSED when the store was closed, and err otherwise.
func (s *Store) ended(err error) error {
	if errors.Is(err, context.Canceled) && s.life.Err() != nil {
		return errClosed()
	}
	return err
}
