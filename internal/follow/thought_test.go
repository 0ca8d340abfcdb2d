package follow

import (
	"reflect"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// The rest of a numbered thought, which a reader had in part, says where it stands as its first
// pieces did.
func TestRestOfANumberedThought(t *testing.T) {
	unit := messages.UnitID{Turn: 1}
	body := &messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: unit.String(), Text: "old news", Complete: true, N: 2, Parent: 1, Depth: 2, Label: "risk"}
	var j joiner
	j.begin(messages.Position{})
	var given []messages.Update
	give := func(u messages.Update) bool {
		given = append(given, u)
		return true
	}
	j.delta(&messages.Delta{Run: 1, Unit: unit, Kind: messages.ThoughtUnit, Off: 3, Text: "old", Thought: body.Place()}, give)
	j.record(&messages.Record{Seq: 1, Run: 1, Turn: 1, Body: body}, give)
	want := &messages.Block{Kind: "thought", N: 2, Parent: 1, Depth: 2, Label: "risk"}
	if len(given) != 3 || given[1].Delta.Text != " news" {
		t.Fatalf("%+v", given)
	}
	for _, u := range given[:2] {
		if !reflect.DeepEqual(u.Delta.Thought, want) {
			t.Errorf("%q stands in %+v", u.Delta.Text, u.Delta.Thought)
		}
	}
}

// A reader who resumes in the midst of a response that turns out to be a thought is told, as one
// who was there from the beginning is.
func TestThoughtThatBeganAsAResponse(t *testing.T) {
	unit := messages.UnitID{Turn: 1}
	for _, from := range []messages.Position{{}, {Unit: unit, Off: 3}} {
		var j joiner
		j.begin(from)
		var given []messages.Update
		give := func(u messages.Update) bool {
			given = append(given, u)
			return true
		}
		j.delta(&messages.Delta{Run: 1, Unit: unit, Kind: messages.ResponseUnit, Off: 3, Text: "old"}, give)
		j.record(&messages.Record{Seq: 1, Run: 1, Turn: 1, Body: &messages.Retract{Unit: unit.String(), Thought: true}}, give)
		j.record(&messages.Record{Seq: 2, Run: 1, Turn: 1, Body: &messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: unit.String(), Text: "old", Complete: true}}, give)
		if from.Off == 0 {
			given = given[1:]
		}
		if len(given) != 3 || given[0].Delta == nil || !given[0].Delta.Retract || given[0].Delta.Off != 0 || given[0].Delta.Kind != messages.ThoughtUnit {
			t.Errorf("from %v: %+v", from, given)
		}
	}
}
