package trace

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// The buckets that the conventions for generative AI advise.
var (
	tokenBuckets   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	secondsBuckets = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
)

const keyTokenType = "gen_ai.token.type"

// Meter measures the calls of models as the conventions for generative AI have it:
// gen_ai.client.operation.duration and gen_ai.client.token.usage. Both come from records: a call is
// from its request to its reply, with all attempts. Its methods are safe for concurrent use.
type Meter struct {
	duration metric.Float64Histogram
	tokens   metric.Int64Histogram

	mu   sync.Mutex
	open map[messages.Incarnation]question
}

// question is a call of a model without a reply.
type question struct {
	provider, model string
	at              time.Time
}

// NewMeter makes a meter. Its ObserveAgent is meant for Runtime.ObserveAgents.
func NewMeter(provider metric.MeterProvider) (*Meter, error) {
	m := &Meter{open: map[messages.Incarnation]question{}}
	meter := provider.Meter(scope, metric.WithInstrumentationVersion(version(debug.ReadBuildInfo())))
	var err error
	if m.duration, err = meter.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), metric.WithDescription("GenAI operation duration."), metric.WithExplicitBucketBoundaries(secondsBuckets...)); err != nil {
		return nil, err
	}
	m.tokens, err = meter.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), metric.WithDescription("Number of input and output tokens used."), metric.WithExplicitBucketBoundaries(tokenBuckets...))
	return m, err
}

// ObserveAgent takes the next record of a session of an agent.
func (m *Meter) ObserveAgent(_ string, r *stile.Record) {
	switch b := r.Body.(type) {
	case *messages.ModelRequest:
		m.mu.Lock()
		if len(m.open) < maxRuns {
			m.open[r.Inc] = question{providerName(b.Provider), b.Model, r.TS}
		}
		m.mu.Unlock()
	case *messages.ModelReply:
		if q, ok := m.take(r.Inc); ok {
			m.replied(q, r.TS, b)
		}
	case *messages.TurnDecided, *messages.SessionClosed: // what has no reply was cut off
		m.take(r.Inc)
	}
}

func (m *Meter) take(inc messages.Incarnation) (question, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, ok := m.open[inc]
	delete(m.open, inc)
	return q, ok
}

func (m *Meter) replied(q question, at time.Time, b *messages.ModelReply) {
	of := []attribute.KeyValue{attribute.String(keyOperation, "chat"), attribute.String(keyProvider, q.provider)}
	if q.model != "" {
		of = append(of, attribute.String(keyModel, q.model))
	}
	ctx := context.Background()
	for _, used := range []struct {
		kind string
		n    int64
	}{{"input", b.Usage.Input}, {"output", b.Usage.Output}} {
		if used.n > 0 {
			m.tokens.Record(ctx, used.n, metric.WithAttributes(of...), metric.WithAttributes(attribute.String(keyTokenType, used.kind)))
		}
	}
	if b.Error != "" || b.Finish == messages.FinishError {
		of = append(of, attribute.String(keyError, string(messages.ErrModel)))
	}
	m.duration.Record(ctx, at.Sub(q.at).Seconds(), metric.WithAttributes(of...))
}
