package main

import (
	"slices"
	"strings"
	"testing"
)

// An approval's id is random and may begin with one dash, or with two.
func TestDashedIDs(t *testing.T) {
	const id, two = "-JanDujaudcBaG5EphLXVA", "--nDujaudcBaG5EphLXVAx"
	for _, c := range []struct{ in, want string }{
		{"approvals allow m s " + id, "approvals allow m s -- " + id},
		{"approvals deny m s " + two + " --by ann --json", "approvals deny m s --by ann --json -- " + two},
		{"approvals allow m s --json " + id, "approvals allow m s --json -- " + id},
		{"approvals allow m s -- " + id, "approvals allow m s -- " + id},
		{"approvals allow --by " + id + " m s " + two, "approvals allow --by " + id + " m s -- " + two},
		{"approvals allow m s kq3S0pXc1m8bYdVfWzL2aA", "approvals allow m s kq3S0pXc1m8bYdVfWzL2aA"},
		{"approvals allow m s " + id + "x", "approvals allow m s " + id + "x"},
		{"approvals list " + id, "approvals list " + id},
		{"run " + id, "run " + id},
		{id, id},
		{"", ""},
	} {
		a := &app{}
		if got := dashed(a.root(), strings.Fields(c.in)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}
