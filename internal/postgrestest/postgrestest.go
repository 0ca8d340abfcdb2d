// Package postgrestest gives tests a PostgreSQL server: the one that
// STILE_TEST_POSTGRES names, or a private one from the binaries of this machine, on
// a socket in a temporary directory, with its own data and password.
//
// A machine without either is told so in words, and its tests pass without having
// run; STILE_REQUIRE_POSTGRES=1 makes them fail instead.
package postgrestest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The environment that says where to test.
const (
	EnvURL     = "STILE_TEST_POSTGRES"     // URL of a server to use; schemas are made and dropped in its database
	EnvBin     = "STILE_TEST_POSTGRES_BIN" // folder of the binaries for private servers, when it is not found by itself
	EnvRequire = "STILE_REQUIRE_POSTGRES"  // 1: without a server tests fail
)

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Main runs a package's tests and stops the server they have shared.
type Main struct{ M interface{ Run() int } }

// Run implements goleak.TestingM.
func (m Main) Run() int {
	code := m.M.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	return code
}

// URL is that of a server that the package's tests share, and Main stops; ok is
// false, and the test has been told, when there is none.
func URL(t testing.TB) (rawURL string, ok bool) {
	t.Helper()
	if u := os.Getenv(EnvURL); u != "" {
		return u, true
	}
	shared.once.Do(func() { shared.server, shared.err = Start() })
	if shared.err != nil {
		return "", without(t, shared.err)
	}
	return shared.server.URL(), true
}

// ForTest is that of a server for one test, in a package without Main.
func ForTest(t testing.TB) (rawURL string, ok bool) {
	t.Helper()
	if u := os.Getenv(EnvURL); u != "" {
		return u, true
	}
	s, ok := Private(t)
	if !ok {
		return "", false
	}
	return s.URL(), true
}

// Private starts a server that the test may kill, and stops it with the test.
func Private(t testing.TB) (*Server, bool) {
	t.Helper()
	s, err := Start()
	if err != nil {
		return nil, without(t, err)
	}
	t.Cleanup(s.Stop)
	return s, true
}

func without(t testing.TB, err error) bool {
	t.Helper()
	if os.Getenv(EnvRequire) == "1" {
		t.Fatalf("%s=1, and there is no server: %v", EnvRequire, err)
	}
	t.Logf("ran without PostgreSQL: %v. Install it (Debian: postgresql), or set %s=postgres://user:password@host/database", err, EnvURL)
	return false
}

// Schema names a schema of the test's own, which is dropped at its end.
func Schema(t testing.TB, rawURL string) string {
	t.Helper()
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	name := "stile_test_" + hex.EncodeToString(b[:])
	t.Cleanup(func() {
		if err := Exec(rawURL, "SET client_min_messages = error; DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			t.Errorf("dropping the schema of the test: %v", err)
		}
	})
	return name
}

// With is rawURL with a parameter more.
func With(t testing.TB, rawURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal("the test URL cannot be parsed")
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // to PostgreSQL a plus sign is no space
	return u.String()
}

// Exec runs statements on a connection of their own.
func Exec(rawURL, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, rawURL)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// Query runs a statement and returns the one text that it gives.
func Query(rawURL, sql string) (text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, rawURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close(ctx) }()
	if err := c.QueryRow(ctx, "SELECT ("+sql+")::text").Scan(&text); err != nil {
		return "", fmt.Errorf("%s: %w", sql, err)
	}
	return text, nil
}
