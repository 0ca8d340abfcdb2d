package manifest

import (
	"strings"
	"testing"
)

// What rolls groups back needs the extension, and is in the digest of the limits.
func TestRollback(t *testing.T) {
	const on = "dialect: cortex\nextensions: [rollback]\n"
	for _, c := range []struct{ text, want string }{
		{on + "rollback: {on: [error, halt, cancel], unknown: run}\nquotas: {rollback_wall: 5s}", ""},
		{on + "rollback:\n  on: []", ""},
		{on + "rollback: {on: [success]}", `"success" is not one of error, halt, cancel`},
		{on + "rollback: {unknown: maybe}", `"maybe" is not one of run, report`},
		{"dialect: cortex\nrollback: {on: [halt]}", "rollback: ERR_CONFIG/BAD_VALUE: needs the extension: write extensions: [rollback]"},
		{"dialect: cortex\nquotas: {rollback_wall: 5s}", "quotas.rollback_wall: ERR_CONFIG/BAD_VALUE: needs the extension"},
		{"dialect: cogency\nextensions: [rollback]", "only replies of the dialect cortex can use rollback"},
	} {
		_, err := Parse("a.yaml", []byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	parsed := func(text string) *Manifest {
		t.Helper()
		m, err := Parse("a.yaml", []byte(on+text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if none := parsed("rollback: {on: []}"); none.Rollback.On == nil || len(*none.Rollback.On) > 0 {
		t.Errorf("an empty list is %v", none.Rollback.On)
	}
	digests := map[string]bool{}
	for _, text := range []string{"", "rollback: {on: []}", "rollback: {on: [halt]}", "rollback: {unknown: run}", "quotas: {rollback_wall: 5s}"} {
		m := parsed(text)
		digests[m.LimitsDigest().String()] = true
		again, err := Parse("b.yaml", m.Canonical())
		if err != nil || again.Digest() != m.Digest() {
			t.Errorf("%s: read again %v", text, err)
		}
	}
	if len(digests) != 5 {
		t.Errorf("%d digests of limits, want 5", len(digests))
	}
}
