package scan

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"
)

// mend reads the pieces; it checks that text is whole characters and that what it
// stands for adds up.
func mend(t testing.TB, pieces ...[]byte) string {
	t.Helper()
	var u UTF8
	var b []byte
	total, seen := 0, 0
	take := func(text []byte, n int) {
		if !utf8.Valid(text) || len(text) == 0 || n < 1 || n != len(text) && string(text) != "\ufffd" {
			t.Fatalf("%q for %d bytes", text, n)
		}
		b = append(b, text...)
		seen += n
	}
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		total += len(p)
		if plain, _ := Plain(q, 0); plain && len(q) > 0 && u.Held() == 0 {
			take(q, len(q))
			q = nil
		}
		for rest := q; ; {
			text, n, more := u.Next(rest)
			if n == 0 {
				if len(more) > 0 {
					t.Fatalf("%q left of %q", more, p)
				}
				break
			}
			take(text, n)
			rest = more
		}
		if total-seen > 3 {
			t.Fatalf("%d bytes held back", total-seen)
		}
		for i := range q {
			q[i] = '?'
		}
	}
	for {
		text, n := u.End()
		if n == 0 {
			break
		}
		take(text, n)
	}
	if seen != total {
		t.Fatalf("%d bytes of %d", seen, total)
	}
	return string(b)
}

var samples = []string{
	"", "plain", "zażółć 東京 🚆", "\xff", "a\xe2\x82", "\xe2\x82\xac", "\xf0\x9f\x98", "\xf0\x9fa", "\xc3(", "\xed\xa0\x80", "\xf4\x90\x80\x80",
	"\xe2\xe2\x82\xac", "\xf0\x9f\xe2\x82\xac\xf0", "\xef\xbb\xbfbom", "a\x00b", "\ufffd", "\xc0\x80x", "\xf0\xf0\xf0\xf0", "é\xc3", "\x80\x80\x80\x80",
}

func checkUTF8(t testing.TB, r *rand.Rand, b []byte) {
	t.Helper()
	want := string([]rune(string(b)))
	if got := mend(t, b); got != want {
		t.Fatalf("%q became %q", b, got)
	}
	var pieces [][]byte
	for rest := b; len(rest) > 0; {
		n := r.IntN(min(7, len(rest)) + 1)
		pieces = append(pieces, rest[:n])
		rest = rest[n:]
	}
	if got := mend(t, pieces...); got != want {
		t.Fatalf("%q became %q", pieces, got)
	}
}

func TestMend(t *testing.T) {
	for _, s := range samples {
		for i := 0; i <= len(s); i++ {
			for j := i; j <= len(s); j++ {
				if got := mend(t, []byte(s[:i]), []byte(s[i:j]), []byte(s[j:])); got != string([]rune(s)) {
					t.Fatalf("%q cut at %d and %d: %q", s, i, j, got)
				}
			}
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		var b []byte
		for range r.IntN(20) {
			b = append(b, samples[r.IntN(len(samples))]...)
		}
		checkUTF8(t, r, b)
	}
}

func FuzzUTF8(f *testing.F) {
	for i, s := range samples {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) { checkUTF8(t, rand.New(rand.NewPCG(seed, 0)), b) })
}

// Plain says what the standard library says, of pieces of every length.
func TestPlain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for size := range 2 * shortPiece {
		for range 200 {
			p := make([]byte, 0, size+3)
			for len(p) < size {
				p = append(p, []string{"a", "z", "<", ";", "=", "\x00", "\x7f", "é", "–", "🚀", "\xff", "\xe2\x80"}[min(r.IntN(12), r.IntN(40))]...)
			}
			p = p[:size]
			plain, marked := Plain(p, '<')
			if size > shortPiece {
				if plain {
					t.Fatalf("%q is short", p)
				}
				continue
			}
			if want := utf8.Valid(p); plain != want || plain && marked != bytes.Contains(p, []byte("<")) {
				t.Fatalf("%q: %v, %v", p, plain, marked)
			}
		}
	}
}
