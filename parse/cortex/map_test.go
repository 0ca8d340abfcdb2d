package cortex

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// TestMap plays the example of the map at the head of decoder.go.
func TestMap(t *testing.T) {
	d := Dialect{Rendering: 2}.NewDecoder(messages.TurnInfo{}).(*decoder)
	for _, step := range []struct {
		push, top, held string
		body            int
		state           state
		events          []messages.EventKind
	}{
		{"Let me see.<th", "Let me see.", "<th", 0, inTop, nil},
		{"ought>a <b", "", "", 0, inThought, []messages.EventKind{
			messages.EventUnitBegin, messages.EventUnitText, messages.EventUnitEnd, messages.EventUnitBegin, messages.EventUnitText,
		}},
		{`</thought><action>{"na`, "", "", 4, inAction, []messages.EventKind{messages.EventUnitEnd}},
		{`me":"<x>"}</act`, "", "</act", 14, inAction, nil},
		{"ion>", "", "", 14, inTop, []messages.EventKind{messages.EventAction}},
	} {
		var got []messages.EventKind
		d.Push([]byte(step.push), func(e messages.Event) { got = append(got, e.Kind) })
		held := ""
		if d.inTag {
			held = string(d.held)
		}
		body := d.bodyBytes
		if len(got) != len(step.events) || string(d.top.text) != step.top || held != step.held || body != step.body || d.state != step.state {
			t.Errorf("%q: events %v, top %q, held %q, %d bytes of a body, state %d; want %+v", step.push, got, d.top.text, held, body, d.state, step)
			continue
		}
		for i := range got {
			if got[i] != step.events[i] {
				t.Errorf("%q: events %v, want %v", step.push, got, step.events)
			}
		}
	}
}
