package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// BenchmarkBatch_Cogency_3ShellCalls_400ms is a run of two turns: one batch of calls that
// each take 0.4 s in a confined program of its own, and the answer. side=3 must be nearer
// to side=1 than to three times as much. floor starts the three programs and does
// nothing else.
func BenchmarkBatch_Cogency_3ShellCalls_400ms(b *testing.B) {
	b.Run("floor=3exec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if err := exec.Command("sleep", "0.4").Run(); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
		}
	})
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("side=%d", n), func(b *testing.B) {
			const call = `{"name":"shell","args":{"command":"sleep 0.4"}}`
			batch := "<execute>[" + strings.TrimSuffix(strings.Repeat(call+",", n), ",") + "]</execute>"
			model, err := scripted.Parse("bench.jsonl", fmt.Appendf(nil, "{\"match\":{\"contains\":\"<results>\"},\"chunks\":[{\"text\":\"Done.<end>\"}]}\n{\"match\":{\"contains\":\"go\"},\"chunks\":[{\"text\":%q}]}\n", batch))
			if err != nil {
				b.Fatal(err)
			}
			m := manifest.Default("cogency")
			m.Import.Tools = []string{"shell"}
			m.Approval.Tools = map[string]messages.GateAnswer{"shell": messages.GateApprove}
			if confine.Probe().Err() != nil {
				m.Shell.Isolation = "none"
				b.Log("not confined: ", confine.Probe().Err())
			}
			_, s := open(b, stile.Config{InMemory: true}, &stile.Agent{Manifest: m, Dir: b.TempDir(), Model: model}, "batch")
			b.ReportAllocs()
			var longest time.Duration
			for b.Loop() {
				began := time.Now()
				run, err := s.Submit(context.Background(), "go")
				if err != nil {
					b.Fatal(err)
				}
				if o, err := run.Decision(context.Background()); err != nil || o.Decision != stile.Done || o.Turns != 2 {
					b.Fatalf("%+v %v", o, err)
				}
				longest = max(longest, time.Since(began))
			}
			b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
		})
	}
}
