package host_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a model made of a function.
type model func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error]

func (m model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m(ctx, req)
}

// speaks says the pieces, each when a token comes from go.
func speaks(pieces []string, goOn <-chan struct{}) model {
	return func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for _, p := range pieces {
				select {
				case <-goOn:
				case <-ctx.Done():
					yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
					return
				}
				if !yield(llm.Chunk{Text: []byte(p)}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

// always lets a model speak without waiting.
func always() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func agentOf(name string, m llm.Model) *stile.Agent {
	man := manifest.Default("plain")
	man.Name = name
	return &stile.Agent{Manifest: man, Model: m}
}

// grace is what a test's host gives to turns that do not end.
const grace = 100 * time.Millisecond

// door is a served runtime.
type door struct {
	t    *testing.T
	url  string
	rt   *stile.Runtime
	srv  *host.Server
	stop func() error // ends the serving; the runtime closes with the test

	form func() *form // the host's description, to which its answers are held; nil for none
}

// serve serves over a real listener on loopback.
func serve(t *testing.T, cfg host.Config, agents ...*stile.Agent) *door {
	t.Helper()
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, cfg, agents...)
}

func serveOn(t *testing.T, l net.Listener, cfg host.Config, agents ...*stile.Agent) *door {
	t.Helper()
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Shared: cfg.Access != nil, Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	return serveRuntime(t, l, rt, cfg, agents...)
}

// serveRuntime serves a runtime of the test's own, and closes it.
func serveRuntime(t *testing.T, l net.Listener, rt *stile.Runtime, cfg host.Config, agents ...*stile.Agent) *door {
	t.Helper()
	cfg.Runtime, cfg.Agents = rt, agents
	srv, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l, grace) }()
	var once atomic.Bool
	d := &door{t: t, url: "http://" + l.Addr().String(), rt: rt, srv: srv, form: sync.OnceValue(func() *form { return formOf(t, srv) })}
	d.stop = func() error {
		cancel()
		if once.Swap(true) {
			return nil
		}
		return <-ended
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		var left *host.LeftError // of tests whose model never ends
		if err := d.stop(); err != nil && !errors.As(err, &left) {
			t.Errorf("serving ended with %v", err)
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// ask sends a request; body is JSON unless it is empty, headers are name, value.
func (d *door) ask(method, path, body string, headers ...string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { res.Body.Close() })
	return res
}

// call is ask for a JSON answer with that status, decoded into out.
func (d *door) call(status int, out any, method, path, body string, headers ...string) *http.Response {
	d.t.Helper()
	res := d.ask(method, path, body, headers...)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if d.form != nil {
		d.form().fits(d.t, method, path, res, b)
	}
	if res.StatusCode != status {
		d.t.Fatalf("%s %s: %s %s, want %d", method, path, res.Status, b, status)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			d.t.Fatalf("%s %s: %s: %v", method, path, b, err)
		}
	}
	return res
}

// refused is call for a problem of that status and code.
func (d *door) refused(status int, code messages.Code, method, path, body string, headers ...string) host.Problem {
	d.t.Helper()
	var p host.Problem
	res := d.call(status, &p, method, path, body, headers...)
	if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" || p.Status != status || p.Code != string(code) || p.Title == "" || p.Type != "urn:stile:"+p.Code {
		d.t.Errorf("%s %s: %s %+v, want %s", method, path, ct, p, code)
	}
	return p
}

func (d *door) session(id, agent string) {
	d.t.Helper()
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", fmt.Sprintf(`{"agent": %q, "id": %q}`, agent, id))
}

// event is one server-sent event.
type event struct {
	name, id string
	data     map[string]any
}

// events reads events from a stream, up to n of them or its end.
func events(t *testing.T, r io.Reader, n int) (all []event) {
	t.Helper()
	var e event
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for len(all) < n && in.Scan() {
		name, value, _ := strings.Cut(in.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
		case "":
			if e.name != "" {
				all = append(all, e)
			}
			e = event{}
		}
	}
	if err := in.Err(); err != nil {
		t.Log(err)
	}
	return all
}

// A session from its beginning to its export, as a client of HTTP sees it.
func TestSessionOverHTTP(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"Good ", "day."}, always())))
	var agents struct {
		Agents []struct{ Name, Dialect string }
	}
	d.call(200, &agents, "GET", "/v1/agents", "")
	if len(agents.Agents) != 1 || agents.Agents[0].Name != "talker" || agents.Agents[0].Dialect != "plain" {
		t.Errorf("%+v", agents)
	}
	var ses struct {
		ID, State, Incarnation, Hash string
		Seq, Run                     int64
	}
	d.call(201, &ses, "POST", "/v1/sessions", `{"agent": "talker"}`)
	if ses.ID == "" || ses.State != "idle" || ses.Seq != 1 {
		t.Errorf("%+v", ses)
	}
	path := "/v1/sessions/" + ses.ID
	var run struct {
		Run                    int64
		Position, Decision     string
		Ended, Joined          bool
		Turns                  int64
		Session, Code, Details string
	}
	d.call(202, &run, "POST", path+"/runs", `{"input": "hello"}`, "Idempotency-Key", "k1")
	if run.Run != 1 || run.Position != "1" || run.Joined || run.Session != ses.ID {
		t.Errorf("%+v", run)
	}
	seen := events(t, d.ask("GET", path+"/runs/1/events", "").Body, 100)
	if n := len(seen); n < 5 || seen[0].name != "input" || seen[n-1].name != "run.end" {
		t.Fatalf("%+v", seen)
	}
	d.call(202, &run, "POST", path+"/runs", `{"input": "hello"}`, "Idempotency-Key", "k1")
	if run.Run != 1 || !run.Joined {
		t.Errorf("a repeated submit: %+v", run)
	}
	for _, stream := range []string{"none", "token"} {
		p := d.refused(422, messages.ErrConflict, "POST", path+"/runs?stream="+stream, `{"input": "something else", "policy": "interrupt"}`, "Idempotency-Key", "k1")
		if p.Reason != stile.ReasonKeyReused || p.Field != "Idempotency-Key" || p.Retryable {
			t.Errorf("another input under the key: %+v", p)
		}
	}
	d.call(200, &run, "GET", path+"/runs/1", "")
	if !run.Ended || run.Decision != "DONE" || run.Turns != 1 {
		t.Errorf("%+v", run)
	}
	// All was seen: the client shall not come back.
	if res := d.ask("GET", path+"/runs/1/events", "", "Last-Event-ID", seen[len(seen)-1].id); res.StatusCode != http.StatusNoContent {
		t.Errorf("after the end: %s", res.Status)
	}
	seen = events(t, d.ask("POST", path+"/runs?stream=event", `{"input": "and again"}`).Body, 100)
	if n := len(seen); n < 5 || seen[0].name != "input" || seen[n-1].name != "run.end" {
		t.Fatalf("%+v", seen)
	}
	for _, e := range seen {
		if e.name == "delta" {
			t.Errorf("a delta in a stream of events: %+v", e)
		}
	}
	var decisions struct {
		Decisions []struct {
			Decision string
			Run      int64
			Seq      int64
			SID, TS  string
			At       string
			Index    *int64 `json:"turn_index"`
			Latency  *int64 `json:"latency_ms"`
			Output   *int64 `json:"output_bytes"`
			Scratch  *int64 `json:"scratch_bytes"`
		}
	}
	d.call(200, &decisions, "GET", path+"/decisions", "")
	for _, v := range decisions.Decisions {
		if v.SID == "" || v.TS != v.At || v.TS == "" || v.Index == nil || v.Latency == nil || v.Output == nil || v.Scratch == nil {
			t.Errorf("not all of the decision log: %+v", v)
		}
	}
	if len(decisions.Decisions) != 2 || decisions.Decisions[1].Decision != "DONE" || decisions.Decisions[1].Run != 2 {
		t.Errorf("%+v", decisions)
	}
	d.call(200, &decisions, "GET", fmt.Sprintf("%s/decisions?after=%d&limit=1", path, decisions.Decisions[0].Seq), "")
	if len(decisions.Decisions) != 1 || decisions.Decisions[0].Run != 2 {
		t.Errorf("%+v", decisions)
	}
	d.call(200, &ses, "GET", path, "")
	res := d.ask("GET", path+"/export", "")
	export, err := io.ReadAll(res.Body)
	if err != nil || int64(bytes.Count(export, []byte("\n"))) != ses.Seq {
		t.Errorf("%d bytes, %v", len(export), err)
	}
	var jwks struct{ Keys []map[string]any }
	d.call(200, &jwks, "GET", "/v1/keys", "")
	for _, k := range jwks.Keys {
		if k["d"] != nil || k["k"] != nil || k["x"] == nil {
			t.Errorf("%v", k)
		}
	}
}

// Cancel is a verb of its own; a client that goes away cancels nothing.
func TestCancelOverHTTP(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two"}, goOn)))
	d.session("s", "talker")
	res := d.ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`)
	goOn <- struct{}{}
	for _, e := range events(t, res.Body, 4) {
		if e.name == "run.end" {
			t.Fatalf("%+v", e)
		}
	}
	res.Body.Close()
	goOn <- struct{}{}
	seen := events(t, d.ask("GET", "/v1/sessions/s/runs/1/events", "").Body, 100)
	if last := seen[len(seen)-1]; last.name != "run.end" || last.data["body"].(map[string]any)["decision"] != "DONE" {
		t.Errorf("the client left, and the run ended so: %+v", last)
	}
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`)
	goOn <- struct{}{}
	var ses struct{ State string }
	if d.call(200, &ses, "GET", "/v1/sessions/s", ""); ses.State != "running" {
		t.Errorf("%+v", ses)
	}
	d.refused(409, messages.ErrBusy, "POST", "/v1/sessions/s/runs", `{"input": "go", "policy": "reject"}`)
	d.call(204, nil, "POST", "/v1/sessions/s/runs/2/cancel", "")
	if p := d.refused(409, messages.ErrDenied, "POST", "/v1/sessions/s/runs/1/cancel", ""); p.Reason != "NOT_IN_FLIGHT" {
		t.Errorf("of a run that is over: %+v", p)
	}
	events(t, d.ask("GET", "/v1/sessions/s/runs/2/events", "").Body, 100)
	var run struct {
		Ended          bool
		Decision, Code string
	}
	if d.call(200, &run, "GET", "/v1/sessions/s/runs/2", ""); !run.Ended || run.Decision != "HALT" || run.Code != "ERR_CANCELLED" {
		t.Errorf("%+v", run)
	}
}

// Of several requests at once to begin a session one begins it, and the others hear that
// it is there: each may submit to it at once.
func TestBeginAtOnce(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	const n = 16
	type answer struct{ begun, found int }
	answers := make(chan answer, n)
	for range n {
		go func() {
			var a answer
			a.begun = d.ask("POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`).StatusCode
			a.found = d.ask("GET", "/v1/sessions/s", "").StatusCode
			answers <- a
		}()
	}
	got := map[answer]int{}
	for range n {
		got[<-answers]++
	}
	if got[answer{201, 200}] != 1 || got[answer{409, 200}] != n-1 {
		t.Errorf("answers by status: %v", got)
	}
	d.refused(409, messages.ErrConflict, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`)
}

// What is wrong with a request is said with status, code and place.
func TestRefusals(t *testing.T) {
	d := serve(t, host.Config{Hosts: []string{"Stile.Example"}, Origins: []string{"https://app.example/"}}, agentOf("talker", speaks([]string{"x"}, always())))
	d.session("s", "talker")
	long := strings.Repeat("x", 2<<20)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     messages.Code
		field                    string
	}{
		{"no route", "GET", "/v2/agents", "", nil, 404, messages.ErrNotFound, "path"},
		{"no such session", "GET", "/v1/sessions/nobody", "", nil, 404, messages.ErrNotFound, "session"},
		{"submit to nobody", "POST", "/v1/sessions/nobody/runs", `{"input": "x"}`, nil, 404, messages.ErrNotFound, "session"},
		{"another user's", "GET", "/v1/sessions/local:other:s", "", nil, 400, messages.ErrInvalid, "id"},
		{"an escaped one", "GET", "/v1/sessions/x%3Ay%3Az", "", nil, 400, messages.ErrInvalid, "id"},
		{"a path", "GET", "/v1/sessions/..%2f..%2fetc", "", nil, 400, messages.ErrInvalid, "id"},
		{"no such agent", "POST", "/v1/sessions", `{"agent": "ghost"}`, nil, 404, messages.ErrNotFound, "body.agent"},
		{"exists", "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, nil, 409, messages.ErrConflict, "body.id"},
		{"an id of dots", "POST", "/v1/sessions", `{"agent": "talker", "id": ".."}`, nil, 400, messages.ErrInvalid, "id"},
		{"a dot", "POST", "/v1/sessions/s/fork", `{"id": "."}`, nil, 400, messages.ErrInvalid, "id"},
		{"deleted by dots", "DELETE", "/v1/sessions/%2e%2e", "", nil, 400, messages.ErrInvalid, "id"},
		{"bad id", "POST", "/v1/sessions", `{"agent": "talker", "id": "a:b"}`, nil, 400, messages.ErrInvalid, "id"},
		{"unknown member", "POST", "/v1/sessions", `{"agent": "talker", "agnet": 1}`, nil, 422, messages.ErrInvalid, "body.agnet"},
		{"wrong type", "POST", "/v1/sessions", `{"agent": 7}`, nil, 422, messages.ErrInvalid, "body.agent"},
		{"no JSON", "POST", "/v1/sessions", `{"agent":`, nil, 400, messages.ErrInvalid, "body"},
		{"too long", "POST", "/v1/sessions", `{"agent": "` + long + `"}`, nil, 413, messages.ErrInvalid, "body"},
		{"unknown parameter", "GET", "/v1/sessions?limt=3", "", nil, 422, messages.ErrInvalid, "query.limt"},
		{"bad number", "GET", "/v1/sessions?limit=0", "", nil, 422, messages.ErrInvalid, "query.limit"},
		{"no such run", "GET", "/v1/sessions/s/runs/7", "", nil, 404, messages.ErrNotFound, "run"},
		{"no such method", "PUT", "/v1/sessions", "{}", nil, 405, messages.ErrInvalid, "method"},
		{"no such method of the page", "POST", "/", "", nil, 405, messages.ErrInvalid, "method"},
		{"run zero", "GET", "/v1/sessions/s/runs/0", "", nil, 422, messages.ErrInvalid, "path.run"},
		{"bad position", "GET", "/v1/sessions/s/events?after=x", "", nil, 400, messages.ErrInvalid, "after"},
		{"bad Last-Event-ID", "GET", "/v1/sessions/s/events", "", []string{"Last-Event-ID", "1.2"}, 400, messages.ErrInvalid, "Last-Event-ID"},
		{"position to come", "GET", "/v1/sessions/s/events?after=99", "", nil, 409, messages.ErrConflict, "after"},
		{"no such policy", "POST", "/v1/sessions/s/runs", `{"input": "x", "policy": "whenever"}`, nil, 400, messages.ErrInvalid, "policy"},
		{"no such approval", "POST", "/v1/sessions/s/approvals/abc", `{"allow": true, "digest": "` + strings.Repeat("0", 64) + `"}`, nil, 404, messages.ErrNotFound, "approval"},
		{"an approval without a digest", "POST", "/v1/sessions/s/approvals/abc", `{"allow": true}`, nil, 422, messages.ErrInvalid, "body"},
		{"foreign name", "GET", "/v1/agents", "", []string{"Host", "evil.example"}, 421, messages.ErrDenied, "Host"},
		{"foreign page", "GET", "/v1/agents", "", []string{"Origin", "https://evil.example"}, 403, messages.ErrDenied, "Origin"},
		{"page of another scheme", "GET", "/v1/agents", "", []string{"Origin", "https" + strings.TrimPrefix(d.url, "http")}, 403, messages.ErrDenied, "Origin"},
		{"page of another port", "GET", "/v1/agents", "", []string{"Origin", "http://127.0.0.1:1"}, 403, messages.ErrDenied, "Origin"},
		{"with a name in front", "GET", "/v1/agents", "", []string{"Origin", "http://x@" + strings.TrimPrefix(d.url, "http://")}, 403, messages.ErrDenied, "Origin"},
		{"sandboxed page", "GET", "/v1/agents", "", []string{"Origin", "null"}, 403, messages.ErrDenied, "Origin"},
		{"cross-site", "GET", "/healthz", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, messages.ErrDenied, "Origin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := *d
			own.t = t
			p := own.refused(c.status, c.code, c.method, c.path, c.body, c.headers...)
			if p.Field != c.field {
				t.Errorf("field %q of %+v, want %q", p.Field, p, c.field)
			}
		})
	}
	resp, err := http.Post(d.url+"/v1/agents", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("a method that is not there: %v, Allow %q", err, resp.Header.Get("Allow"))
	}
	// Of two headers the first would count here, and the last in a proxy in front.
	for _, field := range []string{"Origin", "Sec-Fetch-Site"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/v1/agents", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[field] = map[string][]string{"Origin": {d.url, "https://evil.example"}, "Sec-Fetch-Site": {"same-origin", "cross-site"}}[field]
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusForbidden {
			t.Errorf("two %s: %s", field, res.Status)
		}
	}
	for _, headers := range [][]string{
		{"Host", "stile.example:80"},
		{"Host", "stile.example:80", "Origin", "http://Stile.Example"},
		{"Host", "localhost"},
		{"Host", "[::1]:8080"},
		{"Origin", "https://app.example"},
		{"Origin", d.url},
		{"Sec-Fetch-Site", "same-origin"},
	} {
		d.call(200, nil, "GET", "/v1/agents", "", headers...)
	}
}

// Without authentication only loopback is listened on.
func TestListenRefuses(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80", "127.0.0.1", ""} {
		if l, err := host.Listen(t.Context(), addr); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%q: %v, %v", addr, l, err)
		}
	}
}

// Names that no request can have are refused before anybody is.
func TestNamesThatCannotBeMeant(t *testing.T) {
	for field, cfgs := range map[string][]host.Config{
		"": {{Hosts: []string{"stile.example.com", "STILE", "192.0.2.1", "::1"}, Origins: []string{"https://app.example.com", "http://localhost:3000/", "HTTPS://App.example"}}},
		"hosts": {
			{Hosts: []string{"https://stile.example.com"}},
			{Hosts: []string{"stile.example.com:8471"}},
			{Hosts: []string{"*"}},
			{Hosts: []string{"[::1]"}},
			{Hosts: []string{"stile.example.com", ""}},
		},
		"origins": {
			{Origins: []string{"app.example.com"}},
			{Origins: []string{"*"}},
			{Origins: []string{"null"}},
			{Origins: []string{"https://*.example.com"}},
			{Origins: []string{"https://app.example.com/page"}},
			{Origins: []string{"https://ann:secret@app.example.com"}},
		},
		"limits": {{Limits: host.Limits{Runs: -1}}},
	} {
		for _, cfg := range cfgs {
			l, err := cfg.Listen(t.Context(), "127.0.0.1:0")
			if err == nil {
				l.Close()
			}
			var e *messages.Error
			if errors.As(err, &e); field == "" && err != nil || field != "" && (e == nil || e.Code != messages.ErrConfig || e.Field != field) {
				t.Errorf("%q %q: %v, want field %q", cfg.Hosts, cfg.Origins, err, field)
			}
		}
	}
}

// A host that stops tells its streams, lets nobody in, and returns.
func TestLeaving(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one"}, goOn)))
	d.session("s", "talker")
	res := d.ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`)
	if got := events(t, res.Body, 3); len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	var left *host.LeftError
	if err := d.stop(); !errors.As(err, &left) || left.Turns != 1 {
		t.Errorf("serving ended with %v", err)
	}
	rest := events(t, res.Body, 100)
	if len(rest) == 0 || rest[len(rest)-1].name != "leaving" {
		t.Errorf("the stream ended with %+v", rest)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://")); err == nil {
		c.Close()
		t.Error("the host still listens")
	}
}

// A client that does not come to the end of its request holds no stop up, and makes no
// failure of it.
func TestLeavingBesideARequestThatDoesNotEnd(t *testing.T) {
	defer host.LastRequests(20 * time.Millisecond)()
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one"}, always())))
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // the host asks for the body: the request is under way
		t.Fatal(err)
	}
	if err := d.stop(); err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

// Streams are bounded; a submit that would be streamed is refused before it is taken.
func TestTooManyStreams(t *testing.T) {
	goOn := make(chan struct{})
	core, logged := observer.New(zap.WarnLevel)
	d := serve(t, host.Config{MaxStreams: 1, Log: zap.New(core)}, agentOf("talker", speaks([]string{"one"}, goOn)))
	d.session("s", "talker")
	first := d.ask("GET", "/v1/sessions/s/events", "")
	events(t, first.Body, 1)
	p := d.refused(503, messages.ErrBusy, "POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`)
	if !p.Retryable {
		t.Errorf("%+v", p)
	}
	if res := d.ask("GET", "/v1/sessions/s/events", ""); res.StatusCode != 503 || res.Header.Get("Retry-After") != "5" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	var ses struct{ Seq int64 }
	if d.call(200, &ses, "GET", "/v1/sessions/s", ""); ses.Seq != 1 {
		t.Errorf("the refused submit left a trace: %+v", ses)
	}
	first.Body.Close()
	for { // the place is free when the host has noticed
		res := d.ask("GET", "/v1/sessions/s/events", "")
		if res.StatusCode == 200 {
			res.Body.Close()
			break
		}
	}
	for _, e := range logged.All() { // load that is shed must not flood the log
		t.Errorf("logged: %s %v", e.Message, e.ContextMap())
	}
}

// A client that hangs up while the host works for it is no failure of the host.
func TestClientsThatHangUp(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	d := serve(t, host.Config{Log: zap.New(core)}, agentOf("talker", speaks([]string{"one"}, nil)))
	d.session("s", "talker")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, path := range []string{"/v1/sessions/s", "/v1/sessions/s/records", "/v1/sessions/s/approvals", "/v1/sessions"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(gone, "GET", d.url+path, nil)
		d.srv.Handler().ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, e := range logged.All() {
		t.Errorf("logged: %s %v", e.Message, e.ContextMap())
	}
}

// A list of many sessions comes in pages, each session once, in order.
func TestPages(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	for i := range 25 {
		d.session(fmt.Sprintf("s-%02d", i), "talker")
	}
	var got []string
	for after := ""; ; {
		var page struct {
			Sessions []struct{ ID string }
			Next     string
		}
		d.call(200, &page, "GET", "/v1/sessions?order=id&limit=10&after="+after, "")
		for _, s := range page.Sessions {
			got = append(got, s.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(got) != 25 || got[0] != "s-00" || got[24] != "s-24" {
		t.Errorf("%v", got)
	}
}

func TestHealth(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		if res := d.ask("GET", path, ""); res.StatusCode != 200 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}
