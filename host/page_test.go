package host_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/internal/page"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// hostileText is a model's wish to be more than text.
const hostileText = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script><a href="javascript:alert(1)">x</a>`

func TestPageIsServed(t *testing.T) {
	d := serve(t, host.Config{Access: newTokens(t)}, agentOf("talker", speaks(nil, always()))) // who has no token may have the page
	for path, kind := range map[string]string{
		"/": "text/html", "/assets/page.css": "text/css", "/assets/page.js": "text/javascript", "/assets/plain.js": "text/javascript", "/assets/words.js": "text/javascript", "/assets/stile.js": "text/javascript",
	} {
		res := d.ask("GET", path, "")
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != kind+"; charset=utf-8" || res.Header.Get("Content-Security-Policy") != page.Policy {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
	for _, bad := range []string{"unsafe-inline", "unsafe-eval", "*", "http"} {
		if strings.Contains(page.Policy, bad) {
			t.Errorf("the policy has %s", bad)
		}
	}
	d.refused(404, messages.ErrNotFound, "GET", "/assets/../host.go", "")
	d.refused(404, messages.ErrNotFound, "GET", "/assets/", "")
}

// nodePackages is where npm put what tests in Node use: a folder with node_modules.
const nodePackages = "STILE_TEST_NODE_PACKAGES"

// installed finds a package of Node. Without it, or without Node, a test goes on only
// if neither is required.
func installed(t *testing.T, pkg string) (node, packages string, ok bool) {
	t.Helper()
	return installedIn(t, nodePackages, pkg)
}

// installedIn is installed for the folder that a variable names.
func installedIn(t *testing.T, folder, pkg string) (node, packages string, ok bool) {
	t.Helper()
	node, err := exec.LookPath("node")
	packages = os.Getenv(folder)
	if err == nil && packages != "" {
		packages, err = filepath.Abs(packages)
		if err == nil {
			_, err = os.Stat(filepath.Join(packages, "node_modules", filepath.FromSlash(pkg)))
		}
	}
	if err == nil && packages != "" {
		return node, packages, true
	}
	if os.Getenv("STILE_REQUIRE_NODE") != "" {
		t.Fatalf("%s is required and not in %s=%q: %v", pkg, folder, packages, err)
	}
	t.Logf("ran without %s of Node; make test installs it when there is npm", pkg)
	return "", "", false
}

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

// TestPageInBrowser drives the page in a real browser.
func TestPageInBrowser(t *testing.T) {
	browser, ok := browserOf(t)
	if !ok {
		return
	}
	node, packages, ok := installed(t, "playwright-core")
	if !ok {
		return
	}
	goOn := make(chan struct{}, 1)
	talker := model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if !yield(llm.Chunk{Text: []byte("one ")}, nil) {
				return
			}
			select {
			case <-goOn:
				if yield(llm.Chunk{Text: []byte(hostileText)}, nil) {
					yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
				}
			case <-ctx.Done():
				yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			}
		}
	})
	program := "command\nemit tool.shop.pay(\"<img src=x onerror=alert(1)> \u202egnp\")\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"
	man := manifest.Default("aeiou")
	man.Name, man.Import.Tools = "clerk", []string{"shop.pay"}
	man.Approval.Tools = map[string]messages.GateAnswer{"shop.pay": messages.GateConfirm}
	clerk := &stile.Agent{Manifest: man, Model: scripted.New(program, program), Tools: []tools.Tool{{
		Name: "shop.pay", Params: []neuroscript.Param{{Name: "to", Type: "string"}},
		Run: func(context.Context, *tools.Call) (neuroscript.Value, error) { return neuroscript.String("paid"), nil },
	}}}
	d := serve(t, host.Config{}, agentOf("talker", talker), clerk)
	keys := newTokens(t)
	guarded := serve(t, host.Config{Access: keys}, agentOf("talker", talker))
	token, _ := keys.make("acme", "ann", "read", "submit")
	lever := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { goOn <- struct{}{} }))
	defer lever.Close()
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "internal/page/page.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, "STILE_GO="+lever.URL, "STILE_GUARDED="+guarded.url, "STILE_TOKEN="+token, "STILE_BROWSER="+browser, nodePackages+"="+packages, "STILE_HOSTILE="+hostileText, "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("ran in %s\n%s", browser, out)
	if err != nil {
		t.Error(err)
	}
}
