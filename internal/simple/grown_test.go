package simple

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A result that grows is told once, however much of it comes as it is shown and how much from
// records: to a reader who was there, one who came late, and one who was cut in between.
func TestTellsGrowingResults(t *testing.T) {
	delta := func(seq, off int64, text string) messages.Update {
		return messages.Update{
			Delta: &messages.Delta{Unit: messages.UnitID{Turn: 1}, Kind: messages.ResultText, Action: "a", Off: off, Text: text, Retract: text == ""},
			At:    messages.Position{Seq: seq, Results: messages.AppendResult("", 1, "a", off)},
		}
	}
	chunk := func(seq, off int64, text string) messages.Update {
		return rec(seq, &messages.ActionChunk{ID: "a", Off: off, Bytes: []byte(text)})
	}
	declared, started := rec(2, &messages.ActionDeclared{ID: "a", Name: "t"}), rec(3, &messages.ActionStarted{ID: "a", Attempt: 1})
	again, ended := rec(6, &messages.ActionStarted{ID: "a", Attempt: 2}), rec(9, &messages.ActionEnded{ID: "a", State: messages.ActionOK, Streamed: 3})
	for _, c := range []struct {
		name   string
		past   []messages.Update // that the reader has
		at     messages.Position
		hidden bool
		rest   []messages.Update
		want   []string
	}{
		{"there", nil, messages.Position{}, false, []messages.Update{
			declared, started, delta(3, 2, "ab"), chunk(4, 0, "ab"), delta(4, 3, "c"), chunk(5, 2, "c"), delta(5, 0, ""), again, delta(6, 1, "x"), chunk(7, 0, "x"), ended,
		}, []string{"ab", "c", "-0", "x"}},
		{"late", nil, messages.Position{}, false, []messages.Update{
			declared, started, chunk(4, 0, "ab"), chunk(5, 2, "c"), again, chunk(7, 0, "xy"), delta(7, 3, "z"), chunk(8, 2, "z"), ended,
		}, []string{"ab", "c", "-0", "xy", "z"}},
		{"cut", []messages.Update{declared, started, chunk(4, 0, "ab")}, messages.Position{Seq: 4, Results: messages.AppendResult("", 1, "a", 3)}, false, []messages.Update{
			chunk(5, 2, "cd"), ended,
		}, []string{"d"}},
		{"hidden", nil, messages.Position{}, true, []messages.Update{declared, started, chunk(4, 0, "ab"), ended}, nil},
	} {
		for _, tokens := range []bool{true, false} {
			teller := Teller{Tokens: tokens}
			for _, u := range c.past {
				teller.Tell(u)
			}
			if c.past != nil {
				teller.from(place{at: c.at})
			}
			var got []string
			for _, u := range c.rest {
				if b, ok := record(u).(*messages.ActionDeclared); ok && c.hidden {
					own := *b
					own.Show = messages.ShowNone
					u = rec(u.Record.Seq, &own)
				}
				for _, e := range teller.Tell(u) {
					switch {
					case e.Type != "chunk":
					case e.Action != "a":
						t.Errorf("%s: %+v", c.name, e)
					case e.Keep != nil:
						got = append(got, fmt.Sprint("-", *e.Keep))
					default:
						got = append(got, e.Content)
					}
				}
			}
			if want := c.want; tokens && !slices.Equal(got, want) || !tokens && got != nil {
				t.Errorf("%s, tokens %v: %q, want %q", c.name, tokens, got, want)
			}
		}
	}
}

// record returns the body of an update; nil for text that grows.
func record(u messages.Update) messages.Body {
	if u.Record == nil {
		return nil
	}
	return u.Record.Body
}
