package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// Requests are counted by operation and status, refusals by what refuses; the time of a stream is
// not among those of requests, and no label holds an id.
func TestRequestsAreCounted(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("echo", speaks([]string{"hello"}, always())))
	d.session("secret-id", "echo")
	d.call(200, nil, "GET", "/v1/sessions/secret-id", "")
	d.call(200, nil, "GET", "/v1/sessions/secret-id", "")
	d.call(404, nil, "GET", "/v1/sessions/other", "")
	d.call(404, nil, "GET", "/v1/no/such", "")
	res := d.ask("POST", "/v1/sessions/secret-id/runs?stream=token", `{"input":"x"}`)
	events(t, res.Body, 100)
	d.call(405, nil, "BREW", "/v1/agents", "")
	wants := []string{
		`stile_http_requests_total{method="GET",route="get-session",status="200"} 2`,
		`stile_http_requests_total{method="GET",route="get-session",status="404"} 1`,
		`stile_http_requests_total{method="POST",route="create-session",status="201"} 1`,
		`stile_http_requests_total{method="GET",route="none",status="404"} 1`,
		`stile_http_requests_total{method="other",route="none",status="405"} 1`,
		`stile_http_request_seconds_count{route="get-session"} 3`,
		`stile_http_refusals_total{code="ERR_NOT_FOUND",reason=""}`,
		`stile_http_requests_total{method="POST",route="submit",status="200"} 1`,
		`stile_http_streams 0`,
		`stile_build_info{`,
	}
	text := ""
	lacks := func(want string) bool { return !strings.Contains(text, want) }
	for deadline := time.Now().Add(10 * time.Second); text == "" || slices.ContainsFunc(wants, lacks) && time.Now().Before(deadline); { // a request is counted behind its answer
		b, err := io.ReadAll(d.ask("GET", "/metrics", "").Body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	for _, want := range wants {
		if lacks(want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for _, not := range []string{"secret-id", `stile_http_request_seconds_count{route="submit"`, "BREW"} {
		if strings.Contains(text, not) {
			t.Errorf("/metrics has %s", not)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "stile_http") && !strings.Contains(line, "bucket") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// Requests are logged by operation, a sample of them under load, without what clients choose; probes
// are not.
func TestRequestsAreLogged(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	d := serve(t, host.Config{Log: zap.New(core)}, agentOf("echo", speaks([]string{"hello"}, always())))
	d.session("secret-id", "echo")
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		d.call(200, nil, "GET", path, "")
	}
	d.refused(422, messages.ErrInvalid, "GET", "/v1/sessions/other-id?limit=secret", "")
	const n = 400
	for range n {
		d.call(200, nil, "GET", "/v1/sessions/secret-id", "")
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	all := lines.FilterMessage("request").All()
	if len(all) < 20 || len(all) > n*9/10 {
		t.Errorf("%d lines for %d requests", len(all), n)
	}
	first := all[0].ContextMap()
	if first["route"] != "create-session" || first["method"] != "POST" || first["status"] != int64(201) || first["request"] == "" {
		t.Errorf("%v", first)
	}
	for _, l := range all {
		for k, v := range l.ContextMap() {
			if text := fmt.Sprint(v); strings.Contains(text, "secret") || strings.Contains(text, "other-id") {
				t.Errorf("%s is %s", k, text)
			}
		}
		switch route := l.ContextMap()["route"]; route {
		case "create-session", "get-session":
		default:
			t.Errorf("a request of %v is logged", route)
		}
	}
}

// waits identifies callers when their requests have ended.
type waits struct{ asked chan struct{} }

func (a waits) Authenticate(ctx context.Context, _ string) (access.Identity, error) {
	a.asked <- struct{}{}
	<-ctx.Done()
	return access.Identity{}, ctx.Err()
}

// A client that hangs up before its answer is counted as such, not as one that was answered, also
// where no operation was reached.
func TestHungUpRequestsAreCounted(t *testing.T) {
	source := waits{make(chan struct{}, 1)}
	d := serve(t, host.Config{Access: source}, agentOf("echo", speaks([]string{"hello"}, always())))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer x")
	done := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	<-source.asked
	cancel()
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
	text := ""
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(text, `route="list-agents"`); {
		out := httptest.NewRecorder()
		d.rt.Metrics().Handler().ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/", nil))
		if text = out.Body.String(); time.Now().After(deadline) {
			break
		}
	}
	if !strings.Contains(text, `stile_http_requests_total{method="GET",route="list-agents",status="499"} 1`) {
		t.Error("the request is not counted with status 499")
	}
}
