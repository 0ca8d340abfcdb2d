package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A binary's code is counted to its modules, nearly all of it, and a bound that is too low
// fails with the size.
func TestWeigh(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "weigh")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w, err := weigh(bin)
	if err != nil {
		t.Fatal(err)
	}
	code, own := int64(0), int64(0)
	for _, m := range w.modules {
		code += m.bytes
		if m.name == "github.com/seed14be6753/stile" {
			own = m.bytes
		}
	}
	text := int64(0)
	for _, s := range w.sections {
		if s.name == ".text" {
			text = s.bytes
		}
	}
	if own == 0 || code > text || code < text*9/10 {
		t.Errorf("code %d, of it our own %d; the section has %d", code, own, text)
	}
	var out strings.Builder
	if err := run(&out, bin, 1000, 1); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"in all\n", "  Go\n", "  others\n", "  .gopclntab\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := run(&out, bin, 0.5, 1); err == nil || !strings.Contains(err.Error(), "over its bound of 0.5") {
		t.Error(err)
	}
	if err := run(&out, "main.go", 1, 1); err == nil || !strings.Contains(err.Error(), "main.go: ") {
		t.Error(err)
	}
}

// The package of a function, also of an instance of a generic one and of a generated one.
func TestPackageOf(t *testing.T) {
	for fn, want := range map[string]string{
		"main.main":                "main",
		"runtime.gcStart":          "runtime",
		"net/http.(*Server).Serve": "net/http",
		"github.com/a/b/v2.F":      "github.com/a/b/v2",
		"github.com/a/b/v2.(*T[go.shape.struct { x/y.Z }]).M": "github.com/a/b/v2",
		"slices.Sort[go.shape.[]github.com/a/b.C]":            "slices",
		"type:.eq.github.com/a/b.T":                           "github.com/a/b",
		"gopkg.in/yaml%2ev3.Unmarshal":                        "gopkg.in/yaml.v3",
	} {
		if got := packageOf(fn); got != want {
			t.Errorf("%s: %q, want %q", fn, got, want)
		}
	}
}
