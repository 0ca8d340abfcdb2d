package answer

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func rec(b messages.Body) messages.Update {
	return messages.Update{Record: &messages.Record{Run: 1, Turn: 1, TS: time.Unix(1, 0), Body: b}}
}

func said(unit, text string) messages.Update {
	return rec(&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: unit, Text: text, Complete: true})
}

func grown(turn int64, n int, off int64, text string) messages.Update {
	return messages.Update{Delta: &messages.Delta{Run: 1, Unit: messages.UnitID{Turn: turn, N: n}, Kind: messages.ResponseUnit, Off: off, Text: text}}
}

func back(turn int64, n int, off int64) messages.Update {
	u := grown(turn, n, off, "")
	u.Delta.Retract = true
	return u
}

func turn(dialect string, merged ...int64) messages.Update {
	return rec(&messages.TurnBegin{Dialect: dialect, Merged: merged})
}

func decided(d messages.Decision, retract ...string) messages.Update {
	return rec(&messages.TurnDecided{Decision: d, Retract: retract})
}

func end(d messages.Decision) messages.Update { return rec(&messages.RunEnd{Decision: d, Turns: 1}) }

var begun = rec(&messages.RunBegin{Input: 1})

// rethought is a run whose reply begins in a thought, which is shown as a response.
var rethought = func() []messages.Update {
	taken := back(1, 0, 0)
	taken.Delta.Kind = messages.ThoughtUnit
	return []messages.Update{
		begun, turn("plain"), grown(1, 0, 1, "h"), grown(1, 0, 2, "m"), taken, rec(&messages.Retract{Unit: "1.0", Thought: true}),
		rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "hm"}), said("1.1", "yes"), decided(messages.Done), end(messages.Done),
	}
}()

// What a run's updates come to, and the pieces that are passed on of them, "|" between them.
func TestRule(t *testing.T) {
	for name, c := range map[string]struct {
		updates []messages.Update
		merged  int64
		want    string
		pieces  string // "" where they are the text in one piece
		lenient bool
		lost    bool // the stream ends with TakenBack
	}{
		"a thought that was given as a response": {
			updates: rethought, lenient: true, want: "yes", pieces: "h|m|\n\nyes",
		},
		"a thought that was given as a response, for a parent": {
			updates: rethought, want: "yes", pieces: "h|m", lost: true,
		},
		"a thought that waited as a response": {
			updates: []messages.Update{begun, turn("kitsu"), grown(1, 0, 1, "h"), rec(&messages.Retract{Unit: "1.0", Thought: true}), rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "h"}), said("1.1", "yes"), decided(messages.Done), end(messages.Done)},
			want:    "yes", pieces: "yes",
		},
		"nothing": {updates: []messages.Update{begun, turn("plain"), decided(messages.Halt), end(messages.Halt)}},
		"growing": {
			updates: []messages.Update{begun, turn("plain"), grown(1, 0, 2, "ab"), grown(1, 0, 3, "c"), said("1.0", "abcd"), decided(messages.Done), end(messages.Done)},
			want:    "abcd", pieces: "ab|c|d",
		},
		"texts and emissions": {
			updates: []messages.Update{begun, turn("aeiou"), said("1.0", "a"), said("1.1", "b"), rec(&messages.Emit{Text: "c"}), rec(&messages.Emit{Text: "d"}), said("1.2", "e")},
			want:    "a\n\nb\nc\nd\ne", pieces: "a|\n\nb|\nc|\nd|\ne",
		},
		"all turns, also one that is repaired": {
			updates: []messages.Update{begun, turn("cogency"), said("1.0", "a"), rec(&messages.TurnDecided{Decision: messages.Halt, Repair: true}), turn("cogency"), said("2.0", "b"), decided(messages.Done), end(messages.Done)},
			want:    "a\n\nb", pieces: "a|\n\nb",
		},
		"what operators see": {
			updates: []messages.Update{begun, turn("aeiou"), rec(&messages.Emit{Text: "token", Candidate: true}), rec(&messages.Emit{Text: "held", Held: true}), rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "hm"}), said("1.1", "a")},
			want:    "a",
		},
		"an empty response is none": {updates: []messages.Update{begun, turn("cortex"), said("1.0", ""), said("1.1", "a")}, want: "a"},
		"an emission of nothing is a line": {
			updates: []messages.Update{begun, turn("aeiou"), rec(&messages.Emit{Text: "a"}), rec(&messages.Emit{}), rec(&messages.Emit{Text: "b"})},
			want:    "a\n\nb", pieces: "a|\n|\nb",
		},
		"a text waits for those in front of it": {
			updates: []messages.Update{begun, turn("cortex"), grown(1, 0, 1, "a"), grown(1, 1, 1, "x"), said("1.0", "ab"), grown(1, 1, 2, "y"), said("1.1", "xy")},
			want:    "ab\n\nxy", pieces: "a|b\n\nx|y",
		},
		"a text that was not seen growing stands in front": {
			updates: []messages.Update{begun, turn("cortex"), grown(1, 1, 1, "x"), said("1.0", "ab"), said("1.1", "xy")},
			want:    "ab\n\nxy", pieces: "ab\n\nx|y",
		},
		"a thought in front holds up nothing": {
			updates: []messages.Update{
				begun, turn("plain"),
				{Delta: &messages.Delta{Unit: messages.UnitID{Turn: 1}, Kind: messages.ThoughtUnit, Off: 1, Text: "h"}},
				grown(1, 1, 1, "a"), grown(1, 1, 2, "b"), rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "hm"}), said("1.1", "abc"),
			},
			want: "abc", pieces: "a|b|c",
		},
		"a text that is replaced": {
			updates: []messages.Update{begun, turn("kitsu"), grown(1, 0, 5, "first"), said("1.0", "first"), decided(messages.Continue, "1.0"), turn("kitsu"), rec(&messages.Retract{Unit: "1.0"}), said("2.0", "second"), decided(messages.Done), end(messages.Done)},
			want:    "second",
		},
		"one that a silent pass leaves to the next": {
			updates: []messages.Update{begun, turn("kitsu"), said("1.0", "first"), decided(messages.Continue, "1.0"), turn("kitsu"), decided(messages.Continue), turn("kitsu"), rec(&messages.Retract{Unit: "1.0"}), said("3.0", "third"), decided(messages.Done), end(messages.Done)},
			want:    "third",
		},
		"one that stands, because the run halts": {
			updates: []messages.Update{begun, turn("kitsu"), said("1.0", "first"), decided(messages.Continue, "1.0"), turn("kitsu"), decided(messages.Halt), end(messages.Halt)},
			want:    "first",
		},
		"a continue keeps its text": {
			updates: []messages.Update{begun, turn("kitsu"), said("1.0", "first"), decided(messages.Continue), turn("kitsu"), said("2.0", "second"), decided(messages.Done), end(messages.Done)},
			want:    "first\n\nsecond", pieces: "first|\n\nsecond",
		},
		"growing text that is taken back before it was sent": {
			updates: []messages.Update{begun, turn("kitsu"), grown(1, 0, 5, "first"), back(1, 0, 2), said("1.0", "fi"), decided(messages.Done), end(messages.Done)},
			want:    "fi",
		},
		"growing text that a crash took back": {
			updates: []messages.Update{begun, turn("plain"), grown(1, 0, 5, "first"), back(1, 0, 0), decided(messages.Halt), turn("plain"), said("2.0", "second"), end(messages.Done)},
			want:    "second", pieces: "first", lost: true,
		},
		"a record with less than was sent": {
			updates: []messages.Update{begun, turn("plain"), grown(1, 0, 5, "first"), said("1.0", "fi")},
			want:    "fi", pieces: "first", lost: true,
		},
		"another dialect takes back what was sent": {
			updates: []messages.Update{begun, turn("own"), said("1.0", "first"), decided(messages.Continue, "1.0"), turn("own"), rec(&messages.Retract{Unit: "1.0"}), said("2.0", "second")},
			want:    "second", pieces: "first", lost: true,
		},
		"a merged input that its run takes up": {
			merged: 9, want: "a\n\nb", pieces: "a|\n\nb",
			updates: []messages.Update{begun, turn("plain"), grown(1, 0, 1, "a"), said("1.0", "a"), decided(messages.Continue), turn("plain", 9), grown(2, 0, 1, "b"), said("2.0", "b"), decided(messages.Done), end(messages.Done)},
		},
		"a merged input that began with its run": {
			merged: 9, want: "a",
			updates: []messages.Update{rec(&messages.RunBegin{Input: 1, Merged: []int64{9}}), turn("plain"), said("1.0", "a"), decided(messages.Done), end(messages.Done)},
		},
	} {
		var a Account
		s := Stream{Merged: c.merged, Lenient: c.lenient}
		var pieces []string
		var lost error
		for _, u := range c.updates {
			if u.Record != nil {
				a.Take(u.Record)
			}
			if lost != nil {
				continue
			}
			var piece string
			if piece, lost = s.Take(u); piece != "" {
				pieces = append(pieces, piece)
			}
		}
		if c.pieces == "" {
			c.pieces = c.want
		}
		if got := a.Text(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := strings.Join(pieces, "|"); got != c.pieces || (lost != nil) != c.lost {
			t.Errorf("%s: pieces %q, %v, want %q", name, got, lost, c.pieces)
		}
	}
}

// The text of a run that a merged input was too late for is not passed on; that of the next is.
func TestMergedTooLate(t *testing.T) {
	s := Stream{Merged: 9}
	var got string
	for _, u := range []messages.Update{
		begun, turn("plain"), grown(1, 0, 1, "a"), said("1.0", "a"), decided(messages.Done), rec(&messages.RunEnd{Decision: messages.Done, Turns: 1, Next: 2}),
		rec(&messages.RunBegin{Input: 9}), turn("plain"), grown(2, 0, 1, "b"), said("2.0", "bc"), rec(&messages.ModelReply{Usage: messages.Usage{Output: 3}}), decided(messages.Done),
	} {
		piece, err := s.Take(u)
		if err != nil || s.Ended != nil {
			t.Fatal(err, s.Ended)
		}
		got += piece
	}
	if got != "bc" || s.Text() != "bc" || s.Usage.Output != 3 {
		t.Errorf("%q, %q, %+v", got, s.Text(), s.Usage)
	}
	if _, err := s.Take(end(messages.Done)); err != nil || s.Ended == nil {
		t.Error("the end of the second run is not the end")
	}
}

// An Account lets go of texts that are too long, and says so; it counts all the same.
func TestMost(t *testing.T) {
	for _, c := range []struct {
		most  int
		whole bool
	}{{0, true}, {1 << 10, true}, {300, false}, {-1, false}} {
		a := Account{Most: c.most}
		for _, u := range []messages.Update{begun, said("1.0", strings.Repeat("a", 200)), said("1.1", strings.Repeat("b", 200)), rec(&messages.ModelReply{Usage: messages.Usage{Input: 2, Output: 1}, CostUSD: 5}), rec(&messages.ActionEnded{CostUSD: 7, State: messages.ActionUnknown}), end(messages.Done)} {
			a.Take(u.Record)
		}
		if a.Whole() != c.whole || (len(a.Text()) == 402) != c.whole || (a.units != nil) != c.whole || a.Used.CostUSD != 12 || a.Usage.Input != 2 || a.Unknown != 1 {
			t.Errorf("%d: whole %v, %d bytes, %+v", c.most, a.Whole(), len(a.Text()), a.Used)
		}
	}
	var late Account
	late.Take(said("1.0", "a").Record)
	late.Take(end(messages.Done).Record)
	if late.Whole() {
		t.Error("an account without the beginning of its run is whole")
	}
}

var seed = flag.Uint64("seed", 0, "of TestPiecesAreTheText; 0 draws one")

// Whatever grows, waits for its record, is replaced or lost: the pieces are the beginning of the
// text at any time, and all of it at the end, unless what was sent is taken back.
func TestPiecesAreTheText(t *testing.T) {
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	for n := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(from, n))
		updates, crashed := randomRun(rnd)
		var a Account
		var s Stream
		var got strings.Builder
		var lost error
		for _, u := range updates {
			if u.Record != nil {
				a.Take(u.Record)
			}
			if lost == nil {
				var piece string
				piece, lost = s.Take(u)
				got.WriteString(piece)
			}
		}
		if lost != nil && !crashed {
			t.Fatalf("-seed %d, run %d: %v, and nothing was lost", from, n, lost)
		}
		if lost == nil && (got.String() != a.Text() || s.Text() != a.Text()) {
			t.Fatalf("-seed %d, run %d: the pieces are %q, the text %q", from, n, got.String(), a.Text())
		}
	}
}

// randomRun makes the updates of a run, as a follower gives them; crashed reports whether
// growing text was lost in it.
func randomRun(rnd *rand.Rand) (out []messages.Update, crashed bool) {
	out = append(out, begun)
	var pending []string // what the next text replaces
	for at := int64(1); ; at++ {
		dialect := []string{"plain", "kitsu"}[rnd.IntN(2)]
		out = append(out, turn(dialect))
		var lazy []messages.Update // records that are not on disk yet
		var mine []string
		for n := range rnd.IntN(4) {
			if rnd.IntN(4) == 0 {
				out = append(out, lazy...)
				lazy = nil
			}
			id := messages.UnitID{Turn: at, N: n}
			if rnd.IntN(4) == 0 {
				if rnd.IntN(2) == 0 {
					out = append(out, messages.Update{Delta: &messages.Delta{Unit: id, Kind: messages.ThoughtUnit, Off: 1, Text: "h"}})
				}
				lazy = append(lazy, rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: id.String(), Text: "hm"}))
				continue
			}
			text := strings.Repeat(string(rune('a'+rnd.IntN(26))), rnd.IntN(5))
			if text != "" {
				for _, unit := range pending {
					lazy = append(lazy, rec(&messages.Retract{Unit: unit}))
				}
				if len(pending) > 0 { // the text is shown when that is on disk
					out, lazy, pending = append(out, lazy...), nil, nil
				}
				mine = append(mine, id.String())
			}
			shown := 0
			if rnd.IntN(4) > 0 {
				for shown < len(text) && rnd.IntN(4) > 0 {
					more := 1 + rnd.IntN(len(text)-shown)
					out = append(out, grown(at, n, int64(shown+more), text[shown:shown+more]))
					shown += more
				}
			}
			if rnd.IntN(20) == 0 { // a crash: the turn ends here, and what was shown is lost
				if shown > 0 {
					out = append(out, lazy...)
					lazy, crashed = nil, true
					out = append(out, back(at, n, 0))
				}
				mine = nil
				break
			}
			lazy = append(lazy, said(id.String(), text))
		}
		out = append(out, lazy...)
		switch rnd.IntN(3) {
		case 0:
			return append(out, decided(messages.Done), end(messages.Done)), crashed
		case 1:
			if dialect == "kitsu" && rnd.IntN(2) == 0 {
				out = append(out, decided(messages.Continue, mine...))
				pending = append(pending, mine...)
				continue
			}
			fallthrough
		default:
			out = append(out, decided(messages.Continue))
		}
	}
}
