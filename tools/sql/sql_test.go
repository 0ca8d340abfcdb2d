package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/postgrestest"
	sqlitejournal "github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/sql"
	"github.com/seed14be6753/stile/tools/sql/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main{M: m}) }

// place is a database of a test: how relics reach it, and how the test does.
type place struct {
	backend func() *sql.Backend
	db      *stdsql.DB
	sqlite  bool
}

// onDatabases runs a test on each kind of database that is here.
func onDatabases(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		db, err := stdsql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		test(t, &place{db: db, sqlite: true, backend: func() *sql.Backend {
			return sql.SQLite(func() (string, error) { return path, nil })
		}})
	})
	t.Run("postgres", func(t *testing.T) {
		raw, ok := postgrestest.URL(t)
		if !ok {
			return
		}
		raw = postgrestest.With(t, raw, "search_path", postgrestest.Schema(t, raw))
		schema := raw[strings.Index(raw, "search_path=")+len("search_path="):]
		schema, _, _ = strings.Cut(schema, "&")
		if err := postgrestest.Exec(raw, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
			t.Fatal(err)
		}
		db, err := stdsql.Open("pgx", raw)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		test(t, &place{db: db, backend: func() *sql.Backend {
			return postgres.Open(func() (string, error) { return raw, nil })
		}})
	})
}

func (p *place) exec(t testing.TB, text string) {
	t.Helper()
	if _, err := p.db.ExecContext(context.Background(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (p *place) count(t testing.TB, table string) (n int) {
	t.Helper()
	if err := p.db.QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// relic makes a target that the test's end closes.
func relic(t testing.TB, r sql.Relic) *catalog.Executor {
	t.Helper()
	x, pool, err := sql.New(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// ran is what came of a call: the result, or the reason and the text of its failure.
func ran(x *catalog.Executor, c *tools.Call, args string) string {
	result, err := x.Run(context.Background(), c, args)
	var refused *tools.Refused
	var lost *tools.Unsettled
	var script *neuroscript.ScriptError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &lost):
		return "unknown: " + lost.Reason
	case errors.As(err, &script):
		return "script: " + script.Message
	case err != nil:
		return "error: " + err.Error()
	}
	return result
}

func TestStatements(t *testing.T) {
	onDatabases(t, func(t *testing.T, p *place) {
		p.exec(t, "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, total DOUBLE PRECISION, paid BOOLEAN)")
		p.exec(t, "INSERT INTO orders VALUES (1, 'Ann', 9.5, true), (2, 'Bo', NULL, false), (9007199254740993, 'Ann', 1e300, true)")
		x := relic(t, sql.Relic{
			Name: "orders", Summary: "Orders.", Backend: p.backend(), MaxRows: 2, MaxBytes: 200,
			Endpoints: []sql.Endpoint{
				{Name: "of", Query: "SELECT id, total, paid FROM orders WHERE customer = :who ORDER BY id", Params: catalog.Parameters{{Name: "who", Type: "string", Required: true}}},
				{Name: "all", Query: "SELECT id FROM orders ORDER BY id"},
				{Name: "twice", Query: "SELECT id, customer AS id FROM orders"},
				{Name: "long", Query: "SELECT :text AS a, id FROM orders ORDER BY id", Params: catalog.Parameters{{Name: "text", Type: "string", Required: true}}},
				{Name: "add", Exec: "INSERT INTO orders (id, customer, total) VALUES (:id, :who, :total)", Params: catalog.Parameters{{Name: "id", Type: "integer", Required: true}, {Name: "who", Type: "string", Default: `"guest"`}, {Name: "total", Type: "number"}}},
				{Name: "back", Exec: "DELETE FROM orders WHERE id = :id RETURNING customer, total", Params: catalog.Parameters{{Name: "id", Type: "integer", Required: true}}},
				{Name: "sneaky", Query: "WITH d AS (SELECT 1) SELECT * FROM nowhere"},
			},
		})
		if x.Class != messages.Effectful || !strings.Contains(x.Summary, "add(id, who?, total?)") {
			t.Errorf("class %s, %s", x.Class, x.Summary)
		}
		for _, tc := range []struct{ args, want string }{
			{`{"operation":"of","who":"Bo"}`, `{"more":false,"rows":[{"id":2,"total":null,"paid":false}]}`},
			{`{"operation":"of","who":"Ann"}`, `{"more":false,"rows":[{"id":1,"total":9.5,"paid":true},{"id":"9007199254740993","total":1e+300,"paid":true}]}`},
			{`{"operation":"of","who":"' OR '1'='1"}`, `{"more":false,"rows":[]}`},
			{`{"operation":"of","who":"x'; DROP TABLE orders; --"}`, `{"more":false,"rows":[]}`},
			{`{"operation":"of","who":"a\u0000b"}`, `script: argument who: a text for a database has no NUL`},
			{`{"operation":"all"}`, `{"more":true,"rows":[{"id":1},{"id":2}]}`},
			{`{"operation":"twice"}`, `columns: two columns are named id; give one another name with AS`},
			{`{"operation":"long","text":"` + strings.Repeat("x", 100) + `"}`, `{"more":true,"rows":[{"a":"` + strings.Repeat("x", 100) + `","id":1}]}`},
			{`{"operation":"long","text":"` + strings.Repeat("x", 200) + `"}`, `result_limit: one row is over the limit of 200 bytes`},
			{`{"operation":"add","id":7,"total":1.25}`, `{"affected":1}`},
			{`{"operation":"add","id":8,"total":3}`, `{"affected":1}`},
			{`{"operation":"back","id":7}`, `{"more":false,"rows":[{"customer":"guest","total":1.25}]}`},
			{`{"operation":"back","id":77}`, `{"more":false,"rows":[]}`},
			{`{"operation":"add","id":1.5}`, `script: argument id: want integer`},
			{`{"operation":"add"}`, `script: argument id: missing`},
			{`{"operation":"drop"}`, `script: argument operation: want one of "of", "all", "twice", "long", "add", "back", "sneaky"`},
			{`{"operation":"all","who":"x"}`, `script: argument who: there is no such parameter; it takes ()`},
		} {
			if got := ran(x, &tools.Call{Key: "k"}, tc.args); got != tc.want {
				t.Errorf("%s:\n%s, want\n%s", tc.args, got, tc.want)
			}
		}
		if got := ran(x, &tools.Call{}, `{"operation":"add","id":1}`); !strings.HasPrefix(got, "statement: add: ") {
			t.Errorf("the same id twice: %s", got)
		}
		if got := ran(x, &tools.Call{}, `{"operation":"sneaky"}`); !strings.HasPrefix(got, "statement: sneaky: ") || !strings.Contains(got, "nowhere") {
			t.Errorf("no such table: %s", got)
		}
		if n := p.count(t, "orders"); n != 4 {
			t.Errorf("%d orders are left", n)
		}
	})
}

// A query cannot change anything, whatever its statement is: the database refuses.
func TestQueriesOnlyRead(t *testing.T) {
	onDatabases(t, func(t *testing.T, p *place) {
		p.exec(t, "CREATE TABLE t (a BIGINT)")
		text := "WITH d AS (DELETE FROM t RETURNING a) SELECT a FROM d"
		p.exec(t, "INSERT INTO t VALUES (1)")
		if p.sqlite {
			text = "WITH d AS (SELECT 2 AS a) INSERT INTO t SELECT a FROM d RETURNING a"
		}
		x := relic(t, sql.Relic{Name: "r", Backend: p.backend(), Endpoints: []sql.Endpoint{{Name: "q", Query: text}}})
		if got := ran(x, &tools.Call{}, `{"operation":"q"}`); !strings.HasPrefix(got, "statement: q: ") || !strings.Contains(got, "read") {
			t.Errorf("%s", got)
		}
		if n := p.count(t, "t"); n != 1 || x.Class != messages.ReadOnly {
			t.Errorf("%d rows, class %s", n, x.Class)
		}
	})
}

// A keyed statement is done once under its key, by whomever, and not at all for an owner
// of the session that another has followed.
func TestKeyedStatements(t *testing.T) {
	onDatabases(t, func(t *testing.T, p *place) {
		p.exec(t, "CREATE TABLE counter (n BIGINT)")
		p.exec(t, "INSERT INTO counter VALUES (0)")
		r := sql.Relic{Name: "r", Backend: p.backend(), Endpoints: []sql.Endpoint{
			{Name: "add", Exec: "UPDATE counter SET n = n + :by RETURNING n", Class: messages.Keyed, Params: catalog.Parameters{{Name: "by", Type: "integer", Required: true}}},
			{Name: "bad", Exec: "INSERT INTO nowhere VALUES (1)", Class: messages.Keyed},
		}}
		a := relic(t, r)
		r.Backend = p.backend()
		b := relic(t, r)
		inc, other := messages.Incarnation{1}, messages.Incarnation{2}
		const add = `{"operation":"add","by":3}`
		for _, tc := range []struct {
			x     *catalog.Executor
			inc   messages.Incarnation
			epoch int64
			key   string
			want  string
		}{
			{a, inc, 4, "k1", `{"more":false,"rows":[{"n":3}]}`},
			{a, inc, 4, "k1", `{"more":false,"rows":[{"n":3}]}`},
			{b, inc, 5, "k1", `{"more":false,"rows":[{"n":3}]}`},
			{b, inc, 5, "k2", `{"more":false,"rows":[{"n":6}]}`},
			{a, inc, 4, "k3", `fenced: another host has the session`},
			{a, inc, 4, "k1", `fenced: another host has the session`},
			{a, other, 1, "k3", `{"more":false,"rows":[{"n":9}]}`},
		} {
			if got := ran(tc.x, &tools.Call{Inc: tc.inc, Epoch: tc.epoch, Key: tc.key}, add); got != tc.want {
				t.Errorf("%s in epoch %d: %s, want %s", tc.key, tc.epoch, got, tc.want)
			}
		}
		// What has failed was not done, and may be done again under its key.
		c := &tools.Call{Inc: inc, Epoch: 5, Key: "k9"}
		if got := ran(b, c, `{"operation":"bad"}`); !strings.HasPrefix(got, "statement: bad: ") {
			t.Error(got)
		}
		if got := ran(b, c, add); got != `{"more":false,"rows":[{"n":12}]}` {
			t.Errorf("after a failure under the same key: %s", got)
		}
		// Many at once under one key.
		var wg sync.WaitGroup
		results := make([]string, 8)
		for i := range results {
			wg.Go(func() {
				results[i] = ran([]*catalog.Executor{a, b}[i%2], &tools.Call{Inc: other, Epoch: 1, Key: "k10"}, add)
			})
		}
		wg.Wait()
		for _, got := range results {
			if got != `{"more":false,"rows":[{"n":15}]}` {
				t.Errorf("at once: %s", got)
			}
		}
	})
}

// A statement that takes too long is undone, and says so.
func TestStatementTime(t *testing.T) {
	onDatabases(t, func(t *testing.T, p *place) {
		p.exec(t, "CREATE TABLE t (a BIGINT)")
		x := relic(t, sql.Relic{Name: "r", Backend: p.backend(), Timeout: 300 * time.Millisecond, Endpoints: []sql.Endpoint{
			{Name: "q", Query: "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :n) SELECT count(*) AS n FROM c", Params: catalog.Parameters{{Name: "n", Type: "integer", Required: true}}},
			{Name: "e", Exec: "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :n) SELECT n FROM c", Params: catalog.Parameters{{Name: "n", Type: "integer", Required: true}}},
		}})
		if got := ran(x, &tools.Call{}, `{"operation":"q","n":10}`); got != `{"more":false,"rows":[{"n":10}]}` {
			t.Error(got)
		}
		for _, op := range []string{"q", "e"} {
			got := ran(x, &tools.Call{}, `{"operation":"`+op+`","n":1000000000}`)
			if !strings.HasPrefix(got, "timeout: "+op+" took longer") && !strings.Contains(got, "57014") {
				t.Errorf("%s: %s", op, got)
			}
		}
		if n := p.count(t, "t"); n != 0 {
			t.Errorf("%d rows are left of what was undone", n)
		}
	})
}

// Where the database is and how one gets in is not said.
func TestUnreachable(t *testing.T) {
	query := []sql.Endpoint{{Name: "q", Query: "SELECT 1 AS a"}, {Name: "e", Exec: "DELETE FROM t"}}
	const secret = "hunter2-secret"
	dir := t.TempDir()
	ours, err := sqlitejournal.Open(sqlitejournal.Options{Path: filepath.Join(dir, "journal.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	closed := (&url.URL{Scheme: "postgres", User: url.UserPassword("someone", secret), Host: "127.0.0.1:1", Path: "/private", RawQuery: "connect_timeout=2"}).String()
	at := func(s string) func() (string, error) { return func() (string, error) { return s, nil } }
	for name, tc := range map[string]struct {
		b    *sql.Backend
		want string
	}{
		"no file":     {sql.SQLite(at(filepath.Join(dir, "none.db"))), "unavailable: the file is not there"},
		"our journal": {sql.SQLite(at(filepath.Join(dir, "journal.db"))), "unavailable: the file is a journal of stile"},
		"refused":     {postgres.Open(at(closed)), "unavailable: the database cannot be reached"},
		"no URL":      {postgres.Open(at("host=x password=" + secret)), "unavailable: the address of the database does not begin"},
		"bad URL":     {postgres.Open(at("postgres://u:" + secret + "@h:port/db")), "unavailable: the address of the database is not understood"},
		"not set":     {postgres.Open(func() (string, error) { return "", tools.Refuse(sql.ReasonUnavailable, "DB_URL is not set") }), "unavailable: DB_URL is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			x := relic(t, sql.Relic{Name: "r", Backend: tc.b, Endpoints: query})
			for _, op := range []string{"q", "e"} {
				got := ran(x, &tools.Call{}, `{"operation":"`+op+`"}`)
				if !strings.HasPrefix(got, strings.Replace(tc.want, " q:", " "+op+":", 1)) {
					t.Errorf("%s: %s, want %s", op, got, tc.want)
				}
				for _, part := range []string{secret, "someone", "127.0.0.1", "private", dir} {
					if strings.Contains(got, part) {
						t.Errorf("%s says %s: %s", op, part, got)
					}
				}
			}
		})
	}
	if raw, ok := postgrestest.URL(t); ok {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("stranger", secret)
		x := relic(t, sql.Relic{Name: "r", Backend: postgres.Open(at(u.String())), Endpoints: query})
		if got := ran(x, &tools.Call{}, `{"operation":"q"}`); !strings.HasPrefix(got, "unavailable: ") || strings.Contains(got, "stranger") || strings.Contains(got, secret) {
			t.Errorf("%s", got)
		}
	}
}

func TestMistakes(t *testing.T) {
	for want, e := range map[string]sql.Endpoint{
		"interface.endpoints[0].query: ERR_CONFIG: it begins with DELETE":             {Query: "DELETE FROM t"},
		"interface.endpoints[0].exec: ERR_CONFIG: it begins with SELECT":              {Exec: "SELECT 1"},
		"interface.endpoints[0].query: ERR_CONFIG: :b is not one of its parameters":   {Query: "SELECT :a, :b", Params: catalog.Parameters{{Name: "a"}}},
		"interface.endpoints[0].query: ERR_CONFIG: the parameter c is not used in it": {Query: "SELECT :a", Params: catalog.Parameters{{Name: "a"}, {Name: "c"}}},
		"interface.endpoints[0].exec: ERR_CONFIG: there is a second statement, at ":   {Exec: "DELETE FROM t; DELETE FROM u"},
	} {
		_, _, err := sql.New(sql.Relic{Backend: sql.SQLite(nil), Endpoints: []sql.Endpoint{e}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
