package visible_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/seed14be6753/stile/internal/visible"
)

func TestShown(t *testing.T) {
	many := strings.Repeat("\u0301", 6)
	for _, c := range []struct{ in, exact, text string }{
		{"", "", ""},
		{"plain, ünïcode, 漢字 ≤ 🙂\n\tend", "", ""},
		{"\x1b[2J\r\x00\x7f\u0085", `\u{1b}[2J\u{d}\u{0}\u{7f}\u{85}`, `\u{1b}[2J\u{d}\u{0}\u{7f}\u{85}`},
		{"a\u202eb\u2066c\u061cd", `a\u{202e}b\u{2066}c\u{61c}d`, `a\u{202e}b\u{2066}c\u{61c}d`},
		{"a\u200bb\u200ec\u2060d\ufeffe\u00adf", `a\u{200b}b\u{200e}c\u{2060}d\u{feff}e\u{ad}f`, `a\u{200b}b\u{200e}c\u{2060}d\u{feff}e\u{ad}f`},
		{"x\U000E0065\U000E007Fy", `x\u{e0065}\u{e007f}y`, `x\u{e0065}\u{e007f}y`},
		{"a\U000E0101b", `a\u{e0101}b`, `a\u{e0101}b`},
		{"a\u2028b\u2029c", `a\u{2028}b\u{2029}c`, `a\u{2028}b\u{2029}c`},
		{"a\u3164b\u2800c\u115f", `a\u{3164}b\u{2800}c\u{115f}`, `a\u{3164}b\u{2800}c\u{115f}`},
		{"n\u200cm 👨\u200d👩 ⚠\ufe0f \u06dd", `n\u{200c}m 👨\u{200d}👩 ⚠\u{fe0f} \u{6dd}`, ""},
		{"a\u00a0b\u2003c\u3000d", `a\u{a0}b\u{2003}c\u{3000}d`, ""},
		{"a\ue000b\U0010FFFFc", `a\u{e000}b\u{10ffff}c`, ""},
		{"a" + many + "b", "a\u0301\u0301\u0301\u0301\\u{301}\\u{301}b", "a\u0301\u0301\u0301\u0301\\u{301}\\u{301}b"},
		{"a\xff\xfe\ufffdb", "a\ufffd\ufffd\ufffdb", "a\ufffd\ufffd\ufffdb"},
		{"a" + strings.Repeat(" ", visible.MaxSpaces) + "b", "", ""},
		{"a" + strings.Repeat(" ", visible.MaxSpaces+2) + "b", "a" + strings.Repeat(" ", visible.MaxSpaces) + `\u{20}\u{20}b`, ""},
	} {
		if c.exact == "" {
			c.exact = c.in
		}
		if c.text == "" {
			c.text = c.in
		}
		if got := visible.Exact(c.in); got != c.exact {
			t.Errorf("%q: exact %q, want %q", c.in, got, c.exact)
		}
		if got := visible.Text(c.in); got != c.text {
			t.Errorf("%q: text %q, want %q", c.in, got, c.text)
		}
	}
}

// Of code points nothing that hides is left as it is.
func TestNothingHides(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if p := r >> 16; r == '\n' || r == '\t' || r >= 0xD800 && r <= 0xDFFF || p > 1 && p != 14 && r&0xFF00 != 0 { // of the large planes a part
			continue
		}
		hides := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || unicode.Is(unicode.Zs, r) && r != ' '
		if shown := visible.Exact(string(r)); hides && shown == string(r) {
			t.Errorf("%U is shown as it is", r)
		}
		if shown := visible.Text(string(r)); (r < ' ' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Zl, r)) && shown == string(r) {
			t.Errorf("%U is shown as it is in a text", r)
		}
	}
}
