package host

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, floor uint64
		want        int
	}{
		{0, 64 * mb, 6300}, // before the first collection
		{4 * mb, 64 * mb, 1500},
		{16 * mb, 64 * mb, 300},
		{31 * mb, 64 * mb, 106},
		{32 * mb, 64 * mb, 100},
		{500 * mb, 64 * mb, 100},
		{4 * mb, 1, 100},
	} {
		if got := gcPercent(c.live, c.floor); got != c.want {
			t.Errorf("%d alive, floor %d: %d, want %d", c.live, c.floor, got, c.want)
		}
	}
}

func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		p, now int
		want   bool
	}{{300, 300, false}, {329, 300, false}, {331, 300, true}, {280, 300, false}, {270, 300, true}, {100, 105, true}, {105, 100, false}} {
		if got := differs(c.p, c.now); got != c.want {
			t.Errorf("%d after %d: %v", c.p, c.now, got)
		}
	}
}

// gogc is the setting that holds.
func gogc() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// waitGOGC collects until the setting is as wanted. What corrects it runs on a goroutine
// of its own, so that one collection need not do.
func waitGOGC(t *testing.T, ok func(int) bool) {
	t.Helper()
	for range 20_000 {
		if ok(gogc()) {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatalf("GOGC stays %d", gogc())
}

// TestTuneFollowsTheHeap has a small heap, then a large one, then a small one again.
func TestTuneFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	before := gogc()
	undo := Tune(TuneOptions{HeapFloor: 512 << 20})
	waitGOGC(t, func(p int) bool { return p > 120 })
	much := make([]byte, 300<<20)
	waitGOGC(t, func(p int) bool { return p == fullGOGC })
	runtime.KeepAlive(much)
	waitGOGC(t, func(p int) bool { return p > 120 })
	undo()
	undo()
	if got := gogc(); got != before {
		t.Errorf("GOGC is %d when it is undone, was %d", got, before)
	}
	runtime.GC() // the cleanup that still waits changes nothing
	runtime.GC()
	if got := gogc(); got != before {
		t.Errorf("GOGC is %d a collection later, was %d", got, before)
	}
}

func TestTuneLeavesTheOperatorsSettings(t *testing.T) {
	t.Setenv("GOGC", "250")
	t.Setenv("GOMAXPROCS", "7")
	before := debug.SetGCPercent(250)
	defer debug.SetGCPercent(before)
	procs := runtime.GOMAXPROCS(0)
	defer Tune(TuneOptions{Disk: true})()
	if p, n := gogc(), runtime.GOMAXPROCS(0); p != 250 || n != procs {
		t.Errorf("GOGC %d, GOMAXPROCS %d; want 250 and %d", p, n, procs)
	}
}

func TestTuneGivesTheDiskAProcessor(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	procs := runtime.GOMAXPROCS(0)
	undo := Tune(TuneOptions{HeapFloor: -1, Disk: true})
	if got := runtime.GOMAXPROCS(0); got != procs+1 {
		t.Errorf("%d processors, want %d", got, procs+1)
	}
	undo()
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("%d processors when it is undone, want %d", got, procs)
	}
	Tune(TuneOptions{HeapFloor: -1})()
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("%d processors without a disk, want %d", got, procs)
	}
}
