package measure

import (
	"cmp"
	"math"
	"slices"
)

// Row is one line of a comparison: the medians over the rounds of both results.
type Row struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
	// Change is B against A: 0.1 is 10 % more. NaN and infinity do not occur: it is 0 where A is 0.
	Change float64 `json:"change"`
	// P is the probability that rounds of one and the same target differ that much (Mann-Whitney,
	// two-sided, exact). It is 1 where there are too few rounds to tell.
	P float64 `json:"p"`
}

// Alpha is the probability below which a difference is called significant.
const Alpha = 0.05

// Significant reports whether the difference is one.
func (r Row) Significant() bool { return r.P < Alpha && r.A != r.B }

// Compare compares two results, round by round. With fewer than four rounds of each no difference
// can be significant.
func Compare(a, b *Result) (rows []Row) {
	each := func(name, unit string, of func(*Round) (float64, bool)) {
		x, y := values(a, of), values(b, of)
		if len(x) == 0 || len(y) == 0 {
			return
		}
		row := Row{Name: name, Unit: unit, A: median(x), B: median(y), P: mannWhitney(x, y)}
		if row.A != 0 {
			row.Change = row.B/row.A - 1
		}
		rows = append(rows, row)
	}
	each("throughput", "runs/s", func(r *Round) (float64, bool) { return float64(r.Fates[Ended]) / max(r.Seconds, 1e-9), true })
	for _, name := range Names {
		for _, p := range []struct {
			name string
			of   func(Times) int64
		}{{"p50", func(t Times) int64 { return t.P50 }}, {"p99", func(t Times) int64 { return t.P99 }}} {
			each(p.name+"("+name+")", "us", func(r *Round) (float64, bool) {
				t := r.Times[name]
				return float64(p.of(t)), t.Count > 0
			})
		}
	}
	perRun := func(of func(Usage) int64) func(*Round) (float64, bool) {
		return func(r *Round) (float64, bool) {
			n := r.Fates[Ended]
			return float64(of(r.Usage)) / float64(max(n, 1)), n > 0 && of(r.Usage) >= 0
		}
	}
	each("cpu", "us/run", perRun(func(u Usage) int64 { return u.CPUMicros }))
	each("commits", "/run", perRun(func(u Usage) int64 { return u.Commits }))
	each("fsyncs", "/run", perRun(func(u Usage) int64 { return u.Fsyncs }))
	each("peak rss", "bytes", func(r *Round) (float64, bool) { return float64(r.Usage.PeakRSS), r.Usage.PeakRSS >= 0 })
	return rows
}

func values(r *Result, of func(*Round) (float64, bool)) (all []float64) {
	for i := range r.Rounds {
		if v, ok := of(&r.Rounds[i]); ok {
			all = append(all, v)
		}
	}
	return all
}

func median(all []float64) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	n := len(all)
	if n%2 == 1 {
		return all[n/2]
	}
	return (all[n/2-1] + all[n/2]) / 2
}

// mannWhitney is the two-sided probability of ranks at least as far apart, if x and y come from one
// distribution: exact for up to 20 values of each, else by the normal approximation. Equal values
// share their ranks.
func mannWhitney(x, y []float64) float64 {
	n, m := len(x), len(y)
	if n == 0 || m == 0 {
		return 1
	}
	type value struct {
		v     float64
		fromX bool
	}
	all := make([]value, 0, n+m)
	for _, v := range x {
		all = append(all, value{v, true})
	}
	for _, v := range y {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	// Ranks are doubled, so that shared ones are whole numbers.
	ranks := make([]int, len(all))
	sum := 0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j
			if all[k].fromX {
				sum += ranks[k]
			}
		}
		i = j
	}
	middle := n * (n + m + 1) // the doubled sum's expectation
	far := abs(sum - middle)
	if far == 0 {
		return 1
	}
	if n > 20 || m > 20 {
		sd := 2 * math.Sqrt(float64(n*m*(n+m+1))/12)
		return math.Erfc(float64(far) / sd / math.Sqrt2)
	}
	// ways[k][s]: how many choices of k ranks have the doubled sum s.
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	var as, every float64
	for s, w := range ways[n] {
		every += w
		if abs(s-middle) >= far {
			as += w
		}
	}
	return as / every
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
