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
	told     *counters2 // webhook, outcome
	toldTook *family[string, prometheus.Observer]
	toTell   *prometheus.GaugeVec
}

func newTraffic(m maker) traffic {
	return traffic{
		requests: m.counters3("http_requests_total", "Requests that are over, by method, route and status.", "method", "route", "status"),
		answered: m.histograms1("http_request_seconds", "Time of a request that is no stream, by route.", callBuckets, "route"),
		denied:   m.counters2("http_refusals_total", "Requests that were refused, by code and reason.", "code", "reason"),
		streams:  m.gauge("http_streams", "Streams that are open."),
		told:     m.counters2("webhooks_total", "Events for webhooks, by webhook and outcome: delivered, failed (an attempt), dead, dropped.", "webhook", "outcome"),
		toldTook: m.histograms1("webhook_seconds", "Time of an attempt to deliver an event, by webhook.", callBuckets, "webhook"),
		toTell:   m.gauges("webhooks_waiting", "Events that are still to be sent, by webhook.", "webhook"),
	}
}

// Request counts a request that is over. took is negative for a stream.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if m.muted {
		return
	}
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

// WebhookCounted counts what became of an event for a webhook, or of an attempt.
func (m *Metrics) WebhookCounted(webhook, outcome string) { m.told.of(pair{webhook, outcome}).Inc() }

// WebhookTook counts the time of an attempt.
func (m *Metrics) WebhookTook(webhook string, took time.Duration) {
	m.toldTook.of(webhook).Observe(took.Seconds())
}

// WebhookWaiting says how many events are still to be sent. Webhooks are few: a host bounds them.
func (m *Metrics) WebhookWaiting(webhook string, n int) {
	m.toTell.WithLabelValues(webhook).Set(float64(n))
}
