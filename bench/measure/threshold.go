package measure

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Threshold is a bound on what a load finds, such as p99(end) < 50ms.
type Threshold struct {
	Text string
	// Of is the measured time, or a metric: see Metrics.
	Of string
	// Percentile of a time: 0 to 100, or -1 for its mean, 101 for its maximum.
	Percentile float64
	Op         string
	Value      float64 // of times in microseconds
}

// Metrics are the names beside times that a threshold may have.
var Metrics = []string{"throughput", "errors", "refused", "halts", "different", "cpu_us", "rss", "commits"}

var thresholdForm = regexp.MustCompile(`^\s*(?:(p[0-9]{1,2}(?:\.[0-9]{1,3})?|mean|max)\(([a-z]+)\)|([a-z_]+))\s*(<=|>=|<|>)\s*([0-9.]+)\s*(ns|us|µs|ms|s|m|%|KB|MB|GB)?\s*$`)

// ThresholdHelp says what a threshold looks like.
const ThresholdHelp = "want such as p99(end) < 50ms, mean(first) <= 200ms, throughput >= 100, errors <= 0.1%, refused <= 0, halts <= 0, different <= 0, cpu_us < 500, rss < 200MB, commits <= 3"

// ParseThreshold reads a threshold. The error is ERR_INVALID, field threshold.
func ParseThreshold(text string) (Threshold, error) {
	bad := func(format string, args ...any) (Threshold, error) {
		return Threshold{}, &messages.Error{Code: messages.ErrInvalid, Field: "threshold", Detail: fmt.Sprintf("%q: ", text) + fmt.Sprintf(format, args...)}
	}
	m := thresholdForm.FindStringSubmatch(text)
	if m == nil {
		return bad("%s", ThresholdHelp)
	}
	t := Threshold{Text: strings.TrimSpace(text), Op: m[4]}
	v, err := strconv.ParseFloat(m[5], 64)
	if err != nil {
		return bad("%s is no number", m[5])
	}
	unit := m[6]
	if m[1] != "" {
		t.Of = m[2]
		if !has(Names, t.Of) {
			return bad("there is no time %s; there are %s", t.Of, strings.Join(Names, ", "))
		}
		switch m[1] {
		case "mean":
			t.Percentile = -1
		case "max":
			t.Percentile = 101
		default:
			t.Percentile, _ = strconv.ParseFloat(m[1][1:], 64)
		}
		d, err := time.ParseDuration(m[5] + unit)
		if err != nil {
			return bad("a time has a unit: us, ms or s")
		}
		t.Value = float64(d) / float64(time.Microsecond)
		return t, nil
	}
	t.Of = m[3]
	if !has(Metrics, t.Of) {
		return bad("there is no metric %s; there are %s", t.Of, strings.Join(Metrics, ", "))
	}
	scale, known := map[string]float64{"": 1, "%": 0.01, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
	if !known {
		return bad("%s has no unit %s", t.Of, unit)
	}
	t.Value = v * scale
	return t, nil
}

func has(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

// Verdict is a threshold and what came of it.
type Verdict struct {
	Threshold string  `json:"threshold"`
	Found     float64 `json:"found"`
	Holds     bool    `json:"holds"`
	// Unknown says that the target does not tell, or that nothing was measured. It does not hold then.
	Unknown bool `json:"unknown,omitempty"`
}

// Judge compares a result with thresholds.
func (r *Result) Judge(all []Threshold) (verdicts []Verdict) {
	for _, t := range all {
		found, known := r.find(t)
		v := Verdict{Threshold: t.Text, Found: found, Unknown: !known}
		if known {
			switch t.Op {
			case "<":
				v.Holds = found < t.Value
			case "<=":
				v.Holds = found <= t.Value
			case ">":
				v.Holds = found > t.Value
			case ">=":
				v.Holds = found >= t.Value
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// find is what a threshold compares, and whether it is known.
func (r *Result) find(t Threshold) (v float64, known bool) {
	var planned, ended, halts, different int64
	var seconds float64
	u, some := Usage{}, true
	for i := range r.Rounds {
		round := &r.Rounds[i]
		planned += round.Planned
		ended += round.Fates[Ended]
		different += round.Streams.Different
		seconds += round.Seconds
		for why, n := range round.Why[Ended] {
			if strings.HasPrefix(why, string(messages.Halt)) {
				halts += n
			}
		}
		u.CPUMicros += round.Usage.CPUMicros
		u.Commits += round.Usage.Commits
		u.RSS = max(u.RSS, round.Usage.PeakRSS)
		switch t.Of {
		case "cpu_us":
			some = some && round.Usage.CPUMicros >= 0
		case "commits":
			some = some && round.Usage.Commits >= 0
		case "rss":
			some = some && round.Usage.PeakRSS >= 0
		}
	}
	each := func(sum int64) (float64, bool) { return float64(sum) / float64(max(ended, 1)), some && ended > 0 }
	switch t.Of {
	case "throughput":
		return float64(ended) / max(seconds, 1e-9), seconds > 0
	case "errors":
		bad := r.Fate(Failed) + r.Fate(TimedOut) + r.Fate(Dropped)
		return float64(bad) / float64(max(planned, 1)), planned > 0
	case "refused":
		return float64(r.Fate(Refused)) / float64(max(planned, 1)), planned > 0
	case "halts":
		return float64(halts) / float64(max(planned, 1)), planned > 0
	case "different":
		return float64(different), true
	case "cpu_us":
		return each(u.CPUMicros)
	case "commits":
		return each(u.Commits)
	case "rss":
		return float64(u.RSS), some
	}
	all := r.Histogram(t.Of)
	if all.TotalCount() == 0 {
		return 0, false
	}
	switch {
	case t.Percentile < 0:
		return all.Mean(), true
	case t.Percentile > 100:
		return float64(all.Max()), true
	}
	return float64(all.ValueAtPercentile(t.Percentile)), true
}
