package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/internal/page"
	"github.com/seed14be6753/stile/messages"
)

// What a person without a token may have is the page, under its policy.
func TestPageIsServed(t *testing.T) {
	d := serve(t, host.Config{Access: newTokens(t)}, agentOf("talker", speaks(nil, always()))) // who has no token may have the page
	for path, kind := range map[string]string{
		"/": "text/html", "/assets/console.css": "text/css", "/assets/app.js": "text/javascript", "/assets/plain.js": "text/javascript", "/assets/preact.js": "text/javascript", "/assets/stile.js": "text/javascript",
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
