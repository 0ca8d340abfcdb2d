package postgres

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/messages"
)

// A schema of the second format gets the listings of the sessions that it has.
func TestOpenMigratesListings(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	opts := Options{URL: u, Schema: postgrestest.Schema(t, u)}
	s := open(t, opts)
	ses, named, odd := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "acme:ann:b", 2), specimen.Start(t, "acme:ann:c", 3)
	specimen.Must(t, s, ses.Notes(3), named.Batch(&messages.SessionOpened{Name: "clerk", Manifest: messages.Digest{7}, Parent: &messages.ParentLink{SID: "acme:ann:p"}}, &messages.Input{Text: "x"}, &messages.RunBegin{}, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota}),
		odd.Batch(&messages.SessionOpened{Name: "a\x00b"}, &messages.Input{Text: "x"}))
	if _, err := s.Erase(ctx, ses.Inc, 1, 1); err != nil {
		t.Fatal(err)
	}
	listed, err := journal.Listings(ctx, s, journal.Query{Prefix: "acme:ann:"})
	if err != nil || len(listed) != 2 || listed[0].Agent != "clerk" || listed[0].Code != messages.ErrQuota {
		t.Fatal(listed, err)
	}
	var later string // tables of the formats behind the second
	if err := s.pool.QueryRow(ctx, `SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE schemaname = $1
		AND tablename NOT IN ('heads', 'records', 'blobs', 'snapshots', 'meta', 'recall', 'recall_marks', $2)`, opts.Schema, formatTable).Scan(&later); err != nil {
		t.Fatal(err)
	}
	behind(t, s, "DROP TABLE "+later)
	behind(t, s, "DELETE FROM "+formatTable+" WHERE version_id > 2")
	s.Close()
	s = open(t, opts)
	if again, err := journal.Listings(ctx, s, journal.Query{Prefix: "acme:ann:"}); err != nil || !cmp.Equal(again, listed) {
		t.Fatalf("listed %+v, now %+v, %v", listed, again, err)
	}
	if every, err := journal.Listings(ctx, s, journal.Query{}); err != nil || len(every) != 3 {
		t.Fatal(every, err)
	}
}

// A page among 100,000 sessions is read by the index of its order.
func TestListingsReadTheirPage(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	behind(t, s, `INSERT INTO heads (inc, sid, live, seq, hash, epoch, run, turn, open, queued, closed, wake)
		SELECT ('01930000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, CASE WHEN i % 10 = 0 THEN 'acme:bob:' ELSE 'acme:ann:' END || i,
			true, 1, decode(repeat('00', 32), 'hex'), 1, 0, 0, false, 0, false, 0 FROM generate_series(1, 100000) i`)
	behind(t, s, `INSERT INTO listings (session, inc, owner, agent, created, changed, title, folded, tags, described)
		SELECT id, inc, substr(sid, 1, 9), 'clerk', id, (id * 7919) % 100003, '', '', '', 0 FROM heads`)
	behind(t, s, "ANALYZE heads")
	behind(t, s, "ANALYZE listings")
	d := s.dialect()
	for _, prefix := range []string{"", "acme:ann:", "acme:bob:"} {
		q := journal.Query{Prefix: prefix, Limit: 50}
		for range 2 {
			page, err := journal.Listings(ctx, s, q)
			if err != nil || len(page) != 50 {
				t.Fatalf("%d listings, %v", len(page), err)
			}
			q.AfterUpdated, q.AfterInc = page[49].Updated, page[49].Inc
			stmt, args := sqlstore.ListingsStatement(&d, &q, sqlstore.Narrow{})
			var plan []byte
			if err := s.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+stmt, args...).Scan(&plan); err != nil {
				t.Fatal(err)
			}
			if rows := mostRows(t, plan); rows > 60 {
				t.Errorf("%q: a page of 50 sessions read %v rows: %s", prefix, rows, plan)
			}
		}
	}
}

// mostRows is the highest number of rows that a step of a plan has given.
func mostRows(t *testing.T, plan []byte) (most float64) {
	t.Helper()
	var all any
	if err := json.Unmarshal(plan, &all); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			removed, _ := v["Rows Removed by Filter"].(float64)
			if rows, ok := v["Actual Rows"].(float64); ok {
				loops, _ := v["Actual Loops"].(float64)
				most = max(most, (rows+removed)*loops)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(all)
	return most
}
