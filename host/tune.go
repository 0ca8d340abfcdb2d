package host

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// DefaultHeapFloor is how large the heap of a tuned process grows before its first
// garbage is collected.
const DefaultHeapFloor = 64 << 20

// fullGOGC is Go's own value, which holds from the floor on.
const fullGOGC = 100

// TuneOptions say what a process is set up for; the zero value is useful.
type TuneOptions struct {
	// HeapFloor is in bytes; 0 means DefaultHeapFloor, a negative one leaves the
	// collector alone. An operator's GOGC wins over it.
	HeapFloor int64
	// Disk reports whether the journal is a file of this machine. The goroutine that syncs it
	// keeps a processor of Go's scheduler for as long as the disk takes, so one more is
	// set up than the machine has. An operator's GOMAXPROCS wins over it.
	Disk bool
}

// Tune sets up a process that does nothing but host sessions, as `stile serve` does, and
// returns what undoes it. Both settings are the whole process's, which is why no library
// sets them unasked.
//
// A host whose sessions sleep has a heap of a few megabytes, and Go collects it each time
// as many were allocated: hundreds of times a second under load. With a floor the heap
// may reach so much first; from there on it is collected as ever. The floor costs at most
// its size in memory. Where the process's control group has a limit of memory, the collector
// gets three quarters of it as GOMEMLIMIT (and leaves 64 MiB, at most half), and the floor is a quarter of that at most. A
// process has one Tune at a time; an operator's GOMEMLIMIT wins.
func Tune(opts TuneOptions) (undo func()) {
	undoHeap, undoProcs := func() {}, func() {}
	limit, undoLimit := limitMemory(os.DirFS("/"))
	if opts.HeapFloor >= 0 && os.Getenv("GOGC") == "" {
		floor := uint64(opts.HeapFloor)
		if floor == 0 {
			floor = DefaultHeapFloor
		}
		if limit > 0 {
			floor = min(floor, uint64(limit)/4)
		}
		undoHeap = keepHeap(floor)
	}
	if opts.Disk && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		undoProcs = runtime.SetDefaultGOMAXPROCS
	}
	return func() { undoProcs(); undoHeap(); undoLimit() }
}

// heap is the collector's setting, corrected after each collection.
type heap struct {
	floor uint64

	mu      sync.Mutex
	percent int
	before  int // the process's own
	ended   bool
}

// sentinel is what one collection finds, so that its cleanup runs. It has a pointer: the
// smallest objects without one share their memory, and live as long as their neighbours.
type sentinel struct{ _ *byte }

func keepHeap(floor uint64) (undo func()) {
	h := &heap{floor: floor}
	h.before = debug.SetGCPercent(fullGOGC)
	h.percent = fullGOGC
	h.collected()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.ended {
			h.ended = true
			debug.SetGCPercent(h.before)
		}
	}
}

// collected sets the percentage by what the last collection left, and waits for the next.
func (h *heap) collected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if p := gcPercent(liveHeap(), h.floor); differs(p, h.percent) {
		h.percent = p
		debug.SetGCPercent(p)
	}
	runtime.AddCleanup(&sentinel{}, (*heap).collected, h)
}

// differs spares the pause that a change of the setting takes where it would move the
// goal by less than a tenth.
func differs(p, now int) bool { return 10*p > 11*now || 11*p < 10*now || p == fullGOGC && now != p }

// gcPercent is the GOGC at which a heap with so much alive is collected at the floor.
func gcPercent(live, floor uint64) int {
	const least = 1 << 20 // a process of Go has never less
	live = max(live, least)
	if floor <= 2*live {
		return fullGOGC
	}
	return int((floor - live) * 100 / live)
}

// liveHeap is what the last collection left, in bytes; 0 before the first.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return DefaultHeapFloor // a runtime that does not tell: as if there were much
	}
	return s[0].Value.Uint64()
}
