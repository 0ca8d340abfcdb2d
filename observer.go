package stile

import (
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/messages"
)

// observer hands every durable record to the metrics and the decision log.
type observer struct {
	*telemetry.Metrics
	decisions *telemetry.DecisionLog
	log       *zap.Logger
	failing   sync.Once

	mu     sync.RWMutex
	others map[int]func(*Record)
	next   int
}

func newObserver(rt *Runtime) *observer {
	o := &observer{Metrics: rt.metrics, log: rt.log}
	if rt.cfg.DecisionLog != nil {
		o.decisions = telemetry.NewDecisionLog(rt.cfg.DecisionLog)
	}
	return o
}

// Observe has f called with every record of every session from now on, when it has become
// durable, in the order of its session, before anybody else hears of it. It is called from
// many goroutines, also from one that is in Submit, must not block or call Observe, and
// changes nothing of the record. The function that comes back ends it.
func (rt *Runtime) Observe(f func(*Record)) (stop func()) {
	o := rt.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.others == nil {
		o.others = map[int]func(*Record){}
	}
	id := o.next
	o.next++
	o.others[id] = f
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.others, id)
	}
}

// ObserveRecord implements actors.Observer.
func (o *observer) ObserveRecord(r *messages.Record) {
	o.Metrics.ObserveRecord(r)
	o.mu.RLock()
	for _, f := range o.others {
		f(r)
	}
	o.mu.RUnlock()
	if o.decisions == nil || r.Body.Kind() != messages.KindTurnDecided {
		return
	}
	if err := o.decisions.Write(r); err != nil {
		o.failing.Do(func() { o.log.Error("the decision log cannot be written", zap.Error(err)) })
	}
}
