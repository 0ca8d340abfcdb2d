package measure

import (
	"math"
	"slices"
)

// Slope is how something changes over a long load.
type Slope struct {
	Name string `json:"name"`
	// From and To are the fitted values at the begin and the end of what was looked at.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Unit string  `json:"unit"`
	// P is the probability of such an order of values if there is no trend (Mann-Kendall).
	P float64 `json:"p"`
	// Grows says that the trend is significant and more than is allowed.
	Grows bool `json:"grows"`
	// Allowed is the growth that is passed over.
	Allowed float64 `json:"allowed"`
}

// MinSoak is the least number of seconds that slopes are made of.
const MinSoak = 20

// Slopes looks for what grows over a round: memory, goroutines, descriptors, latency, and disk a
// run. The first quarter is left out: caches and pools fill there. What grows by less than a tenth
// and a fixed amount is allowed. It returns nil for a round of less than MinSoak seconds behind that
// quarter.
//
// Fits are Theil and Sen's, which a few seconds out of line do not move.
func (r *Round) Slopes() (all []Slope) {
	series := r.Series
	// The last seconds have no arrivals any more.
	for len(series) > 0 && series[len(series)-1].Sent == 0 {
		series = series[:len(series)-1]
	}
	series = series[len(series)/4:]
	if len(series) < MinSoak {
		return nil
	}
	add := func(name, unit string, least float64, of func(i int) (float64, bool)) {
		var values []float64
		for i := range series {
			if v, ok := of(i); ok {
				values = append(values, v)
			}
		}
		if len(values) < MinSoak {
			return
		}
		slope, base := theilSen(values)
		s := Slope{Name: name, Unit: unit, From: base, To: base + slope*float64(len(values)-1), P: mannKendall(values)}
		s.Allowed = max(least, math.Abs(s.From)/10)
		s.Grows = s.P < 0.01 && s.To-s.From > s.Allowed
		all = append(all, s)
	}
	known := func(v int64) (float64, bool) { return float64(v), v > 0 }
	add("memory", "bytes", 16e6, func(i int) (float64, bool) {
		if series[i].Live > 0 { // memory that waits for a collection is no growth
			return known(series[i].Live)
		}
		return known(series[i].RSS)
	})
	add("goroutines", "", 50, func(i int) (float64, bool) { return known(series[i].Goroutines) })
	add("descriptors", "", 20, func(i int) (float64, bool) { return known(series[i].Descriptors) })
	add("p50(end)", "us", 1000, func(i int) (float64, bool) { return known(series[i].P50) })
	add("disk a run", "bytes", 1000, func(i int) (float64, bool) {
		// Over a part of the load: files grow by pieces, and a log is folded into its database.
		span := max(len(series)/5, 5)
		if i < span || series[i].Disk == 0 || series[i-span].Disk == 0 {
			return 0, false
		}
		var ended int64
		for _, s := range series[i-span+1 : i+1] {
			ended += s.Ended
		}
		return float64(series[i].Disk-series[i-span].Disk) / float64(max(ended, 1)), ended > 0
	})
	return all
}

// maxPairs bounds the values that slopes between pairs are made of: a day's load has 86,400.
const maxPairs = 1000

// theilSen is the median slope between all pairs, a step, and the fitted value at the first.
func theilSen(values []float64) (slope, base float64) {
	every := len(values)/maxPairs + 1
	var slopes []float64
	for i := 0; i < len(values); i += every {
		for j := i + every; j < len(values); j += every {
			slopes = append(slopes, (values[j]-values[i])/float64(j-i))
		}
	}
	if len(slopes) == 0 {
		return 0, median(values)
	}
	slope = median(slopes)
	rest := slices.Clone(values)
	for i := range rest {
		rest[i] -= slope * float64(i)
	}
	return slope, median(rest)
}

// mannKendall is the two-sided probability of such a trend among values without one, by the normal
// approximation, ties taken into account.
func mannKendall(values []float64) float64 {
	every := len(values)/maxPairs + 1
	var v []float64
	for i := 0; i < len(values); i += every {
		v = append(v, values[i])
	}
	s := 0
	for i := range v {
		for j := i + 1; j < len(v); j++ {
			switch {
			case v[j] > v[i]:
				s++
			case v[j] < v[i]:
				s--
			}
		}
	}
	n := float64(len(v))
	variance := n * (n - 1) * (2*n + 5)
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	variance /= 18
	if s == 0 || variance <= 0 {
		return 1
	}
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}
