package telemetry

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

const namespace = "stile"

// latencyBuckets spread a turn's latency in milliseconds, from a scripted one to
// the default turn_wall of fifteen minutes.
var latencyBuckets = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 900000}

// Metrics counts what the runtime does, in a registry of its own (docs/spec/aeiou.md §17).
// Names carry the prefix stile_. Everything is safe for concurrent use.
//
// What records tell is counted by ObserveRecord; the other methods are for what
// leaves no record.
type Metrics struct {
	own      *prometheus.Registry // the runtime's alone
	registry *prometheus.Registry // and those of Go and the process

	decisions   family2
	repairs     family
	verifyFail  family
	lints       family
	quotaBreach family
	profiles    family
	toolChanges family
	limits      family
	rollbacks   family
	undone      family
	blocks      family2
	refused     family

	ttlExpired      prometheus.Counter
	jtiDup          prometheus.Counter
	noProgress      prometheus.Counter
	fallbackMint    prometheus.Counter
	journalCommits  prometheus.Counter
	journalSyncs    prometheus.Counter
	journalRecords  prometheus.Counter
	orphans         prometheus.Counter
	chunks          prometheus.Counter
	streamed        prometheus.Counter
	receiptsMissing prometheus.Counter
	sessions        prometheus.Gauge
	turnsInFlight   prometheus.Gauge
	latency         prometheus.Histogram

	mu sync.Mutex
	// open holds the incarnations whose turn this process saw begin. A turn that
	// another process began and this one decided was never counted up, so it must
	// not be counted down.
	open map[messages.Incarnation]struct{}
	// kinds has the kinds of the control blocks that this process saw begin in a turn, by id;
	// the record of their end does not name it.
	kinds map[messages.Incarnation]map[string]string
}

// NewMetrics makes a registry with all of the runtime's metrics, beside those of
// the Go runtime and the process.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	m := &Metrics{
		own:             r,
		registry:        prometheus.NewRegistry(),
		decisions:       family2{vec: vec("decisions_total", "Turns decided, by decision and, for HALT, reason.", "decision", "reason")},
		repairs:         family{vec: vec("repairs_total", "Turns that failed by a mistake of the model and were followed by another, by reason.", "reason")},
		verifyFail:      family{vec: vec("verify_fail_total", "Control token candidates that failed, by CODE/DETAIL.", "reason")},
		lints:           family{vec: vec("lints_total", "Lints of decided turns, by code.", "code")},
		quotaBreach:     family{vec: vec("quota_breach_total", "Meters and clocks that ran out, by name.", "kind")},
		profiles:        family{vec: vec("profiles_total", "Attempts to learn the profile of a user, by outcome.", "outcome")},
		limits:          family{vec: vec("limit_reached_total", "Limits of replies, results, actions and feeds that were reached, by name.", "limit")},
		rollbacks:       family{vec: vec("rollbacks_total", "Groups of actions that were rolled back, by outcome.", "outcome")},
		undone:          family{vec: vec("compensations_total", "Compensations of actions that have ended, by state.", "state")},
		blocks:          family2{vec: vec("blocks_total", "Control blocks that have ended, by kind and state.", "kind", "state")},
		refused:         family{vec: vec("token_refused_total", "Requests that were refused for their token, by reason.", "reason")},
		toolChanges:     family{vec: vec("mcp_tool_changes_total", "Tools that an MCP server offered in other words than before, by server.", "server")},
		ttlExpired:      counter("ttl_expired_total", "Control tokens that had expired."),
		jtiDup:          counter("jti_dup_total", "Control tokens whose jti was seen before."),
		noProgress:      counter("no_progress_total", "Turns halted because the session repeated itself."),
		fallbackMint:    counter("fallback_mint_total", "Control tokens minted by the fallback signer."),
		journalCommits:  counter("journal_commits_total", "Commits of the journal."),
		journalSyncs:    counter("journal_syncs_total", "How often the journal has waited for the disk, where it is a file of this host."),
		journalRecords:  counter("journal_records_total", "Records committed to the journal."),
		orphans:         counter("orphans_total", "Tools that were still running when their turn had ended."),
		chunks:          counter("streamed_chunks_total", "Records with pieces of results that were shown as they grew."),
		streamed:        counter("streamed_bytes_total", "Bytes of results that were shown as they grew."),
		receiptsMissing: counter("receipts_missing_total", "Records committed unsigned although receipts are on."),
		sessions:        gauge("sessions", "Sessions that are awake."),
		turnsInFlight:   gauge("turns_in_flight", "Turns begun and not yet decided."),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "turn_latency_ms",
			Help: "Time from the begin of a turn to its decision, in milliseconds.", Buckets: latencyBuckets,
		}),
		open:  map[messages.Incarnation]struct{}{},
		kinds: map[messages.Incarnation]map[string]string{},
	}
	for _, l := range messages.Limits() { // there from the start, so that the first time shows
		m.LimitReached(l, 0)
	}
	for _, outcome := range []messages.ActionState{messages.ActionOK, messages.ActionFailed, messages.ActionUnknown} {
		m.rollbacks.add(string(outcome), 0)
		m.undone.add(string(outcome), 0)
	}
	for _, kind := range blockKinds {
		for _, state := range []messages.ActionState{messages.ActionOK, messages.ActionFailed} {
			m.blocks.add(pair{kind, string(state)}, 0)
		}
	}
	for _, reason := range Refusals() {
		m.refused.add(reason, 0)
	}
	r.MustRegister(m.latency)
	m.registry.MustRegister(r, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Collector is the runtime's metrics for a registry that a program has already: those of Go
// and of the process, which such a registry has itself, are not in it. Metrics of several
// runtimes have the same names; a label tells them apart in one registry:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"runtime": "eu"}, reg).MustRegister(m.Collector())
func (m *Metrics) Collector() prometheus.Collector { return m.own }

// Registry is a registry of its own with all of the metrics, those of Go and of the process
// too, for a program that has none. What a program adds to it is served with them.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics in the text formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// ObserveRecord counts what rec tells. It must be given every record once, after
// the journal acknowledged it, and none that was only read back.
//
// Counted are: decisions, repairs, latency, failed tokens, lints and no progress from
// turn.decided; turns in flight from turn.begin, turn.decided and session.closed; blocks
// from block.begin and block.ended; compensations and streamed results from their records;
// breaches and the limits that end something from control. Lints are taken from turn.decided alone, so that the
// counter is the sum over the decision log.
func (m *Metrics) ObserveRecord(rec *messages.Record) {
	switch b := rec.Body.(type) {
	case *messages.TurnBegin:
		m.begin(rec.Inc)
	case *messages.TurnDecided:
		m.end(rec.Inc)
		m.decided(b)
	case *messages.SessionClosed:
		m.end(rec.Inc)
	case *messages.BlockBegin:
		m.block(rec.Inc, b)
	case *messages.BlockEnded:
		m.blocks.add(pair{m.kindOf(rec.Inc, b.ID), string(b.State)}, 1)
	case *messages.ActionChunk:
		m.chunks.Inc()
		m.streamed.Add(float64(len(b.Bytes)))
	case *messages.ActionEnded:
		if strings.HasPrefix(b.ID, turn.UndoPrefix) {
			m.undone.inc(string(b.State))
		}
	case *messages.Control:
		// A clock's control is a breach only where it ended something: other timers
		// are the machine's own.
		if b.What == messages.ControlBreach || b.What == messages.ControlTimer && b.Code == messages.ErrTimeout {
			m.quotaBreach.inc(kindLabel(b.Name))
		}
		m.reached(b)
	}
}

// reached counts the limits that a control tells of.
func (m *Metrics) reached(b *messages.Control) {
	switch {
	case b.What == messages.ControlBreach && b.Name == string(messages.LimitReply):
		m.LimitReached(messages.LimitReply, 1)
	case b.What == messages.ControlTimer && b.Name == string(messages.LimitDrain):
		m.LimitReached(messages.LimitDrain, 1)
	}
}

func (m *Metrics) decided(d *messages.TurnDecided) {
	m.decisions.add(pair{string(d.Decision), string(d.Reason)}, 1)
	m.latency.Observe(float64(d.LatencyMS))
	if d.Decision == messages.Halt && d.Reason == messages.ErrNoProgress {
		m.noProgress.Inc()
	}
	if d.Repair {
		m.repairs.inc(string(d.Reason))
	}
	for _, f := range d.Failures {
		m.verifyFail.inc(f)
		switch f {
		case "ERR_TOKEN_TTL/EXPIRED":
			m.ttlExpired.Inc()
		case "ERR_TOKEN_REPLAY/JTI":
			m.jtiDup.Inc()
		}
	}
	for _, l := range d.Lints {
		m.lints.inc(string(l))
	}
}

func (m *Metrics) begin(inc messages.Incarnation) {
	m.mu.Lock()
	m.open[inc] = struct{}{}
	m.turnsInFlight.Set(float64(len(m.open)))
	m.mu.Unlock()
}

func (m *Metrics) end(inc messages.Incarnation) {
	m.mu.Lock()
	delete(m.open, inc)
	delete(m.kinds, inc)
	m.turnsInFlight.Set(float64(len(m.open)))
	m.mu.Unlock()
}

// blockKinds are the labels of control blocks.
var blockKinds = []string{"if", "foreach", "parallel"}

// block keeps the kind of a control block until its turn ends.
func (m *Metrics) block(inc messages.Incarnation, b *messages.BlockBegin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kinds[inc] == nil {
		m.kinds[inc] = map[string]string{}
	}
	m.kinds[inc][b.ID] = b.BlockKind
}

// kindOf takes the kind of a control block that has ended; overflow for one that another
// process began.
func (m *Metrics) kindOf(inc messages.Incarnation, id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind, ok := m.kinds[inc][id]
	if !ok {
		return overflow
	}
	delete(m.kinds[inc], id)
	return kind
}

// Adopted says that this process goes on with a turn of inc that another one
// began.
func (m *Metrics) Adopted(inc messages.Incarnation) { m.begin(inc) }

// Abandoned says that this process lets go of inc, with or without an open turn:
// another owner has it, or it sleeps while suspended.
func (m *Metrics) Abandoned(inc messages.Incarnation) { m.end(inc) }

// SessionAwake counts a session that was activated.
func (m *Metrics) SessionAwake() { m.sessions.Inc() }

// SessionAsleep counts a session that was passivated or closed.
func (m *Metrics) SessionAsleep() { m.sessions.Dec() }

// LimitReached counts n times that something met a limit.
func (m *Metrics) LimitReached(l string, n int) { m.limits.add(l, n) }

// RolledBack counts a group of actions that was rolled back. Its outcome is ok, failed if a
// compensation failed, or unknown.
func (m *Metrics) RolledBack(outcome string) { m.rollbacks.inc(outcome) }

// Refusals are the reasons of TokenRefused.
func Refusals() []string {
	return []string{"missing", "unknown", "expired", "revoked", "scope", "unavailable", "other"}
}

// TokenRefused counts a request that was refused for its token.
func (m *Metrics) TokenRefused(reason string) { m.refused.inc(reason) }

// Profile counts an attempt to learn the profile of a user.
func (m *Metrics) Profile(outcome string) { m.profiles.inc(outcome) }

// ToolsChanged counts tools that an MCP server offered in other words than before.
func (m *Metrics) ToolsChanged(server string, n int) { m.toolChanges.add(server, n) }

// FallbackMint counts a token of the fallback signer.
func (m *Metrics) FallbackMint() { m.fallbackMint.Inc() }

// Orphan counts a tool that did not end with its turn.
func (m *Metrics) Orphan() { m.orphans.Inc() }

// ReceiptMissing counts a record that should have been signed.
func (m *Metrics) ReceiptMissing() { m.receiptsMissing.Inc() }

// Committed counts a commit of the journal and its records.
func (m *Metrics) Committed(records int) {
	m.journalCommits.Inc()
	m.journalRecords.Add(float64(records))
}

// Synced counts how often the journal has waited for the disk.
func (m *Metrics) Synced(n int64) { m.journalSyncs.Add(float64(n)) }

// kindLabel makes one spelling of a meter's or clock's name: meters are named GAS
// in the codes and gas in the manifest.
func kindLabel(name string) string {
	if name == "" {
		return overflow
	}
	return strings.ToLower(name)
}

// maxChildren caps the label values of one family. Those of this release stay
// well below; the cap is for a mistake upstream, which must cost a wrong label
// and not the memory of the scraper.
const maxChildren = 128

// overflow is the label of everything beyond the cap.
const overflow = "other"

// family is a counter with one label, and family2 one with two.
// Looking a child up in the library hashes and locks; both keep the children they
// have met in a map that is replaced, never changed, so a hit is one load and one
// lookup.
type family struct {
	vec      *prometheus.CounterVec
	children cache[string]
}

func (f *family) inc(label string) { f.add(label, 1) }

func (f *family) add(label string, n int) {
	f.children.get(label, func(known bool) prometheus.Counter {
		if !known {
			return f.vec.WithLabelValues(overflow)
		}
		return f.vec.WithLabelValues(strings.ToValidUTF8(label, "\uFFFD"))
	}).Add(float64(n))
}

// pair is the values of two labels.
type pair struct{ first, second string }

type family2 struct {
	vec      *prometheus.CounterVec
	children cache[pair]
}

func (f *family2) add(k pair, n int) {
	f.children.get(k, func(known bool) prometheus.Counter {
		if !known {
			return f.vec.WithLabelValues(overflow, overflow)
		}
		return f.vec.WithLabelValues(strings.ToValidUTF8(k.first, "\uFFFD"), strings.ToValidUTF8(k.second, "\uFFFD"))
	}).Add(float64(n))
}

// cache is a copy-on-write map of counters. The zero value is empty.
type cache[K comparable] struct {
	mu  sync.Mutex
	now atomic.Pointer[map[K]prometheus.Counter]
}

// get returns the counter of k and asks child for it the first time; child is
// told whether there is room for k.
func (c *cache[K]) get(k K, child func(known bool) prometheus.Counter) prometheus.Counter {
	if m := c.now.Load(); m != nil {
		if x, ok := (*m)[k]; ok {
			return x
		}
	}
	return c.add(k, child)
}

func (c *cache[K]) add(k K, child func(known bool) prometheus.Counter) prometheus.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[K]prometheus.Counter{}
	if m := c.now.Load(); m != nil {
		if x, ok := (*m)[k]; ok {
			return x
		}
		if len(*m) >= maxChildren {
			return child(false)
		}
		for k, x := range *m {
			next[k] = x
		}
	}
	x := child(true)
	next[k] = x
	c.now.Store(&next)
	return x
}
