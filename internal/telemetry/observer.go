package telemetry

import (
	"io"
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
)

// Observer hands every durable record to the metrics, the decision log and the functions
// that observe. It is safe for concurrent use.
type Observer struct {
	*Metrics
	decisions *DecisionLog
	log       *zap.Logger
	failing   sync.Once

	mu     sync.RWMutex
	others map[int]func(agent string, r *messages.Record)
	next   int
}

// NewObserver makes an observer; decisions gets the decision log and may be nil.
func NewObserver(m *Metrics, decisions io.Writer, log *zap.Logger) *Observer {
	o := &Observer{Metrics: m, log: log, others: map[int]func(string, *messages.Record){}}
	if decisions != nil {
		o.decisions = NewDecisionLog(decisions)
	}
	return o
}

// Observe has f called with every record from now on, until stop is called.
func (o *Observer) Observe(f func(*messages.Record)) (stop func()) {
	return o.ObserveAgents(func(_ string, r *messages.Record) { f(r) })
}

// ObserveAgents is Observe with the name of the session's agent.
func (o *Observer) ObserveAgents(f func(agent string, r *messages.Record)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
func (o *Observer) ObserveRecord(agent string, r *messages.Record) {
	o.Metrics.ObserveRecord(agent, r)
	o.mu.RLock()
	for _, f := range o.others {
		f(agent, r)
	}
	o.mu.RUnlock()
	if o.decisions == nil || r.Body.Kind() != messages.KindTurnDecided {
		return
	}
	if err := o.decisions.Write(r); err != nil {
		o.failing.Do(func() { o.log.Error("the decision log cannot be written", zap.Error(err)) })
	}
}
