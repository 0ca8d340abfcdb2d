package hub_test

import (
	"math/bits"
	"testing"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/messages"
)

// A reply of very many units costs the publisher a few looks for each: none looks at all
// that are shown.
func TestUnitsCostTheSameEach(t *testing.T) {
	const n = 20000
	h := hub.New()
	unit := func(i int) messages.UnitID { return messages.UnitID{Turn: 1, N: i} }
	for i := range n { // shown, and no record is on disk yet
		h.Publish("s", messages.Update{Delta: &messages.Delta{Run: 1, Unit: unit(i), Off: 1, Text: "r"}})
		h.Publish("s", messages.Update{Delta: &messages.Delta{Run: 1, Unit: unit(i), Off: 2, Text: "s"}})
	}
	for i := range n / 2 {
		h.Publish("s", messages.Update{Record: &messages.Record{Run: 1, Turn: 1, Body: &messages.UnitText{Unit: unit(i).String()}}})
	}
	if got := len(h.Grown("s")); got != n-n/2 {
		t.Errorf("%d units are shown, want %d", got, n-n/2)
	}
	h.Publish("s", messages.Update{Record: &messages.Record{Run: 1, Turn: 1, Body: &messages.TurnDecided{}}})
	if got := len(h.Grown("s")); got != 0 {
		t.Errorf("%d units are shown of a turn that is decided", got)
	}
	if looked, most := hub.Looked(h), n*(bits.Len(n)+4); looked > most {
		t.Errorf("%d units were looked at, want %d at most", looked, most)
	}
}
