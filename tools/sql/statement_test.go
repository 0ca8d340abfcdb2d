package sql

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ text, want, names string }{
		{"SELECT 1", "SELECT 1", ""},
		{"select a from t where b = :b and c = :c or d = :b;", "select a from t where b = $1 and c = $2 or d = $1", "b c"},
		{"SELECT ':no', \":no\", `:no`, $$:no$$, $x$ $$ :no $x$, a::text, :yes::int FROM t", "SELECT ':no', \":no\", `:no`, $$:no$$, $x$ $$ :no $x$, a::text, $1 ::int FROM t", "yes"},
		{"SELECT 'it''s :no', E'\\':no', 'a\\' FROM t WHERE x = :x -- :no\n/* :no /* :no */ */;\n", "SELECT 'it''s :no', E'\\':no', 'a\\' FROM t WHERE x = $1 -- :no\n/* :no /* :no */ */\n", "x"},
		{"WITH a AS (VALUES (1)) SELECT a[1:2], x := 3, name$1 FROM a", "WITH a AS (VALUES (1)) SELECT a[1:2], x := 3, name$1 FROM a", ""},
		{"SELECT a FROM t LIMIT :n", "SELECT a FROM t LIMIT $1", "n"},
	} {
		s, err := parse(tc.text, "$", reading)
		if err != nil || s.text != tc.want || strings.Join(s.names, " ") != tc.names {
			t.Errorf("%s: %+v, %v", tc.text, s, err)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{"", "no statement"},
		{" -- only\n", "no statement"},
		{"SELECT 1; DELETE FROM t", "second statement, at byte 10"},
		{"DELETE FROM t", "it begins with DELETE, which is not one of SELECT, WITH, VALUES, at byte 0"},
		{"/* x */ ATTACH 'a' AS b", "ATTACH"},
		{"(SELECT 1); PRAGMA x", "second statement"},
		{"SELECT 'a", "has no end, at byte 7"},
		{"SELECT /* a", "has no end, at byte 7"},
		{"SELECT $a$ b", "has no end, at byte 7"},
		{"SELECT ?", "? stands for nothing"},
		{"SELECT $1", "$1 stands for nothing"},
		{"SELECT ?12", "?12 stands for nothing"},
		{strings.Repeat(" ", MaxStatementBytes) + "SELECT 1", "limit is 65536"},
	} {
		_, err := parse(tc.text, "$", reading)
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40s: %v, want %s", tc.text, err, tc.want)
		}
	}
	if s, err := parse("INSERT INTO t VALUES (:a) RETURNING id", "?", writing); err != nil || !s.returns || s.text != "INSERT INTO t VALUES (?1) RETURNING id" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parse("INSERT INTO t VALUES ('RETURNING')", "?", writing); err != nil || s.returns {
		t.Errorf("%+v, %v", s, err)
	}
}

// Every byte of a statement belongs to one token, whatever it is; a parameter is in no
// string; and a statement that was read once is read again to itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"SELECT :a, ':b' FROM \"c\" -- :d\n/* :e */", "SELECT $x$ :a $x$, E'\\'' , 1e5, a::b", "WITH x AS (SELECT 1) SELECT * FROM x;", "SELECT \xff'", "select $é$ :a $é$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text, "$", reading)
		var e *messages.Error
		if err != nil {
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		seen, ended := map[string]bool{}, false
		for rest := s.text; rest != ""; {
			n, kind := token(rest)
			if n < 1 || n > len(rest) || kind == unclosed || kind == parameter || ended && kind != blank {
				t.Fatalf("%q: %d bytes of kind %d in %q", text, n, kind, rest)
			}
			if kind == numbered {
				seen[rest[:n]] = true
			}
			rest = rest[n:]
		}
		if len(seen) != len(s.names) {
			t.Fatalf("%q: %d parameters in %q, and the names are %q", text, len(seen), s.text, s.names)
		}
	})
}
