//go:build !lite

package main

import (
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
	var got atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got.Add(int64(len(b)))
	}))
	defer collector.Close()
	for _, c := range []struct {
		env    map[string]string
		traces bool
	}{
		{map[string]string{}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_SDK_DISABLED": "true"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_TRACES_EXPORTER": "none"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}, true},
	} {
		for k, v := range c.env {
			t.Setenv(k, v) // the exporter reads the process's own
		}
		got.Store(0)
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
		if (got.Load() > 0) != c.traces {
			t.Errorf("%v: %d bytes were exported", c.env, got.Load())
		}
	}
	grpc := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
	if _, _, err := tracing(t.Context(), func(k string) string { return grpc[k] }); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("grpc: %v", err)
	}
}
