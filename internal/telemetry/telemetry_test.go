package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile/messages"
)

func decided(d messages.TurnDecided) *messages.Record {
	return &messages.Record{
		SID: "t:u:s", Inc: uuid.UUID{1}, Turn: d.TurnIndex, Body: &d,
		TS: time.Date(2026, 11, 21, 13, 4, 5, 60_000_000, time.FixedZone("x", 3600)),
	}
}

func TestDecisionLog(t *testing.T) {
	for _, c := range []struct {
		name string
		d    messages.TurnDecided
		want string
	}{
		{
			"all members",
			messages.TurnDecided{
				TurnIndex: 7, Decision: messages.Halt, Reason: messages.ErrNoProgress, Detail: "not logged", KID: "k1", JTI: "j1", LatencyMS: 12,
				OutputBytes: 3, ScratchBytes: 4, Verification: "ERR_TOKEN_TTL/EXPIRED", Lints: []messages.Code{messages.LintMultiTokens, messages.LintPostTokenText},
				Failures: []string{"ERR_TOKEN_PARSE/BAD_SHAPE", "ERR_TOKEN_TTL/EXPIRED"}, GasUsed: 99, State: []byte("x"),
			},
			`{"ts":"2026-11-21T12:04:05.060000000Z","SID":"t:u:s","turn_index":7,"decision":"HALT","reason":"ERR_NO_PROGRESS","kid":"k1","jti":"j1","latency_ms":12,"output_bytes":3,"scratch_bytes":4,` +
				`"verification_failure_reason":"ERR_TOKEN_TTL/EXPIRED","lints":["LINT_MULTI_TOKENS","LINT_POST_TOKEN_TEXT"],"failures":["ERR_TOKEN_PARSE/BAD_SHAPE","ERR_TOKEN_TTL/EXPIRED"],"gas_used":99}`,
		},
		{
			"no optional member",
			messages.TurnDecided{TurnIndex: 1, Decision: messages.Done},
			`{"ts":"2026-11-21T12:04:05.060000000Z","SID":"t:u:s","turn_index":1,"decision":"DONE","latency_ms":0,"output_bytes":0,"scratch_bytes":0}`,
		},
		{
			"escapes",
			messages.TurnDecided{TurnIndex: 1, Decision: messages.Halt, Reason: "A\"\nB", Failures: []string{"\xff<"}},
			`{"ts":"2026-11-21T12:04:05.060000000Z","SID":"t:u:s","turn_index":1,"decision":"HALT","reason":"A\"\nB","latency_ms":0,"output_bytes":0,"scratch_bytes":0,"failures":["\ufffd<"]}`,
		},
	} {
		var b bytes.Buffer
		l := NewDecisionLog(&b)
		if err := l.Write(decided(c.d)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want+"\n", b.String()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if !json.Valid(b.Bytes()) {
			t.Errorf("%s is no JSON", c.name)
		}
	}
	var b bytes.Buffer
	l := NewDecisionLog(&b)
	for _, rec := range []*messages.Record{{Body: &messages.TurnBegin{}}, {}, {Body: (*messages.TurnDecided)(nil)}} {
		if err := l.Write(rec); err != nil || b.Len() != 0 {
			t.Errorf("%v, %q", err, b.String())
		}
	}
	if l.Write(decided(messages.TurnDecided{})); !strings.HasSuffix(b.String(), "}\n") || l.Sync() != nil {
		t.Errorf("%q", b.String())
	}
	if err := NewDecisionLog(broken{}).Write(decided(messages.TurnDecided{})); err == nil {
		t.Error("a broken writer is not told")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// values are the metrics of stile, by name and labels.
func values(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	fams, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range fams {
		if !strings.HasPrefix(f.GetName(), "stile_") || f.GetName() == "stile_build_info" {
			continue
		}
		for _, x := range f.GetMetric() {
			name := f.GetName()
			for _, l := range x.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case x.GetCounter() != nil:
				out[name] = x.GetCounter().GetValue()
			case x.GetGauge() != nil:
				out[name] = x.GetGauge().GetValue()
			case x.GetHistogram() != nil:
				out[name] = float64(x.GetHistogram().GetSampleCount())
				out[name+" sum"] = x.GetHistogram().GetSampleSum()
			}
		}
	}
	return out
}

// noTalks adds the metrics of conversations before there are any.
func noTalks(want map[string]float64) {
	want["stile_model_sessions_open"] = 0
	for _, mode := range []string{"resume", "replay"} {
		want["stile_prompt_bytes_total mode="+mode] = 0
		for _, kind := range []string{"sent", "billed", "cached"} {
			want["stile_prompt_tokens_total kind="+kind+" mode="+mode] = 0
		}
	}
}

func TestObserveRecord(t *testing.T) {
	m := NewMetrics()
	inc := uuid.UUID{1}
	observe := func(b messages.Body) { m.ObserveRecord("a", &messages.Record{Inc: inc, Body: b}) }
	zero := map[string]float64{
		"stile_ttl_expired_total": 0, "stile_jti_dup_total": 0, "stile_no_progress_total": 0, "stile_fallback_mint_total": 0,
		"stile_journal_commits_total": 0, "stile_journal_syncs_total": 0, "stile_http_streams": 0, "stile_journal_records_total": 0, "stile_orphans_total": 0, "stile_receipts_missing_total": 0,
		"stile_streamed_chunks_total": 0, "stile_streamed_bytes_total": 0,
		"stile_sessions": 0, "stile_backup_timestamp_seconds": 0, "stile_turns_in_flight": 0, "stile_turn_seconds": 0, "stile_turn_seconds sum": 0, "stile_journal_commit_seconds": 0, "stile_journal_commit_seconds sum": 0,
	}
	noTalks(zero)
	for _, l := range messages.Limits() {
		zero["stile_limit_reached_total limit="+l] = 0
	}
	for _, reason := range Refusals() {
		zero["stile_token_refused_total reason="+reason] = 0
	}
	for _, outcome := range []string{"ok", "failed", "unknown"} {
		zero["stile_rollbacks_total outcome="+outcome] = 0
		zero["stile_compensations_total state="+outcome] = 0
	}
	for _, kind := range blockKinds {
		zero["stile_blocks_total kind="+kind+" state=ok"], zero["stile_blocks_total kind="+kind+" state=failed"] = 0, 0
	}
	if d := cmp.Diff(zero, values(t, m)); d != "" {
		t.Error(d)
	}
	m.ObserveRecord("a", &messages.Record{}) // erased

	observe(&messages.TurnBegin{})
	if v := values(t, m)["stile_turns_in_flight"]; v != 1 {
		t.Errorf("%v in flight", v)
	}
	observe(&messages.Control{What: messages.ControlBreach, Name: "GAS", Code: messages.ErrQuota})
	observe(&messages.Control{What: messages.ControlTimer, Name: "turn_wall", Code: messages.ErrTimeout})
	observe(&messages.Control{What: messages.ControlTimer, Name: "lazy"})
	observe(&messages.Control{What: messages.ControlTimer, Name: "drain"})
	observe(&messages.Control{What: messages.ControlBreach, Name: "reply", Code: messages.ErrQuota})
	observe(&messages.ActionChunk{ID: "a", Bytes: []byte("one")})
	observe(&messages.ActionChunk{ID: "a", Off: 3, Bytes: []byte("/2")})
	observe(&messages.ActionEnded{ID: "a", State: messages.ActionFailed})
	observe(&messages.ActionEnded{ID: "undo:a", State: messages.ActionFailed})
	observe(&messages.BlockEnded{ID: "l", BlockKind: "foreach", State: messages.ActionFailed})
	observe(&messages.BlockEnded{ID: "c", BlockKind: "if", State: messages.ActionOK})
	observe(&messages.BlockEnded{ID: "c", State: messages.ActionOK}) // of an earlier version
	m.LimitReached(messages.LimitTag, 1)
	m.LimitReached(messages.LimitTag, 2)
	observe(&messages.Control{What: messages.ControlBreach})
	observe(&messages.Control{What: messages.ControlCancel, Name: "x"})
	observe(&messages.TurnDecided{
		Decision: messages.Halt, Reason: messages.ErrNoProgress, LatencyMS: 500,
		Failures: []string{"ERR_TOKEN_TTL/EXPIRED", "ERR_TOKEN_TTL/EXPIRED", "ERR_TOKEN_TTL/FUTURE", "ERR_TOKEN_REPLAY/JTI", "ERR_TOKEN_REPLAY/JTI"},
		Lints:    []messages.Code{messages.LintMultiTokens, messages.LintPostTokenText},
	})
	observe(&messages.TurnDecided{Decision: messages.Done, LatencyMS: 125})
	observe(&messages.TurnDecided{Decision: messages.Done, LatencyMS: 125})
	// The guard's reason counts only where it halted the turn.
	observe(&messages.TurnDecided{Decision: messages.Done, Reason: messages.ErrNoProgress})
	observe(&messages.Lint{Code: messages.LintMultiTokens})
	observe(&messages.ModelRequest{Lints: []messages.Code{messages.LintMarkerEscaped}})
	m.SessionAwake()
	m.BackedUp(time.Unix(7, 0))
	m.SessionAwake()
	m.SessionAsleep()
	m.FallbackMint()
	m.Orphan()
	m.ReceiptMissing()
	m.Committed(3, time.Second)
	m.Committed(4, time.Second)
	m.Synced(5)
	want := map[string]float64{
		"stile_decisions_total decision=HALT reason=ERR_NO_PROGRESS": 1, "stile_decisions_total decision=DONE reason=": 2, "stile_decisions_total decision=DONE reason=ERR_NO_PROGRESS": 1,
		"stile_verify_fail_total reason=ERR_TOKEN_TTL/EXPIRED": 2, "stile_verify_fail_total reason=ERR_TOKEN_TTL/FUTURE": 1, "stile_verify_fail_total reason=ERR_TOKEN_REPLAY/JTI": 2,
		"stile_lints_total code=LINT_MULTI_TOKENS": 1, "stile_lints_total code=LINT_POST_TOKEN_TEXT": 1,
		"stile_quota_breach_total kind=gas": 1, "stile_quota_breach_total kind=turn_wall": 1, "stile_quota_breach_total kind=other": 1, "stile_quota_breach_total kind=reply": 1,
		"stile_ttl_expired_total": 2, "stile_jti_dup_total": 2, "stile_no_progress_total": 1, "stile_fallback_mint_total": 1,
		"stile_journal_commits_total": 2, "stile_journal_syncs_total": 5, "stile_http_streams": 0, "stile_journal_records_total": 7, "stile_orphans_total": 1, "stile_receipts_missing_total": 1,
		"stile_streamed_chunks_total": 2, "stile_streamed_bytes_total": 5,
		"stile_sessions": 1, "stile_backup_timestamp_seconds": 7, "stile_turns_in_flight": 0, "stile_turn_seconds": 4, "stile_turn_seconds sum": 0.75, "stile_journal_commit_seconds": 2, "stile_journal_commit_seconds sum": 2,
	}
	noTalks(want)
	for _, l := range messages.Limits() {
		want["stile_limit_reached_total limit="+l] = 0
	}
	for _, reason := range Refusals() {
		want["stile_token_refused_total reason="+reason] = 0
	}
	for _, outcome := range []string{"ok", "failed", "unknown"} {
		want["stile_rollbacks_total outcome="+outcome] = 0
		want["stile_compensations_total state="+outcome] = 0
	}
	for _, kind := range blockKinds {
		want["stile_blocks_total kind="+kind+" state=ok"], want["stile_blocks_total kind="+kind+" state=failed"] = 0, 0
	}
	want["stile_compensations_total state=failed"] = 1
	want["stile_blocks_total kind=if state=ok"], want["stile_blocks_total kind=foreach state=failed"], want["stile_blocks_total kind=other state=ok"] = 1, 1, 1
	want["stile_limit_reached_total limit=drain"], want["stile_limit_reached_total limit=reply"], want["stile_limit_reached_total limit=tag"] = 1, 1, 3
	if d := cmp.Diff(want, values(t, m)); d != "" {
		t.Error(d)
	}
}

// A turn is counted down once, and only if it was counted up.
func TestTurnsInFlight(t *testing.T) {
	m := NewMetrics()
	begin := func(n byte) { m.ObserveRecord("a", &messages.Record{Inc: uuid.UUID{n}, Body: &messages.TurnBegin{}}) }
	decide := func(n byte) { m.ObserveRecord("a", &messages.Record{Inc: uuid.UUID{n}, Body: &messages.TurnDecided{}}) }
	for i, c := range []struct {
		do   func()
		want float64
	}{
		{func() { begin(1) }, 1},
		{func() { begin(2) }, 2},
		{func() { decide(3) }, 2}, // begun by another process
		{func() { decide(1) }, 1},
		{func() { decide(1) }, 1},
		{func() { begin(2) }, 1}, // restored: the same turn begins again
		{func() { begin(4) }, 2},
		{func() { decide(4) }, 1},
		{func() { m.Abandoned(uuid.UUID{2}) }, 0},
		{func() { begin(5) }, 1},
		{func() { m.ObserveRecord("a", &messages.Record{Inc: uuid.UUID{5}, Body: &messages.SessionClosed{}}) }, 0},
	} {
		c.do()
		if v := values(t, m)["stile_turns_in_flight"]; v != c.want {
			t.Errorf("step %d: %v in flight, want %v", i, v, c.want)
		}
	}
}

func TestLabelsAreCapped(t *testing.T) {
	m := NewMetrics()
	for i := range 10 * maxChildren {
		m.ObserveRecord("a", decided(messages.TurnDecided{Decision: messages.Halt, Reason: messages.Code(fmt.Sprint(i)), Failures: []string{fmt.Sprint("f", i), "\xff"}}))
	}
	v := values(t, m)
	for name, want := range map[string]float64{
		"stile_decisions_total decision=other reason=other": 9 * maxChildren,
		"stile_verify_fail_total reason=other":              9*maxChildren + 1,
		"stile_verify_fail_total reason=\uFFFD":             10 * maxChildren,
		"stile_decisions_total decision=HALT reason=0":      1,
	} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	if len(v) > 3*maxChildren {
		t.Errorf("%d series", len(v))
	}
}

func TestRegistriesAreIndependent(t *testing.T) {
	a, b := NewMetrics(), NewMetrics()
	a.Orphan()
	if values(t, b)["stile_orphans_total"] != 0 {
		t.Error("two values share a counter")
	}
	fams, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fams {
		if strings.HasPrefix(f.GetName(), "stile_") {
			t.Errorf("%s is global", f.GetName())
		}
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"stile_orphans_total 1\n", "stile_turn_seconds_bucket{le=\"900\"} 0\n", "go_goroutines"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestObserveFromManyGoroutines(t *testing.T) {
	m := NewMetrics()
	var b bytes.Buffer
	l := NewDecisionLog(&b)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				inc := uuid.UUID{byte(g)}
				m.ObserveRecord("a", &messages.Record{Inc: inc, Body: &messages.TurnBegin{}})
				rec := decided(messages.TurnDecided{Decision: messages.Halt, Reason: messages.Code(fmt.Sprint(i % 10)), Lints: []messages.Code{"a"}})
				rec.Inc = inc
				m.ObserveRecord("a", rec)
				if err := l.Write(rec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := values(t, m)
	if v["stile_turn_seconds"] != 1600 || v["stile_lints_total code=a"] != 1600 || v["stile_turns_in_flight"] != 0 || v["stile_decisions_total decision=HALT reason=3"] != 160 {
		t.Errorf("%v", v)
	}
	if n := strings.Count(b.String(), "\n"); n != 1600 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(b.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%q", line)
		}
	}
}

func TestNewLogger(t *testing.T) {
	var b bytes.Buffer
	log := NewLogger(zapcore.WarnLevel, true, &b).Named("root")
	log.Info("not shown")
	log.Error("shown", zap.Duration("d", time.Second))
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	if _, err := time.Parse(timeFormat, fmt.Sprint(got["ts"])); err != nil || got["msg"] != "shown" || got["level"] != "error" || got["logger"] != "root" || got["d"] != "1s" || got["stack"] != nil {
		t.Errorf("%v, %v", got, err)
	}
	b.Reset()
	Slog(log).Info("not shown")
	Slog(log).Warn("by slog", "n", 3)
	got = nil
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	if got["msg"] != "by slog" || got["n"] != 3.0 || got["logger"] != "root" {
		t.Errorf("%v", got)
	}
	b.Reset()
	NewLogger(zapcore.DebugLevel, false, &b).Debug("for people")
	if s := b.String(); !strings.Contains(s, "for people") || strings.HasPrefix(s, "{") {
		t.Errorf("%q", s)
	}
}

func BenchmarkObserveRecord(b *testing.B) {
	rec := decided(messages.TurnDecided{Decision: messages.Continue, LatencyMS: 40})
	begin := &messages.Record{Inc: rec.Inc, Body: &messages.TurnBegin{}}
	halted := decided(messages.TurnDecided{
		Decision: messages.Halt, Reason: messages.ErrTokenTTL, LatencyMS: 40,
		Failures: []string{"ERR_TOKEN_TTL/EXPIRED"}, Lints: []messages.Code{messages.LintPostTokenText},
	})
	m := NewMetrics()
	b.Run("turn_begin_and_decided", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.ObserveRecord("a", begin)
			m.ObserveRecord("a", rec)
		}
	})
	b.Run("turn_decided", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.ObserveRecord("a", rec)
		}
	})
	b.Run("turn_decided_with_a_failure_and_a_lint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.ObserveRecord("a", halted)
		}
	})
	b.Run("floor_one_counter_and_one_histogram", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.orphans.Inc()
			m.latency.Observe(40)
		}
	})
	b.Run("peer_label_lookup_by_the_library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.decisions.child(pair{"CONTINUE", ""}).Inc()
			m.latency.Observe(40)
		}
	})
}

func BenchmarkDecisionLog(b *testing.B) {
	l := NewDecisionLog(io.Discard)
	rec := decided(messages.TurnDecided{TurnIndex: 7, Decision: messages.Done, KID: "ed25519-1", JTI: "00000000-0000-4000-8000-000000000001", LatencyMS: 12, OutputBytes: 300, GasUsed: 99})
	b.Run("one_line", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := l.Write(rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("peer_encoding_json_of_a_map", func(b *testing.B) {
		d := rec.Body.(*messages.TurnDecided)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(map[string]any{
				"ts": rec.TS, "SID": rec.SID, "turn_index": d.TurnIndex, "decision": d.Decision, "kid": d.KID, "jti": d.JTI,
				"latency_ms": d.LatencyMS, "output_bytes": d.OutputBytes, "scratch_bytes": d.ScratchBytes, "gas_used": d.GasUsed,
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Muted metrics count nothing of what comes with each record, request, call and commit; others do.
func TestMuted(t *testing.T) {
	for _, muted := range []bool{false, true} {
		Muted = muted
		m := NewMetrics()
		Muted = false
		m.ObserveRecord("a", &messages.Record{Body: &messages.TurnDecided{Decision: messages.Done}})
		m.Committed(3, time.Millisecond)
		m.ModelCalled(ModelCall{Provider: "p", Model: "m", Outcome: "ok"})
		m.ModelAsked("replay", 100)
		m.Request("GET", "r", 200, time.Millisecond)
		families, err := m.own.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]bool{}
		for _, f := range families {
			for _, x := range f.GetMetric() {
				if x.GetCounter().GetValue() > 0 {
					counted[f.GetName()] = true
				}
			}
		}
		for _, name := range []string{"stile_decisions_total", "stile_journal_commits_total", "stile_model_calls_total", "stile_prompt_bytes_total", "stile_http_requests_total"} {
			if counted[name] == muted {
				t.Errorf("muted %v: %s was counted: %v", muted, name, counted[name])
			}
		}
	}
}
