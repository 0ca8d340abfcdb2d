package reply

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestEstimate(t *testing.T) {
	msgs := []messages.Message{{Text: "12345"}, {Text: "678"}}
	if got, want := estimate(bytesOf(msgs), 1), (messages.Usage{Input: 2, Output: 1, Estimated: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
