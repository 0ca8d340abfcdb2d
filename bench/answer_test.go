package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
)

// BenchmarkText_64ConcurrentRuns has 64 sessions run one turn each at once, again and again. In
// every other round those who submitted wait by Run.Decision, in the others by Run.Text. It
// reports the median round of both, for each of its 64 runs, and the median of what a round
// with Text took more than the one before it.
func BenchmarkText_64ConcurrentRuns(b *testing.B) {
	for _, store := range []string{"memory", "sqlite"} {
		b.Run("journal="+store, func(b *testing.B) {
			const sessions = 64
			model, err := scripted.Parse("bench.jsonl", []byte(`{"match":{"contains":"hello"},"chunks":[{"text":"Hello, Ada. There is rope in the shed."}]}`))
			if err != nil {
				b.Fatal(err)
			}
			cfg := stile.Config{InMemory: true}
			if store == "sqlite" {
				cfg = stile.Config{Dir: b.TempDir()}
			}
			m := manifest.Default("plain")
			m.Name, m.Memory.HistoryWindow = "bench", 4 // so that all rounds are alike
			agent := &stile.Agent{Manifest: m, Model: model}
			rt, first := open(b, cfg, agent, "s0")
			all := []*stile.Session{first}
			for n := 1; n < sessions; n++ {
				s, err := rt.Open(context.Background(), fmt.Sprintf("s%d", n), agent)
				if err != nil {
					b.Fatal(err)
				}
				all = append(all, s)
			}
			round := func(wait func(*stile.Run) (string, error), want string) time.Duration {
				began := time.Now()
				var group sync.WaitGroup
				for _, s := range all {
					group.Go(func() {
						run, err := s.Submit(context.Background(), "hello")
						if err != nil {
							b.Error(err)
							return
						}
						if got, err := wait(run); err != nil || got != want {
							b.Errorf("%q, %v", got, err)
						}
					})
				}
				group.Wait()
				return time.Since(began)
			}
			decision := func(r *stile.Run) (string, error) {
				o, err := r.Decision(context.Background())
				return string(o.Decision), err
			}
			text := func(r *stile.Run) (string, error) { return r.Text(context.Background()) }
			var decisions, texts, more []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				d, t := round(decision, "DONE"), round(text, "Hello, Ada. There is rope in the shed.")
				decisions, texts, more = append(decisions, d), append(texts, t), append(more, t-d)
			}
			for unit, of := range map[string][]time.Duration{"µs/decision": decisions, "µs/text": texts, "µs-more": more} {
				slices.Sort(of)
				b.ReportMetric(float64(of[len(of)/2].Nanoseconds())/1e3/sessions, unit)
			}
		})
	}
}
