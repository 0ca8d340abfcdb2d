package bench

import (
	"context"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
)

// BenchmarkWake_SQLite is what a request waits for when its session sleeps: the session is
// read back from SQLite, from its first record or from its snapshot, and what it goes on from
// is checked. The name says how many AEIOU turns it has had, records says how many records
// that are. The time of an operation is that of the request alone.
func BenchmarkWake_SQLite(b *testing.B) {
	for _, c := range []struct {
		name  string
		turns int
	}{{"turns=25", 25}, {"turns=100_snapshot", 100}, {"turns=500_snapshot", 500}} {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			rt, err := stile.New(ctx, stile.Config{Dir: b.TempDir(), IdleTimeout: 40 * time.Millisecond})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close(ctx)
			s, err := rt.Open(ctx, "s", &stile.Agent{Dialect: "aeiou", Model: script(b, doneProgram)})
			if err != nil {
				b.Fatal(err)
			}
			for range c.turns {
				oneTurn(b, s, "pay 100 to bob")
			}
			h, err := s.Head(ctx)
			if err != nil {
				b.Fatal(err)
			}
			asleep := func() {
				for rt.SessionsInMemory() > 0 {
					time.Sleep(5 * time.Millisecond)
				}
				time.Sleep(20 * time.Millisecond) // for the snapshot
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				asleep()
				b.StartTimer()
				if err := s.Wake(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(h.Seq), "records")
		})
	}
}
