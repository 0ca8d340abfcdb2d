package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/messages"
)

// callBuckets spread the time of a call of a model or a tool in seconds, from a scripted one to the
// default turn_wall of fifteen minutes.
var callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900}

// work counts what agents, their models and their tools do.
type work struct {
	runs      *counters3 // agent, decision, reason
	tokens    *counters4 // agent, provider, model, kind
	cost      *counters3 // agent, provider, model
	fallbacks *counters2 // agent, reason
	calls     *counters3 // provider, model, outcome
	took      *histograms
	first     *histograms
	tools     *counters3 // agent, tool, state
	toolTook  *family[string, prometheus.Observer]
	approvals *counters2 // agent, answer

	tenantTokens, tenantCost, tenantRuns *counters1

	promptBytes  *counters1 // mode
	promptTokens *counters2 // mode, kind
	talks        *counters2 // outcome, reason
	talksOpen    prometheus.Gauge
}

func newWork(m maker) work {
	w := work{
		promptBytes:  m.counters1("prompt_bytes_total", "Bytes of text that requests of turns sent to models, by mode.", "mode"),
		promptTokens: m.counters2("prompt_tokens_total", "Tokens of prompts of turns: sent, at four bytes of text a token, and billed and cached, as providers report them; by mode.", "mode", "kind"),
		talks:        m.counters2("model_sessions_total", "What became of conversations that providers keep, by outcome and reason.", "outcome", "reason"),
		talksOpen:    m.gauge("model_sessions_open", "Conversations that are open with providers."),
		runs:         m.counters3("runs_total", "Runs that have ended, by agent, decision and, for HALT, reason.", "agent", "decision", "reason"),
		tokens:       m.counters4("model_tokens_total", "Tokens of models, by agent, provider, model and kind; those from and to a cache are in input as well.", "agent", "provider", "model", "kind"),
		cost:         m.counters3("model_cost_usd_total", "Cost of models that have a price, in dollars, by agent, provider and model.", "agent", "provider", "model"),
		fallbacks:    m.counters2("model_fallbacks_total", "Times that another model was asked, by agent and reason.", "agent", "reason"),
		calls:        m.counters3("model_calls_total", "Calls of models, retries included, by provider, model and outcome.", "provider", "model", "outcome"),
		took:         m.histograms("model_call_seconds", "Time of a call of a model to the end of its reply, by provider and model.", callBuckets, "provider", "model"),
		first:        m.histograms("model_first_text_seconds", "Time of a call of a model to its first text, by provider and model.", callBuckets, "provider", "model"),
		tools:        m.counters3("tool_calls_total", "Calls of tools that have ended, by agent, tool and state.", "agent", "tool", "state"),
		toolTook:     m.histograms1("tool_call_seconds", "Time of a call of a tool, all attempts together, by tool.", callBuckets, "tool"),
		approvals:    m.counters2("approvals_total", "Calls that a person was asked for, and the answers, by agent.", "agent", "answer"),

		tenantTokens: m.counters1("tenant_tokens_total", "Tokens of models, by tenant.", "tenant"),
		tenantCost:   m.counters1("tenant_cost_usd_total", "Cost of models that have a price, in dollars, by tenant.", "tenant"),
		tenantRuns:   m.counters1("tenant_runs_total", "Runs that have ended, by tenant.", "tenant"),
	}
	for _, mode := range []string{messages.ModelReplay, messages.ModelResume} {
		w.promptBytes.of(mode)
		for _, kind := range []string{promptSent, promptBilled, promptCached} {
			w.promptTokens.of(pair{mode, kind})
		}
	}
	return w
}

// Kinds of tokens of prompts.
const (
	promptSent   = "sent"
	promptBilled = "billed"
	promptCached = "cached" // of billed
)

// underway is what is known of a turn between two of its records, and of actions that outlive it.
type underway struct {
	provider, model string              // that was asked last
	actions         map[actionKey]begun // that have been declared and not ended
}

type actionKey struct {
	turn int64
	id   string
}

type begun struct {
	tool    string
	started bool
}

// of returns what is known of an activation. m.mu is held.
func (m *Metrics) of(inc messages.Incarnation) *underway {
	w := m.known[inc]
	if w == nil {
		if n := len(m.spare); n > 0 {
			w, m.spare = m.spare[n-1], m.spare[:n-1]
		} else {
			w = &underway{actions: map[actionKey]begun{}}
		}
		m.known[inc] = w
	}
	return w
}

// maxSpare bounds what is kept to be used by the next turns.
const maxSpare = 64

// rest forgets a turn that is over, but for its actions that are not. m.mu is held.
func (m *Metrics) rest(inc messages.Incarnation) {
	w := m.known[inc]
	if w == nil {
		return
	}
	if w.provider, w.model = "", ""; len(w.actions) > 0 {
		return
	}
	delete(m.known, inc)
	if len(m.spare) < maxSpare {
		m.spare = append(m.spare, w)
	}
}

// usd is an amount of the journal in dollars.
func usd(micros int64) float64 { return float64(micros) / 1e6 }

// observeWork counts what a record tells of the work of an agent.
func (m *Metrics) observeWork(agent string, rec *messages.Record) {
	switch b := rec.Body.(type) {
	case *messages.RunEnd:
		m.runs.of(triple{agent, string(b.Decision), string(b.Reason)}).Inc()
		m.tenantRuns.of(tenantOf(rec)).Inc()
	case *messages.ModelRequest:
		m.mu.Lock()
		w := m.of(rec.Inc)
		w.provider, w.model = b.Provider, b.Model
		m.mu.Unlock()
	case *messages.ModelReply:
		m.replied(agent, rec, b)
	case *messages.ModelFallback:
		m.fallbacks.of(pair{agent, b.Reason}).Inc()
	case *messages.ActionApproval:
		if b.Approval != "" {
			m.approvals.of(pair{agent, string(b.State)}).Inc()
		}
	case *messages.ActionDeclared:
		m.declared(rec, b)
	case *messages.ActionStarted:
		m.started(rec, b)
	case *messages.ActionEnded:
		m.ended(agent, rec, b)
	}
}

func tenantOf(rec *messages.Record) string {
	tenant, _, _ := strings.Cut(rec.SID, ":")
	return tenant
}

// replied counts the usage of a reply: that of all attempts, as sessions and tenants are charged.
func (m *Metrics) replied(agent string, rec *messages.Record, b *messages.ModelReply) {
	provider, model := overflow, overflow // where another process has asked
	m.mu.Lock()
	if w := m.known[rec.Inc]; w != nil && w.provider != "" {
		provider, model = w.provider, w.model
	}
	m.mu.Unlock()
	for _, t := range []struct {
		kind string
		n    int64
	}{{"input", b.Usage.Input}, {"output", b.Usage.Output}, {"cache_read", b.Usage.CacheRead}, {"cache_write", b.Usage.CacheWrite}} {
		if t.n > 0 {
			m.tokens.of(quad{agent, provider, model, t.kind}).Add(float64(t.n))
		}
	}
	if b.CostUSD > 0 {
		m.cost.of(triple{agent, provider, model}).Add(usd(b.CostUSD))
	}
	m.charge(rec)
}

// charge counts what a record costs its tenant.
func (m *Metrics) charge(rec *messages.Record) {
	used := budget.Of(rec)
	if used.Tokens > 0 {
		m.tenantTokens.of(tenantOf(rec)).Add(float64(used.Tokens))
	}
	if used.CostUSD > 0 {
		m.tenantCost.of(tenantOf(rec)).Add(usd(used.CostUSD))
	}
}

func (m *Metrics) declared(rec *messages.Record, b *messages.ActionDeclared) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(rec.Inc).actions[actionKey{rec.Turn, b.ID}] = begun{tool: b.Name}
}

func (m *Metrics) started(rec *messages.Record, b *messages.ActionStarted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, k := m.known[rec.Inc], actionKey{rec.Turn, b.ID}
	if w == nil {
		return
	}
	if a, ok := w.actions[k]; ok {
		a.started = true
		w.actions[k] = a
	}
}

// ended counts a call that has begun. One that another process began is known by its state unknown.
func (m *Metrics) ended(agent string, rec *messages.Record, b *messages.ActionEnded) {
	m.charge(rec)
	m.mu.Lock()
	var a begun
	if w, k := m.known[rec.Inc], (actionKey{rec.Turn, b.ID}); w != nil {
		a = w.actions[k]
		delete(w.actions, k)
	}
	m.mu.Unlock()
	if used := budget.Of(rec); used.Tokens > 0 || used.CostUSD > 0 {
		m.tokens.of(quad{agent, ofAction, a.tool, "total"}).Add(float64(used.Tokens))
		m.cost.of(triple{agent, ofAction, a.tool}).Add(usd(used.CostUSD))
	}
	switch {
	case a.started:
		m.tools.of(triple{agent, a.tool, string(b.State)}).Inc()
		m.toolTook.of(a.tool).Observe(float64(b.MS) / 1000)
	case b.State == messages.ActionUnknown:
		m.tools.of(triple{agent, overflow, string(b.State)}).Inc()
	}
}

// ofAction is the label of the provider for tokens of actions, whose records do not name it.
const ofAction = "action"

// How a call of a model ended. One that failed has the kind of its failure instead, or CallOther
// without one.
const (
	CallOK        = "ok"
	CallCancelled = "cancelled"
	CallOther     = "other"
)

// ModelCall is one question to a model, retries apart.
type ModelCall struct {
	Provider, Model string
	Outcome         string
	Took            time.Duration // to the end of the reply, time that the session held it back included
	First           time.Duration // to the first text; 0 if there was none
	// Of a turn's call: the mode of its request, and the tokens of its prompt that the provider
	// reports, those from its cache being in Input as well.
	Mode          string
	Input, Cached int64
}

// ModelCalled counts a call of a model.
func (m *Metrics) ModelCalled(c ModelCall) {
	if m.muted {
		return
	}
	m.calls.of(triple{c.Provider, c.Model, c.Outcome}).Inc()
	m.took.of(pair{c.Provider, c.Model}).Observe(c.Took.Seconds())
	if c.First > 0 {
		m.first.of(pair{c.Provider, c.Model}).Observe(c.First.Seconds())
	}
	if c.Mode != "" {
		m.promptTokens.of(pair{c.Mode, promptBilled}).Add(float64(c.Input))
		m.promptTokens.of(pair{c.Mode, promptCached}).Add(float64(c.Cached))
	}
}

// ModelAsked counts a request of a turn by its mode and the bytes of text that it sends.
func (m *Metrics) ModelAsked(mode string, bytes int64) {
	if m.muted {
		return
	}
	m.promptBytes.of(mode).Add(float64(bytes))
	m.promptTokens.of(pair{mode, promptSent}).Add(float64((bytes + 3) / 4))
}

// ModelSession counts what became of a conversation that a provider keeps, in the words of
// messages.ModelSession.
func (m *Metrics) ModelSession(what, reason string) {
	m.talks.of(pair{what, reason}).Inc()
	switch what {
	case messages.SessionConnected:
		m.talksOpen.Inc()
	case messages.SessionExpired, messages.SessionGone:
		m.talksOpen.Dec()
	}
}
