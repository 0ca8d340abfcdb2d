package postgres

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// formatTable is where goose keeps the format version. Its name marks a schema as ours.
const formatTable = "stile_migrations"

// migrationWait bounds the wait for a host that is migrating the schema.
const migrationWait = 2 * time.Minute

// migrate brings the schema to this version's format. A schema that has the format is only
// read, so that a host may run as a role without rights on the catalog. So is one that a newer
// version has migrated, if it is told there that hosts of this format can go on.
func (s *Store) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return s.failure(err, "reading the migrations")
	}
	want, err := sqlstore.NewestMigration(dir)
	if err != nil {
		return s.failure(err, "reading the migrations")
	}
	conf := s.config()
	conf.RuntimeParams["statement_timeout"] = "0"
	conf.RuntimeParams["lock_timeout"] = milliseconds(migrationWait)
	c, err := whenReady(ctx, conf)
	if err != nil {
		return s.failure(gone(ctx, err), "connecting to the journal")
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if s.notices, err = s.verify(ctx, c); err != nil {
		return s.failure(gone(ctx, err), "connecting to the journal")
	}
	have, err := s.format(ctx, c)
	if err != nil {
		return s.failure(gone(ctx, err), "reading the format of the journal")
	}
	if s.opts.ReadOnly && have == 0 {
		return journal.Fail(journal.ReasonNotFound, nil, "there is no journal in the schema %s", strconv.Quote(s.opts.Schema))
	}
	if have < want && !s.opts.ReadOnly {
		if have, err = s.raise(ctx, c, conf, dir); err != nil {
			return s.failure(gone(ctx, err), "migrating the journal")
		}
	}
	switch {
	case have < want:
		return journal.Fail(journal.ReasonFormat, nil, "the journal has format %d; this version reads %d: open it once with a host of this version that may write", have, want)
	case have > want:
		oldest, err := s.oldest(ctx, c, want)
		if err != nil {
			return s.failure(gone(ctx, err), "reading the format of the journal")
		}
		if oldest > want {
			return journal.Fail(journal.ReasonFormat, nil, "the journal has format %d, which hosts can use that know format %d; this version knows %d", have, oldest, want)
		}
	}
	return nil
}

// oldest is the oldest format that a host must know to use the schema, of one that knows a format
// before the schema's.
func (s *Store) oldest(ctx context.Context, c *pgx.Conn, known int64) (oldest int64, err error) {
	err = c.QueryRow(ctx, "SELECT max(coalesce(f.oldest, m.version_id)) FROM "+formatTable+` m
		LEFT JOIN formats f ON f.format = m.version_id WHERE m.is_applied AND m.version_id > $1`, known).Scan(&oldest)
	return oldest, err
}

// format returns the schema's version: 0 for a missing or empty schema. A schema with other
// tables is refused.
func (s *Store) format(ctx context.Context, c *pgx.Conn) (int64, error) {
	var things int64
	var ours bool
	err := c.QueryRow(ctx, `SELECT count(*), coalesce(bool_or(r.relname = $2), false)
		FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE n.nspname = $1`, s.opts.Schema, formatTable).Scan(&things, &ours)
	switch {
	case err != nil || things == 0:
		return 0, err
	case !ours:
		return 0, journal.Fail(journal.ReasonFormat, nil, "the schema %s holds the tables of something else", strconv.Quote(s.opts.Schema))
	}
	var version sql.NullInt64
	err = c.QueryRow(ctx, "SELECT max(version_id) FROM "+formatTable+" WHERE is_applied").Scan(&version)
	return version.Int64, err
}

// raise creates the schema and applies migrations, under a lock that keeps other hosts out.
func (s *Store) raise(ctx context.Context, c *pgx.Conn, conf *pgx.ConnConfig, dir fs.FS) (int64, error) {
	// The lock ends with the connection, too.
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", "stile journal "+s.opts.Schema); err != nil {
		return 0, err
	}
	if _, err := s.format(ctx, c); err != nil { // other tables may be there by now
		return 0, err
	}
	var there bool
	if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", s.opts.Schema).Scan(&there); err != nil {
		return 0, err
	}
	if !there {
		if _, err := c.Exec(ctx, "CREATE SCHEMA "+(pgx.Identifier{s.opts.Schema}).Sanitize()); err != nil {
			return 0, err
		}
	}
	db := stdlib.OpenDB(*conf)
	defer db.Close()
	db.SetMaxOpenConns(1)
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithTableName(formatTable))
	if err != nil {
		return 0, err
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, err
	}
	return s.format(ctx, c)
}
