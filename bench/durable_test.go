package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
)

// BenchmarkDurableTurns_SQLite_64Sessions runs AEIOU turns in 64 sessions at once,
// each acknowledged after fsync. records/turn and commits/turn say what it cost the
// journal. The process is set up as a host's (host.Tune). Beside it: the cryptography
// alone on both cores, and the same batches appended by sessions that do nothing else.
func BenchmarkDurableTurns_SQLite_64Sessions(b *testing.B) {
	b.Run("floor=2sign+1verify/parallel", func(b *testing.B) {
		pub, priv, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		b.RunParallel(func(pb *testing.PB) {
			msg := make([]byte, 300)
			for pb.Next() {
				floorTurn(pub, priv, msg)
			}
		})
	})
	const sessions = 64
	b.Run("store alone", func(b *testing.B) { storeAlone(b, sessions) })
	b.Run("turns", func(b *testing.B) {
		defer tuned()()
		ctx := context.Background()
		rt, err := stile.New(ctx, stile.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer rt.Close(ctx)
		agent := &stile.Agent{Dialect: "aeiou", Model: script(b, doneProgram)}
		var all [sessions]*stile.Session
		for i := range all {
			if all[i], err = rt.Open(ctx, fmt.Sprintf("durable-%02d", i), agent); err != nil {
				b.Fatal(err)
			}
		}
		for _, s := range all { // the first turn of each warms caches and pools
			oneTurn(b, s, "hello")
		}
		cpu := cpuTime()
		commits, records := rt.Journal().Commits.Load(), rt.Journal().Records.Load()
		var left atomic.Int64
		left.Store(int64(b.N))
		b.ReportAllocs()
		b.ResetTimer()
		var wg sync.WaitGroup
		for _, s := range all {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					oneTurn(b, s, "hello")
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		n := float64(b.N)
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/n, "cpu-us/turn")
		b.ReportMetric(n/b.Elapsed().Seconds(), "turns/s")
		b.ReportMetric(float64(rt.Journal().Commits.Load()-commits)/n, "commits/turn")
		b.ReportMetric(float64(rt.Journal().Records.Load()-records)/n, "records/turn")
	})
}
