package reasoning

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// parted writes what a Finder makes of a reply: its text, with a bar in place of the closing tag
// that ends a thought. Every text stands in the reply where the Finder says.
func parted(t *testing.T, pieces ...[]byte) string {
	t.Helper()
	var r Finder
	var b strings.Builder
	reply := bytes.Join(pieces, nil)
	text := func(p []byte, at int64) {
		if !bytes.HasPrefix(reply[at:], p) {
			t.Errorf("%q: %q is not at %d", pieces, p, at)
		}
		b.Write(p)
	}
	shut := func(at int64) {
		if !bytes.HasPrefix(reply[at:], []byte("</")) {
			t.Errorf("%q: no closing tag at %d", pieces, at)
		}
		b.WriteByte('|')
	}
	at := int64(0)
	for _, p := range pieces {
		r.Push(p, at, text, shut)
		at += int64(len(p))
	}
	r.End(text, shut)
	return b.String()
}

// A closing tag ends a thought where it stands as a tag, and is text where the reply speaks of it.
func TestFinder(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"", ""},
		{"Yes.", "Yes."},
		{"</think>Yes.", "|Yes."},
		{" \n</think>Yes.", " \n|Yes."},
		{"Hm.</think>Yes.", "Hm.|Yes."},
		{"Hm.\n</THOUGHT>\nYes.", "Hm.\n|\nYes."},
		{"Hm.\n \t</reasoning>\r\nYes.", "Hm.\n \t|\r\nYes."},
		{"Hm.\n</thinking>", "Hm.\n|"},
		{"Hm.\n</think> is a tag.", "Hm.\n</think> is a tag."},
		{"The tag </think> ends it.", "The tag </think> ends it."},
		{"The tag `</think>` ends it.", "The tag `</think>` ends it."},
		{"The tag '</think>' ends it.", "The tag '</think>' ends it."},
		{"Hm.</think", "Hm.</think"},
		{"Hm.</b></think>Yes.", "Hm.</b>|Yes."},
		{"Hm. <think>a</think>Yes.", "Hm. <think>a</think>Yes."},
		{"Hm.</think>a</think>b", "Hm.|a</think>b"},
		{"So:\n```\n</think>\n```\n", "So:\n```\n</think>\n```\n"},
		{"So:\n```\na</think>\n```\n", "So:\n```\na</think>\n```\n"},
		{"```html\n  </think>\n```", "```html\n  </think>\n```"},
		{"So:\n```\na\n```\n</think>\nb", "So:\n```\na\n```\n|\nb"},
		{"So:\n``\n</think>\nb", "So:\n``\n|\nb"},
		{"So ```\n</think>\nb", "So ```\n|\nb"},
		{"So:\n`</think>\n", "So:\n`</think>\n"},
	} {
		reply := []byte(c.reply)
		if got := parted(t, reply); got != c.want {
			t.Errorf("%q\ngot  %q\nwant %q", c.reply, got, c.want)
		}
		for i := range reply {
			if got := parted(t, reply[:i], reply[i:]); got != c.want {
				t.Errorf("%q cut at %d: %q", c.reply, i, got)
			}
		}
		if got := parted(t, parsetest.Pieces(reply, 1)...); got != c.want {
			t.Errorf("%q byte by byte: %q", c.reply, got)
		}
	}
}
