package journal

import (
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// A delta is written as the JSON library writes a struct with its members, whatever its
// text is.
func TestAppendDelta(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	kinds := []messages.Kind{"", messages.ResponseUnit, messages.ThoughtUnit}
	pieces := []string{"a", "\"", "\\", "\n", "\x00", "\x7f", "<", "&", "é", "\u2028", "\U0001f600", "\xff", "\xc3", "\xed\xa0\x80", "\ufffd"}
	for range 2000 {
		d := messages.Delta{
			Seq: rnd.Int64N(1 << 53), Run: rnd.Int64N(9), Unit: messages.UnitID{Turn: 1 + rnd.Int64N(99), N: rnd.IntN(9)},
			Kind: kinds[rnd.IntN(len(kinds))], Off: rnd.Int64N(1 << 40), Retract: rnd.IntN(2) == 0,
		}
		var place messages.Block
		if rnd.IntN(3) == 0 {
			place = messages.Block{N: 1 + rnd.IntN(9), Parent: rnd.IntN(3), Depth: 1 + rnd.IntN(3), Label: pieces[rnd.IntN(len(pieces))]}
			d.Thought = &place
		}
		for range rnd.IntN(6) {
			d.Text += pieces[rnd.IntN(len(pieces))]
		}
		kind := "delta"
		if d.Retract {
			kind = "retract"
		}
		want, err := json.Marshal(struct {
			Depth  int           `json:"depth,omitzero"`
			Kind   messages.Kind `json:"kind,omitzero"`
			Label  string        `json:"label,omitzero"`
			N      int           `json:"n,omitzero"`
			Off    int64         `json:"off"`
			Parent int           `json:"parent,omitzero"`
			Run    int64         `json:"run"`
			Seq    int64         `json:"seq"`
			Text   string        `json:"text,omitzero"`
			Type   string        `json:"type"`
			Unit   string        `json:"unit"`
		}{place.Depth, d.Kind, place.Label, place.N, d.Off, place.Parent, d.Run, d.Seq, d.Text, kind, d.Unit.String()}, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendUpdate([]byte("in front "), messages.Update{Delta: &d}); string(got) != "in front "+string(want) {
			t.Fatalf("%+v\n%s, want\n%s", d, got, want)
		}
		d.Kind, d.Action, d.Total = messages.KindProgress, "#1"+d.Text, rnd.Int64N(3)
		if want, err = json.Marshal(struct {
			Action string `json:"action"`
			Done   int64  `json:"done"`
			Run    int64  `json:"run"`
			Seq    int64  `json:"seq"`
			Text   string `json:"text,omitzero"`
			Total  int64  `json:"total,omitzero"`
			Turn   int64  `json:"turn"`
			Type   string `json:"type"`
		}{d.Action, d.Off, d.Run, d.Seq, d.Text, d.Total, d.Unit.Turn, "progress"}, jsontext.AllowInvalidUTF8(true)); err != nil {
			t.Fatal(err)
		}
		if got := AppendUpdate(nil, messages.Update{Delta: &d}); string(got) != string(want) {
			t.Fatalf("%+v\n%s, want\n%s", d, got, want)
		}
	}
}
