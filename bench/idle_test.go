package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
)

const idleSessions = 100_000

// heap is what is alive on the heap.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first one may only have queued finalizers and emptied pools once
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkIdle_100000Sessions is what a session costs that has had one AEIOU turn
// (so its replay set holds a token) and then has nothing to do: heap bytes alive after
// a forced collection, above the same process without sessions. The
// journal is SQLite, so that records do not count.
func BenchmarkIdle_100000Sessions(b *testing.B) {
	for _, c := range []struct {
		name string
		idle time.Duration
	}{{"awake", -1}, {"passivated", 3 * time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				measureIdle(b, c.idle)
			}
		})
	}
}

func measureIdle(b *testing.B, idle time.Duration) {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{Dir: b.TempDir(), IdleTimeout: idle})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "aeiou", Model: script(b, doneProgram)}
	warm, err := rt.Open(ctx, "warm", agent)
	if err != nil {
		b.Fatal(err)
	}
	oneTurn(b, warm, "hello")
	base := heap()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 128 {
		wg.Go(func() {
			for i := range next {
				s, err := rt.Open(ctx, fmt.Sprintf("idle-%06d", i), agent)
				if err != nil {
					b.Error(err)
					return
				}
				oneTurn(b, s, "hello")
			}
		})
	}
	for i := range idleSessions {
		next <- i
	}
	close(next)
	wg.Wait()
	awake := rt.SessionsInMemory()
	if idle > 0 {
		awake = 0
		for rt.SessionsInMemory() > 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	b.ReportMetric(float64(heap()-base)/idleSessions, "B/session")
	b.ReportMetric(float64(awake), "awake")
}
