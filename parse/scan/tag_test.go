package scan

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var grammar = NewGrammar("if", "action", "action_result", "act")

// follow reads the tag that begins s, in pieces of so many characters, or by letters where
// it can for 0, and tells how it ended and behind which byte.
func follow(t *Tag, g *Grammar, open, shut uint32, s string, piece int) (Result, int) {
	t.Begin(g, open, shut)
	p := []byte(s[1:])
	for at := 1; ; {
		if piece == 0 && len(p) > 0 && p[0] < utf8.RuneSelf && t.Letter(p[0]) {
			at++
			if p = p[1:]; len(p) == 0 {
				return More, at
			}
			continue
		}
		k := 0
		for range max(piece, 1) {
			_, size := utf8.DecodeRune(p[k:])
			k += size
		}
		known := t.Known()
		n, r := t.Take(p[:k])
		at += n
		if r != More {
			return r, at
		}
		if n < k && (known || !t.Known()) {
			panic("it stopped where nothing was known")
		}
		if p = p[n:]; len(p) == 0 {
			return More, at
		}
	}
}

func TestTag(t *testing.T) {
	all := grammar.All()
	for _, c := range []struct {
		in    string
		open  uint32
		shut  uint32
		want  Result
		n     int
		shown string
	}{
		{"<if>", all, all, Done, 4, "if"},
		{"</if >x", all, all, Done, 6, "/if"},
		{"<if/>", all, all, Done, 5, "if/"},
		{"<act>", all, all, Done, 5, "act"},
		{"<action>", all, all, Done, 8, "action"},
		{"<action_result\n>", all, all, Done, 16, "action_result"},
		{"<act", all, all, More, 4, ""},
		{"<act ", all, all, More, 5, "act"},
		{"<acti ", all, all, Not, 5, ""},
		{"<x", all, all, Not, 1, ""},
		{"<<", all, all, Not, 1, ""},
		{"< if>", all, all, Not, 1, ""},
		{"</ if>", all, all, Not, 2, ""},
		{"</if/>", all, all, Not, 4, ""},
		{"</if a>", all, all, Bad, 5, "/if"},
		{"<if>", all &^ 1, all, Not, 1, ""},
		{"</if>", all, all &^ 1, Not, 2, ""},
		{"</if>", all, 0, Not, 1, ""},
		{"<if a b=1 c = 'x>' d=\"/\" e=[1, \"2\"]/>", all, all, Done, 37, `if a="" b="1" c="x>" d="/" e="[1, \"2\"]"/`},
		{"<if a==1>", all, all, Bad, 6, "if"},
		{"<if a=1'>", all, all, Bad, 7, "if"},
		{"<if a='1'b>", all, all, Bad, 9, "if"},
		{"<if a='<", all, all, Bad, 7, "if"},
		{"<if a=[<", all, all, Bad, 7, "if"},
		{"<if a='\r", all, all, Bad, 7, "if"},
		{"<if / >", all, all, Bad, 5, "if"},
		{"<if é>", all, all, Bad, 4, "if"},
		{"<if a=é>", all, all, Done, 9, `if a="é"`},
	} {
		for piece := 0; piece <= len(c.in); piece++ {
			var tag Tag
			r, n := follow(&tag, grammar, c.open, c.shut, c.in, piece)
			if got := show(&tag, r, c.in); r != c.want || n != c.n || got != c.shown {
				t.Errorf("%q by %d: %d at %d, %s; want %d at %d, %s", c.in, piece, r, n, got, c.want, c.n, c.shown)
			}
		}
	}
}

func show(tag *Tag, r Result, s string) string {
	if !tag.Known() {
		return ""
	}
	var b strings.Builder
	if tag.Closing() {
		b.WriteByte('/')
	}
	b.WriteString(tag.grammar.words[tag.Name()])
	if r != Done {
		return b.String()
	}
	for i := range tag.Attrs() {
		a := tag.Attr(i)
		fmt.Fprintf(&b, " %s=%q", s[a.Key:a.KeyEnd], s[a.Value:a.ValueEnd])
	}
	if tag.SelfClosing() {
		b.WriteByte('/')
	}
	return b.String()
}

// A tag may have its limit's bytes and no more; a character across it is judged at
// its first byte.
func TestTagBytes(t *testing.T) {
	small := NewGrammar("if").Within(12)
	for in, want := range map[string]struct {
		r Result
		n int
	}{
		"<if a=12345>":         {Done, 12},
		"<if a=123456>":        {Bad, 12},
		"<if a='\u00e9\u00e9'": {More, 12},
		"<if a='1234é'>":       {Bad, 11},
		"<if a='123é'>":        {Bad, 12},
		"<if a='12€":           {More, 12},
		"<if a='123€":          {Bad, 10},
		"<if a='1\U0001f680":   {More, 12},
		"<if a='12\U0001f680":  {Bad, 9},
		"</if        >":        {Bad, 12},
	} {
		for piece := 0; piece <= len(in); piece++ {
			var tag Tag
			if r, n := follow(&tag, &small, 1, 1, in, piece); r != want.r || n != want.n {
				t.Errorf("%q by %d: %d at %d, want %d at %d", in, piece, r, n, want.r, want.n)
			}
		}
	}
	for n := MaxAttributes - 1; n <= MaxAttributes+1; n++ {
		var tag Tag
		r, _ := follow(&tag, grammar, 1, 0, "<if"+strings.Repeat(" a", n)+">", 7)
		if (r == Done) != (n <= MaxAttributes) {
			t.Errorf("%d attributes: %d", n, r)
		}
	}
}

var (
	tagPattern  = regexp.MustCompile("^<(if|action_result|action|act)((?:[ \t\r\n]+" + attrPattern + ")*)[ \t\r\n]*(/?)>")
	attrPattern = "([A-Za-z_][A-Za-z0-9_.-]*)(?:[ \t\r\n]*=[ \t\r\n]*(\"[^\"<\r\n]*\"|'[^'<\r\n]*'|\\[[^\\]<]*\\]|[^ \t\r\n\"'=<>`/\\[\\]]+))?"
	eachPattern = regexp.MustCompile("[ \t\r\n]+" + attrPattern)
)

func checkTag(t testing.TB, s string) {
	t.Helper()
	s = "<" + strings.ToValidUTF8(s, "\ufffd")
	var tag Tag
	r, n := follow(&tag, grammar, grammar.All(), 0, s, len(s))
	for _, piece := range []int{0, 1, 3} {
		var cut Tag
		if q, k := follow(&cut, grammar, grammar.All(), 0, s, piece); q != r || k != n || show(&cut, q, s) != show(&tag, r, s) {
			t.Fatalf("%q by %d: %d at %d, %s; whole %d at %d, %s", s, piece, q, k, show(&cut, q, s), r, n, show(&tag, r, s))
		}
	}
	m := tagPattern.FindStringSubmatch(s)
	var attrs [][]string
	if m != nil {
		attrs = eachPattern.FindAllStringSubmatch(m[2], -1)
	}
	if m == nil || len(m[0]) > MaxTagBytes || len(attrs) > MaxAttributes {
		if r == Done {
			t.Fatalf("%q: %s is no tag", s, show(&tag, r, s))
		}
		if r != More && strings.ContainsRune(s[1:n], '<') {
			t.Fatalf("%q: a second < in %q", s, s[:n])
		}
		return
	}
	want := m[1]
	for _, a := range attrs {
		v := a[2]
		if v != "" && (v[0] == '"' || v[0] == '\'') {
			v = v[1 : len(v)-1]
		}
		want += fmt.Sprintf(" %s=%q", a[1], v)
	}
	want += m[len(m)-1]
	if got := show(&tag, r, s); r != Done || n != len(m[0]) || got != want {
		t.Fatalf("%q: %d at %d, %s; want %s", s, r, n, got, want)
	}
}

var tagPieces = []string{"if", "act", "action", "action_result", " ", "\n", "a", "b.c", "=", "'", "\"", "[", "]", "/", ">", "<", "1", "é", "`", "x='>'", " y=\"/\"", " z=[,]", "\xff"}

func TestRandomTags(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		s := grammar.words[r.IntN(4)]
		for range r.IntN(12) {
			s += tagPieces[r.IntN(len(tagPieces))]
		}
		checkTag(t, s)
	}
}

func FuzzTag(f *testing.F) {
	for _, p := range tagPieces {
		f.Add("if " + p + ">")
	}
	f.Add("action a b=1 c = 'x>' d=\"/\" e=[1, \"2\"]/>")
	f.Fuzz(func(t *testing.T, s string) { checkTag(t, s) })
}
