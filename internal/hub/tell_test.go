package hub

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// Progress takes half a queue at most, is never joined, and a subscriber that does not get it
// has missed nothing.
func TestTell(t *testing.T) {
	h := New()
	h.Tell("s", &messages.Delta{Kind: messages.KindProgress}) // no session follows, and nothing keeps it
	s := h.Subscribe("s")
	defer s.Close()
	other := h.Subscribe("other")
	defer other.Close()
	for i := range int64(subscriptionLimit) {
		h.Tell("s", &messages.Delta{Kind: messages.KindProgress, Off: i, Text: "."})
	}
	batch, missed, err := s.Next(t.Context())
	if err != nil || missed || len(batch) != subscriptionLimit/2 {
		t.Errorf("%d of %d, missed %v, %v", len(batch), subscriptionLimit, missed, err)
	}
	for i, u := range batch {
		if u.Delta.Off != int64(i) {
			t.Fatalf("number %d is %+v", i, u.Delta)
		}
	}
	if len(other.queue) > 0 {
		t.Errorf("%+v came to another session", other.queue)
	}
}
