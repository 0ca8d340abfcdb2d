package host_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// A host that stops takes no more work, says so, and lets the turn in flight end: who
// follows it sees the end.
func TestDrain(t *testing.T) {
	goOn := make(chan struct{})
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	agent := agentOf("talker", speaks([]string{"one", "two"}, goOn))
	srv, err := host.New(host.Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l, time.Minute) }()
	d := &door{t: t, url: "http://" + l.Addr().String(), rt: rt}
	d.session("s", "talker")
	d.session("other", "talker")
	res := d.ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`)
	goOn <- struct{}{}
	events(t, res.Body, 3)
	stop()
	for d.ask("GET", "/readyz", "").StatusCode == 200 { // until the host has noticed
	}
	d.full(503, messages.ErrBusy, "STOPPING", "POST", "/v1/sessions/other/runs", `{"input": "go"}`)
	d.full(503, messages.ErrBusy, "STOPPING", "POST", "/v1/sessions", `{"agent": "talker"}`)
	d.call(200, nil, "GET", "/v1/sessions/s", "")
	scraped, err := io.ReadAll(d.ask("GET", "/metrics", "").Body) // a drain can be watched
	for _, want := range []string{"stile_turns_in_flight 1\n", "stile_sessions_waiting 0\n", `stile_http_refusals_total{code="ERR_BUSY",reason="STOPPING"} 2`} {
		if err != nil || !strings.Contains(string(scraped), want) {
			t.Errorf("a scrape in the middle of the drain lacks %s: %v", want, err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with a turn in flight: %v", err)
	default:
	}
	goOn <- struct{}{}
	rest := events(t, res.Body, 100)
	if n := len(rest); n == 0 || rest[n-1].name != "run.end" || rest[n-1].data["body"].(map[string]any)["decision"] != "DONE" {
		t.Errorf("who followed saw %+v", rest)
	}
	if err := <-ended; err != nil {
		t.Errorf("serving ended with %v", err)
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
