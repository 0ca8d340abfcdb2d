package postgres

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/journaltest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main{M: m}) }

// TestServer says with which server the tests of this package ran.
func TestServer(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	var version string
	if err := s.pool.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		t.Fatal(err)
	}
	t.Logf("ran with PostgreSQL %s", version)
}

func TestConformance(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	journaltest.Run(t, func(t *testing.T) journal.Store {
		return open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	})
}

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	if journal.ReasonOf(err) != reason {
		t.Fatalf("got %v, want reason %s", err, reason)
	}
}
