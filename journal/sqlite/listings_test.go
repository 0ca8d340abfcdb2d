package sqlite

import (
	"database/sql/driver"
	"slices"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"

	"github.com/seed14be6753/stile/journal"
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
		`CREATE VIEW listings AS SELECT session, inc, owner, looked_at(agent) AS agent, manifest, created, changed, title, folded, tags, described FROM kept`,
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
