package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// traffic counts what comes over HTTP.
type traffic struct {
	requests *counters3 // method, route, status
	answered *family[string, prometheus.Observer]
	denied   *counters2 // code, reason
	streams  prometheus.Gauge
}

func newTraffic(m maker) traffic {
	return traffic{
		requests: m.counters3("http_requests_total", "Requests that are over, by method, route and status.", "method", "route", "status"),
		answered: m.histograms1("http_request_seconds", "Time of a request that is no stream, by route.", callBuckets, "route"),
		denied:   m.counters2("http_refusals_total", "Requests that were refused, by code and reason.", "code", "reason"),
		streams:  m.gauge("http_streams", "Streams that are open."),
	}
}

// Request counts a request that is over. took is negative for a stream.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	m.requests.of(triple{method, route, strconv.Itoa(status)}).Inc()
	if took >= 0 {
		m.answered.of(route).Observe(took.Seconds())
	}
}

// Refused counts a request that was refused.
func (m *Metrics) Refused(code, reason string) { m.denied.of(pair{code, reason}).Inc() }

// StreamOpened counts a stream that is open, until done is called.
func (m *Metrics) StreamOpened() (done func()) {
	m.streams.Inc()
	return m.streams.Dec
}
