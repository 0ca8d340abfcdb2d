package sqlite

import (
	"database/sql/driver"
	"slices"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// looked counts the rows of listings that statements have read.
var looked atomic.Int64

func init() {
	sqlite.MustRegisterScalarFunction("looked_at", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		looked.Add(1)
		return args[0], nil
	})
}

// A page of lists reads as many rows as it has, among 20,000 sessions, wherever it begins.
func TestListingsReadTheirPage(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	defer s.Close()
	for _, q := range []string{
		`INSERT INTO sessions (id, inc, sid, live, seq, hash, epoch, run, turn, open, queued, closed)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
			SELECT i, unhex(printf('01930000000070008000%012x', i)), iif(i % 10, 'acme:ann:', 'acme:bob:') || i, 1, 1, zeroblob(32), 1, 0, 0, 0, 0, 0 FROM n`,
		`INSERT INTO listings (session, inc, owner, agent, created, changed, title, folded, tags, described)
			SELECT id, inc, substr(sid, 1, 9), 'clerk', id, (id * 7919) % 100003, '', '', '', 0 FROM sessions`,
		"ALTER TABLE listings RENAME TO kept",
		`CREATE VIEW listings AS SELECT session, inc, owner, looked_at(agent) AS agent, manifest, created, changed, title, folded, tags, described, decision, code, ended, parent, origin FROM kept`,
	} {
		if _, err := s.w.conn.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"", "acme:ann:", "acme:bob:"} {
		q := journal.Query{Prefix: prefix, Limit: 50}
		var last *journal.Listing
		for n := range 3 {
			looked.Store(0)
			page, err := journal.Listings(ctx, s, q)
			if err != nil || len(page) != 50 || !slices.IsSortedFunc(page, func(a, b journal.Listing) int { return journal.Listed(&a, &b) }) {
				t.Fatalf("%q: %d listings, %v", prefix, len(page), err)
			}
			if last != nil && journal.Listed(last, &page[0]) >= 0 {
				t.Errorf("%q: page %d does not follow the one before", prefix, n)
			}
			if got := looked.Load(); got < 50 || got > 60 {
				t.Errorf("%q: page %d of 50 sessions read %d rows of %d", prefix, n, got, 20_000)
			}
			last = &page[49]
			q.AfterUpdated, q.AfterInc = last.Updated, last.Inc
			if n == 1 { // far behind
				q.AfterUpdated = q.AfterUpdated.Add(-60_000)
				last = nil
			}
		}
	}
}

// A search of titles, and a filter by a decision that is rare, read little more than what they find.
func TestFiltersReadWhatTheyFind(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	defer s.Close()
	for _, q := range []string{
		`INSERT INTO sessions (id, inc, sid, live, seq, hash, epoch, run, turn, open, queued, closed)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
			SELECT i, unhex(printf('01930000000070008000%012x', i)), 'acme:ann:' || i, 1, 1, zeroblob(32), 1, 1, 0, 0, 0, 0 FROM n`,
		`INSERT INTO listings (session, inc, owner, agent, created, changed, title, folded, tags, described, decision)
			SELECT id, inc, 'acme:ann:', 'clerk', id, id, '', iif(id % 1000, 'order ', 'a needle, ') || id, '', 1, iif(id % 500, 'DONE', 'HALT') FROM sessions`,
		"ALTER TABLE listings RENAME TO kept",
		`CREATE VIEW listings AS SELECT session, inc, owner, looked_at(agent) AS agent, manifest, created, changed, title, folded, tags, described, decision, code, ended, parent, origin FROM kept`,
	} {
		if _, err := s.w.conn.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		q    journal.Query
		want int
	}{
		{journal.Query{Title: "NEEDLE"}, 20},
		{journal.Query{Title: "order 1999"}, 11},
		{journal.Query{Title: "order", Limit: 50}, 50}, // so many that the order of lists is quicker
		{journal.Query{Title: "nothing"}, 0},
		{journal.Query{Decision: messages.Halt}, 40},
		{journal.Query{Decision: messages.Abort}, 0},
		{journal.Query{Decision: messages.Done, Limit: 50}, 50},
	} {
		for _, prefix := range []string{"acme:ann:", ""} {
			if prefix == "" && c.q.Decision != "" {
				continue // its index is by owner
			}
			q := c.q
			q.Prefix, q.Agent = prefix, "clerk"
			looked.Store(0)
			page, err := journal.Listings(ctx, s, q)
			if err != nil || len(page) != c.want {
				t.Errorf("%+v: %d listings, %v", q, len(page), err)
			}
			if got := looked.Load(); got > 2*int64(c.want)+5 {
				t.Errorf("%+v: read %d rows for %d", q, got, c.want)
			}
		}
	}
}

// The index of titles has nothing of one that was replaced, erased or deleted.
func TestTitlesAreErased(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	defer s.Close()
	ses, other := specimen.Start(t, "acme:ann:a", 1), specimen.Start(t, "acme:ann:b", 2)
	specimen.Must(t, s, ses.Batch(&messages.SessionDescribed{Title: "her divorce"}, &messages.SessionDescribed{Title: "the garden"}), other.Batch(&messages.SessionDescribed{Title: "the garden"}))
	left := func() (n int) {
		t.Helper()
		if err := s.w.conn.QueryRowContext(ctx, "SELECT count(*) FROM listing_text WHERE listing_text MATCH '\"div\" OR \"gar\"'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 2 {
		t.Fatalf("%d titles in the index", n)
	}
	specimen.Must(t, s, ses.Batch(&messages.SessionDescribed{Title: "x"}))
	if n := left(); n != 1 {
		t.Errorf("a title that was replaced: %d", n)
	}
	specimen.Must(t, s, ses.Batch(&messages.SessionDescribed{Title: "her divorce"}))
	if _, err := s.Erase(ctx, ses.Inc, 0, 0); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 1 {
		t.Errorf("a title that was erased: %d", n)
	}
	if err := s.Delete(ctx, other.Inc); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 {
		t.Errorf("a title that was deleted: %d", n)
	}
	if _, err := s.w.conn.ExecContext(ctx, "INSERT INTO listing_text (listing_text) VALUES ('integrity-check')"); err != nil {
		t.Errorf("the index is damaged: %v", err)
	}
}
