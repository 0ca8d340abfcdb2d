package telemetry

import (
	"cmp"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

const namespace = "stile"

// commitBuckets spread the time of a commit in seconds, from memory to a disk that stalls.
var commitBuckets = []float64{.00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}

// Metrics counts what the runtime does, in a registry of its own (docs/spec/aeiou.md §17).
// Names carry the prefix stile_. Everything is safe for concurrent use.
//
// What records tell is counted by ObserveRecord; the other methods are for what
// leaves no record.
type Metrics struct {
	muted bool // counts nothing of what comes with each request, record, call and commit

	own      *prometheus.Registry // the runtime's alone
	registry *prometheus.Registry // and those of Go and the process

	history *history

	work
	traffic

	decisions   *counters2
	repairs     *counters1
	verifyFail  *counters1
	cluster     *counters1
	lints       *counters1
	quotaBreach *counters1
	profiles    *counters1
	toolChanges *counters1
	limits      *counters1
	rollbacks   *counters1
	undone      *counters1
	blocks      *counters2
	refused     *counters1

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
	commitTook      prometheus.Histogram
	sessions        prometheus.Gauge
	backedUp        prometheus.Gauge
	turnsInFlight   prometheus.Gauge
	latency         prometheus.Histogram

	mu sync.Mutex
	// open holds the incarnations whose turn this process saw begin. A turn that
	// another process began and this one decided was never counted up, so it must
	// not be counted down.
	open  map[messages.Incarnation]struct{}
	known map[messages.Incarnation]*underway
	spare []*underway
}

// Muted has NewMetrics make metrics that count nothing of what comes with each request, record,
// call and commit. It is for the benchmark of what counting costs, which sets it before it makes
// a runtime (bench: BenchmarkHost_Observed).
var Muted bool

// NewMetrics makes a registry with all of the runtime's metrics, beside those of
// the Go runtime and the process.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	past := newHistory()
	reg := maker{r, past.looked}
	m := &Metrics{
		muted:           Muted,
		history:         past,
		own:             r,
		registry:        prometheus.NewRegistry(),
		decisions:       reg.counters2("decisions_total", "Turns decided, by decision and, for HALT, reason.", "decision", "reason"),
		repairs:         reg.counters1("repairs_total", "Turns that failed by a mistake of the model and were followed by another, by reason.", "reason"),
		verifyFail:      reg.counters1("verify_fail_total", "Control token candidates that failed, by CODE/DETAIL.", "reason"),
		cluster:         reg.counters1("cluster_events_total", "What happened to the leases of this host and of its sessions, and to requests that it forwarded, by event.", "event"),
		lints:           reg.counters1("lints_total", "Lints of decided turns, by code.", "code"),
		quotaBreach:     reg.counters1("quota_breach_total", "Meters and clocks that ran out, by name.", "kind"),
		profiles:        reg.counters1("profiles_total", "Attempts to learn the profile of a user, by outcome.", "outcome"),
		limits:          reg.counters1("limit_reached_total", "Limits of replies, results, actions and feeds that were reached, by name.", "limit"),
		rollbacks:       reg.counters1("rollbacks_total", "Groups of actions that were rolled back, by outcome.", "outcome"),
		undone:          reg.counters1("compensations_total", "Compensations of actions that have ended, by state.", "state"),
		blocks:          reg.counters2("blocks_total", "Control blocks that have ended, by kind and state.", "kind", "state"),
		refused:         reg.counters1("token_refused_total", "Requests that were refused for their token, by reason.", "reason"),
		toolChanges:     reg.counters1("mcp_tool_changes_total", "Tools that an MCP server offered in other words than before, by server.", "server"),
		ttlExpired:      reg.counter("ttl_expired_total", "Control tokens that had expired."),
		jtiDup:          reg.counter("jti_dup_total", "Control tokens whose jti was seen before."),
		noProgress:      reg.counter("no_progress_total", "Turns halted because the session repeated itself."),
		fallbackMint:    reg.counter("fallback_mint_total", "Control tokens minted by the fallback signer."),
		journalCommits:  reg.counter("journal_commits_total", "Commits of the journal."),
		journalSyncs:    reg.counter("journal_syncs_total", "How often the journal has waited for the disk, where it is a file of this host."),
		journalRecords:  reg.counter("journal_records_total", "Records committed to the journal."),
		orphans:         reg.counter("orphans_total", "Tools that were still running when their turn had ended."),
		chunks:          reg.counter("streamed_chunks_total", "Records with pieces of results that were shown as they grew."),
		streamed:        reg.counter("streamed_bytes_total", "Bytes of results that were shown as they grew."),
		receiptsMissing: reg.counter("receipts_missing_total", "Records committed unsigned although receipts are on."),
		sessions:        reg.gauge("sessions", "Sessions that are awake."),
		backedUp:        reg.gauge("backup_timestamp_seconds", "When the last scheduled backup was made, in seconds since the epoch; 0 without one."),
		turnsInFlight:   reg.gauge("turns_in_flight", "Turns begun and not yet decided."),
		commitTook:      reg.histogram("journal_commit_seconds", "Time of a commit of the journal.", commitBuckets),
		latency:         reg.histogram("turn_seconds", "Time from the begin of a turn to its decision.", callBuckets),
		work:            newWork(reg),
		traffic:         newTraffic(reg),
		open:            map[messages.Incarnation]struct{}{},
		known:           map[messages.Incarnation]*underway{},
	}
	for _, l := range messages.Limits() { // there from the start, so that the first time shows
		m.LimitReached(l, 0)
	}
	for _, outcome := range []messages.ActionState{messages.ActionOK, messages.ActionFailed, messages.ActionUnknown} {
		m.rollbacks.of(string(outcome))
		m.undone.of(string(outcome))
	}
	for _, kind := range blockKinds {
		for _, state := range []messages.ActionState{messages.ActionOK, messages.ActionFailed} {
			m.blocks.of(pair{kind, string(state)})
		}
	}
	for _, reason := range Refusals() {
		m.refused.of(reason)
	}
	r.MustRegister(buildInfo(debug.ReadBuildInfo))
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
// from block.ended; compensations and streamed results from their records;
// breaches and the limits that end something from control; and the work of agents (observeWork).
// Lints are taken from turn.decided alone, so that the counter is the sum over the decision log.
// agent is the name in the manifest of the session.
func (m *Metrics) ObserveRecord(agent string, rec *messages.Record) {
	if m.muted {
		return
	}
	m.observeWork(agent, rec)
	switch b := rec.Body.(type) {
	case *messages.TurnBegin:
		m.begin(rec.Inc)
	case *messages.TurnDecided:
		m.end(rec.Inc)
		m.decided(b)
	case *messages.SessionClosed:
		m.end(rec.Inc)
		m.forget(rec.Inc)
	case *messages.BlockEnded:
		m.blocks.of(pair{cmp.Or(b.BlockKind, overflow), string(b.State)}).Add(1)
	case *messages.ActionChunk:
		m.chunks.Inc()
		m.streamed.Add(float64(len(b.Bytes)))
	case *messages.ActionEnded:
		if strings.HasPrefix(b.ID, turn.UndoPrefix) {
			m.undone.of(string(b.State)).Inc()
		}
	case *messages.Control:
		// A clock's control is a breach only where it ended something: other timers
		// are the machine's own.
		if b.What == messages.ControlBreach || b.What == messages.ControlTimer && b.Code == messages.ErrTimeout {
			m.quotaBreach.of(kindLabel(b.Name)).Inc()
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
	m.decisions.of(pair{string(d.Decision), string(d.Reason)}).Add(1)
	m.latency.Observe(float64(d.LatencyMS) / 1000)
	if d.Decision == messages.Halt && d.Reason == messages.ErrNoProgress {
		m.noProgress.Inc()
	}
	if d.Repair {
		m.repairs.of(string(d.Reason)).Inc()
	}
	for _, f := range d.Failures {
		m.verifyFail.of(f).Inc()
		switch f {
		case "ERR_TOKEN_TTL/EXPIRED":
			m.ttlExpired.Inc()
		case "ERR_TOKEN_REPLAY/JTI":
			m.jtiDup.Inc()
		}
	}
	for _, l := range d.Lints {
		m.lints.of(string(l)).Inc()
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
	m.rest(inc)
	m.turnsInFlight.Set(float64(len(m.open)))
	m.mu.Unlock()
}

// blockKinds are the labels of control blocks.
var blockKinds = []string{"if", "foreach", "parallel"}

// Abandoned says that this process lets go of inc in the middle of a turn, which another host, or
// this one later, goes on with.
func (m *Metrics) Abandoned(inc messages.Incarnation) {
	m.end(inc)
	m.forget(inc)
}

// forget drops what is known of an activation.
func (m *Metrics) forget(inc messages.Incarnation) {
	m.mu.Lock()
	delete(m.known, inc)
	m.mu.Unlock()
}

// SessionAwake counts a session that was activated.
func (m *Metrics) SessionAwake() { m.sessions.Inc() }

// SessionAsleep counts a session that was passivated or closed.
func (m *Metrics) SessionAsleep() { m.sessions.Dec() }

// LimitReached counts n times that something met a limit.
func (m *Metrics) LimitReached(l string, n int) { m.limits.of(l).Add(float64(n)) }

// RolledBack counts a group of actions that was rolled back. Its outcome is ok, failed if a
// compensation failed, or unknown.
func (m *Metrics) RolledBack(outcome string) { m.rollbacks.of(outcome).Inc() }

// Refusals are the reasons of TokenRefused.
func Refusals() []string {
	return []string{"missing", "unknown", "expired", "revoked", "scope", "unavailable", "other"}
}

// TokenRefused counts a request that was refused for its token.
func (m *Metrics) TokenRefused(reason string) { m.refused.of(reason).Inc() }

// Profile counts an attempt to learn the profile of a user.
func (m *Metrics) Profile(outcome string) { m.profiles.of(outcome).Inc() }

// ToolsChanged counts tools that an MCP server offered in other words than before.
func (m *Metrics) ToolsChanged(server string, n int) { m.toolChanges.of(server).Add(float64(n)) }

// FallbackMint counts a token of the fallback signer.
func (m *Metrics) FallbackMint() { m.fallbackMint.Inc() }

// Orphan counts a tool that did not end with its turn.
func (m *Metrics) Orphan() { m.orphans.Inc() }

// ReceiptMissing counts a record that should have been signed.
func (m *Metrics) ReceiptMissing() { m.receiptsMissing.Inc() }

// Committed counts a commit of the journal, its records and how long it took.
func (m *Metrics) Committed(records int, took time.Duration) {
	if m.muted {
		return
	}
	m.journalCommits.Inc()
	m.journalRecords.Add(float64(records))
	m.commitTook.Observe(took.Seconds())
}

// BackedUp says when the last scheduled backup was made.
func (m *Metrics) BackedUp(at time.Time) { m.backedUp.Set(float64(at.Unix())) }

// Synced counts how often the journal has waited for the disk.
func (m *Metrics) Synced(n int64) { m.journalSyncs.Add(float64(n)) }

// JournalFile has the size of a journal's file, and of its log, looked at when it is asked for. It is
// called once.
func (m *Metrics) JournalFile(path string) {
	for _, f := range []struct{ part, path string }{{"file", path}, {"log", path + "-wal"}} {
		maker{m.own, m.history.looked}.register("journal_bytes", prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "journal_bytes", Help: "Size of the journal's file, and of its log; of a journal that is a file of this host.",
			ConstLabels: prometheus.Labels{"part": f.part},
		}, func() float64 {
			info, err := os.Stat(f.path)
			if err != nil {
				return 0
			}
			return float64(info.Size())
		}))
	}
}

// SessionsWaiting has how many sessions wait for a person's answer, counted when it is asked for:
// they sleep meanwhile, and outlive the process. It is called once.
func (m *Metrics) SessionsWaiting(count func() float64) {
	m.own.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "sessions_waiting", Help: "Sessions of the journal whose turn waits for a person's answer.",
	}, count))
}

// Cluster counts what happens to the leases of a host, and to requests that it forwards.
func (m *Metrics) Cluster(event string) { m.cluster.of(event).Inc() }

// kindLabel makes one spelling of a meter's or clock's name: meters are named GAS
// in the codes and gas in the manifest.
func kindLabel(name string) string {
	if name == "" {
		return overflow
	}
	return strings.ToLower(name)
}
