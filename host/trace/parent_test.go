package trace_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/trace"
	"github.com/seed14be6753/stile/manifest"
)

// A run that was submitted with a traceparent is a child of the caller's span, in its trace, through each
// door, as an OTLP receiver sees it; a malformed one is passed over.
func TestTraceParent(t *testing.T) {
	var mu sync.Mutex
	states := map[string]string{} // by session
	got := map[string][2]string{} // trace and parent of runs, by session
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var all collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &all)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range all.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					if s.Name != "invoke_agent talker" {
						continue
					}
					for _, a := range s.Attributes {
						if a.Key == "stile.session" {
							states[a.Value.GetStringValue()] = s.TraceState
							got[a.Value.GetStringValue()] = [2]string{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.ParentSpanId)}
						}
					}
				}
			}
		}
	}))
	defer receiver.Close()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(receiver.URL))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	m := manifest.Default("cogency")
	m.Name = "talker"
	agent := &stile.Agent{Manifest: m, Model: &replies{texts: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"}}}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	rt.ObserveAgents(trace.New(provider).ObserveAgent)
	srv, err := host.New(host.Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(srv.Handler())
	defer door.Close()
	ask := func(path, body, parent string, more ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, door.URL+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if parent != "" {
			req.Header.Set("Traceparent", parent)
		}
		for i := 0; i < len(more); i += 2 {
			req.Header.Add(more[i], more[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 300 {
			t.Fatalf("%s: %d %s %v", path, res.StatusCode, b, err)
		}
	}
	const traced, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	none := [2]string{"", ""}
	want := map[string][2]string{}
	for id, c := range map[string]struct {
		header string
		want   [2]string
	}{
		"good":     {"00-" + traced + "-" + span + "-01", [2]string{traced, span}},
		"later":    {"cc-" + traced + "-" + span + "-01-what-comes", [2]string{traced, span}},
		"zero":     {"00-00000000000000000000000000000000-" + span + "-01", none},
		"upper":    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", none},
		"too-long": {"00-" + traced + "-" + span + "-01-x", none},
		"absent":   {"", none},
	} {
		ask("/v1/sessions", `{"agent":"talker","id":"`+id+`"}`, "")
		ask("/v1/sessions/"+id+"/runs?wait=1m", `{"input":"hello"}`, c.header)
		want["local:local:"+id] = c.want
	}
	stated := map[string]string{}
	for id, c := range map[string]struct {
		headers []string
		want    string
	}{
		"stated":    {[]string{"vendor=one", "other=2"}, "vendor=one,other=2"},
		"no-state":  {nil, ""},
		"malformed": {[]string{"no pair"}, ""},
		"too-much":  {[]string{"vendor=" + strings.Repeat("x", 250), "other=" + strings.Repeat("x", 250)}, ""},
	} {
		ask("/v1/sessions", `{"agent":"talker","id":"`+id+`"}`, "")
		var more []string
		for _, h := range c.headers {
			more = append(more, "Tracestate", h)
		}
		ask("/v1/sessions/"+id+"/runs?wait=1m", `{"input":"hello"}`, "00-"+traced+"-"+span+"-01", more...)
		want["local:local:"+id], stated["local:local:"+id] = [2]string{traced, span}, c.want
	}
	ask("/v1/sessions", `{"agent":"talker","id":"orphan"}`, "")
	ask("/v1/sessions/orphan/runs?wait=1m", `{"input":"hello"}`, "", "Tracestate", "vendor=one")
	want["local:local:orphan"], stated["local:local:orphan"] = none, ""
	ask("/v1/sessions", `{"agent":"talker","id":"twice"}`, "")
	ask("/v1/sessions/twice/runs?wait=1m", `{"input":"hello"}`, "00-"+traced+"-"+span+"-01", "Traceparent", "00-"+traced+"-"+span+"-01")
	want["local:local:twice"] = none
	ask("/v1/chat/completions", `{"model":"talker","messages":[{"role":"user","content":"hello"}]}`, "00-"+traced+"-"+span+"-01", "X-Stile-Session", "chat")
	want["local:local:chat"] = [2]string{traced, span}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	ses, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: door.URL + "/mcp", HTTPClient: &http.Client{Transport: traceparent("00-" + traced + "-" + span + "-01")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ses.CallTool(t.Context(), &sdk.CallToolParams{Name: "talker", Arguments: map[string]any{"message": "hello", "session": "mcp"}}); err != nil {
		t.Error(err)
	}
	if err := ses.Close(); err != nil {
		t.Error(err)
	}
	want["local:local:mcp"] = [2]string{traced, span}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, w := range stated {
		if states[id] != w {
			t.Errorf("%s has the state %q, want %q", id, states[id], w)
		}
	}
	for id, w := range want {
		g, ok := got[id]
		switch {
		case !ok:
			t.Errorf("%s was not traced: %v", id, got)
		case w != none && g != w:
			t.Errorf("%s is in %v, want %v", id, g, w)
		case w == none && (g[0] == traced || g[1] != ""):
			t.Errorf("%s, without a good header, has a parent: %v", id, g)
		}
	}
}

// traceparent sends requests with the header of its text.
type traceparent string

func (h traceparent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", string(h))
	return http.DefaultTransport.RoundTrip(r)
}
