package prompt

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A view's sums are found for its texts wherever a window or a front end has put them, and
// for no other text, not even one that reads the same.
func TestSearch(t *testing.T) {
	text := func(s string) messages.Message { return messages.Message{Text: strings.Clone(s)} }
	var v View
	var ms []messages.Message
	for _, s := range []string{"a", "bb", "", "c"} {
		m := text(s)
		v.past = v.past.with(sumsOf([]messages.Message{m}))
		ms = append(ms, m)
	}
	last := text("d")
	v.told = []texts{sumsOf([]messages.Message{last})}
	ms = append(ms, last)
	for name, c := range map[string]struct {
		asked []messages.Message
		known int
	}{
		"all":             {ms, 4}, // not the empty one
		"behind others":   {append([]messages.Message{text("system"), text("a")}, ms...), 4},
		"a window":        {[]messages.Message{text("system"), ms[0], ms[3], ms[4]}, 3},
		"the same words":  {[]messages.Message{text("a"), text("d")}, 0},
		"another order":   {[]messages.Message{ms[4], ms[0]}, 1},
		"nothing but own": {append(make([]messages.Message, 100), ms...), 4},
	} {
		find, known := search{view: &v}, 0
		for i := range c.asked {
			if c.asked[i].Text == "" && name == "nothing but own" && i < 100 {
				c.asked[i] = text("x")
			}
			sum := find.sum(c.asked[i].Text)
			if sum == nil {
				continue
			}
			if known++; *sum != sumText(c.asked[i].Text) {
				t.Errorf("%s: another sum for %q", name, c.asked[i].Text)
			}
		}
		if name == "nothing but own" {
			c.known = 0 // it has given up
		}
		if known != c.known {
			t.Errorf("%s: %d known, want %d", name, known, c.known)
		}
		for _, rendering := range []int64{1, messages.Rendering} {
			if d := NewDigester("system", rendering); d.Digest(c.asked, &v) != Digest(c.asked, rendering) {
				t.Errorf("%s: another digest", name)
			}
		}
	}
}

// A page that the session's latest prompt had is not made again, and never stands for
// messages that are others by a role, a text, a form or a place.
func TestPages(t *testing.T) {
	v := View{pages: &pages{}}
	for i := range 6 * pageMessages {
		m := messages.Message{Role: messages.RoleUser, Text: strings.Repeat("x", 1+i), Native: strings.Repeat("y", i%2)}
		v.past = v.past.with(sumsOf([]messages.Message{m}))
	}
	d := NewDigester("", 2)
	all := v.past.messages
	held := func() (n int) {
		for _, p := range v.pages.load() {
			n += min(len(p.of), 1)
		}
		return n
	}
	if d.Digest(all, &v); held() != 6 {
		t.Fatalf("%d pages are held", held())
	}
	changed := func(i int, change func(*messages.Message)) []messages.Message {
		ms := slices.Clone(all)
		change(&ms[i])
		return ms
	}
	for name, ms := range map[string][]messages.Message{
		"as it was": all,
		"longer":    append(slices.Clone(all), messages.Message{Role: messages.RoleUser, Text: "new"}),
		"shorter":   all[:len(all)-1],
		"shifted":   all[1:],
		"role":      changed(20, func(m *messages.Message) { m.Role = messages.RoleAssistant }),
		"text":      changed(20, func(m *messages.Message) { m.Text = "z" + m.Text[1:] }),
		"native":    changed(21, func(m *messages.Message) { m.Native = "z" }),
		"no native": changed(21, func(m *messages.Message) { m.Native = "" }),
	} {
		d.Digest(all, &v)
		if d.Digest(ms, &v) != Digest(ms, 2) {
			t.Errorf("%s: another digest", name)
		}
	}
	// A system message that is new each turn is not held for the next.
	d.Digest(append([]messages.Message{{Role: messages.RoleSystem, Text: "now"}}, all...), &v)
	if held() != 5 {
		t.Errorf("%d pages are held behind a system message", held())
	}
}
