package visible

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var spelt = regexp.MustCompile(`\\u\{([0-9a-f]+)\}`)

// FuzzExact: what a person is shown of a text has nothing in it that hides, stays as it is
// when it is shown again, and can be read back: no two texts look the same.
func FuzzExact(f *testing.F) {
	for _, s := range []string{
		`{"command":"ls"}`, "a\u200bb\u2060\ufeff", "\u202eevil\u202c", "e" + strings.Repeat("\u0301", 20), strings.Repeat(" ", 100) + "rm", "\U000e0041\U000e0042", "\x1b[2J\x07\x00", "ü\u0085\u2028", "\xff\xfe", "\u3164\u115f\u2800", "👩\u200d👩\ufe0f", "\u061c\u0600", "а\u00ad\u034f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Exact(s)
		if again := Exact(shown); again != shown {
			t.Fatalf("%q, and again %q", shown, again)
		}
		spaces, marks := 0, 0
		for _, r := range shown {
			if r != '\n' && r != '\t' && r != ' ' && (unicode.Is(unicode.C, r) || unicode.Is(unicode.Z, r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%q shows %U", shown, r)
			}
			if spaces++; r != ' ' {
				spaces = 0
			}
			if marks++; !unicode.Is(unicode.M, r) {
				marks = 0
			}
			if spaces > MaxSpaces || marks > MaxMarks {
				t.Fatalf("%q has %d spaces, %d marks", shown, spaces, marks)
			}
		}
		if !utf8.ValidString(s) || strings.Contains(s, `\u{`) {
			return
		}
		read := spelt.ReplaceAllStringFunc(shown, func(e string) string {
			n, err := strconv.ParseInt(e[3:len(e)-1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return string(rune(n))
		})
		if read != s {
			t.Fatalf("%q is shown as %q, which reads %q", s, shown, read)
		}
	})
}
