package sql_test

import (
	stdsql "database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/sql"
)

// A statement makes no value that an interrupt would not end the making of, and reads
// nothing of its host, whichever program wrote it.
func TestStatementsAreHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret-place.db")
	db, err := stdsql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{"CREATE TABLE t (a BIGINT, b BLOB)", "INSERT INTO t VALUES (1, zeroblob(20000000)), (2, 'small')"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var ends []sql.Endpoint
	tries := []struct{ text, want string }{
		{"SELECT zeroblob(900000000) AS z", "too big"},
		{"SELECT hex(zeroblob(9000000)) AS z", "too big"},
		{"SELECT printf('%900000000d', 1) AS z", "too big"},
		{"SELECT replace(hex(zeroblob(1000)), '0', hex(zeroblob(100000))) AS z", "too big"},
		{"WITH RECURSIVE c(s) AS (SELECT 'xxxxxxxx' UNION ALL SELECT s || s FROM c) SELECT s FROM c", `{"more":true,"rows":[{"s":"xxxxxxxx"}`},
		{"SELECT b FROM t WHERE a = 1", "too big"},
		{"SELECT a FROM t ORDER BY a", `{"more":false,"rows":[{"a":1},{"a":2}]}`}, // a large value that the query does not return does no harm
		{"SELECT file FROM pragma_database_list", "not authorized"},
		{"SELECT * FROM pragma_table_info('t')", "not authorized"},
		{"SELECT count(*) AS n FROM t", `"n":2`},
	}
	names := "abcdefghijklmnop"
	for i, c := range tries {
		ends = append(ends, sql.Endpoint{Name: names[i : i+1], Query: c.text})
	}
	x := relic(t, sql.Relic{Name: "r", Backend: sql.SQLite(func() (string, error) { return path, nil }), Endpoints: ends})
	for i, c := range tries {
		got := ran(x, &tools.Call{}, `{"operation":"`+names[i:i+1]+`"}`)
		if !strings.Contains(got, c.want) || strings.Contains(got, "secret-place") || strings.HasPrefix(got, "timeout") {
			t.Errorf("%s: %.200s", c.text, got)
		}
	}
}
