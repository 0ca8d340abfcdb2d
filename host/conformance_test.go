//go:build !lite

package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm/scripted"
)

// scenarios of the protocol's conformance package that a host passes: those that ask for nothing
// but the protocol, and those whose tool an agent can be. docs/reference/mcp.md has why the others
// do not apply.
var scenarios = []string{
	"server-initialize", "ping", "logging-set-level", "tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams", "dns-rebinding-protection",
	"tools-call-simple-text", "tools-call-error", "tools-call-with-progress", "tools-call-with-logging", "server-sse-polling", "tools-call-elicitation",
}

// The conformance package of the protocol, unchanged.
func TestConformance(t *testing.T) {
	const pkg = "@modelcontextprotocol/conformance"
	node, packages, ok := installed(t, pkg)
	if !ok {
		return
	}
	asks := asksFirst(t, "test_elicitation", "")
	asks.Model = scripted.New(`<execute>[{"name":"lab.pay","args":{"v":"b"}}]</execute>`, "Over.")
	broken := agentOf("test_error_handling", scripted.New())
	heard := make(chan struct{}, 99) // a piece for each note that the client gets, so that none holds two
	d := serve(t, host.Config{}, agentOf("test_simple_text", echo), agentOf("test_tool_with_progress", speaks([]string{"one ", "two ", "three"}, heard)), agentOf("test_tool_with_logging", echo), agentOf("test_reconnection", echo), broken, asks)
	at, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	// The suite calls its tools without arguments, or with its own; an agent wants a message.
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		var m map[string]any
		if json.Unmarshal(body, &m) == nil && m["method"] == "tools/call" {
			m["params"].(map[string]any)["arguments"] = map[string]any{"message": "go"}
			if body, err = json.Marshal(m); err != nil {
				t.Error(err)
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(noting{w, heard}, r)
	}))
	t.Cleanup(front.Close)
	for _, name := range scenarios {
		out, err := conform(t.Context(), node, packages, front.URL, name)
		if err != nil || !strings.Contains(out, " 0 failed") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The protocol's inspector, on the command line.
func TestInspector(t *testing.T) {
	const pkg = "@modelcontextprotocol/inspector-cli"
	node, packages, ok := installed(t, pkg)
	if !ok {
		return
	}
	d := talkers(t)
	for method, want := range map[string][]string{
		"tools/list": {`"title": "Echo"`, `"outputSchema"`},
		"tools/call --tool-name echo --tool-arg message=hello": {`"text": "[user: hello]"`, `"decision": "DONE"`},
	} {
		args := append([]string{filepath.Join(packages, "node_modules", pkg, "build", "index.js"), d.url + "/mcp", "--method"}, strings.Fields(method)...)
		out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", method, err, out)
		}
		for _, part := range want {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s: %s lacks %s", method, out, part)
			}
		}
	}
}

// noting tells of notes of progress that pass.
type noting struct {
	http.ResponseWriter
	passed chan<- struct{}
}

func (n noting) Write(b []byte) (int, error) {
	for range bytes.Count(b, []byte("notifications/progress")) {
		n.passed <- struct{}{}
	}
	return n.ResponseWriter.Write(b)
}

func (n noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func conform(ctx context.Context, node, packages, url, scenario string) (string, error) {
	shim, err := filepath.Abs(filepath.Join("testdata", "conformance.mjs"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, node, "--import", shim, filepath.Join(packages, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"), "server", "--url", url+"/mcp", "--scenario", scenario)
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
