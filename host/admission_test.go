package host_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// full expects a refusal for load that says when to come again.
func (d *door) full(status int, code messages.Code, reason, method, path, body string, headers ...string) {
	d.t.Helper()
	var p host.Problem
	res := d.call(status, &p, method, path, body, headers...)
	after, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if p.Code != string(code) || p.Reason != reason || !p.Retryable || err != nil || after < 1 || strings.Contains(p.Title, "A run is in flight") {
		d.t.Errorf("%s %s: %+v, %v", method, path, p, res.Header)
	}
}

// A tenant at one of its limits is refused before anything is begun, and told when to
// come again; another works as if nothing were.
func TestLimits(t *testing.T) {
	k := newTokens(t)
	goOn := make(chan struct{})
	d := serve(t, host.Config{
		Access: k, Limits: host.Limits{Runs: 2, Sessions: 2, Streams: 1},
		TenantLimits: map[string]host.Limits{"slow": {RequestsPerSecond: 0.001, Burst: 2}},
	}, agentOf("talker", speaks([]string{"one"}, goOn)), agentOf("quick", speaks([]string{"one"}, always())))
	full, _ := k.make("full", "ann", "admin")
	other, _ := k.make("other", "ann", "admin")
	for _, owner := range []string{full, other} {
		d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(owner)...)
	}
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "quick", "id": "q"}`, auth(full)...)
	d.full(429, messages.ErrBusy, "SESSIONS", "POST", "/v1/sessions", `{"agent": "talker"}`, auth(full)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "quick", "id": "q"}`, auth(other)...)
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`, auth(full)...)
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`, auth(full)...)
	var before, after struct{ Seq int64 }
	d.call(200, &before, "GET", "/v1/sessions/q", "", auth(full)...)
	d.full(429, messages.ErrBusy, "RUNS", "POST", "/v1/sessions/q/runs", `{"input": "go"}`, auth(full)...)
	if d.call(200, &after, "GET", "/v1/sessions/q", "", auth(full)...); before != after {
		t.Errorf("the refused submit left a trace: %+v, %+v", before, after)
	}
	var usage struct{ Runs, Streams int }
	if d.call(200, &usage, "GET", "/v1/usage", "", auth(full)...); usage.Runs != 2 {
		t.Errorf("%+v", usage)
	}
	res := d.ask("GET", "/v1/sessions/s/events", "", auth(full)...)
	events(t, res.Body, 1)
	d.full(429, messages.ErrBusy, "STREAMS", "GET", "/v1/sessions/q/events", "", auth(full)...)
	for range 10 {
		got := events(t, d.ask("POST", "/v1/sessions/q/runs?stream=event", `{"input": "go"}`, auth(other)...).Body, 100)
		if n := len(got); n == 0 || got[n-1].name != "run.end" {
			t.Fatalf("another tenant waits: %+v", got)
		}
	}
}

// One tenant fills what the journal may keep of its sessions: no run, session or fork of it
// begins, and the refusal names the limit. It still stops, answers and deletes; another tenant
// and the operator go on. What was deleted makes room.
func TestJournalOfOneTenantIsFull(t *testing.T) {
	const limit = 100_000
	k := newTokens(t)
	for name, inMemory := range map[string]bool{"memory": true, "sqlite": false} {
		t.Run(name, func(t *testing.T) {
			agent := agentOf("quick", speaks([]string{"one"}, always()))
			cfg := stile.Config{InMemory: inMemory, Shared: true, Agents: []*stile.Agent{agent}}
			if !inMemory {
				cfg.Dir = filepath.Join(t.TempDir(), "data")
			}
			rt, err := stile.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			l, err := host.Listen(t.Context(), "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			d := serveRuntime(t, l, rt, host.Config{Access: k, Limits: host.Limits{JournalBytes: limit}}, agent)
			full, _ := k.make("full", "ann", "admin")
			other, _ := k.make("other", "ann", "admin")
			for _, owner := range []string{full, other} {
				for _, id := range []string{"s", "old"} {
					d.call(201, nil, "POST", "/v1/sessions", `{"agent": "quick", "id": "`+id+`"}`, auth(owner)...)
				}
			}
			body := `{"input": "` + strings.Repeat("a word of many ", 1000) + `"}`
			runs := 0
			for ; ; runs++ {
				res := d.ask("POST", "/v1/sessions/"+[]string{"old", "s"}[runs%2]+"/runs?stream=none&wait=60s", body, auth(full)...)
				if res.StatusCode == http.StatusTooManyRequests {
					break
				}
				if res.StatusCode != http.StatusOK || runs > limit/15_000 {
					t.Fatalf("run %d: %s", runs, res.Status)
				}
			}
			if runs < 3 {
				t.Fatalf("full after %d runs", runs)
			}
			for path, body := range map[string]string{
				"/v1/sessions/s/runs": `{"input": "go"}`, "/v1/sessions": `{"agent": "quick"}`,
				"/v1/sessions/s/fork": `{}`, "/v1/chat/completions": `{"model": "quick", "messages": [{"role": "user", "content": "go"}]}`,
			} {
				res := d.ask("POST", path, body, auth(full)...)
				b, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "" || !strings.Contains(string(b), "journal_bytes is 100000: delete sessions") {
					t.Errorf("%s: %s %v %s", path, res.Status, res.Header, b)
				}
			}
			if p := d.refused(429, messages.ErrQuota, "POST", "/v1/sessions/s/runs", `{"input": "go"}`, auth(full)...); p.Reason != "JOURNAL_BYTES" || p.Retryable {
				t.Errorf("%+v", p)
			}
			var usage struct {
				Kept int64 `json:"journal_bytes"`
				Max  int64 `json:"max_journal_bytes"`
			}
			if d.call(200, &usage, "GET", "/v1/usage", "", auth(full)...); usage.Kept < limit || usage.Kept > limit+60_000 || usage.Max != limit {
				t.Errorf("%+v", usage)
			}
			for range 3 {
				d.call(200, nil, "POST", "/v1/sessions/s/runs?stream=none&wait=60s", body, auth(other)...)
			}
			ses, err := rt.Find(t.Context(), "full:ann:s")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ses.Submit(t.Context(), "the operator's, in the program itself"); err != nil {
				t.Errorf("the operator is refused: %v", err)
			}
			d.call(204, nil, "DELETE", "/v1/sessions/old", "", auth(full)...)
			d.call(200, nil, "POST", "/v1/sessions/s/runs?stream=none&wait=60s", `{"input": "go"}`, auth(full)...)
		})
	}
}

// A run that has ended makes room for the next.
func TestRunsMakeRoom(t *testing.T) {
	d := serve(t, host.Config{Limits: host.Limits{Runs: 1}, MaxRuns: 2}, agentOf("talker", speaks([]string{"one"}, always())))
	d.session("s", "talker")
	for range 20 {
		if got := events(t, d.ask("POST", "/v1/sessions/s/runs?stream=event", `{"input": "go"}`).Body, 100); len(got) == 0 || got[len(got)-1].name != "run.end" {
			t.Fatalf("%+v", got)
		}
	}
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/nobody/runs", `{"input": "go"}`)
	d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions/s/runs", `{"input": "go", "policy": "whenever"}`)
	var usage struct{ Runs int }
	if d.call(200, &usage, "GET", "/v1/usage", ""); usage.Runs != 0 {
		t.Errorf("%+v", usage)
	}
}

// A tenant that asks too often waits; the others do not, and nor does who asks whether
// the host is well.
func TestPace(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k, TenantLimits: map[string]host.Limits{"slow": {RequestsPerSecond: 0.001, Burst: 2}}}, agentOf("talker", speaks(nil, always())))
	ann, _ := k.make("slow", "ann", "read")
	bob, _ := k.make("slow", "bob", "read")
	other, _ := k.make("quick", "ann", "read")
	d.call(200, nil, "GET", "/v1/agents", "", auth(ann)...)
	d.call(200, nil, "GET", "/v1/agents", "", auth(bob)...)
	d.full(429, messages.ErrBusy, "RATE", "GET", "/v1/agents", "", auth(ann)...)
	d.full(429, messages.ErrBusy, "RATE", "GET", "/v1/sessions/nobody", "", auth(bob)...)
	for range 50 {
		d.call(200, nil, "GET", "/v1/agents", "", auth(other)...)
		d.call(200, nil, "GET", "/healthz", "")
	}
	if _, err := host.New(host.Config{Runtime: d.rt, Limits: host.Limits{Runs: -1}}); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}
