package host

import (
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

func chatDelta(off int64, text string, retract bool) stile.Update {
	return stile.Update{Delta: &messages.Delta{Run: 1, Unit: messages.UnitID{Turn: 1}, Kind: messages.ResponseUnit, Off: off, Text: text, Retract: retract}}
}

func chatRecord(b messages.Body) stile.Update {
	return stile.Update{Record: &messages.Record{Run: 1, Turn: 1, Body: b}}
}

func finished(unit, text string) stile.Update {
	return chatRecord(&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: unit, Text: text, Complete: true})
}

// What a run's updates become, for a client that cannot take text back.
func TestChatReply(t *testing.T) {
	for name, c := range map[string]struct {
		updates []stile.Update
		want    string
		code    messages.Code // of the error at the end
	}{
		"text that grows, and its record": {
			updates: []stile.Update{chatDelta(2, "ab", false), chatDelta(3, "c", false), finished("1.0", "abc")}, want: "abc",
		},
		"a record that says more than was shown": {updates: []stile.Update{chatDelta(2, "ab", false), finished("1.0", "abcd")}, want: "abcd"},
		"texts and emissions":                    {updates: []stile.Update{finished("1.0", "a"), finished("1.1", "b"), chatRecord(&messages.Emit{Text: "c"}), chatRecord(&messages.Emit{Text: "d"})}, want: "a\n\nb\nc\nd"},
		"what operators see":                     {updates: []stile.Update{chatRecord(&messages.Emit{Text: "c", Candidate: true}), chatRecord(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "hm"})}},
		"a thought that grows":                   {updates: []stile.Update{{Delta: &messages.Delta{Unit: messages.UnitID{Turn: 1}, Kind: messages.ThoughtUnit, Off: 2, Text: "hm"}}}},
		"text that was sent is taken back":       {updates: []stile.Update{chatDelta(3, "abc", false), chatDelta(1, "", true)}, want: "abc", code: messages.ErrCrash},
		"nothing that was sent is taken back":    {updates: []stile.Update{chatDelta(3, "abc", false), chatDelta(3, "", true)}, want: "abc"},
		"a first text that is replaced": {
			want: "second",
			updates: []stile.Update{
				chatRecord(&messages.TurnBegin{Dialect: "kitsu"}),
				chatDelta(5, "first", false), finished("1.0", "first"), chatRecord(&messages.TurnDecided{Decision: messages.Continue, Retract: []string{"1.0"}}),
				chatRecord(&messages.Retract{Unit: "1.0"}), finished("2.0", "second"), chatRecord(&messages.TurnDecided{Decision: messages.Done}),
			},
		},
		"a first text that stands, because the second never came": {
			want: "first",
			updates: []stile.Update{
				chatRecord(&messages.TurnBegin{Dialect: "kitsu"}),
				finished("1.0", "first"), chatRecord(&messages.TurnDecided{Decision: messages.Continue, Retract: []string{"1.0"}}),
				chatRecord(&messages.TurnDecided{Decision: messages.Done}), chatRecord(&messages.RunEnd{Decision: messages.Done}),
			},
		},
		"a first text that is replaced behind a pass that said nothing": {
			want: "third",
			updates: []stile.Update{
				chatRecord(&messages.TurnBegin{Dialect: "kitsu"}), finished("1.0", "first"),
				chatRecord(&messages.TurnDecided{Decision: messages.Continue, Retract: []string{"1.0"}}),
				chatRecord(&messages.TurnBegin{Dialect: "kitsu"}), chatRecord(&messages.TurnDecided{Decision: messages.Continue}),
				chatRecord(&messages.TurnBegin{Dialect: "kitsu"}), chatRecord(&messages.Retract{Unit: "1.0"}), finished("3.0", "third"),
				chatRecord(&messages.TurnDecided{Decision: messages.Done}), chatRecord(&messages.RunEnd{Decision: messages.Done}),
			},
		},
		"a halt":       {updates: []stile.Update{finished("1.0", "a"), chatRecord(&messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrLoop})}, want: "a", code: messages.ErrLoop},
		"a suspension": {updates: []stile.Update{chatRecord(&messages.TurnSuspended{})}, code: messages.ErrApproval},
	} {
		r := &chatReply{}
		got := ""
		var err error
		for _, u := range c.updates {
			var piece string
			if piece, err = r.take(u); err != nil {
				break
			}
			got += piece
		}
		var code messages.Code
		if err != nil {
			p := problemOf(err)
			if code = messages.Code(p.Code); !p.halt {
				t.Errorf("%s: %v is no halt", name, err)
			}
		}
		if got != c.want || code != c.code {
			t.Errorf("%s: %q %s, want %q %s", name, got, code, c.want, c.code)
		}
	}
}
