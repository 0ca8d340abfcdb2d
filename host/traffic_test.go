package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/host"
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
	d.ask("GET", "/healthz", "")
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
			if text := fmt.Sprint(v); strings.Contains(text, "secret") || strings.Contains(text, "other-id") || text == "/healthz" {
				t.Errorf("%s is %s", k, text)
			}
		}
	}
}

// A client that hangs up before its answer is counted as such, not as one that was answered.
func TestHungUpRequestsAreCounted(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("stuck", speaks([]string{"hello"}, make(chan struct{}))))
	d.session("s", "stuck")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/sessions/s/runs?stream=none&wait=30s", strings.NewReader(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	done := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	for { // until the run waits for its model
		var out struct{ State string }
		if d.call(200, &out, "GET", "/v1/sessions/s", ""); out.State == "running" {
			break
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		b, err := io.ReadAll(d.ask("GET", "/metrics", "").Body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), `stile_http_requests_total{method="POST",route="submit",status="499"} 1`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no request with status 499")
		}
	}
}
