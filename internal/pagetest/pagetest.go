// Package pagetest holds tables in pages of the documentation to what tests know. A table
// stands between two comments, of which the first is the command that writes it. It is for
// tests alone.
package pagetest

import (
	"os"
	"strings"
	"testing"
)

// Table compares the rows in file behind the comment that has the command with those that a
// test has, and writes them there when rewrite is set.
func Table(t *testing.T, file, command, rows string, rewrite bool) {
	t.Helper()
	begin, end := "<!-- "+command+" -->\n", "\n<!-- end -->"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(data), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no room for the table of %s", file, command)
	}
	want := before + begin + rows + end + after
	switch {
	case want == string(data):
	case !rewrite:
		t.Errorf("%s says otherwise; %s writes it. The table is\n%s", file, command, rows)
	default:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
