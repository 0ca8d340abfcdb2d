package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

func TestOptions(t *testing.T) {
	const good = "postgres://u@localhost/db"
	for _, c := range []struct {
		opts  Options
		field string
	}{
		{Options{}, "url"},
		{Options{URL: "journal.db"}, "url"},
		{Options{URL: "mysql://u@localhost/db"}, "url"},
		{Options{URL: "postgres://u:%zz@localhost/db"}, "url"},
		{Options{URL: good + "?sslmode=perhaps"}, "url"},
		{Options{URL: good + "?a=%zz"}, "url"},
		{Options{URL: "postgres://u@localhost:port/db"}, "url"},
		{Options{URL: good, Schema: strings.Repeat("s", 64)}, "schema"},
		{Options{URL: good, Schema: "a\x00b"}, "schema"},
		{Options{URL: good, Durability: "mostly"}, "durability"},
		{Options{URL: good + "?durability=mostly"}, "durability"},
		{Options{URL: good, Readers: -1}, "readers"},
		{Options{URL: good, Readers: MaxReaders + 1}, "readers"},
	} {
		_, err := Open(ctx, c.opts)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != c.field {
			t.Errorf("%+v: %v", c.opts, err)
		}
	}
	for raw, want := range map[string]string{good: DefaultSchema, good + "?schema=other": "other", good + "?schema=it's%20mine": "it's mine"} {
		if o, _, err := (Options{URL: raw}).settle(); err != nil || o.Schema != want {
			t.Errorf("%s: %q, %v", raw, o.Schema, err)
		}
	}
}

func TestHasPassword(t *testing.T) {
	for raw, want := range map[string]bool{
		"postgres://u@h/db":                  false,
		"postgres://u:p@h/db":                true,
		"postgres://u:@h/db":                 true,
		"postgres://h/db?password=p":         true,
		"postgres://h/db?sslpassword=p":      true,
		"postgres://h/db?passfile=/x":        false,
		"postgres://u:p%zz@h/db":             true,
		"postgres://u@h/db?sslmode=disable%": true,
		"postgres://u@h/db?p%61ssword=p":     true,
	} {
		if HasPassword(raw) != want {
			t.Errorf("%s", raw)
		}
	}
}

// Whatever goes wrong, and wherever the password stood, no error holds it.
func TestPasswordIsNeverSaid(t *testing.T) {
	const secret = "hunter2/&=@ü"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	user := url.UserPassword("u", secret)
	urls := map[string]string{
		"closed port":       (&url.URL{Scheme: "postgres", User: user, Host: closed, Path: "/db"}).String(),
		"bad port":          (&url.URL{Scheme: "postgres", User: user, Host: "h:x1", Path: "/db"}).String(),
		"bad escape":        "postgres://u:hunter2%zz@h/db",
		"not escaped":       "postgres://u:hunter2/&=@h/db",
		"another scheme":    (&url.URL{Scheme: "mysql", User: user, Host: closed}).String(),
		"bad sslmode":       (&url.URL{Scheme: "postgres", User: user, Host: closed, RawQuery: "sslmode=hunter2"}).String() + "&password=" + url.QueryEscape(secret),
		"parameter":         "postgres://u@" + closed + "/db?password=" + url.QueryEscape(secret),
		"bad ssl key":       "postgres://u@" + closed + "/db?sslmode=require&sslkey=/nowhere&sslcert=/nowhere&sslpassword=" + url.QueryEscape(secret),
		"bad duration":      (&url.URL{Scheme: "postgres", User: user, Host: closed, RawQuery: "connect_timeout=x"}).String(),
		"name of a service": (&url.URL{Scheme: "postgres", User: user, Host: closed, RawQuery: "service=none"}).String(),
	}
	if u, ok := postgrestest.URL(t); ok {
		good, err := url.Parse(u)
		if err != nil {
			t.Fatal("the test URL cannot be parsed")
		}
		wrong := *good
		wrong.User = user
		urls["refused login"] = wrong.String()
		missing := *good
		missing.Path = "/no_such_database"
		urls["missing database"] = missing.String()
		pass, _ := good.User.Password()
		if pass != "" {
			for _, u := range []string{missing.String(), postgrestest.With(t, u, "no_such_setting", "1")} {
				_, err := Open(ctx, Options{URL: u})
				if messages.CodeOf(err) != messages.ErrConfig {
					t.Errorf("a database or a setting that is not there: %v", err)
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if strings.Contains(fmt.Sprintf("%v %+v", e, e), pass) {
						t.Error("the password of the test server is said")
					}
				}
			}
		}
	}
	for name, u := range urls {
		_, err := Open(ctx, Options{URL: u, Outage: time.Second})
		if err == nil {
			t.Errorf("%s: opened", name)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			text := fmt.Sprintf("%v %+v %q", e, e, e)
			for _, form := range []string{"hunter2", url.QueryEscape(secret), url.PathEscape(secret)} {
				if strings.Contains(text, form) && name != "bad sslmode" || strings.Contains(text, "&=@") {
					t.Errorf("%s: %s", name, text)
				}
			}
			if strings.ContainsAny(e.Error(), "\n\t") {
				t.Errorf("%s: an error of several lines: %q", name, e)
			}
		}
	}
}

func TestQuiet(t *testing.T) {
	target := &target{secrets: []string{"", "s3/cr et"}}
	err := target.quiet(errors.New("at `u:s3/cr et@h`:\n\tand s3%2Fcr%20et, s3%2Fcr+et"))
	if err.Error() != "at `u:***@h`: and ***, ***" {
		t.Error(err)
	}
	plain := errors.New("nothing to hide")
	if any(target.quiet(plain)) != any(plain) || target.quiet(nil) != nil {
		t.Error("an error that hides nothing is changed")
	}
}

func TestReopenedDatabaseHoldsEverything(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	opts := Options{URL: u, Schema: postgrestest.Schema(t, u)}
	s := open(t, opts)
	ses := specimen.Start(t, "local:local:a", 1)
	b := ses.Notes(3)
	b.Blobs = []messages.Blob{specimen.NewBlob("x")}
	b.Snapshot = &journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash, State: []byte("s")}
	specimen.Must(t, s, b)
	if err := s.PutMeta(ctx, journal.MetaReceiptKeys, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, opts)
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 3 {
		t.Fatal(err)
	}
	if v, err := s.Meta(ctx, journal.MetaReceiptKeys); err != nil || string(v) != "{}" {
		t.Fatal(err)
	}
	if _, err := s.Blob(ctx, ses.Inc, b.Blobs[0].Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(ctx, ses.Inc); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, s, ses.Notes(1))
	var seen int
	if err := s.pool.QueryRow(ctx, "SELECT count(*) FROM journal WHERE sid = 'local:local:a' AND body::json ->> 'text' = 'note'").Scan(&seen); err != nil || seen != 4 {
		t.Errorf("the view for people shows %d records, %v", seen, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(ctx, Options{URL: u, Schema: schema})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Commit([]journal.Batch{specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1).Notes(1)})[0]; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, Options{URL: u, Schema: schema})
	if heads, err := s.Sessions(ctx, journal.Query{}); err != nil || len(heads) != 6 {
		t.Fatal(len(heads), err)
	}
}

func TestOpenRefusesForeignSchemas(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	do := func(sql string) {
		t.Helper()
		if err := postgrestest.Exec(u, sql); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE SCHEMA " + schema + "; CREATE TABLE " + schema + ".records (x int)")
	_, err := Open(ctx, Options{URL: u, Schema: schema})
	wantReason(t, err, journal.ReasonFormat)
	do("INSERT INTO " + schema + ".records VALUES (1); DROP TABLE " + schema + ".records") // as it was, then empty
	s := open(t, Options{URL: u, Schema: schema})
	behind(t, s, "INSERT INTO "+formatTable+" (version_id, is_applied) VALUES (99, true)")
	s.Close()
	_, err = Open(ctx, Options{URL: u, Schema: schema})
	wantReason(t, err, journal.ReasonFormat)
	if !strings.Contains(err.Error(), "99") {
		t.Error(err)
	}
}

// Hosts of two neighbouring versions use one journal, if the later migrations say that they can:
// those that run go on while it is migrated, and others open it. Else it is refused, with what
// both know.
func TestNeighbours(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	want, err := sqlstore.NewestMigration(dir)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{URL: u, Schema: postgrestest.Schema(t, u)}
	running := open(t, opts)
	later := func(format int64, rest string) {
		t.Helper()
		behind(t, running, fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (%d, true)", formatTable, format))
		behind(t, running, rest)
	}
	later(want+1, "CREATE TABLE more (x int); ALTER TABLE records ADD COLUMN more int")
	behind(t, running, fmt.Sprintf("INSERT INTO formats VALUES (%d, %d)", want+1, want))
	later(want+2, fmt.Sprintf("INSERT INTO formats VALUES (%d, %d)", want+2, want))
	specimen.Must(t, running, specimen.Start(t, "local:local:a", 1).Notes(1))
	s := open(t, opts)
	specimen.Must(t, s, specimen.Start(t, "local:local:b", 2).Notes(1))
	if table, err := s.Hosts(); err != nil {
		t.Error(err)
	} else {
		if _, err := table.Join(ctx, lease.Host{ID: uuid.New(), Address: "a:1"}, time.Minute); err != nil {
			t.Error(err)
		}
		table.Close()
	}
	s.Close()
	read := opts
	read.ReadOnly = true
	s = open(t, read)
	if heads, err := s.Sessions(ctx, journal.Query{}); err != nil || len(heads) != 2 {
		t.Errorf("%d sessions, %v", len(heads), err)
	}
	s.Close()

	// One that is for hosts of its own format alone, whether it says so or not.
	for i, rest := range []string{"SELECT 1", fmt.Sprintf("INSERT INTO formats VALUES (%d, %d)", want+4, want+4)} {
		format := want + 3 + int64(i)
		later(format, rest)
		for _, opts := range []Options{opts, read} {
			_, err := Open(ctx, opts)
			wantReason(t, err, journal.ReasonFormat)
			if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("format %d, which hosts can use that know format %[1]d; this version knows %d", format, want)) {
				t.Error(err)
			}
		}
	}
}

// Each migration tells which hosts can go on behind it.
func TestMigrationsTell(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	var silent []int64
	if err := s.pool.QueryRow(ctx, "SELECT array_agg(version_id) FROM "+formatTable+" WHERE version_id >= 5 AND version_id NOT IN (SELECT format FROM formats)").Scan(&silent); err != nil || silent != nil {
		t.Errorf("the migrations %v have no row in formats; %v", silent, err)
	}
}

// The mode an acknowledgement stands on is strong unless a weaker one was named,
// and that is said.
func TestDurability(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	mode := func(s *Store) (mode string) {
		t.Helper()
		s.write.Lock()
		defer s.write.Unlock()
		if err := s.w.conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&mode); err != nil {
			t.Fatal(err)
		}
		return mode
	}
	asked := open(t, Options{URL: postgrestest.With(t, u, "durability", "local"), Schema: schema})
	if got := mode(asked); got != "local" {
		t.Errorf("asked by URL: %s", got)
	}
	asked.Close()
	for _, c := range []struct {
		server string
		asked  string
		want   string
		said   bool
	}{
		{"off", "", "on", false},
		{"local", "", "on", false},
		{"on", "", "on", false},
		{"remote_apply", "", "remote_apply", false},
		{"remote_apply", On, "on", false},
		{"on", Local, "local", true},
		{"on", RemoteWrite, "remote_write", true},
		{"on", Off, "off", true},
	} {
		s := open(t, Options{URL: postgrestest.With(t, u, "options", "-c synchronous_commit="+c.server), Schema: schema, Durability: c.asked})
		if got := mode(s); got != c.want {
			t.Errorf("server %s, asked %q: %s", c.server, c.asked, got)
		}
		said := strings.Contains(strings.Join(s.Notices(), "\n"), "durability "+c.want)
		if said != c.said {
			t.Errorf("server %s, asked %q: said %q", c.server, c.asked, s.Notices())
		}
		s.Close()
	}
}

// A server that is unsafe in itself, or cannot hold what there is to hold.
func TestUnfitServers(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	if err := postgrestest.Exec(srv.URL(), "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(ctx, Options{URL: strings.Replace(srv.URL(), "/postgres?", "/ascii?", 1)})
	wantReason(t, err, journal.ReasonFormat)
	for _, sql := range []string{
		"CREATE ROLE guest LOGIN PASSWORD 'guest'; CREATE DATABASE shared; REVOKE ALL ON DATABASE shared FROM PUBLIC; GRANT CONNECT ON DATABASE shared TO guest",
	} {
		for _, one := range strings.Split(sql, ";") {
			if err := postgrestest.Exec(srv.URL(), one); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := strings.Replace(srv.URL(), "/postgres?", "/shared?", 1)
	guestURL, err := url.Parse(shared)
	if err != nil {
		t.Fatal(err)
	}
	guestURL.User = url.UserPassword("guest", "guest")
	guest := guestURL.String()
	if _, err := Open(ctx, Options{URL: guest}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a role without rights: %v", err)
	}
	// The owner of the schema creates it; a role with rights on its tables is enough after that.
	open(t, Options{URL: shared}).Close()
	if err := postgrestest.Exec(shared, "GRANT USAGE ON SCHEMA stile TO guest; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stile TO guest"); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{URL: guest})
	specimen.Must(t, s, specimen.Start(t, "local:local:a", 1).Notes(1))
	s.Close()

	srv.Quit()
	if err := srv.Restart("fsync=off", "full_page_writes=off"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{URL: srv.URL()}); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("fsync=off: %v", err)
	}
	s = open(t, Options{URL: srv.URL(), Durability: Off})
	said := strings.Join(s.Notices(), "\n")
	for _, word := range []string{"fsync=off", "full_page_writes=off"} {
		if !strings.Contains(said, word) {
			t.Errorf("%s is not said: %q", word, said)
		}
	}
}
