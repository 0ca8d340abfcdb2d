// Package postgres is the journal store in a PostgreSQL database, which several
// hosts may share.
//
// Invariants:
//   - the fence is one compare-and-append statement on the table of heads: a row
//     moves on if and only if position, hash and epoch are what the batch continues.
//     The server compares, so any number of processes on one database are safe;
//   - a group of batches is one transaction (two, if a SID changes hands in it). A
//     session that fails the comparison is dropped from it, and the records of the
//     others follow;
//   - a batch is acknowledged after its COMMIT was, under synchronous_commit=on or
//     stronger. A weaker mode must be named in Options, and Notices reports it;
//   - heads in memory are guesses that the comparison proves or refuses. So no wrong
//     head can survive a lost connection;
//   - COMMIT is sent after the fence has answered. A connection lost before that has
//     committed nothing. When it is lost later the outcome is unknown, and a new
//     connection finds it out: it waits for the end of the old transaction and looks
//     for its records. A batch is repeated only when it is known to have left none;
//   - an error of the server's own disk is sticky until Reopen. An unreachable, busy or
//     read-only server is not: the next batch asks again;
//   - no error and no notice holds a password.
//
// It does not pool behind PgBouncer's transaction mode: settings belong to sessions.
// It does not overwrite erased bytes: they leave the tables with VACUUM, and the
// write-ahead log and its archives when those are recycled.
package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// Limits and defaults.
const (
	DefaultSchema = "stile"

	DefaultReaders          = 4
	DefaultBusyTimeout      = 5 * time.Second
	DefaultStatementTimeout = 30 * time.Second
	DefaultOutage           = 10 * time.Second

	// MaxReaders bounds Options.Readers.
	MaxReaders = 100
	// MaxValueBytes bounds one body, blob, snapshot state or meta value. PostgreSQL
	// itself ends at 1 GiB a message.
	MaxValueBytes = 256 << 20
	// MinVersion is the oldest server, as server_version_num: the status of a
	// transaction can be asked for since 13.
	MinVersion = 130000
)

// What an acknowledgement means, by PostgreSQL's own names for synchronous_commit: the
// strong modes, then the weak ones, which must be named in Options.
const (
	On          = "on"           // flushed here, and on synchronous standbys
	RemoteApply = "remote_apply" // and visible on them

	RemoteWrite = "remote_write" // flushed here; standbys have it in memory
	Local       = "local"        // flushed here alone
	Off         = "off"          // a crash of the server loses what it just acknowledged
)

func weak(durability string) bool { return durability != On && durability != RemoteApply }

// Options say where the database is and how it is used.
type Options struct {
	// URL of the database: postgres://user:password@host:port/name?sslmode=verify-full.
	// Missing parts come from the environment (PGPASSWORD, PGSSLMODE, ...) and the
	// password file. Beside the parameters of PostgreSQL it may have schema=NAME and
	// durability=MODE, which count where the options below are empty.
	URL string
	// Schema holds the tables; "" is the URL's, or DefaultSchema. Open creates a missing
	// one.
	Schema string
	// Durability: "" is On, or RemoteApply where that is the server's default. A
	// weaker mode is used only when it is named here. Off also accepts a server that
	// runs with fsync=off, which no other mode does.
	Durability string
	// ReadOnly opens an existing journal to read it: nothing is created or migrated, and
	// every write is refused (READ_ONLY). The role needs SELECT alone, and the server may
	// be a standby.
	ReadOnly bool
	// Readers bounds the connections beside the one that commits: for reading and
	// maintenance. 0 is DefaultReaders.
	Readers int
	// BusyTimeout is how long to wait for a row that another host holds.
	BusyTimeout time.Duration
	// StatementTimeout bounds one statement on the server, and a transaction that
	// its host has left idle.
	StatementTimeout time.Duration
	// Outage is how long a commit that lost its connection waits for the server.
	Outage time.Duration
}

// Store implements journal.Store. Use Open.
type Store struct {
	*tables
	opts   Options
	target *target
	pool   *pgxpool.Pool

	life context.Context // ends with Close, and with it every wait for the server
	stop context.CancelFunc

	hosts sync.WaitGroup // goroutines of Attend, and of Board
	here  atomic.Uint32  // the backend that holds our host's lock; 0 none
	lease atomic.Int64   // of the host in its cluster, in nanoseconds; 0 without one

	write   sync.Mutex // held for a commit; guards the fields below
	w       *writer    // nil without a connection
	heads   map[messages.Incarnation]row
	failed  error
	told    told
	closed  bool
	notices []string
	board   *notes // nil before Board
}

var _ journal.Store = (*Store)(nil)

// Open connects, creates schema and tables when they are missing, and verifies the
// server's settings. Failures are ERR_CONFIG for the options, a refused login or missing
// rights; ERR_JOURNAL with FORMAT for foreign tables, a newer format or a server that is
// too old, UNAVAILABLE for a server that cannot be reached, and with ReadOnly NOT_FOUND
// when there is no journal.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts, target, err := opts.settle()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, target: target, heads: make(map[messages.Incarnation]row)}
	s.tables = sqlstore.New(s.dialect())
	s.life, s.stop = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (o Options) settle() (Options, *target, error) {
	t, err := parseURL(o.URL)
	if err != nil {
		return o, nil, err
	}
	if o.Schema == "" {
		o.Schema = t.schema
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Durability == "" {
		o.Durability = t.durable
	}
	if n := len(o.Schema); n > 63 || !plain(o.Schema) {
		return o, nil, misconfigured("schema", nil, "a schema has at most 63 bytes and is not empty")
	}
	switch o.Durability {
	case "", On, RemoteApply, RemoteWrite, Local, Off:
	default:
		return o, nil, misconfigured("durability", nil, "durability is on, remote_apply, remote_write, local or off")
	}
	if o.Readers == 0 {
		o.Readers = DefaultReaders
	}
	if o.Readers < 1 || o.Readers > MaxReaders {
		return o, nil, misconfigured("readers", nil, "readers are 1 to 100")
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.BusyTimeout, DefaultBusyTimeout},
		{&o.StatementTimeout, DefaultStatementTimeout},
		{&o.Outage, DefaultOutage},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return o, t, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	conf, err := pgxpool.ParseConfig("")
	if err != nil {
		return s.failure(err, "preparing connections")
	}
	conf.ConnConfig = s.config()
	conf.MaxConns = int32(s.opts.Readers)
	conf.MinConns = 0
	conf.MaxConnIdleTime = 5 * time.Minute
	conf.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := s.verify(ctx, c)
		return err
	}
	if s.pool, err = pgxpool.NewWithConfig(s.life, conf); err != nil {
		return s.failure(err, "preparing connections")
	}
	if s.opts.ReadOnly {
		return nil
	}
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.connect(ctx); err != nil {
		s.pool.Close()
		return err
	}
	s.notices = s.w.notices
	return nil
}

// Notices returns warnings for an operator, found by Open: a weaker durability, a server
// that may tear pages, a connection that is not encrypted.
func (s *Store) Notices() []string { return s.notices }

// Immediate implements journal.Store: a commit waits for the server.
func (s *Store) Immediate() bool { return false }

// Reopen implements journal.Store.
func (s *Store) Reopen() error {
	s.write.Lock()
	defer s.write.Unlock()
	if s.closed {
		return errClosed()
	}
	s.disconnect()
	clear(s.heads)
	s.pool.Reset()
	if s.opts.ReadOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.life, s.opts.Outage)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		if s.failed == nil && journal.ReasonOf(err) == journal.ReasonIO {
			s.failed = err
		}
		return err
	}
	s.failed = nil
	return nil
}

// Close implements journal.Store. It may be called twice.
func (s *Store) Close() error {
	s.stop()
	s.write.Lock()
	if s.closed {
		s.write.Unlock()
		return nil
	}
	s.closed = true
	s.disconnect()
	s.write.Unlock()
	s.hosts.Wait()
	if s.board != nil { // it is not set any more
		s.board.pool.Close()
	}
	s.pool.Close()
	return nil
}

// writable returns why the store refuses to write, or nil. s.write is held.
func (s *Store) writable() error {
	switch {
	case s.closed:
		return errClosed()
	case s.opts.ReadOnly:
		return journal.Fail(journal.ReasonReadOnly, nil, "the journal was opened for reading")
	}
	return s.failed
}

// stick remembers an I/O failure, under s.write.
func (s *Store) stick(err error) {
	if s.failed == nil && journal.ReasonOf(err) == journal.ReasonIO {
		s.failed = err
	}
}

func errClosed() error { return journal.Fail(journal.ReasonClosed, nil, "the store is closed") }

// gone prefers the cause of the caller's context to the error of the connection that its
// end has broken.
func gone(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func misconfigured(field string, cause error, detail string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail, Cause: cause}
}
