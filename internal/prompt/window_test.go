package prompt

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/messages"
)

func TestSince(t *testing.T) {
	for _, c := range []struct {
		name    string
		w       Window
		runs    []past
		first   int
		settled bool
	}{
		{"no bound", Window{}, []past{{size: 9}}, 0, false},
		{"messages are counted elsewhere", Window{Messages: 1}, []past{{size: 9}, {size: 9}}, 0, false},
		{"none, no run", Window{None: true}, nil, 0, false},
		{"none", Window{None: true}, []past{{}, {}}, 2, true},
		{"none, withdrawn behind the last", Window{None: true}, []past{{}, {withdrawn: true}, {}, {withdrawn: true}, {withdrawn: true}}, 3, true},
		{"none, all withdrawn", Window{None: true}, []past{{withdrawn: true}}, 0, false},
		{"bytes, all fit", Window{Bytes: 10}, []past{{size: 4}, {size: 6}}, 0, false},
		{"bytes, one byte too many", Window{Bytes: 9}, []past{{size: 4}, {size: 6}}, 1, true},
		{"bytes, the last is too long", Window{Bytes: 5}, []past{{size: 1}, {size: 6}}, 2, true},
		{"bytes, nothing behind a long one", Window{Bytes: 5}, []past{{size: 1}, {size: 6}, {size: 1}}, 2, true},
	} {
		first, settled := c.w.since(len(c.runs), func(i int) past { return c.runs[i] })
		if first != c.first || settled != c.settled {
			t.Errorf("%s: got %d %v, want %d %v", c.name, first, settled, c.first, c.settled)
		}
	}
}

// A window cuts finished runs, whole ones, and never the run in flight; a tail that is
// settled tells the same as the whole journal.
func TestProjectWindow(t *testing.T) {
	j := &journal{}
	for _, q := range []string{"one", "two", "three"} {
		j.begin(j.input(q))
		j.say(messages.ResponseUnit, "an answer", true)
		j.decide(messages.Done, "", "")
		j.end(messages.Done)
	}
	seq := j.input("four")
	j.recs[seq-1].Body.(*messages.Input).History = []messages.Said{{Role: messages.RoleUser, Text: "before"}}
	j.begin(seq)
	j.decide(messages.Continue, "", "")
	j.nextTurn()
	for _, c := range []struct {
		w    Window
		want []string
	}{
		{Window{}, []string{"one", "an answer", "two", "an answer", "three", "an answer", "before"}},
		{Window{None: true}, []string{"before"}},
		{Window{Bytes: 13}, []string{"before"}},
		{Window{Bytes: 14}, []string{"three", "an answer", "before"}},
		{Window{Bytes: 26}, []string{"two", "an answer", "three", "an answer", "before"}},
	} {
		spec := Spec{SID: "x", Window: c.w}
		whole := j.project(spec)
		var got []string
		for i := range whole.History {
			got = append(got, whole.History[i].Text)
		}
		if !slices.Equal(got, c.want) || whole.Text != "four" {
			t.Errorf("%+v: %q, asked %q; want %q", c.w, got, whole.Text, c.want)
		}
		settledOnce := false
		for from := range j.recs {
			p, settled, ok := ProjectTail(slices.Values(j.recs[from:]), spec)
			if settled && !ok {
				t.Errorf("%+v, from %d: settled without the run in flight", c.w, from)
			}
			if settledOnce = settledOnce || settled; !settled {
				continue
			}
			if diff := cmp.Diff(whole, p); diff != "" {
				t.Errorf("%+v, from %d: %s", c.w, from, diff)
			}
		}
		if settledOnce != c.w.Bounded() {
			t.Errorf("%+v: settled %v", c.w, settledOnce)
		}
	}
}
