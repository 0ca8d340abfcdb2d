package stile

import (
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/telemetry"
)

// observer hands every durable record to the metrics and the decision log.
type observer struct {
	*telemetry.Metrics
	decisions *telemetry.DecisionLog
	log       *zap.Logger
	failing   sync.Once
}

func newObserver(rt *Runtime) *observer {
	o := &observer{Metrics: rt.metrics, log: rt.log}
	if rt.cfg.DecisionLog != nil {
		o.decisions = telemetry.NewDecisionLog(rt.cfg.DecisionLog)
	}
	return o
}

// ObserveRecord implements actors.Observer.
func (o *observer) ObserveRecord(r *messages.Record) {
	o.Metrics.ObserveRecord(r)
	if o.decisions == nil || r.Body.Kind() != messages.KindTurnDecided {
		return
	}
	if err := o.decisions.Write(r); err != nil {
		o.failing.Do(func() { o.log.Error("the decision log cannot be written", zap.Error(err)) })
	}
}
