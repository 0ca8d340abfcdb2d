package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Default bounds of a relic, and the highest that it can set.
const (
	DefaultRows    = 100
	MaxRows        = 10_000
	DefaultBytes   = 1 << 20
	MaxBytes       = 8 << 20
	DefaultTimeout = 30 * time.Second
	connections    = 4
	idle           = 30 * time.Second
)

// Reasons of failed statements, in action.ended.
const (
	ReasonStatement   = "statement"    // the database refuses it
	ReasonUnavailable = "unavailable"  // the database cannot be reached
	ReasonTimeout     = "timeout"      // the statement took too long, and was undone
	ReasonColumns     = "columns"      // two columns of one name
	ReasonResultLimit = "result_limit" // one row is too long
	ReasonFenced      = "fenced"       // a newer owner of the session has written
)

// Relic is a database and the statements that actions may run.
type Relic struct {
	Name      string
	Summary   string
	Endpoints []Endpoint
	MaxRows   int64 // of an answer; 0 is DefaultRows
	MaxBytes  int64 // of them as JSON; 0 is DefaultBytes
	Timeout   time.Duration
	Backend   *Backend
}

// Endpoint is one statement: a Query, which only reads, or an Exec.
type Endpoint struct {
	Name    string
	Summary string
	Query   string
	Exec    string
	// Class is read_only for a query. The default of an Exec is effectful. A keyed Exec
	// records its key in a table of the database, and is done once for each key.
	Class  messages.Class
	Params catalog.Parameters
}

// Backend is a kind of database and the address of one.
type Backend struct {
	Mark    string // begins a numbered parameter
	Driver  driver.Driver
	Connect func(ctx context.Context, write bool) (driver.Conn, error)
	// Begin prepares a transaction that has a time; may be nil.
	Begin func(ctx context.Context, tx *stdsql.Tx, timeout time.Duration) error
	// Describe returns the text of an error for the model, without addresses and secrets;
	// ok reports whether the database itself refused, so that nothing was done.
	Describe func(err error) (text string, ok bool)
}

// connector makes the connections for reading or those for writing.
type connector struct {
	b     *Backend
	write bool
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.b.Connect(ctx, c.write)
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.b.Driver }

// pool has the connections of a relic, which are opened when they are first used.
type pool struct {
	b      *Backend
	mu     sync.Mutex
	dbs    [2]*stdsql.DB // for reading, for writing
	ledger bool          // the table of done keys exists
	closed bool
}

// Close ends all connections.
func (p *pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var err error
	for i, db := range p.dbs {
		if db != nil {
			err = errors.Join(err, db.Close())
			p.dbs[i] = nil
		}
	}
	return err
}

func (p *pool) db(write bool) (*stdsql.DB, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, tools.Refuse(ReasonUnavailable, "the host is closing")
	}
	i := 0
	if write {
		i = 1
	}
	if p.dbs[i] == nil {
		db := stdsql.OpenDB(connector{p.b, write})
		db.SetMaxOpenConns(connections)
		db.SetConnMaxIdleTime(idle)
		p.dbs[i] = db
	}
	return p.dbs[i], nil
}

// prepared is an endpoint with its parsed statement.
type prepared struct {
	Endpoint
	*statement
	write bool
}

// New returns the target of a relic, and the pool of its connections, which the caller must
// close. Mistakes in statements are ERR_CONFIG with Field interface.endpoints[i].
func New(r Relic) (*catalog.Executor, io.Closer, error) {
	if r.MaxRows <= 0 {
		r.MaxRows = DefaultRows
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = DefaultBytes
	}
	r.MaxRows, r.MaxBytes = min(r.MaxRows, MaxRows), min(r.MaxBytes, MaxBytes)
	limit := r.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	var all []prepared
	var ops catalog.Operations
	for i, e := range r.Endpoints {
		p := prepared{Endpoint: e, write: e.Exec != ""}
		text, begins, key := e.Query, reading, "query"
		p.Class = messages.ReadOnly
		if p.write {
			text, begins, key = e.Exec, writing, "exec"
			if p.Class = e.Class; p.Class == "" {
				p.Class = messages.Effectful
			}
		}
		at := fmt.Sprintf("interface.endpoints[%d].%s", i, key)
		var err error
		if p.statement, err = parse(text, r.Backend.Mark, begins); err != nil {
			return nil, nil, messages.At(err, at)
		}
		for _, name := range p.names {
			if !slices.ContainsFunc(e.Params, func(q catalog.Parameter) bool { return q.Name == name }) {
				return nil, nil, messages.Errorf(messages.ErrConfig, ":%s is not one of its parameters", clip.Quoted(name)).At(at)
			}
		}
		for _, q := range e.Params {
			if !slices.Contains(p.names, q.Name) {
				return nil, nil, messages.Errorf(messages.ErrConfig, "the parameter %s is not used in it", q.Name).At(at)
			}
		}
		all = append(all, p)
		ops = append(ops, catalog.Operation{Name: e.Name, Summary: e.Summary, Class: p.Class, Params: e.Params})
	}
	conns := &pool{b: r.Backend}
	summary, params, class := ops.Describe(r.Summary)
	return &catalog.Executor{
		Type: messages.TypeRelic, Name: r.Name, Summary: summary, Params: params, Class: class, Timeout: r.Timeout,
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			at, given, err := ops.Pick(args)
			if err != nil {
				return "", err
			}
			e := &all[at]
			bound, err := e.bind(given)
			if err != nil {
				return "", err
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			x := run{r: &r, pool: conns, e: e, c: c, args: bound, limit: limit}
			return x.do(ctx)
		},
	}, conns, nil
}

// bind returns the values of the numbered parameters. One that was left out is NULL.
func (e *prepared) bind(given map[string]jsontext.Value) ([]any, error) {
	var all []any
	for _, name := range e.names {
		i := slices.IndexFunc(e.Params, func(p catalog.Parameter) bool { return p.Name == name })
		v, err := argument(&e.Params[i], given[name])
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// run is one execution of a statement.
type run struct {
	r     *Relic
	pool  *pool
	e     *prepared
	c     *tools.Call
	args  []any
	limit time.Duration
}

func (x *run) do(ctx context.Context) (string, error) {
	db, err := x.pool.db(x.e.write)
	if err != nil {
		return "", err
	}
	keyed := x.e.write && x.e.Class == messages.Keyed && x.c.Key != ""
	if keyed {
		if err := x.pool.makeLedger(ctx, db); err != nil {
			return "", x.failed(ctx, err)
		}
	}
	tx, err := db.BeginTx(ctx, &stdsql.TxOptions{ReadOnly: !x.e.write})
	if err != nil {
		return "", x.failed(ctx, err)
	}
	defer tx.Rollback() // has no effect after a commit
	if begin := x.r.Backend.Begin; begin != nil {
		if err := begin(ctx, tx, x.limit); err != nil {
			return "", x.failed(ctx, err)
		}
	}
	if keyed {
		done, result, err := x.claim(ctx, tx)
		if err != nil {
			return "", x.failed(ctx, err)
		}
		if done {
			return result, nil
		}
	}
	result, err := x.statement(ctx, tx)
	if err == nil && keyed {
		_, err = tx.ExecContext(ctx, x.marked("UPDATE stile_calls SET result = #1 WHERE key = #2"), result, x.c.Key)
	}
	if err != nil {
		return "", x.failed(ctx, err)
	}
	if !x.e.write {
		return result, nil
	}
	if err := tx.Commit(); err != nil {
		text, refused := x.r.Backend.Describe(err)
		if refused || errors.Is(err, stdsql.ErrTxDone) || !x.e.Class.Durable() {
			return "", x.failed(ctx, err)
		}
		if text == "" {
			text = "the connection was lost"
		}
		return "", &tools.Unsettled{Reason: x.e.Name + ": " + text + " while it was committed"}
	}
	return result, nil
}

// statement runs the statement in its transaction.
func (x *run) statement(ctx context.Context, tx *stdsql.Tx) (string, error) {
	if x.e.write && !x.e.returns {
		done, err := tx.ExecContext(ctx, x.e.text, x.args...)
		if err != nil {
			return "", err
		}
		n, err := done.RowsAffected()
		return `{"affected":` + strconv.FormatInt(n, 10) + `}`, err
	}
	rows, err := tx.QueryContext(ctx, x.e.text, x.args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	out, more, err := table(rows, x.r.MaxRows, x.r.MaxBytes)
	if err != nil {
		return "", err
	}
	return `{"more":` + strconv.FormatBool(more) + `,"rows":` + string(out) + `}`, nil
}

// failed returns the model's error for a statement that changed nothing.
func (x *run) failed(ctx context.Context, err error) error {
	var refused *tools.Refused
	if errors.As(err, &refused) {
		return err
	}
	text, byServer := x.r.Backend.Describe(err)
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return tools.Refuse(ReasonTimeout, fmt.Sprintf("%s took longer than its time of %s and was undone", x.e.Name, x.limit))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case byServer:
		return tools.Refuse(ReasonStatement, x.e.Name+": "+text)
	case text == "":
		text = "the database cannot be reached"
	}
	return tools.Refuse(ReasonUnavailable, text)
}

// marked returns a statement of this package with the database's own marks of parameters.
func (x *run) marked(text string) string { return strings.ReplaceAll(text, "#", x.r.Backend.Mark) }

// Of keyed statements.

const createLedger = "CREATE TABLE IF NOT EXISTS stile_calls (key TEXT PRIMARY KEY, session TEXT NOT NULL, epoch BIGINT NOT NULL, result TEXT, at TEXT NOT NULL)"

// makeLedger creates the table that records done keys, unless it exists: an administrator may
// have created it for a role without the right to.
func (p *pool) makeLedger(ctx context.Context, db *stdsql.DB) error {
	p.mu.Lock()
	known := p.ledger
	p.mu.Unlock()
	if known {
		return nil
	}
	there := func() error {
		rows, err := db.QueryContext(ctx, "SELECT key, session, epoch, result, at FROM stile_calls WHERE 1 = 0")
		if err != nil {
			return err
		}
		return rows.Close()
	}
	if there() != nil {
		_, err := db.ExecContext(ctx, createLedger)
		if err != nil && there() != nil { // two may have tried at once
			return err
		}
	}
	p.mu.Lock()
	p.ledger = true
	p.mu.Unlock()
	return nil
}

// claim checks the epoch and takes the key, in the statement's own transaction: it refuses a
// call of an older owner of the session, and returns the result of a call that was done. The
// rows are locked until the end, so of two concurrent calls the second sees the first.
func (x *run) claim(ctx context.Context, tx *stdsql.Tx) (done bool, result string, err error) {
	at := time.Now().UTC().Format(time.RFC3339)
	session := x.c.Inc.String()
	n, err := affected(tx.ExecContext(ctx, x.marked(`INSERT INTO stile_calls (key, session, epoch, at) VALUES (#1, #2, #3, #4)
		ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, at = excluded.at WHERE stile_calls.epoch <= excluded.epoch`), "epoch "+session, session, x.c.Epoch, at))
	if err != nil {
		return false, "", err
	}
	if n == 0 {
		return false, "", tools.Refuse(ReasonFenced, "another host has the session")
	}
	n, err = affected(tx.ExecContext(ctx, x.marked("INSERT INTO stile_calls (key, session, epoch, at) VALUES (#1, #2, #3, #4) ON CONFLICT (key) DO NOTHING"), x.c.Key, session, x.c.Epoch, at))
	if err != nil || n > 0 {
		return false, "", err
	}
	err = tx.QueryRowContext(ctx, x.marked("SELECT result FROM stile_calls WHERE key = #1"), x.c.Key).Scan(&result)
	return err == nil, result, err
}

func affected(done stdsql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
