package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/scripted"
	"github.com/seed14be6753/stile/bench/workload"
	"github.com/seed14be6753/stile/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small has a job of every kind, few of each.
const small = `
name: small
arrivals: {rate: 200, for: 150ms, process: even}
sessions: 0
agents:
  - {name: bench-echo, tokens: 4}
  - {name: bench-parallel, calls: 3, class: effectful, tokens: 3}
  - {name: bench-stream, tokens: 40, gap: 1ms}
  - {name: bench-approvals, calls: 1, class: effectful, approval: true, approve: 1ms, tokens: 3}
  - {name: bench-feeds, feeds: 2, tokens: 3}
jobs:
  - {agent: bench-echo, reader: wait}
  - {agent: bench-parallel}
  - {name: reconnect, agent: bench-stream, reader: reconnect, cuts: 3}
  - {name: dead, agent: bench-stream, reader: dead}
  - {agent: bench-approvals}
  - {agent: bench-feeds}
`

func parsed(t *testing.T, doc string) *workload.Workload {
	t.Helper()
	w, err := workload.Parse("w.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// embedded is a runtime with the agents of a workload, on SQLite in dir, or in memory without one.
func embedded(t *testing.T, w *workload.Workload, dir string) (*stile.Runtime, []*stile.Agent) {
	t.Helper()
	agents, err := scripted.Agents(w, nil)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: dir == "", Dir: dir, Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return rt, agents
}

// served is that behind HTTP.
func served(t *testing.T, w *workload.Workload, dir string) string {
	t.Helper()
	rt, agents := embedded(t, w, dir)
	srv, err := host.New(host.Config{Runtime: rt, Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, l, 5*time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func run(t *testing.T, w *workload.Workload, target load.Target) measure.Round {
	t.Helper()
	all := w.Schedule()
	r := load.Run(t.Context(), w, all, target, measure.NewRecorder(len(all)), load.Options{Timeout: 30 * time.Second})
	if r.Fates[measure.Ended] != r.Planned || r.Why[measure.Ended]["DONE"] != r.Planned {
		t.Errorf("%d submits were planned: %v %v", r.Planned, r.Fates, r.Why)
	}
	if r.Accepted != r.Planned {
		t.Errorf("%d of %d submits were accepted", r.Accepted, r.Planned)
	}
	return r
}

func check(t *testing.T, r measure.Round) {
	t.Helper()
	if len(r.Jobs) != 6 {
		t.Errorf("%d kinds of job ran", len(r.Jobs))
	}
	if s := r.Streams; s.Same == 0 || s.Different != 0 || s.Cuts < s.Same {
		t.Errorf("%+v", s)
	}
	if r.Usage.Commits <= 0 || r.Usage.Fsyncs <= 0 || r.Usage.RSS <= 0 {
		t.Errorf("%+v", r.Usage)
	}
	followed := r.Planned - r.Jobs["dead"].Count - r.Jobs["bench-echo"].Count
	if n := r.Times[measure.First].Count; n != followed {
		t.Errorf("%d answers of %d had a first text", n, followed)
	}
}

func TestEmbedded(t *testing.T) {
	w := parsed(t, small)
	dir := t.TempDir()
	rt, agents := embedded(t, w, dir)
	check(t, run(t, w, NewEmbedded("here", true, dir, rt, agents)))
}

func TestHost(t *testing.T) {
	w := parsed(t, small)
	h, err := NewHost(served(t, w, t.TempDir()), "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.client.CloseIdleConnections()
	check(t, run(t, w, h))
}

func TestOpenAI(t *testing.T) {
	w := parsed(t, "name: x\narrivals: {rate: 200, for: 50ms}\nsessions: 0\nagents: [{name: bench-echo, tokens: 4}]\njobs: [{agent: bench-echo}, {name: wait, agent: bench-echo, reader: wait}]")
	o, err := NewOpenAI(served(t, w, "")+"/v1", "", "", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer o.client.CloseIdleConnections()
	r := run(t, w, o)
	if r.Bytes != 16*r.Planned {
		t.Errorf("%d bytes of %d answers", r.Bytes, r.Planned)
	}
	if runtime.GOOS == "linux" && (r.Usage.RSS <= 0 || r.Usage.CPUMicros < 0) {
		t.Errorf("%+v", r.Usage)
	}
}

// seen is a watcher that a test looks at.
type seen struct {
	accepted, texts, bytes int
	cuts                   int
	same                   bool
}

func (s *seen) Accepted()                { s.accepted++ }
func (s *seen) Texts(n, bytes int)       { s.texts += n; s.bytes += bytes }
func (s *seen) Resumed(n int, same bool) { s.cuts, s.same = n, same }

const (
	opened = `{"id":"s"}`
	input  = "event: input\nid: 2\ndata: {\"run\":1}\n\n"
	delta  = "event: delta\nid: 3.1\ndata: {\"kind\":\"response\",\"run\":1,\"unit\":\"1.0\",\"text\":\"abcd\"}\n\n"
	whole  = "event: response\nid: 4\ndata: {\"run\":1,\"body\":{\"unit\":\"1.0\",\"text\":\"abcd\"}}\n\n"
	ended  = "event: run.end\nid: 5\ndata: {\"run\":1,\"body\":{\"decision\":\"HALT\",\"reason\":\"ERR_QUOTA\"}}\n\n"
)

// A host that refuses, lies, breaks off or stalls is told apart, and nothing hangs.
func TestHostThatMisbehaves(t *testing.T) {
	problem := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, body) }
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for _, c := range []struct {
		name string
		runs http.HandlerFunc
		want string
	}{
		{"as it should", says(input + delta + whole + ended), "HALT/ERR_QUOTA"},
		{"too many", problem(429, `{"code":"ERR_BUSY","reason":"RATE"}`), "refused: 429 RATE"},
		{"no reason", problem(409, `{"code":"ERR_CONFLICT"}`), "refused: 409 ERR_CONFLICT"},
		{"another form", problem(400, `{"error":{"type":"invalid_request_error"}}`), "refused: 400 invalid_request_error"},
		{"no JSON", problem(502, "<html>"), "502"},
		{"drains", problem(503, `{"code":"ERR_BUSY"}`), "refused: 503 ERR_BUSY"},
		{"breaks off", says(input + delta), "stream ended early"},
		{"breaks off in a line", says(input + "event: del"), "stream ended early"},
		{"garbage", says(input + "event: delta\ndata: {{\n\n"), "event is no JSON"},
		{"problem", says(input + "event: problem\ndata: {\"code\":\"ERR_JOURNAL\"}\n\n"), "stream error ERR_JOURNAL"},
		{"error", says(input + "event: error\ndata: {\"code\":\"ERR_JOURNAL\"}\n\n"), "stream error ERR_JOURNAL"},
		{"a line without an end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, maxLine+1<<20))
		}, "connection: a line of the stream has more than 8 MiB"},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "stream ended early"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/sessions", says(opened))
			mux.HandleFunc("POST /v1/sessions/s/runs", c.runs)
			srv := httptest.NewServer(mux)
			defer srv.Close()
			h, err := NewHost(srv.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			defer h.client.CloseIdleConnections()
			if h.TellsUsage() || !reflect.DeepEqual(h.Usage(t.Context()), measure.Unknown()) {
				t.Error("there are no metrics")
			}
			got, err := h.Do(t.Context(), &load.Request{Session: "s", Job: workload.Job{Agent: "a", Reader: workload.Stream}}, &seen{})
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What a resumed stream repeats or leaves out is noticed.
func TestResumedStreamIsCompared(t *testing.T) {
	for name, c := range map[string]struct {
		resumed string
		same    bool
	}{
		"exact":          {whole + ended, true},
		"a byte more":    {strings.Replace(delta, "abcd", "d", 1) + whole + ended, false},
		"nothing of it":  {ended, false},
		"twice":          {whole + whole + ended, false},
		"taken back":     {"event: retract\nid: 3.0\ndata: {\"run\":1,\"unit\":\"1.0\",\"off\":2}\n\n" + strings.Replace(delta, "abcd", "cd", 1) + whole + ended, true},
		"back by record": {"event: retract\nid: 4\ndata: {\"run\":1,\"body\":{\"unit\":\"1.0\",\"off\":0}}\n\n" + delta + whole + ended, true},
		"back too far":   {"event: retract\nid: 3.0\ndata: {\"run\":1,\"unit\":\"1.0\",\"off\":9}\n\n" + whole + ended, false},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/sessions", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, opened) })
			mux.HandleFunc("POST /v1/sessions/s/runs", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, input+delta) })
			mux.HandleFunc("GET /v1/sessions/s/runs/1/events", func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") != "3.1" {
					t.Errorf("it goes on behind %q", r.Header.Get("Last-Event-ID"))
				}
				fmt.Fprint(w, c.resumed)
			})
			srv := httptest.NewServer(mux)
			defer srv.Close()
			h, err := NewHost(srv.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			defer h.client.CloseIdleConnections()
			s := &seen{}
			r := &load.Request{Session: "s", Job: workload.Job{Agent: "a", Reader: workload.Reconnect}, Agent: workload.Agent{Tokens: 1, TokenBytes: 4}, Cut: []float64{0.5}}
			if _, err := h.Do(t.Context(), r, s); err != nil {
				t.Fatal(err)
			}
			if s.cuts != 1 || s.same != c.same {
				t.Errorf("cut %d times, the same: %v", s.cuts, s.same)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "localhost:8471", "ftp://x", "http://", "::"} {
		if _, err := NewHost(bad, ""); err == nil {
			t.Errorf("%q is an address", bad)
		}
		if _, err := NewOpenAI(bad, "", "", 0); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	h, err := NewHost("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Do(t.Context(), &load.Request{Session: "s"}, &seen{}); err == nil || !strings.HasPrefix(err.Error(), "connection refused") {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func FuzzEvents(f *testing.F) {
	f.Add([]byte(input + delta + ended))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEvents(strings.NewReader(string(b)), 16)
		for {
			if _, err := e.next(); err != nil {
				return
			}
		}
	})
}
