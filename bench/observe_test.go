package bench

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// What a host process observes: all of it, or nothing that comes with a request, record, call or
// commit. Without the variable it is as the other benchmarks have it: metrics, and no log.
const (
	observeEnv = "STILE_BENCH_OBSERVE"
	observeAll = "all"
	observeNot = "not"
)

const (
	observeRounds   = 9
	observeRuns     = 3000 // a round, of each host
	observeSlices   = 60   // of a round, by turns
	observeSessions = 64
	observeIdle     = 20 * time.Second
)

// BenchmarkHost_Observed is the processor time that metrics and the log of a host cost: two hosts, one of
// which counts and logs nothing, take the same runs by turns, and the one that counts is scraped once a round.
// Then both have nothing to do. Reported are medians of the rounds.
func BenchmarkHost_Observed(b *testing.B) {
	for range b.N {
		hosts := [2]*hostOf{startHost(b, observeEnv+"="+observeAll), startHost(b, observeEnv+"="+observeNot)}
		for _, h := range hosts {
			h.sessions(observeSessions, "atonce")
			h.answer(observeRuns) // warm
		}
		var took [2][]float64
		var more []float64
		for round := range observeRounds {
			var before, used [2]time.Duration
			for i, h := range hosts {
				before[i], _ = h.cpu()
			}
			for slice := range observeSlices { // what else the machine does concerns both alike
				hosts[(round+slice)%2].answer(observeRuns / observeSlices)
				hosts[(round+slice+1)%2].answer(observeRuns / observeSlices)
			}
			hosts[0].scrape()
			for i, h := range hosts {
				after, _ := h.cpu()
				used[i] = after - before[i]
				took[i] = append(took[i], float64(used[i].Microseconds())/observeRuns)
			}
			more = append(more, 100*(float64(used[0])/float64(used[1])-1))
			b.Logf("round %d: %.0f us a run, %.0f without", round+1, took[0][round], took[1][round])
		}
		var idle [2]time.Duration
		for i, h := range hosts {
			idle[i], _ = h.cpu()
		}
		time.Sleep(observeIdle)
		for i, h := range hosts {
			now, _ := h.cpu()
			idle[i] = now - idle[i]
		}
		median := func(all []float64) float64 {
			slices.Sort(all)
			return all[len(all)/2]
		}
		b.ReportMetric(median(took[0]), "us-cpu/run")
		b.ReportMetric(median(took[1]), "us-cpu/run-unobserved")
		b.ReportMetric(median(more), "%-more")
		b.ReportMetric(float64(idle[0].Milliseconds())/observeIdle.Seconds(), "idle-ms-cpu/s")
		b.ReportMetric(float64(idle[1].Milliseconds())/observeIdle.Seconds(), "idle-ms-cpu/s-unobserved")
	}
}

// answer has so many runs done, each followed to its end.
func (h *hostOf) answer(runs int) {
	each(runs, 8, func(i int) {
		status, body, _, err := h.post(fmt.Sprintf("/v1/sessions/s%d/runs?stream=token", i%observeSessions), `{"input":"go"}`)
		if err != nil || status != http.StatusOK {
			h.b.Errorf("%d %s, %v", status, body, err)
		}
	})
	if h.b.Failed() {
		h.b.FailNow()
	}
}

func (h *hostOf) scrape() {
	res, err := h.client.Get("http://" + h.addr + "/metrics")
	if err != nil {
		h.b.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n < 1000 {
		h.b.Fatal(n, err)
	}
}
