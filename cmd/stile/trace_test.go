//go:build !lite

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Traces go where the environment says, and nowhere when it says nothing.
func TestTracing(t *testing.T) {
	var got, measured atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			t.Error(err)
		case r.URL.Path == "/v1/traces":
			got.Add(int64(len(b)))
		case r.URL.Path == "/v1/metrics" && bytes.Contains(b, []byte("gen_ai.client.token.usage")) && bytes.Contains(b, []byte("gen_ai.client.operation.duration")):
			measured.Add(int64(len(b)))
		default:
			t.Errorf("%s", r.URL)
		}
	}))
	defer collector.Close()
	for _, c := range []struct {
		env             map[string]string
		traces, metrics bool
	}{
		{map[string]string{}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_SDK_DISABLED": "true"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_TRACES_EXPORTER": "none"}, false, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_TRACES_EXPORTER": "", "OTEL_METRICS_EXPORTER": "none"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_TRACES_EXPORTER": "", "OTEL_METRICS_EXPORTER": ""}, true, true},
	} {
		for k, v := range c.env {
			t.Setenv(k, v) // the exporter reads the process's own
		}
		got.Store(0)
		measured.Store(0)
		observe, end, err := tracing(t.Context(), func(k string) string { return c.env[k] })
		if err != nil {
			t.Fatal(err)
		}
		agent, err := stile.LoadAgent("../../examples/plain/agent.yaml")
		if err != nil {
			t.Fatal(err)
		}
		rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		observe(rt)
		s, err := rt.Open(t.Context(), "s", agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "hello")
		if err == nil {
			_, err = run.Decision(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if (got.Load() > 0) != c.traces || (measured.Load() > 0) != c.metrics {
			t.Errorf("%v: %d bytes of traces were exported, and %d of metrics", c.env, got.Load(), measured.Load())
		}
	}
	grpc := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
	if _, _, err := tracing(t.Context(), func(k string) string { return grpc[k] }); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("grpc: %v", err)
	}
}
