package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A log over several files is read from its end: every line once, whatever the pages, and also those
// of a file that is put aside between two pages.
func TestBack(t *testing.T) {
	l := File{Path: filepath.Join(t.TempDir(), Name), Max: 400}
	n := 0
	add := func() {
		n++
		if err := l.Append(func(string) ([]byte, error) { return fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", n%50)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := l.Back(Place{}, 1, nil); ok || err != nil {
		t.Errorf("no log: %v %v", ok, err)
	}
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.Back(Place{}, 1, nil); ok || err != nil {
		t.Errorf("an empty log: %v %v", ok, err)
	}
	for range 100 {
		add()
	}
	if old, err := l.old(); err != nil || len(old) < 5 {
		t.Fatalf("%d files, %v: nothing was put aside", len(old), err)
	}
	for _, page := range []int{1, 3, 7, 1000} {
		var got []string
		from, ok := Place{}, true
		first := n
		for ok {
			left := page
			var err error
			from, ok, err = l.Back(from, 1, func(line []byte) bool {
				number, _, _ := strings.Cut(string(line), " ")
				got = append(got, number)
				left--
				return left > 0
			})
			if err != nil {
				t.Fatal(err)
			}
			add() // which later pages do not have
			if again, good := ParsePlace(from.String()); ok && (!good || again != from) {
				t.Fatalf("%s is %v", from, again)
			}
		}
		var want []string
		for i := first; i > 0; i-- {
			want = append(want, fmt.Sprint(i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v", page, got)
		}
	}
	// A line that is longer than any entry is passed over, and a file that is gone ends it.
	if err := os.WriteFile(l.Path, []byte("a\n"+strings.Repeat("y", 3*maxLine)+"\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := l.old()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for from, ok := (Place{}), true; ok; {
		if from, ok, err = l.Back(from, 1, func(line []byte) bool {
			got = append(got, string(line[:min(len(line), 3)]))
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) < 2 || got[0] != "b" || got[len(got)-1] != "a" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"", "1", "-1-2", "0-5", "1--5", "x-1", "1-x", "1-2-3"} {
		if p, ok := ParsePlace(bad); ok {
			t.Errorf("%q is %v", bad, p)
		}
	}
}
