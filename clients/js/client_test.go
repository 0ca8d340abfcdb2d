package js

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// maxSize bounds the client as it is, comments and all. It was 14,000 before records of results
// that grow were read for clients that come late.
const maxSize = 14 << 10

func TestSize(t *testing.T) {
	if len(Source) > maxSize {
		t.Errorf("the client has %d bytes, %d are allowed", len(Source), maxSize)
	}
}

// The client depends on nothing: it imports no module.
func TestNoImports(t *testing.T) {
	if m := regexp.MustCompile(`(?m)^\s*import\b|\bimport\(|\brequire\(`).Find(Source); m != nil {
		t.Errorf("the client has %q", m)
	}
}

// nodePackages is where npm put what tests in Node use: a folder with node_modules.
const nodePackages = "STILE_TEST_NODE_PACKAGES"

// node finds Node; without it the test goes on only if it is not required.
func node(t *testing.T) (path string, ok bool) {
	t.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		return path, true
	}
	if os.Getenv("STILE_REQUIRE_NODE") != "" {
		t.Fatalf("node is required: %v", err)
	}
	t.Log("ran without node")
	return "", false
}

// The client's own tests, against a host that is a process of its own.
func TestAgainstHost(t *testing.T) {
	node, ok := node(t)
	if !ok {
		return
	}
	bin := filepath.Join(t.TempDir(), "stile")
	build := exec.Command("go", "build", "-tags", "lite", "-o", bin, "../../cmd/stile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "test/client.test.js")
	cmd.Env = append(os.Environ(), "STILE_BIN="+bin)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// The declarations are right about the client, as the TypeScript compiler sees it.
func TestDeclarations(t *testing.T) {
	node, ok := node(t)
	if !ok {
		return
	}
	tsc := filepath.Join(os.Getenv(nodePackages), "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(tsc); err != nil || os.Getenv(nodePackages) == "" {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("typescript is required and not in %s=%q", nodePackages, os.Getenv(nodePackages))
		}
		t.Log("ran without typescript; make test installs it when there is npm")
		return
	}
	check := func(file string) (string, error) {
		out, err := exec.CommandContext(t.Context(), node, tsc, "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext",
			"--moduleResolution", "nodenext", "--lib", "es2023,dom,esnext.asynciterable", file).CombinedOutput()
		return string(out), err
	}
	if out, err := check("test/usage.mts"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check("test/misuse.mts"); err == nil {
		t.Errorf("a wrong use passes: %s", out)
	}
}

// What is exported and declared is the same.
func TestDeclaredNames(t *testing.T) {
	declared, err := os.ReadFile("stile.d.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^export class (\w+)`).FindAllSubmatch(Source, -1) {
		if !regexp.MustCompile(`(?m)^export class ` + string(m[1]) + `\b`).Match(declared) {
			t.Errorf("%s is not declared", m[1])
		}
	}
}
