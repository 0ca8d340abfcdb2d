package telemetry

import (
	"math"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HistoryEvery is how often Sample is to be called: the step of the finest ring.
const HistoryEvery = 10 * time.Second

// spans are the rings of a history: what they span, by the time between two points. Together they
// take some 200 KB, made with the first sample, however long the process lives.
var spans = []struct {
	name   string
	step   time.Duration
	points int
}{
	{"hour", HistoryEvery, 360},
	{"day", 2 * time.Minute, 720},
	{"week", 15 * time.Minute, 672},
}

// Spans are the names that History takes.
func Spans() (names []string) {
	for _, s := range spans {
		names = append(names, s.name)
	}
	return names
}

// measure is a series of a history, and how it comes of the metrics.
type measure struct {
	name, unit, doc string
	how             how
	family          string // of metrics; "" for what Go's runtime says
	// label and values select among the children of a family; without a label all count.
	label    string
	values   []string
	unlike   bool    // those with other values count
	quantile float64 // of quantiles
}

// how a point comes of the readings at its two ends.
type how int

const (
	level    how = iota // the highest reading since the point before
	rate                // what was added, by the second
	quantile            // that of what was observed in between; nothing where nothing was
)

// Units of series.
const (
	perSecond = "1/s"
	seconds   = "s"
	inBytes   = "bytes"
	number    = ""
)

// measures are all series. Their families are those of /metrics: a chart and a scrape tell the same.
var measures = []measure{
	{name: "turns", unit: perSecond, doc: "turns decided", how: rate, family: "turn_seconds"},
	{name: "runs", unit: perSecond, doc: "runs that have ended", how: rate, family: "runs_total"},
	{name: "turns_in_flight", unit: number, doc: "turns begun and not decided", how: level, family: "turns_in_flight"},
	{name: "sessions_awake", unit: number, doc: "sessions awake", how: level, family: "sessions"},
	{name: "streams", unit: number, doc: "streams that are open", how: level, family: "http_streams"},
	{name: "turn_p50", unit: seconds, doc: "from a turn's begin to its decision, median", how: quantile, family: "turn_seconds", quantile: .5},
	{name: "turn_p95", unit: seconds, doc: "the same, 95th percentile", how: quantile, family: "turn_seconds", quantile: .95},
	{name: "first_text_p50", unit: seconds, doc: "from a request to a model to its first text, median", how: quantile, family: "model_first_text_seconds", quantile: .5},
	{name: "first_text_p95", unit: seconds, doc: "the same, 95th percentile", how: quantile, family: "model_first_text_seconds", quantile: .95},
	{name: "request_p95", unit: seconds, doc: "time of an HTTP request that is no stream, 95th percentile", how: quantile, family: "http_request_seconds", quantile: .95},
	{name: "input_tokens", unit: perSecond, doc: "tokens that models read", how: rate, family: "model_tokens_total", label: "kind", values: []string{"input"}},
	{name: "output_tokens", unit: perSecond, doc: "tokens that models wrote", how: rate, family: "model_tokens_total", label: "kind", values: []string{"output"}},
	{name: "halted_runs", unit: perSecond, doc: "runs that ended with HALT", how: rate, family: "runs_total", label: "decision", values: []string{"HALT"}},
	{name: "failed_model_calls", unit: perSecond, doc: "calls of models that were neither ok nor cancelled", how: rate, family: "model_calls_total", label: "outcome", values: []string{CallOK, CallCancelled}, unlike: true},
	{name: "failed_tool_calls", unit: perSecond, doc: "calls of tools that failed, or of which it is not known", how: rate, family: "tool_calls_total", label: "state", values: []string{"failed", "unknown"}},
	{name: "refused_requests", unit: perSecond, doc: "HTTP requests that were refused", how: rate, family: "http_refusals_total"},
	{name: "journal_file", unit: inBytes, doc: "size of the journal's file", how: level, family: "journal_bytes", label: "part", values: []string{"file"}},
	{name: "journal_log", unit: inBytes, doc: "size of its log", how: level, family: "journal_bytes", label: "part", values: []string{"log"}},
	{name: "records", unit: perSecond, doc: "records committed", how: rate, family: "journal_records_total"},
	{name: "commits", unit: perSecond, doc: "commits of the journal", how: rate, family: "journal_commits_total"},
	{name: "syncs", unit: perSecond, doc: "waits of the journal for the disk", how: rate, family: "journal_syncs_total"},
	{name: "commit_p95", unit: seconds, doc: "time of a commit, 95th percentile", how: quantile, family: "journal_commit_seconds", quantile: .95},
	{name: "memory", unit: inBytes, doc: "memory that Go's runtime has of the system", how: level},
}

// charted reports whether a history reads a family.
func charted(family string) bool {
	return slices.ContainsFunc(measures, func(m measure) bool { return m.family == family })
}

// History are points of the host's health, of one span.
type History struct {
	Span   string
	Step   time.Duration // between two points
	Since  time.Time     // since when there are any; zero before the first
	Times  []time.Time   // of the points, the oldest first
	Series []Series
}

// Series is one of the values of a History, one for each of its times. NaN is none.
type Series struct {
	Name string
	Unit string // "1/s", "s", "bytes", or "" for a number
	Doc  string
	// Values has one for each time. A level is the highest of the samples since the point before.
	Values []float64
}

// history keeps what Sample has seen. It is in memory alone, and begins anew with the process.
type history struct {
	looked *prometheus.Registry // of the families that it reads

	mu    sync.Mutex
	since time.Time
	rings []*ring // as spans; none before the first sample
}

func newHistory() *history { return &history{looked: prometheus.NewRegistry()} }

func newRings() (all []*ring) {
	for _, s := range spans {
		all = append(all, &ring{step: s.step, times: make([]time.Time, s.points), values: make([]float32, s.points*len(measures)), high: make([]float64, len(measures))})
	}
	return all
}

// ring has the last points of a span.
type ring struct {
	step   time.Duration
	times  []time.Time
	values []float32 // of each point one for each measure
	n      int       // points that there ever were
	from   reading   // at the last of them
	high   []float64 // levels since then
}

// reading is what the metrics say at a time, by measure.
type reading struct {
	at      time.Time
	sums    []float64
	buckets [][]bucket // of quantiles
}

// bucket of a histogram: how many were observed up to a bound.
type bucket struct {
	bound float64
	count uint64
}

// Sample adds what the metrics say now to the history. A host calls it every HistoryEvery while it
// serves; the rings need nothing else.
func (m *Metrics) Sample(now time.Time) {
	h := m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.read(now)
	if h.rings == nil {
		h.since, h.rings = now, newRings()
	}
	for _, ring := range h.rings {
		ring.add(r)
	}
}

// read sums the children of each family that a measure reads.
func (h *history) read(now time.Time) reading {
	r := reading{at: now, sums: make([]float64, len(measures)), buckets: make([][]bucket, len(measures))}
	for i, m := range measures {
		if m.family == "" {
			r.sums[i] = memoryTaken()
		}
		if m.family == "journal_bytes" {
			r.sums[i] = math.NaN() // of a journal that is no file of this host
		}
	}
	families, err := h.looked.Gather()
	if err != nil {
		return r // what it could gather is in families; the collectors are ours and do not fail
	}
	for _, f := range families {
		for i, m := range measures {
			if m.family == "" || f.GetName() != namespace+"_"+m.family {
				continue
			}
			for _, child := range f.GetMetric() {
				if m.label != "" {
					picked := false
					for _, l := range child.GetLabel() {
						picked = picked || l.GetName() == m.label && slices.Contains(m.values, l.GetValue()) != m.unlike
					}
					if !picked {
						continue
					}
				}
				if math.IsNaN(r.sums[i]) {
					r.sums[i] = 0
				}
				r.sums[i] += child.GetCounter().GetValue() + child.GetGauge().GetValue() + float64(child.GetHistogram().GetSampleCount())
				if m.how != quantile {
					continue
				}
				for k, b := range child.GetHistogram().GetBucket() {
					if k == len(r.buckets[i]) {
						r.buckets[i] = append(r.buckets[i], bucket{bound: b.GetUpperBound()})
					}
					r.buckets[i][k].count += b.GetCumulativeCount()
				}
			}
		}
	}
	return r
}

// memoryTaken is what Go's runtime has of the system and has not given back.
func memoryTaken() float64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// add makes a point of a reading when the step is over. The first reading is where they begin.
func (g *ring) add(r reading) {
	for i, m := range measures {
		if m.how == level && !(g.high[i] >= r.sums[i]) {
			g.high[i] = r.sums[i]
		}
	}
	if g.from.at.IsZero() {
		g.from = r
		return
	}
	took := r.at.Sub(g.from.at)
	if took < g.step-HistoryEvery/2 {
		return
	}
	at := g.n % len(g.times)
	g.times[at] = r.at
	for i, m := range measures {
		g.values[at*len(measures)+i] = float32(g.point(m, i, r, took.Seconds()))
	}
	g.n++
	g.from = r
	copy(g.high, r.sums)
}

func (g *ring) point(m measure, i int, r reading, took float64) float64 {
	switch m.how {
	case rate:
		return (r.sums[i] - g.from.sums[i]) / took
	case quantile:
		return quantileOf(m.quantile, g.from.buckets[i], r.buckets[i], r.sums[i]-g.from.sums[i])
	default:
		return g.high[i]
	}
}

// quantileOf is that of the n that were observed between two readings, as a line through its bucket
// has it; what is above all bounds is at the highest. NaN where none was.
func quantileOf(q float64, from, to []bucket, n float64) float64 {
	if n <= 0 || len(to) == 0 {
		return math.NaN()
	}
	rank, below, bound := q*n, 0.0, 0.0
	for k, b := range to {
		count := float64(b.count)
		if k < len(from) {
			count -= float64(from[k].count)
		}
		if count >= rank {
			return bound + (b.bound-bound)*(rank-below)/(count-below)
		}
		below, bound = count, b.bound
	}
	return bound
}

// History returns the points of a span that are later than after, the oldest first; zero is all of
// them. An unknown span has no series.
func (m *Metrics) History(span string, after time.Time) History {
	h := m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	k := slices.Index(Spans(), span)
	if k < 0 {
		return History{Span: span}
	}
	out := History{Span: span, Step: spans[k].step, Since: h.since, Times: []time.Time{}}
	for _, m := range measures {
		out.Series = append(out.Series, Series{Name: m.name, Unit: m.unit, Doc: m.doc, Values: []float64{}})
	}
	if h.rings == nil {
		return out
	}
	g := h.rings[k]
	for p := max(0, g.n-len(g.times)); p < g.n; p++ {
		at := p % len(g.times)
		if !g.times[at].After(after) {
			continue
		}
		out.Times = append(out.Times, g.times[at])
		for i := range measures {
			out.Series[i].Values = append(out.Series[i].Values, short(g.values[at*len(measures)+i]))
		}
	}
	return out
}

// short is a value with four digits, which is what a chart shows.
func short(v float32) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 4, 64), 64)
	if err != nil {
		return math.NaN() // it reads what it wrote
	}
	return f
}
