package telemetry

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// maxChildren caps the children of one family. Those of this release stay well below, but for what
// operators name: agents, models, tools and tenants. What is beyond it costs a wrong label and not
// the memory of the scraper.
const maxChildren = 512

// overflow is the label of everything beyond the cap.
const overflow = "other"

// family is a metric with labels whose values are a K. Looking a child up in the library hashes and
// locks; a family keeps the children that it has met in a map that is replaced, never changed, so a
// hit is one load and one lookup.
type family[K comparable, V any] struct {
	child func(K) V
	rest  K // what stands for everything beyond the cap
	mu    sync.Mutex
	now   atomic.Pointer[map[K]V]
}

// of returns the child of k, and makes it the first time.
func (f *family[K, V]) of(k K) V {
	if m := f.now.Load(); m != nil {
		if x, ok := (*m)[k]; ok {
			return x
		}
	}
	return f.add(k)
}

func (f *family[K, V]) add(k K) V {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[K]V{}
	if m := f.now.Load(); m != nil {
		if x, ok := (*m)[k]; ok {
			return x
		}
		if len(*m) >= maxChildren {
			return f.child(f.rest)
		}
		for k, x := range *m {
			next[k] = x
		}
	}
	x := f.child(k)
	next[k] = x
	f.now.Store(&next)
	return x
}

// The values of several labels.
type (
	pair   [2]string
	triple [3]string
	quad   [4]string
)

func clean(values []string) []string {
	for i, v := range values {
		values[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return values
}

type (
	counters1  = family[string, prometheus.Counter]
	counters2  = family[pair, prometheus.Counter]
	counters3  = family[triple, prometheus.Counter]
	counters4  = family[quad, prometheus.Counter]
	histograms = family[pair, prometheus.Observer]
)

// maker registers metrics in a registry, and those that a history reads in one for it.
type maker struct{ registry, looked *prometheus.Registry }

func (m maker) register(name string, c prometheus.Collector) {
	m.registry.MustRegister(c)
	if charted(name) {
		m.looked.MustRegister(c)
	}
}

func (m maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.register(name, c)
	return c
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	m.register(name, g)
	return g
}

func (m maker) gauges(name, help, label string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	m.register(name, g)
	return g
}

func (m maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
	m.register(name, h)
	return h
}

func (m maker) vec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.register(name, v)
	return v
}

func (m maker) counters1(name, help, label string) *counters1 {
	v := m.vec(name, help, label)
	return &counters1{rest: overflow, child: func(k string) prometheus.Counter { return v.WithLabelValues(clean([]string{k})...) }}
}

func (m maker) counters2(name, help string, labels ...string) *counters2 {
	v := m.vec(name, help, labels...)
	return &counters2{rest: pair{overflow, overflow}, child: func(k pair) prometheus.Counter { return v.WithLabelValues(clean(k[:])...) }}
}

func (m maker) counters3(name, help string, labels ...string) *counters3 {
	v := m.vec(name, help, labels...)
	return &counters3{rest: triple{overflow, overflow, overflow}, child: func(k triple) prometheus.Counter { return v.WithLabelValues(clean(k[:])...) }}
}

func (m maker) counters4(name, help string, labels ...string) *counters4 {
	v := m.vec(name, help, labels...)
	return &counters4{rest: quad{overflow, overflow, overflow, overflow}, child: func(k quad) prometheus.Counter { return v.WithLabelValues(clean(k[:])...) }}
}

func (m maker) histograms1(name, help string, buckets []float64, label string) *family[string, prometheus.Observer] {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{label})
	m.register(name, v)
	return &family[string, prometheus.Observer]{rest: overflow, child: func(k string) prometheus.Observer { return v.WithLabelValues(clean([]string{k})...) }}
}

func (m maker) histograms(name, help string, buckets []float64, labels ...string) *histograms {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.register(name, v)
	return &histograms{rest: pair{overflow, overflow}, child: func(k pair) prometheus.Observer { return v.WithLabelValues(clean(k[:])...) }}
}
