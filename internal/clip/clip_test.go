package clip

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " a\n\tb ": "a b", "a\xffb": "a\ufffdb",
		strings.Repeat("x", 256):       strings.Repeat("x", 256),
		strings.Repeat("x", 257):       strings.Repeat("x", 256) + "…",
		strings.Repeat("x", 255) + "ä": strings.Repeat("x", 255) + "…", // not half of it
	} {
		if got := Excerpt(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		in           string
		most         int
		short, start string
	}{
		{"", 0, "", ""},
		{"ab", 2, "ab", "ab"},
		{"abc", 2, "ab…", "ab"},
		{"aä", 2, "a…", "a"},
		{"ää", 3, "ä…", "ä"},
		{"ä", 1, "…", ""},
		{"😀😀", 7, "😀…", "😀"},
		{"a\xffbc", 3, "ab…", "a\xffb"},
		{"a\xff", 2, "a\xff", "a\xff"},
		{"a" + strings.Repeat("\x80", 9), 8, "a…", "a" + strings.Repeat("\x80", 7)},
	} {
		if got := Short(c.in, c.most); got != c.short {
			t.Errorf("%q %d: short %q", c.in, c.most, got)
		}
		if got := Start(c.in, c.most); got != c.start {
			t.Errorf("%q %d: start %q", c.in, c.most, got)
		}
	}
	if got := Quoted(strings.Repeat("x", 65)); got != strings.Repeat("x", 64)+"…" {
		t.Errorf("quoted %q", got)
	}
}

func TestRunes(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"", 0, ""}, {"äöü", 3, "äöü"}, {"äöü", 2, "äö…"}, {"äöü", 0, "…"}} {
		if got := Runes(c.in, c.most); got != c.want {
			t.Errorf("%q %d: got %q", c.in, c.most, got)
		}
	}
}

func TestBytes(t *testing.T) {
	long := strings.Repeat("a line of text\n", 20)
	for _, c := range []struct {
		in, hint string
		most     int
		want     string
	}{
		{"short", "ask again", 5, "short"},
		{long, "", 100, strings.Repeat("a line of text\n", 5) + "[cut: 300 bytes in all]"},
		{long, "say more", 100, strings.Repeat("a line of text\n", 4) + "[cut: 300 bytes in all; say more]"},
		{strings.Repeat("ä", 100), "", 50, strings.Repeat("ä", 13) + "\n[cut: 200 bytes in all]"},
	} {
		got := Bytes(c.in, c.most, c.hint)
		if got != c.want || len(got) > c.most {
			t.Errorf("%d: got %d bytes %q", c.most, len(got), got)
		}
	}
}

func TestMiddle(t *testing.T) {
	in := "begin" + strings.Repeat("ä", 200) + "end"
	for most := 60; most < len(in); most++ {
		got := Middle(in, most)
		if len(got) > most || !utf8.ValidString(got) || !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "end") || !strings.Contains(got, "bytes left out]\n") {
			t.Fatalf("%d: %d bytes: %q", most, len(got), got)
		}
	}
	if got := Middle(in, len(in)); got != in {
		t.Errorf("a text that fits is cut: %q", got)
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2} {
		if got := Lines(in); got != want {
			t.Errorf("%q: got %d", in, got)
		}
	}
}

// A limit that is too small for what is said of the cut leaves that alone.
func TestTinyLimits(t *testing.T) {
	long := strings.Repeat("xö", 500)
	for most := range 64 {
		if got := Bytes(long, most, "a hint"); !strings.HasSuffix(got, "; a hint]") || !utf8.ValidString(got) {
			t.Errorf("%d: %q", most, got)
		}
		if got := Middle(long, most); !strings.Contains(got, "bytes left out]") || !utf8.ValidString(got) {
			t.Errorf("%d: %q", most, got)
		}
	}
}
