package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// doctor names the row of docs/security.md that holds, in its words.
func TestSetup(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range setups {
		if !strings.Contains(string(page), "| "+s.name+" | "+s.remains+" |\n") {
			t.Errorf("docs/security.md has no row %s: %s", s.name, s.remains)
		}
	}
	for _, c := range []struct {
		uid  int
		file string
		want setup
	}{{0, "", setupRoot}, {1000, "", setupUser}, {0, "/.dockerenv", setupBox}, {1000, "/run/.containerenv", setupBox}, {1000, "/var/run/secrets/kubernetes.io", setupBox}} {
		if got := setupOf(c.uid, func(path string) bool { return path == c.file }); got != c.want {
			t.Errorf("%d %s: %s", c.uid, c.file, got.name)
		}
	}
	var a app
	if all := a.lookSetup(t.Context(), nil); len(all) != 2 || all[0].Detail == "" || (all[0].State == isWarn) != (os.Geteuid() == 0) {
		t.Errorf("%+v", all)
	}
}

// doctor says what bounds programs together, by what the machine has.
func TestControlGroups(t *testing.T) {
	for text, want := range map[string]string{
		"cpuset cpu io memory pids\n": "MemoryMax and TasksMax", "cpu io memory\n": "no control groups of version 2", "": "no control groups of version 2",
	} {
		got := groupsOf(func(path string) ([]byte, error) {
			if text == "" || path != "/sys/fs/cgroup/cgroup.controllers" {
				return nil, os.ErrNotExist
			}
			return []byte(text), nil
		})
		if !strings.Contains(got, "for each process, not for all together") || !strings.Contains(got, want) {
			t.Errorf("%q: %s", text, got)
		}
	}
}
