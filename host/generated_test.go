//go:build !lite

package host_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile/host"
)

// openAPIPackages is where npm put what reads descriptions: a folder with node_modules.
const openAPIPackages = "STILE_TEST_OPENAPI_PACKAGES"

// described is a host, and a folder with its description.
func describedHost(t *testing.T) (d *door, folder string) {
	t.Helper()
	d, folder = talkers(t), t.TempDir()
	b, err := d.srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "openapi.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return d, folder
}

// runs runs a command in a folder, and gives what it says.
func runs(t *testing.T, folder string, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		e := &exec.ExitError{}
		errors.As(err, &e)
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, e.Stderr)
	}
	return out
}

// into copies a file of testdata/client into a folder.
func into(t *testing.T, folder, name string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "client", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A public linter finds nothing in the description, with tokens and without, and the types that are
// generated of it fit a program, which a real host answers.
func TestDescriptionInNode(t *testing.T) {
	node, packages, ok := installedIn(t, openAPIPackages, "openapi-typescript")
	if !ok {
		return
	}
	d, folder := describedHost(t)
	secured := serve(t, host.Config{Access: newTokens(t)}, agentOf("echo", echo))
	b, err := secured.srv.OpenAPI()
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "secured.json"), b, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(folder, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := func(name string) string { return filepath.Join("node_modules", ".bin", name) }
	for _, file := range []string{"openapi.json", "secured.json"} {
		out := runs(t, folder, []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"}, node, bin("redocly"), "lint", "--extends=recommended", "--format=json", file)
		var found struct{ Totals map[string]int }
		if err := json.Unmarshal(out, &found); err != nil || len(found.Totals) == 0 || found.Totals["errors"]+found.Totals["warnings"] > 0 {
			t.Errorf("%s: %v %s", file, err, out)
		}
	}
	into(t, folder, "usage.mts")
	runs(t, folder, nil, node, bin("openapi-typescript"), "openapi.json", "-o", "openapi.d.ts")
	runs(t, folder, nil, node, bin("tsc"), "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "usage.mts")
	t.Logf("%s", runs(t, folder, []string{"STILE_URL=" + d.url}, node, "usage.mjs"))
}

// The Go client that is generated of the description compiles, and asks a real host.
func TestDescriptionInGo(t *testing.T) {
	d, folder := describedHost(t)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		into(t, folder, name)
	}
	env := []string{"GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOWORK=off"}
	if out, err := exec.CommandContext(t.Context(), "go", "-C", folder, "mod", "download").CombinedOutput(); err != nil && os.Getenv("STILE_REQUIRE_NODE") == "" {
		t.Logf("ran without the generator for Go: %s", out)
		return
	}
	runs(t, folder, env, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "client.gen.go", "openapi.json")
	runs(t, folder, env, "go", "run", ".", d.url)
}
