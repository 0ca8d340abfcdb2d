package jsonstring_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// same checks a string against encoding/json and the reference transform.
func same(t *testing.T, s string) []byte {
	t.Helper()
	if !utf8.ValidString(s) {
		return nil
	}
	got := jsonstring.Append(nil, s)
	plain, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := jcs.Transform(append(append([]byte{'['}, plain...), ']'))
	if err != nil || string(got) != string(want[1:len(want)-1]) {
		t.Fatalf("%q: %s, want %s, %v", s, got, want, err)
	}
	if n := jsonstring.Len(s); n != int64(len(got)) {
		t.Fatalf("%q: Len is %d, and it has %d bytes", s, n, len(got))
	}
	if back := jsonstring.AppendMeant([]byte("x"), got[1:len(got)-1]); string(back) != "x"+s {
		t.Fatalf("%q: %s means %q", s, got, back)
	}
	if back := jsonstring.AppendMeant(nil, plain[1:len(plain)-1]); string(back) != s {
		t.Fatalf("%q: %s means %q", s, plain, back)
	}
	return plain[1 : len(plain)-1]
}

func order(t *testing.T, a, b string) {
	t.Helper()
	x, y := same(t, a), same(t, b)
	if x == nil || y == nil {
		return
	}
	want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	for _, p := range [][2][]byte{{x, y}, {[]byte(escaped(a)), y}, {x, []byte(escaped(b))}} {
		if got := jsonstring.Compare(p[0], p[1]); cmp.Compare(got, 0) != want {
			t.Fatalf("%q and %q: %d, want %d", p[0], p[1], got, want)
		}
	}
}

// escaped writes each UTF-16 unit as an escape.
func escaped(s string) string {
	var b strings.Builder
	for i, u := range utf16.Encode([]rune(s)) {
		hex := "0123456789abcdef"
		if i%2 == 1 {
			hex = "0123456789ABCDEF"
		}
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hex[u>>shift&15])
		}
	}
	return b.String()
}

var texts = []string{"", "plain", "\"\\/\b\t\n\f\r\x00\x1f\x7f", "é😀<>&/\u2028", "tail\x01", "דּ", "😀", "😁", "\ud7ff", "\ue000", "\uffff", "a", "aa", "aé"}

func TestStrings(t *testing.T) {
	for _, a := range texts {
		for _, b := range texts {
			order(t, a, b)
		}
	}
	for c := range rune(0x100) {
		same(t, string(c))
	}
	if got := jsonstring.AppendMeant(nil, []byte(`\/\u0041\uD83D\ude00\u00e9`)); string(got) != "/A😀é" {
		t.Errorf("%q", got)
	}
	// Bytes that are not UTF-8 are passed on.
	if got := jsonstring.Append(nil, "a\xff\n"); !bytes.Equal(got, []byte("\"a\xff\\n\"")) {
		t.Errorf("%q", got)
	}
}

func TestUnit(t *testing.T) {
	for in, want := range map[string]int{
		`\u0000`: 0, `\uABcd`: 0xabcd, `\u12345`: 0x1234, "": -1, `\u123`: -1, `\u123g`: -1, `\x1234`: -1, `u12345`: -1,
	} {
		if unit, ok := jsonstring.Unit([]byte(in)); ok != (want >= 0) || ok && int(unit) != want {
			t.Errorf("%s: %x, %v", in, unit, ok)
		}
	}
}

func FuzzStrings(f *testing.F) {
	for i, s := range texts {
		f.Add(s, texts[(i+1)%len(texts)])
	}
	f.Fuzz(order)
}
