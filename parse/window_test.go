package parse

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// context makes messages: s system, q question, a assistant, r results, f feeds.
func context(shape string) (ms []messages.Message) {
	for i, c := range shape {
		m := messages.Message{Role: messages.RoleUser, Text: fmt.Sprint(i)}
		switch c {
		case 's':
			m.Role = messages.RoleSystem
		case 'a':
			m.Role = messages.RoleAssistant
		case 'r':
			m.Holds = messages.HoldsResults
		case 'f':
			m.Holds = messages.HoldsFeeds
		}
		ms = append(ms, m)
	}
	return ms
}

func places(ms []messages.Message) string {
	var b strings.Builder
	for i := range ms {
		b.WriteString(ms[i].Text + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		shape   string
		n       int
		want    string
		settled bool
	}{
		{"sqaqa", 0, "0 1 2 3 4", false},
		{"sqaqa", 4, "0 1 2 3 4", true},
		{"sqaqa", 5, "0 1 2 3 4", false},
		{"sqaqa", 2, "0 3 4", true},
		{"qaqa", 1, "2", true}, // the question goes before what it led to
		{"qarar", 3, "0 3 4", true},
		{"qarar", 2, "0", true},
		{"qarara", 3, "0 5", true}, // results lose their calls: they go, too
		{"qararq", 2, "5", true},
		{"qararq", 1, "5", true},
		{"sarar", 3, "0 3 4", false}, // no question so far
		{"arar", 4, "0 1 2 3", false},
		{"sqaqas", 2, "0 3 4 5", true}, // the host's last word is no message of the context
		{"sqaras", 3, "0 1 4 5", true},
		{"qas", 2, "0 1 2", true},
		{"qas", 3, "0 1 2", false},
		{"ss", 1, "0 1", false},
		{"s", 1, "0", false},
		{"", 1, "", false},
		{"fqaqa", 2, "0 3 4", true}, // feeds are in every prompt, in front or at the end
		{"sqaqaf", 2, "0 3 4 5", true},
		{"sqaqasf", 2, "0 3 4 5 6", true},
		{"sqaqaf", 3, "0 3 4 5", true},
		{"sqf", 1, "0 1 2", true},
	} {
		kept, settled := Window(context(c.shape), c.n)
		if got := places(kept); got != c.want || settled != c.settled {
			t.Errorf("%s, %d: got %q %v, want %q %v", c.shape, c.n, got, settled, c.want, c.settled)
		}
	}
}

// What is settled stays so, whatever comes before; what a window keeps is small, begins
// with a question, and has no results without what they answer.
func TestWindowSettled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	run := func() string {
		var b strings.Builder
		b.WriteByte('q')
		for range r.IntN(4) {
			b.WriteString("ar")
		}
		if r.IntN(4) > 0 {
			b.WriteByte('a')
		}
		return b.String()
	}
	for range 20_000 {
		old, tail := "", ""
		for range r.IntN(4) {
			old += run()
		}
		for range 1 + r.IntN(4) {
			tail += run()
		}
		n := 1 + r.IntN(9)
		whole := context(old + tail)
		want, _ := Window(whole, n)
		got, settled := Window(whole[len(old):], n)
		if settled && places(got) != places(want) {
			t.Fatalf("%s|%s, %d: %q from the tail, %q from all", old, tail, n, places(got), places(want))
		}
		if len(want) > n || len(want) == 0 || !question(&want[0]) {
			t.Fatalf("%s, %d: %q", old+tail, n, places(want))
		}
		for i := 1; i < len(want); i++ {
			if want[i].Holds == messages.HoldsResults && want[i-1].Role != messages.RoleAssistant {
				t.Fatalf("%s, %d: %q has results without calls", old+tail, n, places(want))
			}
		}
	}
}
