package kitsu

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The tables say of every character what package unicode says.
func TestTables(t *testing.T) {
	for r := range rune(utf8.MaxRune + 1) {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		if end, _ := skipLetters(s, 0, ""); (end == len(s)) != unicode.IsLetter(r) {
			t.Fatalf("%U is a letter: %v", r, end == len(s))
		}
		if at, size := findSpace(s, 0); (at == 0 && size == len(s)) != unicode.IsSpace(r) || at == len(s) && size != 0 {
			t.Fatalf("%U has white space at %d, %d bytes", r, at, size)
		}
		if got, want := fold(r), unicode.ToLower(unicode.ToUpper(unicode.ToLower(r))); got != want {
			t.Fatalf("%U folds to %U, want %U", r, got, want)
		}
		// Nothing is two letters that the standard library takes for one; the dotless i
		// alone is one more: its upper case is I.
		if next := unicode.SimpleFold(r); fold(next) != fold(r) && r != 'İ' {
			t.Fatalf("%U and %U are not the same ignoring case", r, next)
		}
		if got, n := character(s, 0); got != r || n != len(s) {
			t.Fatalf("%U is read as %U, %d bytes", r, got, n)
		}
	}
}

// slowTopic is docs/spec/kitsu.md §4 as it is written.
func slowTopic(query string) string {
	for _, word := range strings.FieldsFunc(query, unicode.IsSpace) {
		if strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) < 0 {
			return strings.ToLower(word)
		}
	}
	return ""
}

func checkTopic(t testing.TB, last, query string) {
	t.Helper()
	want := slowTopic(query)
	if got := Topic(query); got != want {
		t.Fatalf("the topic of %q is %q, want %q", query, got, want)
	}
	if want != "" && differs(want, query) {
		t.Fatalf("%q differs from its own topic", query)
	}
	if !utf8.ValidString(last) {
		return // no topic is
	}
	same := func(a, b string) bool {
		upper := func(r rune) rune { return unicode.ToUpper(unicode.ToLower(r)) }
		return strings.Map(upper, a) == strings.Map(upper, b)
	}
	if got := differs(last, query); got != (want != "" && !same(last, want)) {
		t.Fatalf("%q differs from %q: %v", query, last, got)
	}
}

func TestTopic(t *testing.T) {
	for _, c := range []struct {
		last, query string
		confirm     bool
	}{
		{"ſoba", "SOBA now", false},
		{"οδος", "ΟΔΟΣ", false},
		{"istanbul", "İstanbul", false}, // its topic is istanbul
		{"Kelvin", "\u212aELVIN", false},
		{"straße", "STRASSE", true}, // one letter for one letter
		{"a", "ab", true},
		{"ab", "a", true},
		{"ž", "z", true},
		{"soba", "1 2 3", false},
	} {
		checkTopic(t, c.last, c.query)
		if got := Decide(Request{Action: &Action{Kind: Search, Value: c.query}, LastTopic: c.last}).RequiresConfirmation; got != c.confirm {
			t.Errorf("%q after %q: confirmation %v", c.query, c.last, got)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{
		"a", "B", "ž", "Ž", "ß", "ẞ", "İ", "ı", "ſ", "寿", "𐐀", "𐐨", "\u0301", "1", "-", "、", "𝟙", " ", "\t", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000",
		"\x80", "\xc2", "\xc3", "\xe0\x81\x81", "\xe3\x80", "\xe3", "\xed\xa0\x80", "\xf0\x81\x81\x81", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xff",
	}
	text := func() string {
		var b strings.Builder
		for range rng.IntN(9) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		return b.String()
	}
	for range 20000 {
		checkTopic(t, text(), text())
	}
}

// decisions are what costs the meta-controller most: queries as long as they may be,
// of the characters that are dearest to look at.
func decisions() []struct {
	name string
	r    Request
} {
	query := func(last, unit string, n int) Request {
		return Request{Action: &Action{Kind: Search, Value: strings.Repeat(unit, n)}, LastTopic: last}
	}
	capitals := query(strings.Repeat("ž", MaxQueryRunes), "Ž", MaxQueryRunes)
	deseret := query(strings.Repeat("𐐨", MaxQueryRunes), "𐐀", MaxQueryRunes)
	return []struct {
		name string
		r    Request
	}{
		{"search-other-topic", query("soba", "12 good ramen near the station", 1)},
		{"search-no-topic-240B", query("soba", "a1 ", 80)},
		{"search-no-topic-256-letters-of-4B", query("soba", "𠀀𠀁𠀂1", MaxQueryRunes/4)},
		{"search-no-topic-256-marks-of-3B", query("soba", "、", MaxQueryRunes)},
		{"search-no-topic-256-wide-spaces", query("soba", "\u30001", MaxQueryRunes/2)},
		{"search-topic-256-capitals-of-2B", capitals},
		{"search-topic-256-capitals-of-4B", deseret},
		{"continue", Request{Action: &Action{Kind: Continue}, Mood: 0.5}},
	}
}

// A decision allocates nothing, whatever the query.
func TestDecideAllocates(t *testing.T) {
	for _, c := range decisions() {
		if n := testing.AllocsPerRun(100, func() { Decide(c.r) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
		if q := c.r.Action.Value; utf8.RuneCountInString(q) > MaxQueryRunes {
			t.Errorf("%s: no query is that long", c.name)
		} else {
			checkTopic(t, c.r.LastTopic, q)
		}
	}
}

func FuzzTopic(f *testing.F) {
	for _, c := range decisions() {
		if c.r.Action.Kind == Search {
			f.Add(c.r.LastTopic, c.r.Action.Value)
		}
	}
	f.Add("istanbul", "\xf0\xe2\x80\x80İ 1a \u3000x")
	f.Fuzz(func(t *testing.T, last, query string) { checkTopic(t, last, query) })
}
