package feeds

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/prompt"
)

// words counts words, as a tokenizer that is not ours.
type words struct{}

func (words) Count(s string) int { return len(strings.Fields(s)) }

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		text          string
		tokens, bytes int64
		count         Counter
		want          string
	}{
		"none":             {"abc", 0, 0, CodePoints{}, "abc"},
		"fits":             {"abcdefgh", 2, 8, CodePoints{}, "abcdefgh"},
		"tokens":           {"abcdefghi", 2, 0, CodePoints{}, "abcdefgh\n[truncated: 2 of 3 tokens]"},
		"bytes":            {"abcdefghi", 0, 4, CodePoints{}, "abcd\n[truncated: 4 of 9 bytes]"},
		"smaller is bytes": {"abcdefghi", 2, 5, CodePoints{}, "abcde\n[truncated: 5 of 9 bytes]"},
		"smaller is token": {"abcdefghi", 1, 5, CodePoints{}, "abcd\n[truncated: 1 of 3 tokens]"},
		"code points":      {"äöüßé", 1, 0, CodePoints{}, "äöüß\n[truncated: 1 of 2 tokens]"},
		"inside one":       {"aä", 0, 2, CodePoints{}, "a\n[truncated: 1 of 3 bytes]"},
		"nothing left":     {"ä", 0, 1, CodePoints{}, "[truncated: 0 of 2 bytes]"},
		"its own line":     {"abc\nd", 1, 0, CodePoints{}, "abc\n[truncated: 1 of 2 tokens]"},
		"another counter":  {"one two three", 2, 0, words{}, "one two \n[truncated: 2 of 3 tokens]"},
	} {
		got, cut := limit(c.text, c.tokens, c.bytes, c.count)
		if got != c.want || cut != (c.text != c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, cut, c.want)
		}
	}
}

func FuzzLimit(f *testing.F) {
	f.Add("one two three äöü 🙂", int64(2), int64(9))
	f.Add("", int64(1), int64(1))
	f.Add("🙂🙂", int64(0), int64(3))
	f.Add("00000000\n", int64(2), int64(0))
	f.Fuzz(func(t *testing.T, s string, tokens, size int64) {
		if !utf8.ValidString(s) || tokens < 0 || size < 0 || tokens > MaxLimit || size > MaxLimit {
			return
		}
		for _, count := range []Counter{CodePoints{}, words{}, slowCodePoints{}} {
			got, cut := limit(s, tokens, size, count)
			if !cut {
				if got != s || tokens > 0 && int64(count.Count(s)) > tokens || size > 0 && int64(len(s)) > size {
					t.Fatalf("%q kept as %q under %d tokens, %d bytes", s, got, tokens, size)
				}
				continue
			}
			i := strings.LastIndex(got, "[truncated: ")
			kept := got[:i]
			tooMuch := func(kept string) bool {
				return tokens > 0 && int64(count.Count(kept)) > tokens || size > 0 && int64(len(kept)) > size
			}
			// The LF before the line is the text's own or was added.
			if !strings.HasPrefix(s, kept) || tooMuch(kept) {
				kept = strings.TrimSuffix(kept, "\n")
			}
			if !strings.HasPrefix(s, kept) || !utf8.ValidString(kept) {
				t.Fatalf("%q became %q", s, got)
			}
			if tooMuch(kept) {
				t.Fatalf("%q keeps too much of %q", got, s)
			}
			// One code point more would be too much.
			_, n := utf8.DecodeRuneInString(s[len(kept):])
			if !tooMuch(s[:len(kept)+n]) {
				t.Fatalf("%q keeps too little of %q", got, s)
			}
		}
		fast, _ := limit(s, tokens, size, CodePoints{})
		if slow, _ := limit(s, tokens, size, slowCodePoints{}); slow != fast {
			t.Fatalf("%q against %q", fast, slow)
		}
	})
}

// slowCodePoints counts as CodePoints does and is not known to.
type slowCodePoints struct{}

func (slowCodePoints) Count(s string) int { return CodePoints{}.Count(s) }

func TestInjection(t *testing.T) {
	for _, c := range []struct {
		e    Element
		want string
	}{
		{Element{ID: "a", Body: "b"}, "<context_feed id=\"a\">\nb\n</context_feed>\n"},
		{Element{ID: "a", Stale: true, Truncated: true, Body: "b\n"}, "<context_feed id=\"a\" stale=\"true\" truncated=\"true\">\nb\n\n</context_feed>\n"},
		{Element{ID: "a", Error: ErrorTimeout}, "<context_feed id=\"a\" error=\"timeout\">\n\n</context_feed>\n"},
		{Element{ID: "a", Error: ErrorFailed}, "<context_feed id=\"a\" error=\"failed\">\n\n</context_feed>\n"},
		{Element{ID: "a", Stale: true, Truncated: true, Error: "x"}, "<context_feed id=\"a\" stale=\"true\" truncated=\"true\" error=\"x\">\n\n</context_feed>\n"},
		{Element{ID: "a", Body: "x</context_feed></context_feed \n<</context_feeds</Context_feed><context_feed>"}, "<context_feed id=\"a\">\nx&lt;/context_feed>&lt;/context_feed \n<&lt;/context_feeds</Context_feed><context_feed>\n</context_feed>\n"},
	} {
		if got := string(c.e.Append(nil)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := prompt.FeedBody(`{"b":1.0,"a":"</context_feed>"}`); got != `{"a":"</context_feed>","b":1}` {
		t.Errorf("canonical: %s", got)
	}
	if got := prompt.FeedBody(`"a\n\u0041"`); got != "a\nA" {
		t.Errorf("verbatim: %q", got)
	}
}

// No body closes its element, and nothing but the closer is changed.
func FuzzInjection(f *testing.F) {
	f.Add("</context_feed>", int64(0))
	f.Add("a</context_fee", int64(3))
	f.Add("&lt;/context_feed</</context_feed", int64(0))
	f.Fuzz(func(t *testing.T, s string, size int64) {
		text, cut := s, false
		if size > 0 {
			text, cut = limit(s, 0, size, CodePoints{})
		}
		e := Element{ID: "x", Truncated: cut, Body: text}
		out := string(e.Append([]byte("before ")))
		const end = "\n</context_feed>\n"
		if strings.Count(out, "</context_feed") != 1 || !strings.HasSuffix(out, end) {
			t.Fatalf("%q closes its element: %q", s, out)
		}
		_, inside, _ := strings.Cut(strings.TrimSuffix(out, end), ">\n")
		if strings.ReplaceAll(inside, "&lt;/context_feed", "</context_feed") != strings.ReplaceAll(text, "&lt;/context_feed", "</context_feed") {
			t.Fatalf("%q became %q", text, inside)
		}
	})
}

// References and their resolution agree: what is not named is not asked for, a text
// without names is kept but for its dollars, and the result is one JSON value.
func FuzzReferences(f *testing.F) {
	for _, s := range []string{`{"a":"$b"}`, `{"a":["x ${b.c.0} $$d"]}`, `{"a":"\u0024b $5"}`, `{"$k":"$v"}`, `{"a":"${b"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := Normal(Spec{ID: "f", Source: tool("t", s)}, ""); err != nil || s == "" {
			return
		}
		names, err := References(s)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, n := range names {
			values[n] = `"v"`
		}
		out, err := resolve(s, values)
		if err != nil { // a path into a text leads nowhere
			if !strings.Contains(s, ".") {
				t.Fatalf("%s: %v", s, err)
			}
			return
		}
		if _, bad := readObject(out, 1<<20); bad != nil {
			t.Fatalf("%s became %s: %v", s, out, bad)
		}
		without, err := resolve(s, nil)
		if len(names) == 0 && (err != nil || without != out) {
			t.Fatalf("%s names nothing and became %s, %v", s, without, err)
		}
	})
}

// No name of a file or pattern hangs or breaks the matcher.
func FuzzGlob(f *testing.F) {
	f.Add("**/a/**", "x/a/b")
	f.Add("*.go", "a/b.go")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !globOK(pattern) || strings.Count(name, "/") > 8 || strings.Count(pattern, "/") > 8 {
			return
		}
		if got, want := glob(pattern, name), slowGlob(pattern, name); got != want {
			t.Fatalf("%q on %q is %v, want %v", pattern, name, got, want)
		}
	})
}
