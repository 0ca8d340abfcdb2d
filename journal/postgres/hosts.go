package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal"
)

// hostConns bounds the connections on which a host deals with leases. They are apart from
// those of readers: a renewal must not wait behind a long history.
const hostConns = 3

// hosts is the lease.Table of a journal. Its methods are safe for concurrent use.
type hosts struct {
	store   *Store
	pool    *pgxpool.Pool
	channel string // on which hosts of this schema tell each other what they do
}

// Hosts opens what the hosts of this journal know of each other. Only hosts that forward
// requests to each other need it: without it no statement is about leases.
func (s *Store) Hosts() (lease.Table, error) {
	if s.opts.ReadOnly {
		return nil, journal.Fail(journal.ReasonReadOnly, nil, "the journal was opened for reading")
	}
	conf, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, s.failure(err, "preparing connections")
	}
	conf.ConnConfig = s.config()
	// Leases are not worth a wait for the disk, whatever else the journal promises.
	conf.ConnConfig.RuntimeParams["synchronous_commit"] = Off
	conf.MaxConns, conf.MinConns, conf.MaxConnIdleTime = hostConns, 0, 5*time.Minute
	pool, err := pgxpool.NewWithConfig(s.life, conf)
	if err != nil {
		return nil, s.failure(err, "preparing connections")
	}
	sum := sha256.Sum256([]byte(s.opts.Schema)) // channels are of a database
	return &hosts{store: s, pool: pool, channel: "stile_" + hex.EncodeToString(sum[:8])}, nil
}

// Close implements lease.Table.
func (h *hosts) Close() { h.pool.Close() }

const (
	// A host that starts at an address ends the lease of the one that was there before.
	sqlOust = "UPDATE hosts SET until = least(until, clock_timestamp()) WHERE address = $1 AND id <> $2"
	// Where nothing is remembered of who had which session, a lease from before may still be believed in.
	sqlReady = `WITH known AS (SELECT max(ready) AS ready FROM lease_memory),
		made AS (INSERT INTO lease_memory SELECT clock_timestamp() + $1::interval FROM known WHERE ready IS NULL RETURNING ready)
		SELECT (extract(epoch FROM coalesce(known.ready, made.ready) - clock_timestamp()) * 1000000)::bigint FROM known LEFT JOIN made ON true`
	sqlJoin = "INSERT INTO hosts (id, address, version, draining, until) VALUES ($1, $2, $3, false, clock_timestamp() + $4::interval)"
	// A lease that was over is not renewed: others may have acted on its end. The list is of the
	// moment before the renewal, so the host's own row is what the renewal made of it. Renewal,
	// time and list are one statement: an idle host makes no other.
	sqlRenew = `WITH renewed AS (
			UPDATE hosts SET until = clock_timestamp() + $2::interval, draining = draining OR $3, runs = $4, max_runs = $5, sessions = $6
			WHERE id = $1 AND until > clock_timestamp() RETURNING *)
		SELECT r.id IS NOT NULL, clock_timestamp(), h.id, h.address, h.version, coalesce(r.draining, h.draining),
			(extract(epoch FROM coalesce(r.until, h.until) - clock_timestamp()) * 1000000)::bigint,
			coalesce(r.runs, h.runs, 0), coalesce(r.max_runs, h.max_runs, 0), coalesce(r.sessions, h.sessions, 0)
		FROM hosts h LEFT JOIN renewed r ON r.id = h.id ORDER BY h.address, h.id`
	sqlEveryHost = `SELECT id, address, version, draining, (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint,
		coalesce(runs, 0), coalesce(max_runs, 0), coalesce(sessions, 0) FROM hosts ORDER BY address, id`
	sqlDrain = "WITH told AS (UPDATE hosts SET draining = true WHERE id = $1 AND until > clock_timestamp() RETURNING id) SELECT id FROM told, pg_notify($2, id::text)"
	sqlLeave = "WITH told AS (UPDATE hosts SET until = least(until, clock_timestamp()) WHERE id = $1 RETURNING id) SELECT id FROM told, pg_notify($2, id::text)"

	// A session is the claimer's, if the claimer's own lease goes on, and no live host has it; and if
	// the claimer has not given the claim up by now. Hosts where readers follow it hear of that.
	sqlClaim = `WITH claimed AS (
			INSERT INTO leases (sid, host) SELECT $1, id FROM hosts WHERE id = $2 AND until > clock_timestamp() AND clock_timestamp() < $4
			ON CONFLICT (sid) DO UPDATE SET host = excluded.host
			WHERE clock_timestamp() < $4 AND (leases.host = excluded.host OR NOT EXISTS (SELECT FROM hosts h WHERE h.id = leases.host AND h.until > clock_timestamp()))
			RETURNING sid, host)
		SELECT host FROM claimed, pg_notify($3, host || ' ' || sid)`
	sqlTell   = "SELECT pg_notify($1, $2)"
	sqlOwners = `SELECT l.sid, h.id, h.address, h.version, h.draining, (extract(epoch FROM h.until - clock_timestamp()) * 1000000)::bigint
		FROM leases l JOIN hosts h ON h.id = l.host WHERE l.sid = ANY($1) AND h.until > clock_timestamp()`
	sqlRelease = "DELETE FROM leases WHERE host = $1 AND sid = ANY($2) AND clock_timestamp() < $3"

	// What a dead host has left.
	sqlLeft   = "SELECT sid FROM leases WHERE host = $1 ORDER BY hashtextextended(sid, $2) LIMIT $3"
	sqlForget = "DELETE FROM hosts h WHERE id = $1 AND until <= clock_timestamp() AND NOT EXISTS (SELECT FROM leases WHERE host = h.id)"
)

// Join implements lease.Table.
func (h *hosts) Join(ctx context.Context, host lease.Host, length time.Duration) (wait time.Duration, err error) {
	if missing, err := h.store.compare(ctx, h.pool); err != nil || missing != nil {
		return 0, h.failure(cmp.Or(missing, err), "entering this host")
	}
	err = pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
		var left int64
		if err := tx.QueryRow(ctx, sqlReady, length).Scan(&left); err != nil {
			return err
		}
		if wait = max(0, time.Duration(left)*time.Microsecond); wait > 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, sqlOust, host.Address, host.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlJoin, host.ID, host.Address, host.Version, length); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlTell, h.channel, host.ID.String())
		return err
	})
	h.store.lease.Store(int64(length))
	return wait, h.failure(err, "entering this host")
}

// Renew implements lease.Table.
func (h *hosts) Renew(ctx context.Context, id uuid.UUID, length time.Duration, draining bool, load lease.Load) (ok bool, now time.Time, all []lease.Host, err error) {
	rows, err := h.pool.Query(ctx, sqlRenew, id, length, draining, load.Runs, load.MaxRuns, load.Sessions)
	if err == nil {
		var mine bool
		var host lease.Host
		var left int64
		_, err = pgx.ForEachRow(rows, []any{&mine, &now, &host.ID, &host.Address, &host.Version, &host.Draining, &left, &host.Load.Runs, &host.Load.MaxRuns, &host.Load.Sessions}, func() error {
			host.Left = time.Duration(left) * time.Microsecond
			all, ok = append(all, host), ok || mine
			return nil
		})
	}
	return ok && err == nil, now, all, h.failure(err, "renewing the lease")
}

// Now implements lease.Table.
func (h *hosts) Now(ctx context.Context) (now time.Time, err error) {
	err = h.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, h.failure(err, "asking for the time")
}

// Hosts implements lease.Table.
func (h *hosts) Hosts(ctx context.Context) ([]lease.Host, error) {
	rows, err := h.pool.Query(ctx, sqlEveryHost)
	if err != nil {
		return nil, h.failure(err, "listing hosts")
	}
	all, err := pgx.CollectRows(rows, scanHost)
	return all, h.failure(err, "listing hosts")
}

func scanHost(row pgx.CollectableRow) (host lease.Host, err error) {
	var left int64
	err = row.Scan(&host.ID, &host.Address, &host.Version, &host.Draining, &left, &host.Load.Runs, &host.Load.MaxRuns, &host.Load.Sessions)
	host.Left = time.Duration(left) * time.Microsecond
	return host, err
}

// Drain implements lease.Table.
func (h *hosts) Drain(ctx context.Context, id uuid.UUID) (there bool, err error) {
	tag, err := h.pool.Exec(ctx, sqlDrain, id, h.channel)
	return tag.RowsAffected() == 1, h.failure(err, "draining a host")
}

// Resign implements lease.Table.
func (h *hosts) Resign(ctx context.Context, id uuid.UUID) error {
	_, err := h.pool.Exec(ctx, sqlLeave, id, h.channel)
	return h.failure(err, "ending the lease")
}

// Claim implements lease.Table.
func (h *hosts) Claim(ctx context.Context, id uuid.UUID, sid string, until time.Time) (owner lease.Host, err error) {
	for range rounds {
		var got uuid.UUID
		err = h.pool.QueryRow(ctx, sqlClaim, sid, id, h.channel, until).Scan(&got)
		if err == nil {
			return lease.Host{ID: got}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return owner, h.failure(err, "claiming a session")
		}
		owners, err := h.Owners(ctx, sid)
		if owner, held := owners[sid]; err != nil || held {
			return owner, err
		}
		var live bool // else the owner's lease has ended in between
		if err = h.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM hosts WHERE id = $1 AND until > clock_timestamp())", id).Scan(&live); err != nil || !live {
			return lease.Host{}, h.failure(err, "claiming a session")
		}
	}
	return lease.Host{}, journal.Fail(journal.ReasonBusy, nil, "session %s: the claim comes too late, or its owner changes faster than it can be read", sid)
}

// Owners implements lease.Table.
func (h *hosts) Owners(ctx context.Context, sids ...string) (map[string]lease.Host, error) {
	owners := map[string]lease.Host{}
	rows, err := h.pool.Query(ctx, sqlOwners, sids)
	if err == nil {
		var sid string
		var host lease.Host
		var left int64
		_, err = pgx.ForEachRow(rows, []any{&sid, &host.ID, &host.Address, &host.Version, &host.Draining, &left}, func() error {
			host.Left = time.Duration(left) * time.Microsecond
			owners[sid] = host
			return nil
		})
	}
	return owners, h.failure(err, "looking for the hosts of sessions")
}

// GiveUp implements lease.Table.
func (h *hosts) GiveUp(ctx context.Context, id uuid.UUID, sids []string, until time.Time) error {
	_, err := h.pool.Exec(ctx, sqlRelease, id, sids, until)
	return h.failure(err, "releasing sessions")
}

// Left implements lease.Table.
func (h *hosts) Left(ctx context.Context, id, asker uuid.UUID, limit int) ([]string, error) {
	rows, err := h.pool.Query(ctx, sqlLeft, id, int64(binary.BigEndian.Uint64(asker[8:])), limit)
	var sids []string
	if err == nil {
		sids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err == nil && len(sids) == 0 {
		_, err = h.pool.Exec(ctx, sqlForget, id)
	}
	return sids, h.failure(err, "listing the sessions of a host")
}

// Listen implements lease.Table.
func (h *hosts) Listen(ctx context.Context, hear func(lease.Notice)) error {
	c, err := pgx.ConnectConfig(ctx, h.store.config())
	if err != nil {
		return h.failure(err, "listening to other hosts")
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{h.channel}.Sanitize()); err != nil {
		return h.failure(err, "listening to other hosts")
	}
	hear(lease.Notice{})
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return h.failure(err, "listening to other hosts")
		}
		host, sid, _ := strings.Cut(n.Payload, " ")
		if id, err := uuid.Parse(host); err == nil { // else another version says more
			hear(lease.Notice{Host: id, SID: sid})
		}
	}
}

func (h *hosts) failure(err error, what string) error {
	if err == nil {
		return nil
	}
	return h.store.ended(h.store.readFailure(err, what))
}
