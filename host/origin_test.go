//go:build !lite

package host_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// browserOf finds a browser. Without one a test goes on only if none is required.
func browserOf(t *testing.T) (browser string, ok bool) {
	t.Helper()
	for _, name := range []string{os.Getenv("STILE_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	if os.Getenv("STILE_REQUIRE_BROWSER") != "" {
		t.Fatal("a browser is required and there is none: install chromium")
	}
	t.Log("ran without a browser")
	return "", false
}

// Pages of an allowed origin use the official clients, and those of another do not reach the host.
func TestClientsInBrowser(t *testing.T) {
	browser, ok := browserOf(t)
	if !ok {
		return
	}
	node, packages, ok := installed(t, "esbuild")
	if !ok {
		return
	}
	pages := t.TempDir()
	allowed := httptest.NewServer(http.FileServer(http.Dir(pages)))
	defer allowed.Close()
	foreign := httptest.NewServer(http.FileServer(http.Dir(pages)))
	defer foreign.Close()
	keys := newTokens(t)
	token, _ := keys.make("acme", "ann", "read", "submit")
	says := model(func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if yield(llm.Chunk{Text: []byte(req.Messages[len(req.Messages)-1].Text)}, nil) {
				yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
			}
		}
	})
	d := serve(t, host.Config{Access: keys, Origins: []string{allowed.URL}}, agentOf("echo", says))
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/origin.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, "STILE_TOKEN="+token, "STILE_PAGES="+pages, "STILE_ALLOWED="+allowed.URL, "STILE_FOREIGN="+foreign.URL, "STILE_BROWSER="+browser, nodePackages+"="+packages, "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("ran in %s\n%s", browser, out)
	if err != nil {
		t.Error(err)
	}
}
