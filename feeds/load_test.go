//go:build unix

package feeds

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// noop is a fetcher that gives the same value at once.
type noop struct{ n atomic.Int64 }

// Fetch implements Fetcher.
func (f *noop) Fetch(context.Context, Source) (string, error) {
	f.n.Add(1)
	return "1", nil
}

// BenchmarkKeeper100000PeriodicFeedsAt1s keeps 100,000 feeds, four in each of 25,000
// sessions, every one due each second, with a fetch that does nothing: what a keeper
// itself costs. %core is processor time, all of the process, by wall time; B/feed the
// heap that the feeds take, values included. An op is a second.
func BenchmarkKeeper100000PeriodicFeedsAt1s(b *testing.B) {
	sessions, names := benchNames()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	k, err := newHost(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	specs := make([]Spec, len(names))
	one := int64(1)
	for i, name := range names {
		specs[i] = Spec{ID: name, Type: "periodic", Interval: &one, Source: SourceSpec{Type: "tool", Name: "noop"}}
	}
	set, err := NewSet(specs, Rules{})
	if err != nil {
		b.Fatal(err)
	}
	f := &noop{}
	for i, s := range sessions {
		k.Sync(Session{Key: s, Fetcher: f}, set)
		if i%250 == 249 {
			time.Sleep(10 * time.Millisecond) // evenly over a second, as sessions wake
		}
	}
	time.Sleep(2 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	n, used := f.n.Load(), processorTime(b)
	began := time.Now()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	took := time.Since(began)
	b.ReportMetric(100*float64(processorTime(b)-used)/float64(took), "%core")
	b.ReportMetric(float64(f.n.Load()-n)/took.Seconds(), "fetches/s")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/benchFeeds, "B/feed")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
