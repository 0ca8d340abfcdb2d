package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the result of an attempt.
type State string

// The states of an attempt.
const (
	Passed State = "passed"
	Failed State = "failed"
	Broken State = "error"   // it could not be run
	NotRun State = "not_run" // the budget was spent, or the evaluation was stopped
)

// Attempt is one run of one agent on one case.
type Attempt struct {
	Agent    string   `json:"agent"` // its label
	Case     string   `json:"case"`
	N        int      `json:"n"` // from 1
	SID      string   `json:"sid"`
	State    State    `json:"state"`
	Failures []string `json:"failures,omitempty"`
	Decision string   `json:"decision,omitempty"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	CostUSD  int64    `json:"cost_micro_usd"`
	MS       int64    `json:"ms"`
	Refused  int64    `json:"refused_calls,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

// Sums are the totals over the attempts of an agent. Rates are of the attempts that were run.
type Sums struct {
	Agent    string `json:"agent"`
	Attempts int    `json:"attempts"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	Broken   int    `json:"errors"`
	NotRun   int    `json:"not_run"`
	// Rate is the share that passed; Low and High are its Wilson interval at 95 %.
	Rate float64 `json:"pass"`
	Low  float64 `json:"pass_low"`
	High float64 `json:"pass_high"`
	// Mixed counts the cases with attempts that passed and attempts that did not.
	Mixed   int     `json:"mixed_cases"`
	Tokens  float64 `json:"tokens_mean"` // in and out, of an attempt
	CostUSD int64   `json:"cost_micro_usd"`
	P50     int64   `json:"p50_ms"`
	P90     int64   `json:"p90_ms"`
	Refused int64   `json:"refused_calls"`
}

// Report is the result of an evaluation.
type Report struct {
	Run      string    `json:"run"`
	Agents   []Sums    `json:"agents"`
	Tags     []TagSums `json:"tags,omitempty"`
	Versus   *Versus   `json:"versus,omitempty"`
	Attempts []Attempt `json:"attempts"`
}

// TagSums are the sums of one agent over the cases of a tag.
type TagSums struct {
	Tag string `json:"tag"`
	Sums
}

// Versus compares the first agent with the second, case by case: a case counts for an agent if
// most of its attempts passed.
type Versus struct {
	Better int `json:"better"` // cases of the first alone
	Worse  int `json:"worse"`  // of the second alone
	Same   int `json:"same"`
	// P is the probability of such a difference if both agents are equal (McNemar's exact
	// test).
	P float64 `json:"p"`
}

// Make returns the report of attempts; agents are the labels in their order. The first agent is
// the one that thresholds are for.
func Make(run string, agents []string, attempts []Attempt) Report {
	r := Report{Run: run, Attempts: attempts}
	tags := map[string]bool{}
	for _, a := range attempts {
		for _, t := range a.Tags {
			tags[t] = true
		}
	}
	var names []string
	for t := range tags {
		names = append(names, t)
	}
	slices.Sort(names)
	for _, agent := range agents {
		r.Agents = append(r.Agents, sumsOf(agent, attempts, ""))
	}
	for _, t := range names {
		for _, agent := range agents {
			r.Tags = append(r.Tags, TagSums{t, sumsOf(agent, attempts, t)})
		}
	}
	if len(agents) == 2 {
		r.Versus = versus(agents[1], attempts)
	}
	return r
}

func sumsOf(agent string, attempts []Attempt, tag string) Sums {
	s := Sums{Agent: agent}
	var ms []int64
	tokens := int64(0)
	of := map[string][2]int{} // attempts that passed and that did not, by case
	for i := range attempts {
		a := &attempts[i]
		if a.Agent != agent || tag != "" && !slices.Contains(a.Tags, tag) {
			continue
		}
		s.Attempts++
		n := of[a.Case]
		switch a.State {
		case Passed:
			s.Passed++
			n[0]++
		case Failed:
			s.Failed++
			n[1]++
		case Broken:
			s.Broken++
			n[1]++
		case NotRun:
			s.NotRun++
			continue
		}
		of[a.Case] = n
		tokens += a.Input + a.Output
		s.CostUSD += a.CostUSD
		s.Refused += a.Refused
		ms = append(ms, a.MS)
	}
	for _, n := range of {
		if n[0] > 0 && n[1] > 0 {
			s.Mixed++
		}
	}
	if ran := len(ms); ran > 0 {
		s.Rate = float64(s.Passed) / float64(ran)
		s.Low, s.High = wilson(s.Passed, ran)
		s.Tokens = float64(tokens) / float64(ran)
		slices.Sort(ms)
		s.P50, s.P90 = rank(ms, 0.5), rank(ms, 0.9)
	}
	return s
}

// rank returns the nearest-rank percentile of sorted values.
func rank(sorted []int64, q float64) int64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// wilson returns the Wilson interval of a rate at 95 %.
func wilson(passed, n int) (low, high float64) {
	const z = 1.959963984540054
	p, size := float64(passed)/float64(n), float64(n)
	mid := p + z*z/(2*size)
	half := z * math.Sqrt(p*(1-p)/size+z*z/(4*size*size))
	by := 1 + z*z/size
	return max(0, (mid-half)/by), min(1, (mid+half)/by)
}

// versus compares the second agent with the first, case by case.
func versus(second string, attempts []Attempt) *Versus {
	votes := map[string][2]int{} // of a case: for the first agent, for the second
	ran := map[string][2]bool{}
	for i := range attempts {
		t := &attempts[i]
		side := 0
		if t.Agent == second {
			side = 1
		}
		if t.State == NotRun {
			continue
		}
		v, r := votes[t.Case], ran[t.Case]
		r[side] = true
		if t.State == Passed {
			v[side]++
		} else {
			v[side]--
		}
		votes[t.Case], ran[t.Case] = v, r
	}
	v := &Versus{P: 1}
	for id, n := range votes {
		if r := ran[id]; !r[0] || !r[1] {
			continue
		}
		switch first, second := n[0] > 0, n[1] > 0; {
		case first == second:
			v.Same++
		case first:
			v.Better++
		default:
			v.Worse++
		}
	}
	// Of the cases that differ either is as likely where both agents are alike.
	n, k := v.Better+v.Worse, min(v.Better, v.Worse)
	if n > 0 {
		sum := 0.0
		for i := range k + 1 {
			sum += math.Exp(choose(n, i) - float64(n)*math.Ln2)
		}
		v.P = min(1, 2*sum)
	}
	return v
}

// choose returns the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	of := func(x int) float64 {
		v, _ := math.Lgamma(float64(x) + 1)
		return v
	}
	return of(n) - of(k) - of(n-k)
}

// Threshold is a condition on a metric of the first agent.
type Threshold struct {
	Metric string  `json:"metric"`
	Op     string  `json:"op"`
	Value  float64 `json:"value"`
}

// Metrics are the metrics of thresholds.
var Metrics = []string{"pass", "tokens", "cost_micro_usd", "p50", "p90", "refused"}

// ParseThreshold parses a threshold such as pass>=0.95, p90<=2s or cost_micro_usd<500000; ok is
// false for any other text.
func ParseThreshold(s string) (t Threshold, ok bool) {
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return t, false
	}
	t.Metric, t.Op = strings.TrimSpace(s[:at]), s[at:at+1]
	rest := s[at+1:]
	if strings.HasPrefix(rest, "=") {
		t.Op, rest = t.Op+"=", rest[1:]
	}
	rest = strings.TrimSpace(rest)
	if t.Metric == "p50" || t.Metric == "p90" {
		if d, err := time.ParseDuration(rest); err == nil {
			t.Value = float64(d.Milliseconds())
			return t, true
		}
	}
	v, err := strconv.ParseFloat(rest, 64)
	t.Value = v
	return t, err == nil && !math.IsNaN(v) && slices.Contains(Metrics, t.Metric)
}

// Holds reports whether an agent meets the threshold, and returns its value of the metric.
func (t *Threshold) Holds(s *Sums) (ok bool, has float64) {
	has = map[string]float64{
		"pass": s.Rate, "tokens": s.Tokens, "cost_micro_usd": float64(s.CostUSD), "p50": float64(s.P50), "p90": float64(s.P90), "refused": float64(s.Refused),
	}[t.Metric]
	c := cmp.Compare(has, t.Value)
	return c < 0 && t.Op[0] == '<' || c > 0 && t.Op[0] == '>' || c == 0 && len(t.Op) == 2, has
}

func (t *Threshold) String() string {
	return fmt.Sprintf("%s%s%s", t.Metric, t.Op, strconv.FormatFloat(t.Value, 'g', -1, 64))
}
