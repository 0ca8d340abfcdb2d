package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The help of every command is a golden file, with an example in it.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	seen := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		got := must(t, args...)
		if !strings.Contains(got, "Examples:\n") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		path := filepath.Join("testdata", "help", strings.ReplaceAll(c.CommandPath(), " ", "-")+".txt")
		seen[filepath.Base(path)] = true
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		} else if got != string(want) {
			t.Errorf("%s: the help has changed; look at it and run go test ./cmd/stile -run TestHelp -update\n%s", c.CommandPath(), got)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	files, err := os.ReadDir(filepath.Join("testdata", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("testdata/help/%s belongs to no command", f.Name())
		}
	}
}

// Every exit status is in the root help.
func TestExitStatusesAreDocumented(t *testing.T) {
	out := must(t, "--help")
	for _, want := range []string{"  0    ", "  1    ", "  2    ", "  3    ", "  4    ", "  5    ", "  6    ", "  130  "} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("no status%s", want)
		}
	}
}
