// Package growth is the host's own and no part of the public API: it may change in any release.
//
// It measures how the cost of a run grows with the length of its session, and what sessions cost
// that are only there (docs/bench.md).
package growth

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/bench/workload"
)

// Length is what runs cost at a length of their session.
type Length struct {
	Runs int `json:"runs"` // in the session before
	// Of the runs from there to the next row: the median time, and the mean of processor time,
	// of the journal's growth and of what the heap took.
	P50Micros float64 `json:"p50_us"`
	CPUMicros float64 `json:"cpu_us"`
	Journal   float64 `json:"journal_bytes"`
	Allocated float64 `json:"allocated_bytes"`
}

// Count is what sessions cost that are there.
type Count struct {
	Sessions  int     `json:"sessions"`
	P50Micros float64 `json:"p50_us"` // of the first run of a session
	// Heap is what is live for each session that is awake, in bytes, and Journal what the journal
	// has of it.
	Heap    float64 `json:"heap_bytes_each"`
	Journal float64 `json:"journal_bytes_each"`
}

// Report is both.
type Report struct {
	Lengths []Length `json:"lengths"`
	// Exponent says that the processor time of a run grows with the length to this power: 0 is
	// not at all, 1 is in proportion.
	Exponent float64 `json:"exponent"`
	Counts   []Count `json:"counts"`
	Partial  bool    `json:"partial,omitempty"`
}

// Measure runs so many runs in one session, and one run in each of so many sessions.
func Measure(ctx context.Context, w *workload.Workload, rt *stile.Runtime, agent *stile.Agent, runs, sessions int) (r Report, err error) {
	job := w.Jobs[0]
	s, err := rt.Open(ctx, "growth-length", agent)
	if err != nil {
		return r, err
	}
	one := func(s *stile.Session, n int) (time.Duration, error) {
		begun := time.Now()
		run, err := s.Submit(ctx, workload.Input(n, job))
		if err != nil {
			return 0, err
		}
		o, err := run.Decision(ctx)
		if err == nil {
			err = o.Err()
		}
		return time.Since(begun), err
	}
	// A first run pays for what is made once.
	warm, err := rt.Open(ctx, "growth-warm", agent)
	if err != nil {
		return r, err
	}
	if _, err := one(warm, 0); err != nil {
		return r, stopped(ctx, &r, err)
	}
	live, bytes := liveBytes(), rt.Journal().Bytes.Load()
	var times []float64
	for n := 0; n < sessions; {
		for upTo := min(max(10*n, 100), sessions); n < upTo; n++ {
			s, err := rt.Open(ctx, fmt.Sprintf("growth-%d", n), agent)
			if err != nil {
				return r, stopped(ctx, &r, err)
			}
			took, err := one(s, n)
			if err != nil {
				return r, stopped(ctx, &r, err)
			}
			times = append(times, float64(took.Nanoseconds())/1000)
		}
		r.Counts = append(r.Counts, Count{
			Sessions: n, P50Micros: middle(times),
			Heap: float64(liveBytes()-live) / float64(n), Journal: float64(rt.Journal().Bytes.Load()-bytes) / float64(n),
		})
		times = times[:0]
	}
	for n := 0; n < runs; {
		upTo := min(max(2*n, n+8), runs)
		row, begun := Length{Runs: n}, n
		times := make([]float64, 0, upTo-n)
		before, bytes, allocated := process.Own(), rt.Journal().Bytes.Load(), allocatedBytes()
		for ; n < upTo; n++ {
			took, err := one(s, n)
			if err != nil {
				return r, stopped(ctx, &r, err)
			}
			times = append(times, float64(took.Nanoseconds())/1000)
		}
		each := float64(n - begun)
		row.P50Micros = middle(times)
		row.CPUMicros = float64(process.Own().CPUMicros-before.CPUMicros) / each
		row.Journal = float64(rt.Journal().Bytes.Load()-bytes) / each
		row.Allocated = float64(allocatedBytes()-allocated) / each
		r.Lengths = append(r.Lengths, row)
	}
	r.Exponent = exponent(r.Lengths)
	return r, nil
}

// stopped keeps what was measured when the caller ended it.
func stopped(ctx context.Context, r *Report, err error) error {
	if ctx.Err() != nil {
		r.Partial = true
		r.Exponent = exponent(r.Lengths)
		return nil
	}
	return err
}

func allocatedBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// liveBytes is the heap after a collection.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// exponent is the slope of the logarithms of processor time over length, by least squares.
func exponent(all []Length) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, l := range all {
		if l.Runs == 0 || l.CPUMicros <= 0 {
			continue
		}
		x, y := math.Log(float64(l.Runs)), math.Log(l.CPUMicros)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; n > 1 && d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
