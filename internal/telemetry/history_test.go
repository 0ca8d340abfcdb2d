package telemetry

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// at is a time in a history of tests.
func at(s int) time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(s) * time.Second) }

func seriesOf(t *testing.T, h History, name string) []float64 {
	t.Helper()
	for _, s := range h.Series {
		if s.Name == name {
			if len(s.Values) != len(h.Times) {
				t.Fatalf("%s has %d values for %d times", name, len(s.Values), len(h.Times))
			}
			return s.Values
		}
	}
	t.Fatalf("no series %s", name)
	return nil
}

func last(t *testing.T, h History, name string) float64 {
	t.Helper()
	v := seriesOf(t, h, name)
	if len(v) == 0 {
		t.Fatalf("%s has no points", name)
	}
	return v[len(v)-1]
}

// A point tells what happened since the one before: rates by the second, the highest levels, and
// quantiles of what was observed in between alone.
func TestHistoryPoints(t *testing.T) {
	m := NewMetrics()
	if h := m.History("hour", time.Time{}); len(h.Times) != 0 || len(h.Series) != len(measures) || !h.Since.IsZero() {
		t.Errorf("before the first sample: %d points, since %v", len(h.Times), h.Since)
	}
	for range 100 { // before the first sample: no point tells of it
		m.ModelCalled(ModelCall{Outcome: "server", First: time.Minute})
	}
	m.Sample(at(0))
	m.SessionAwake()
	for i := range 20 {
		m.ObserveRecord("a", decided(messages.TurnDecided{Decision: messages.Done, LatencyMS: 30}))
		m.ObserveRecord("b", &messages.Record{SID: "t:u:s", Inc: uuid.UUID{1}, Body: &messages.ModelReply{Usage: messages.Usage{Input: 100, Output: 7, CacheRead: 50}}})
		m.ModelCalled(ModelCall{Provider: "p", Model: []string{"x", "y"}[i%2], Outcome: []string{CallOK, CallCancelled, "server", "rate_limit"}[i%4], First: 3 * time.Millisecond})
		m.ObserveRecord("a", &messages.Record{SID: "t:u:s", Body: &messages.RunEnd{Decision: []messages.Decision{messages.Done, messages.Halt}[i%2]}})
		m.Refused("ERR_BUSY", "RUNS")
	}
	m.Committed(3, 200*time.Microsecond)
	m.Sample(at(10))
	h := m.History("hour", time.Time{})
	for name, want := range map[string]float64{
		"turns": 2, "runs": 2, "halted_runs": 1, "input_tokens": 200, "output_tokens": 14, "failed_model_calls": 1, "failed_tool_calls": 0, "refused_requests": 2,
		"sessions_awake": 1, "records": .3, "commits": .1, "turn_p50": .0375, "turn_p95": .04875, "first_text_p50": .00375,
	} {
		if got := last(t, h, name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := last(t, h, "memory"); got < 1<<20 {
		t.Errorf("memory is %v", got)
	}
	if got := last(t, h, "journal_file"); !math.IsNaN(got) {
		t.Errorf("a journal without a file has %v bytes", got)
	}
	m.Sample(at(20))
	h = m.History("hour", at(10))
	if len(h.Times) != 1 || !h.Times[0].Equal(at(20)) || !h.Since.Equal(at(0)) {
		t.Errorf("behind the first point: %v since %v", h.Times, h.Since)
	}
	if got := last(t, h, "turns"); got != 0 {
		t.Errorf("%v turns a second where none was", got)
	}
	if got := last(t, h, "turn_p95"); !math.IsNaN(got) {
		t.Errorf("turns that there were not took %v", got)
	}
}

// Coarse rings count what all samples in between saw, and keep the highest level of them.
func TestHistorySpans(t *testing.T) {
	m := NewMetrics()
	for s := 0; s <= 2*3600; s += 10 {
		if s%120 == 60 { // seen by one sample, and over at the next
			m.SessionAwake()
		}
		m.Committed(1, time.Millisecond)
		m.Sample(at(s))
		if s%120 == 60 {
			m.SessionAsleep()
		}
	}
	for span, want := range map[string]int{"hour": 360, "day": 60, "week": 8} {
		h := m.History(span, time.Time{})
		if len(h.Times) != want {
			t.Errorf("%s has %d points, want %d", span, len(h.Times), want)
		}
		for i := 1; i < len(h.Times); i++ {
			if h.Times[i].Sub(h.Times[i-1]) != h.Step {
				t.Fatalf("%s: %v after %v", span, h.Times[i], h.Times[i-1])
			}
		}
		if got := last(t, h, "commits"); math.Abs(got-.1) > 1e-6 {
			t.Errorf("%s: %v commits a second", span, got)
		}
		if span != "hour" && last(t, h, "sessions_awake") != 1 {
			t.Errorf("%s lost the highest level", span)
		}
	}
	if h := m.History("year", time.Time{}); h.Series != nil || h.Times != nil {
		t.Errorf("a span that there is not has %d series", len(h.Series))
	}
}

// Every family that a history reads is one of the metrics, and every measure finds its own.
func TestHistoryReadsMetrics(t *testing.T) {
	m := NewMetrics()
	m.JournalFile(t.TempDir())
	m.ModelCalled(ModelCall{Outcome: "server", First: 1})
	m.Request("GET", "x", 200, 1)
	m.Refused("x", "")
	for _, body := range []messages.Body{
		&messages.RunEnd{}, &messages.ModelReply{Usage: messages.Usage{Input: 1}}, &messages.ActionEnded{State: messages.ActionUnknown},
	} {
		m.ObserveRecord("a", &messages.Record{Body: body})
	}
	families, err := m.history.looked.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range families {
		there[f.GetName()] = true
	}
	for _, one := range measures {
		if one.family != "" && !there[namespace+"_"+one.family] {
			t.Errorf("%s reads %s, which is no metric", one.name, one.family)
		}
	}
}

// What a sample costs a host with many agents and models: go test -bench Sample.
func BenchmarkSample(b *testing.B) {
	m := NewMetrics()
	for i := range maxChildren {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		m.ModelCalled(ModelCall{Provider: "p", Model: name, Outcome: CallOK, First: 1})
		m.Request("GET", name, 200, 1)
		m.ObserveRecord(name, &messages.Record{SID: "t:u:s", Body: &messages.RunEnd{}})
	}
	b.ReportAllocs()
	for i := range b.N {
		m.Sample(at(10 * i))
	}
}
