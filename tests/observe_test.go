package tests

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// The decision log has one line per turn, in order, with exactly the members of
// docs/spec/aeiou.md §17: the required ones always, the others when they say something.
func TestDecisionLog(t *testing.T) {
	required := []string{"ts", "SID", "turn_index", "decision", "latency_ms", "output_bytes", "scratch_bytes"}
	mint := `set tok = tool.aeiou.magic("LOOP", {"action": "done"})`
	for name, c := range map[string]struct {
		lines []string
		more  []string
		want  map[string]any
	}{
		"done":   {[]string{`emit "abc"`, `whisper self, "de"`, sayDone}, []string{"kid", "jti", "gas_used"}, map[string]any{"decision": "DONE", "scratch_bytes": 3.0}},
		"abort":  {[]string{sayAbort}, []string{"kid", "jti", "gas_used"}, map[string]any{"decision": "ABORT"}},
		"halt":   {[]string{`emit "abc"`}, []string{"reason", "gas_used"}, map[string]any{"decision": "HALT", "reason": "ERR_TOKEN_MISSING", "output_bytes": 4.0}},
		"failed": {[]string{`emit "<<<NSMAG:V3:LOOP:x.y>>>"`}, []string{"reason", "gas_used", "failures", "verification_failure_reason"}, map[string]any{"reason": "ERR_TOKEN_PARSE"}},
		"lints and failures": {
			[]string{mint, "emit tok", "emit tok", `emit "text"`},
			[]string{"kid", "jti", "gas_used", "failures", "verification_failure_reason", "lints"},
			map[string]any{"verification_failure_reason": "ERR_TOKEN_REPLAY/JTI"},
		},
		"not run": {nil, []string{"reason"}, map[string]any{"reason": "ERR_ACTIONS_PARSE", "output_bytes": 0.0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				rt := start(t, stile.Config{DecisionLog: &log})
				reply := program(c.lines...)
				if c.lines == nil {
					reply = "no program"
				}
				s := open(t, rt, "logged", agent(after(1500*time.Millisecond, says(reply)), nil))
				ask(t, s, "go")
				if n := bytes.Count(log.Bytes(), []byte("\n")); n != 1 {
					t.Fatalf("%d lines", n)
				}
				var got map[string]any
				if err := json.Unmarshal(log.Bytes(), &got); err != nil {
					t.Fatalf("%v in %s", err, &log)
				}
				want := slices.Sorted(slices.Values(slices.Concat(required, c.more)))
				if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
					t.Errorf("members %v, want %v", keys, want)
				}
				for k, v := range c.want {
					if got[k] != v {
						t.Errorf("%s is %v, want %v", k, got[k], v)
					}
				}
				if got["latency_ms"] != 1500.0 || got["SID"] != "local:local:logged" || got["turn_index"] != 1.0 {
					t.Errorf("line %s", &log)
				}
				if ts, _ := got["ts"].(string); len(ts) != len("2006-01-02T15:04:05.000000000Z") || !strings.HasSuffix(ts, "Z") {
					t.Errorf("ts is %v", got["ts"])
				}
			})
		})
	}
}

// Lints are in the record, in the metrics, and change no decision.
func TestLintsAreRecorded(t *testing.T) {
	mint := `tool.aeiou.magic("LOOP", {"action": "done"})`
	for name, c := range map[string]struct {
		replies []string
		want    []messages.Code // of the last turn
		counted messages.Code
	}{
		"none":            {[]string{program(`emit "x"`, sayDone)}, nil, ""},
		"text after":      {[]string{program("emit "+mint, `emit "x"`)}, []messages.Code{messages.LintPostTokenText}, messages.LintPostTokenText},
		"blanks after":    {[]string{program("emit "+mint, `emit " "`, `emit "\t"`)}, nil, ""},
		"two tokens":      {[]string{program(sayContinue, "emit "+mint)}, []messages.Code{messages.LintMultiTokens}, messages.LintMultiTokens},
		"marker in carry": {[]string{program(`emit "<<<NSENV:V3:END>>>"`, sayContinue), program(sayDone)}, []messages.Code{messages.LintMarkerEscaped}, messages.LintMarkerEscaped},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				s := open(t, rt, "linted", agent(once(c.replies...), nil))
				o := ask(t, s, "go")
				wantDone(t, o)
				if !slices.Equal(o.Turn.Lints, c.want) {
					t.Errorf("lints %v, want %v", o.Turn.Lints, c.want)
				}
				if c.counted != "" && metric(t, rt, "lints_total", "code", string(c.counted)) != 1 {
					t.Errorf("lints_total{%s} is not 1", c.counted)
				}
			})
		})
	}
}

// Every counter of docs/spec/aeiou.md §17 that a run touches moves by as much.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		s := open(t, rt, "counted", agent(once(program(`emit 1`, sayContinue), program(sayDone), program(`emit 2`)), nil))
		wantDone(t, ask(t, s, "one"))
		wantHalt(t, ask(t, s, "two"), messages.ErrTokenMissing)
		for _, c := range []struct {
			name   string
			labels []string
			want   float64
		}{
			{"decisions_total", []string{"decision", "CONTINUE", "reason", ""}, 1},
			{"decisions_total", []string{"decision", "DONE", "reason", ""}, 1},
			{"decisions_total", []string{"decision", "HALT", "reason", "ERR_TOKEN_MISSING"}, 1},
			{"turn_seconds", nil, 3},
			{"turns_in_flight", nil, 0},
			{"sessions", nil, 1},
		} {
			if got := metric(t, rt, c.name, c.labels...); got != c.want {
				t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
			}
		}
		slow := open(t, rt, "slow", agent(stalls(""), nil))
		run := submit(t, slow, "go")
		synctest.Wait()
		if got := metric(t, rt, "turns_in_flight"); got != 1 {
			t.Errorf("turns_in_flight is %v during a turn", got)
		}
		if err := run.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		decision(t, run)
		if got := metric(t, rt, "turns_in_flight"); got != 0 {
			t.Errorf("turns_in_flight is %v after it", got)
		}
	})
}

// Another session's OUTPUT is denied, code 1003, without a grant, whether or not
// the session exists; both answers leave an audit record.
func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		wantDone(t, ask(t, open(t, rt, "acme:ada:source", agent(says(program(`emit "the secret"`, sayDone)), nil)), "go"))
		reader := program("on error as e do\nemit \"code \" + e.code\nclear_error\nendon",
			`set x = tool.session.output(userdata["fields"]["text"])`, "emit x", sayDone)
		read := func(name string, grants []manifest.Grant, of string) (string, *messages.Audit) {
			t.Helper()
			s := open(t, rt, name, agent(says(reader), func(m *manifest.Manifest) {
				m.Import.Tools = []string{"session.output"}
				m.Grants = grants
			}))
			wantDone(t, ask(t, s, of))
			recs := records(t, s)
			audits := bodies[*messages.Audit](recs)
			if len(audits) != 1 {
				t.Fatalf("%d audits of %s", len(audits), of)
			}
			var emitted []string // with the other session's old token lines
			for _, e := range bodies[*messages.Emit](recs) {
				emitted = append(emitted, e.Text)
			}
			return strings.Join(emitted, "|"), audits[0]
		}
		for i, of := range []string{"acme:ada:source", "acme:ada:absent"} {
			got, audit := read([]string{"acme:bob:d1", "acme:bob:d2"}[i], nil, of)
			if !strings.HasPrefix(got, "code 1003") || contains(got, "secret") {
				t.Errorf("denied reading emitted %q", got)
			}
			if audit.Allowed || audit.Who != "acme:bob:d"+[]string{"1", "2"}[i] || !contains(audit.What, of) {
				t.Errorf("audit %+v", audit)
			}
		}
		got, audit := read("acme:bob:allowed", []manifest.Grant{{Session: "acme:ada:*", Access: "read"}}, "acme:ada:source")
		if !contains(got, "the secret") || !audit.Allowed {
			t.Errorf("granted reading emitted %q, audit %+v", got, audit)
		}
		got, audit = read("acme:bob:other", []manifest.Grant{{Session: "acme:eve:*", Access: "read"}}, "acme:ada:source")
		if !strings.HasPrefix(got, "code 1003") || audit.Allowed {
			t.Errorf("another's grant emitted %q, audit %+v", got, audit)
		}
		got, _ = read("rival:ada:source2", []manifest.Grant{{Session: "rival:ada:*", Access: "read"}}, "acme:ada:source")
		if !strings.HasPrefix(got, "code 1003") {
			t.Errorf("another tenant read %q", got)
		}
	})
}

// A program that logs by log/slog gets the runtime's log there.
func TestSlog(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&b, nil))
	if _, err := stile.New(t.Context(), stile.Config{Log: zap.NewNop(), Slog: log}); !stile.IsConfig(err) {
		t.Errorf("two logs: %v", err)
	}
	rt, err := stile.New(t.Context(), stile.Config{Dir: t.TempDir(), Slog: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"msg":"actor system started"`) {
		t.Errorf("the log is %q", b.String())
	}
}
