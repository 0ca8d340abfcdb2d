package journal_test

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/journal"
)

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("before ", 30) + "the Kestrel" + strings.Repeat(" behind", 40)
	for _, c := range []struct {
		text, words, before, match, after string
	}{
		{"Order 17 is late", "17", "Order ", "17", " is late"},
		{"a\n\n  b\tC", "c b", "a ", "b", " C"}, // the one that comes first in the text
		{"ÄRGER mit İstanbul", "ärger", "", "ÄRGER", " mit İstanbul"},
		{"İİİ order", "order", "İİİ ", "order", ""}, // a letter that is longer in lower case
		{"nothing", "else", "", "", "nothing"},
		{"", "else", "", "", ""},
		{"a\x00b\xffc", "b", "a\ufffd", "b", "\ufffdc"},
		{long, "kestrel", "…" + long[len("before ")*30+4-60:len("before ")*30+4], "Kestrel", strings.Repeat(" behind", 40)[:160] + "…"},
	} {
		before, match, after := journal.Excerpt(c.text, journal.Words(c.words))
		if before != c.before || match != c.match || after != c.after {
			t.Errorf("%q in %q: %q %q %q", c.words, c.text, before, match, after)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("Order 17 is late", "17 is")
	f.Add("İ\xff\x00", "\u0307")
	f.Fuzz(func(t *testing.T, text, words string) {
		want := journal.Words(words)
		before, match, after := journal.Excerpt(text, want)
		whole := strings.TrimSuffix(strings.TrimPrefix(before, "…"), "…") + match + strings.TrimSuffix(after, "…")
		if !strings.Contains(journal.Line(text)+"…", whole) {
			t.Errorf("%q is not in %q", whole, text)
		}
	})
}
