//go:build !race

package cortex

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A reply costs its decoder, the room of its first action in two pieces, and for
// each action two allocations, a third for dependencies. Text costs none, white
// space that may be outer one.
func TestAllocations(t *testing.T) {
	emit := func(messages.Event) {}
	for name, c := range map[string]struct {
		reply []byte
		most  float64
	}{
		"two actions":        {typical, 1 + 2 + 2*2 + 1},
		"text":               {plainReply(4096), 1},
		"thoughts and tails": {[]byte("<thought>a <b> c</thought>\n\n<thought>b</thought> c \n<response final=false>d</x></response>"), 2},
	} {
		if n := testing.AllocsPerRun(20, func() {
			d := Dialect{}.NewDecoder(messages.TurnInfo{})
			d.Push(c.reply, emit)
			d.End(messages.FinishComplete, emit)
		}); n > c.most {
			t.Errorf("%s: %v allocations, at most %v", name, n, c.most)
		}
	}
}
