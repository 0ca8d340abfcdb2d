package workload

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is one submit: when it is due, from the begin of the load, and of which job.
type Arrival struct {
	At  time.Duration
	Job int       // index in Workload.Jobs
	Cut []float64 // of a reader that reconnects: where its stream is cut, as parts of the answer, rising
}

// Rand returns the random source of a purpose and a number: draws for one submit do not depend
// on what other submits drew.
func (w *Workload) Rand(purpose string, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(w.Seed, h.Sum64()+uint64(n)*0x9e3779b97f4a7c15))
}

// Schedule returns all arrivals, in order of time.
func (w *Workload) Schedule() []Arrival {
	r := w.Rand("arrivals", 0)
	total := 0.0
	for _, j := range w.Jobs {
		total += j.Weight
	}
	var all []Arrival
	passed := 0.0 // expected number of arrivals so far
	for len(all) < MaxSubmits {
		step := 1.0
		if w.Arrivals.Process == Poisson {
			step = r.ExpFloat64()
		}
		passed += step
		at := w.Arrivals.when(passed)
		if at >= time.Duration(w.Arrivals.For) {
			return all
		}
		a := Arrival{At: at}
		pick := r.Float64() * total
		for i, j := range w.Jobs {
			a.Job = i
			if pick -= j.Weight; pick < 0 {
				break
			}
		}
		if j := w.Jobs[a.Job]; j.Reader == Reconnect {
			// Evenly spread with a jitter, so that no cut comes before the one before it.
			for c := range j.Cuts {
				a.Cut = append(a.Cut, (float64(c)+r.Float64())/float64(j.Cuts))
			}
		}
		all = append(all, a)
	}
	return all
}

// when is the time at which so many arrivals are expected.
func (a Arrivals) when(n float64) time.Duration {
	ramp := time.Duration(a.Ramp).Seconds()
	inRamp := a.Rate * ramp / 2
	var seconds float64
	if n < inRamp {
		seconds = math.Sqrt(2 * n * ramp / a.Rate)
	} else {
		seconds = ramp + (n-inRamp)/a.Rate
	}
	if seconds > MaxFor.Seconds() {
		return MaxFor
	}
	return time.Duration(seconds * float64(time.Second))
}

// Expected is the number of arrivals that the rate gives on average.
func (a Arrivals) Expected() float64 {
	return a.Rate * (time.Duration(a.For).Seconds() - time.Duration(a.Ramp).Seconds()/2)
}
