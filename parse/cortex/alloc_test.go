//go:build !race

package cortex

import (
	"math"
	"runtime"
	"testing"
	"unsafe"

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

// Extensions that are on and unused cost a decoder its state: at most 4 allocations of 1 KiB
// together. Sub-thoughts number every thought, which costs each its place.
func TestUnusedExtensionsAllocate(t *testing.T) {
	const own, ownBytes = 4, 1024
	place := int(unsafe.Sizeof(messages.Block{}))
	// The process allocates beside the decoder, and that only adds: the least of some tries counts.
	count := func(l load, set Extensions) (allocs, size int) {
		const runs, tries = 10, 5
		allocs, size = math.MaxInt, math.MaxInt
		for range tries {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n := testing.AllocsPerRun(runs-1, func() { l.read(Dialect{Extensions: set}) }) // and once before
			runtime.ReadMemStats(&after)
			allocs, size = min(allocs, int(n)), min(size, int(after.TotalAlloc-before.TotalAlloc)/runs)
		}
		return allocs, size
	}
	for _, l := range loads(1 << 17) {
		off, offBytes := count(l, 0)
		for set, places := range map[Extensions]int{allExtensions &^ ExtSubThoughts: 0, allExtensions: l.thoughts} {
			on, onBytes := count(l, set)
			if most := off + own + places; on > most {
				t.Errorf("%s, extensions %b: %d allocations, without extensions %d: at most %d", l.name, set, on, off, most)
			}
			if most := offBytes + ownBytes + places*place; onBytes > most {
				t.Errorf("%s, extensions %b: %d bytes, without extensions %d: at most %d", l.name, set, onBytes, offBytes, most)
			}
		}
	}
}
