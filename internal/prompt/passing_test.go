package prompt_test

import (
	"testing"

	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

func TestPassing(t *testing.T) {
	for shape, want := range map[string]int{
		"": 0, "su": 0, "fu": 0, "suf": 1, "sufu": 0, "susf": 2, "suaurssf": 3, "sf": 0, "f": 0, "sfuf": 1, "us": 0, "uasf": 2, "asf": 0,
	} {
		var ms []messages.Message
		for _, c := range shape {
			m := messages.Message{Role: map[rune]messages.Role{'s': messages.RoleSystem, 'a': messages.RoleAssistant}[c], Text: string(c)}
			if m.Role == "" {
				m.Role = messages.RoleUser
			}
			if m.Holds = ""; c == 'f' {
				m.Holds = messages.HoldsFeeds
			}
			ms = append(ms, m)
		}
		if got := prompt.Passing(ms); got != want {
			t.Errorf("%q: %d messages pass, want %d", shape, got, want)
		}
	}
}

// Without what passes the prompts of a run in cortex grow at their end: also in the last turn, whose
// word from the host passes with the feeds.
func TestPassingGrows(t *testing.T) {
	d := cortex.Dialect{Rendering: 2, FeedsLast: true}
	if !d.Traits().AppendOnly || (cortex.Dialect{Rendering: 2}).Traits().AppendOnly {
		t.Error("the trait does not follow the place of the feeds")
	}
	p := messages.Projection{Text: "Go.", Rendering: 2, FeedsLast: true, Primer: "Speak."}
	before := []messages.Message{}
	for turn := range 4 {
		p.Feeds = []messages.Feed{{ID: "tick", Value: string(rune('0' + turn))}}
		p.Last = turn == 3
		ms := prompt.Assemble(d, p)
		want := map[bool]int{false: 1, true: 2}[p.Last]
		if got := prompt.Passing(ms); got != want {
			t.Fatalf("turn %d: %d messages pass, want %d", turn, got, want)
		}
		ms = ms[:len(ms)-want]
		marks := prompt.NewDigester("", 2).Marks(ms, nil)
		if old := prompt.NewDigester("", 2).Marks(before, nil); old[len(before)] != marks[len(before)] || len(ms) != max(2, len(before)+2) && turn > 0 {
			t.Errorf("turn %d: %d messages do not begin with the %d before", turn, len(ms), len(before))
		}
		before = ms
		p.Replies = append(p.Replies, messages.Reply{Text: "Hm.", Calls: []messages.Call{{ID: "a", Name: "t", State: messages.ActionOK, Value: "1"}}})
	}
}
