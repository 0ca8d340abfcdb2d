package textdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	long := strings.Repeat("same\n", 20)
	for _, c := range []struct{ name, a, b, want string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"both empty", "", "", ""},
		{"last line end", "a\nb", "a\nb\n", ""},
		{"from nothing", "", "a\n", "@@ -0,0 +1 @@\n+a\n"},
		{"to nothing", "a\nb", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"changed", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"around", long + "old\n" + long, long + "new\n" + long, "@@ -20,3 +20,3 @@\n same\n-old\n+new\n same\n"},
		{"two hunks", "1\n" + long + "2\n", "one\n" + long + "two\n", "@@ -1,2 +1,2 @@\n-1\n+one\n same\n@@ -21,2 +21,2 @@\n same\n-2\n+two\n"},
		{"one hunk", "1\ns\ns\n2\n", "one\ns\ns\ntwo\n", "@@ -1,4 +1,4 @@\n-1\n+one\n s\n s\n-2\n+two\n"},
		{"inserted", "a\nc\n", "a\nb\nc\n", "@@ -1,2 +1,3 @@\n a\n+b\n c\n"},
		{"replacement", "a\nb\n", "x\ny\n", "@@ -1,2 +1,2 @@\n-a\n-b\n+x\n+y\n"},
	} {
		if got := Unified(c.a, c.b, 1); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// What is kept and removed is the one text, what is kept and inserted the other; no script
// is longer than the shortest, which a table of all common subsequences knows; and hunks
// applied to the one give the other.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	text := func() []string {
		lines := make([]string, r.IntN(30))
		for i := range lines {
			lines[i] = string(rune('a' + r.IntN(4)))
		}
		return lines
	}
	for range 500 {
		as, bs := text(), text()
		a, b := strings.Join(as, "\n"), strings.Join(bs, "\n")
		var left, right []string
		edits := 0
		for _, l := range Lines(a, b) {
			if l.Op != Insert {
				left = append(left, l.Text)
			}
			if l.Op != Remove {
				right = append(right, l.Text)
			}
			if l.Op != Keep {
				edits++
			}
		}
		if strings.Join(left, "\n") != a || strings.Join(right, "\n") != b {
			t.Fatalf("%q and %q: %q %q", a, b, left, right)
		}
		if least := len(as) + len(bs) - 2*common(as, bs); edits > least {
			t.Fatalf("%q and %q: %d edits, %d do", a, b, edits, least)
		}
		if got := apply(t, as, Unified(a, b, r.IntN(4))); strings.Join(got, "\n") != b {
			t.Fatalf("%q and %q: applied %q", a, b, got)
		}
	}
}

// common is the length of a longest common subsequence.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		before := 0
		for j := range b {
			above := row[j+1]
			if row[j+1] = max(above, row[j]); a[i] == b[j] {
				row[j+1] = before + 1
			}
			before = above
		}
	}
	return row[len(b)]
}

// apply does what a unified difference says.
func apply(t *testing.T, lines []string, diff string) (out []string) {
	t.Helper()
	at := 0
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		switch line[0] {
		case '@':
			var first, count int
			if n, _ := fmt.Sscanf(line, "@@ -%d,%d", &first, &count); n == 1 {
				count = 1
			}
			if count > 0 {
				first--
			}
			out = append(out, lines[at:first]...)
			at = first
		case ' ', '-':
			if lines[at] != line[1:] {
				t.Fatalf("line %d is %q, not %q", at, lines[at], line)
			}
			if at++; line[0] == ' ' {
				out = append(out, line[1:])
			}
		case '+':
			out = append(out, line[1:])
		}
	}
	return append(out, lines[at:]...)
}

// Texts with nothing in common cost no more than their lines.
func TestTooDifferent(t *testing.T) {
	var a, b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	if got := Lines(a.String(), b.String()); len(got) != 40_000 || got[0].Op != Remove || got[39_999].Op != Insert {
		t.Errorf("%d lines", len(got))
	}
}
