package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Pauses between attempts to reach the server: the first, doubled up to the last.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// connectWait bounds one attempt to connect, unless the URL does.
const connectWait = 10 * time.Second

// config returns the settings of this store's connections.
func (s *Store) config() *pgx.ConnConfig {
	c := s.target.conf.Copy()
	if c.RuntimeParams == nil {
		c.RuntimeParams = make(map[string]string)
	}
	for name, value := range map[string]string{
		"application_name":                    "stile",
		"search_path":                         pgx.Identifier{s.opts.Schema}.Sanitize() + ", pg_temp",
		"statement_timeout":                   milliseconds(s.opts.StatementTimeout),
		"lock_timeout":                        milliseconds(s.opts.BusyTimeout),
		"idle_in_transaction_session_timeout": milliseconds(s.opts.StatementTimeout),
		"default_transaction_isolation":       "read committed", // the fence compares with the row as it is
		"client_encoding":                     "UTF8",
		"default_transaction_read_only":       strconv.FormatBool(s.opts.ReadOnly),
	} {
		if name == "application_name" && c.RuntimeParams[name] != "" {
			continue
		}
		c.RuntimeParams[name] = value
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectWait
	}
	// Keep-alives find a dead connection in half a minute, not in two hours.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	c.DialFunc = dialer.DialContext
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	return c
}

// recoveryWait bounds the wait for a server that starts or recovers from a crash.
const recoveryWait = 2 * time.Minute

// whenReady connects. It waits for a server that answers that it is starting, so that a host
// that starts at the same time, as after a power failure, need not be started again.
func whenReady(ctx context.Context, conf *pgx.ConnConfig) (*pgx.Conn, error) {
	end := time.Now().Add(recoveryWait)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := pgx.ConnectConfig(ctx, conf)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "57P03" || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

// promises are the server's settings on which an acknowledgement relies.
type promises struct {
	version             int
	commit, fsync, torn string
	encoding            string
	standby             bool
}

// verify sets and checks the settings of a connection, and returns notices of weak ones.
func (s *Store) verify(ctx context.Context, c *pgx.Conn) (notices []string, err error) {
	var p promises
	err = c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('synchronous_commit'),
		current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_encoding'), pg_is_in_recovery()`).
		Scan(&p.version, &p.commit, &p.fsync, &p.torn, &p.encoding, &p.standby)
	if err != nil {
		return nil, err
	}
	if p.version < MinVersion {
		return nil, journal.Fail(journal.ReasonFormat, nil, "the server is PostgreSQL %d; 13 is the oldest that will do", p.version/10000)
	}
	if p.encoding != "UTF8" {
		return nil, journal.Fail(journal.ReasonFormat, nil, "the database has the encoding %s; the journal needs UTF8", p.encoding)
	}
	if s.opts.ReadOnly {
		return s.unencrypted(c), nil
	}
	if p.standby {
		return nil, journal.Fail(journal.ReasonUnavailable, nil, "the server is a standby and takes no writes")
	}
	want := s.opts.Durability
	if want == "" {
		want = On
		if p.commit == RemoteApply {
			want = RemoteApply
		}
	}
	if p.fsync != "on" && want != Off {
		return nil, misconfigured("durability", nil, "the server runs with fsync=off, so nothing it acknowledges is safe; durability off accepts that")
	}
	if p.commit != want {
		if err := c.QueryRow(ctx, "SELECT set_config('synchronous_commit', $1, false)", want).Scan(&p.commit); err != nil {
			return nil, err
		}
		if p.commit != want {
			return nil, misconfigured("durability", nil, "the server keeps synchronous_commit="+p.commit)
		}
	}
	switch {
	case p.fsync != "on":
		notices = append(notices, "durability off: the server runs with fsync=off and may lose or damage everything when its machine stops")
	case want == Off:
		notices = append(notices, "durability off: a crash of the server loses what it acknowledged last")
	case weak(want):
		notices = append(notices, fmt.Sprintf("durability %s: an acknowledged record may be missing on a standby that takes over", want))
	}
	if p.torn != "on" {
		notices = append(notices, "the server runs with full_page_writes=off: safe only where its disk never tears a page")
	}
	return append(notices, s.unencrypted(c)...), nil
}

// unencrypted returns a notice when a connection leaves the machine without encryption.
func (s *Store) unencrypted(c *pgx.Conn) []string {
	nc := c.PgConn().Conn()
	if _, secure := nc.(*tls.Conn); secure || local(nc.RemoteAddr()) {
		return nil
	}
	return []string{"the connection to the database is not encrypted: sslmode=verify-full in its URL would see to that"}
}

// local reports whether a is an address of this machine.
func local(a net.Addr) bool {
	switch a := a.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// connect makes the committing connection, under s.write, in one attempt.
func (s *Store) connect(ctx context.Context) error {
	w := new(writer)
	conf := s.config()
	conf.OnNotice = w.notice
	c, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return s.failure(err, "connecting to the journal")
	}
	w.conn = c
	if w.notices, err = s.verify(ctx, c); err == nil {
		_, err = s.compare(ctx, c)
	}
	if err != nil {
		w.close()
		return s.failure(err, "connecting to the journal")
	}
	s.w = w
	return nil
}

// await connects as soon as the server answers, and gives up at the deadline.
func (s *Store) await(deadline time.Time) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ctx, cancel := context.WithDeadline(s.life, deadline)
		err := s.connect(ctx)
		cancel()
		if err == nil || journal.ReasonOf(err) != journal.ReasonUnavailable || s.life.Err() != nil || !time.Now().Add(pause).Before(deadline) {
			return err
		}
		if !s.pause(pause) {
			return err
		}
	}
}

// pause waits for d, and reports whether the store is still open.
func (s *Store) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.life.Done():
		return false
	}
}

// disconnect drops the committing connection, under s.write.
func (s *Store) disconnect() {
	if s.w != nil {
		s.w.close()
		s.w = nil
	}
}

// writer is the committing connection.
type writer struct {
	conn    *pgx.Conn
	notices []string
	// local reports whether a COMMIT did not wait for a synchronous standby: the server
	// warns of that, and then acknowledges.
	local bool
	idle  time.Duration // what the server waits at most for the next statement of a transaction; 0 is what the options say
}

// notice receives the server's warnings. The one that matters has no code of its own, and
// its words depend on the server's language; the routine that it names does not.
func (w *writer) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" && n.Routine == "SyncRepWaitForLSN" {
		w.local = true
	}
}

func (w *writer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // closed for an error already; a second error adds nothing
}

// lost reports whether the connection is closed, or about to be.
func (w *writer) lost(err error) bool {
	if w.conn.IsClosed() {
		return true
	}
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC")
}

// broken reports whether err is a failure of the connection, not of one request.
func broken(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, context.Canceled, pgconn.ErrConnClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// failure classifies an error of a write. An error that is not known to be harmless is IO,
// and so sticky.
func (s *Store) failure(err error, what string) error {
	return s.classify(err, what, journal.ReasonIO)
}

// readFailure classifies an error of a read. An unknown error means a row that is not what
// was written: CORRUPT.
func (s *Store) readFailure(err error, what string) error {
	return s.classify(err, what, journal.ReasonCorrupt)
}

func (s *Store) classify(err error, what, unknown string) error {
	// pgx wraps the errors of AfterConnect.
	var typed *messages.Error
	if errors.As(err, &typed) {
		return typed
	}
	clean := s.target.quiet(err)
	if passes(err) {
		clean = transient{clean}
	}
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		var ne net.Error
		var ce *pgconn.ConnectError
		if errors.As(err, &ne) || errors.As(err, &ce) || pgconn.Timeout(err) || broken(err) {
			return journal.Fail(journal.ReasonUnavailable, clean, "%s", what)
		}
		return journal.Fail(unknown, clean, "%s", what)
	}
	switch pe.Code {
	case "28000", "28P01", "3D000": // who, and which database
		return misconfigured("url", clean, what)
	case "42501":
		return misconfigured("url", clean, what+": the role lacks a right")
	case "25006", "53300", "57014": // read only; too many connections; a statement cut off
		reason := journal.ReasonUnavailable
		if pe.Code == "57014" {
			reason = journal.ReasonBusy
		}
		return journal.Fail(reason, clean, "%s", what)
	case "55P03", "40001", "40P01", "53200", "53000":
		return journal.Fail(journal.ReasonBusy, clean, "%s", what)
	case "53100": // the disk is full
		return journal.Fail(journal.ReasonIO, clean, "%s", what)
	}
	switch pe.Code[:min(2, len(pe.Code))] {
	case "08", "57":
		return journal.Fail(journal.ReasonUnavailable, clean, "%s", what)
	case "22", "54":
		return journal.Fail(journal.ReasonInvalid, clean, "%s", what)
	case "23":
		return journal.Fail(journal.ReasonCorrupt, clean, "%s: the heads say it cannot happen", what)
	case "58":
		return journal.Fail(journal.ReasonIO, clean, "%s", what)
	}
	if pe.SeverityUnlocalized == "FATAL" && strings.HasPrefix(pe.Code, "42") { // a setting it does not know
		return misconfigured("url", clean, what)
	}
	if pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC" {
		return journal.Fail(journal.ReasonUnavailable, clean, "%s", what)
	}
	return journal.Fail(unknown, clean, "%s", what)
}
