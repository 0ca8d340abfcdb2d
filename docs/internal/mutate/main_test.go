package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The list keeps up with the code: every mutation finds its place.
func TestMutationsApply(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, list))
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("the list has %d mutations", len(all))
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] {
			t.Errorf("two mutations are named %q", m.name)
		}
		seen[m.name] = true
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		changed, err := m.apply(strings.SplitAfter(string(src), "\n"))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if changed == string(src) {
			t.Errorf("%s changes nothing", m.name)
		}
	}
}
