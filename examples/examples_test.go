// Package examples_test holds the examples to what their files say.
package examples_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
)

// manifests finds every manifest below this folder.
func manifests(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path == "dialect" {
			return fs.SkipDir // a module of its own, with a dialect of its own
		}
		if err == nil && filepath.Ext(path) == ".yaml" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %q", all)
	}
	return all
}

// runtime is a host in memory.
func runtime(t *testing.T) *stile.Runtime {
	t.Helper()
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// Every manifest loads, with its script, its tools and its limits.
func TestManifestsLoad(t *testing.T) {
	rt := runtime(t)
	for i, path := range manifests(t) {
		agent, err := stile.LoadAgent(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); want != "agent" && agent.Manifest.Name != want {
			t.Errorf("%s is named %s", path, agent.Manifest.Name)
		}
		if agent.Manifest.Workspace.Root != "" { // it is made by who runs it, as cmd/stile does
			agent.Manifest.Workspace.Root = t.TempDir()
			agent.Manifest.Shell.Path, agent.Manifest.Shell.Read = nil, nil
		}
		if agent.Manifest.Name == "coder" && confine.Probe().Err() != nil {
			agent.Manifest.Shell.Isolation = "none"
		}
		if _, err := rt.Open(t.Context(), fmt.Sprint("load-", i), agent); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What the comment on top of a gallery manifest promises is how its session ends
// under keys that work.
func TestGalleryEndsAsItsCommentsSay(t *testing.T) {
	rt := runtime(t)
	promise := regexp.MustCompile(`HALT\((ERR_[A-Z_]+)\)`)
	paths, err := filepath.Glob("gallery/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		agent, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := rt.Open(t.Context(), name, agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "Go on.")
		if err != nil {
			t.Fatal(err)
		}
		d, err := run.Decision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		said := promise.FindStringSubmatch(read(t, path))
		switch {
		case said == nil:
			t.Errorf("%s promises no HALT", path)
		case name == "signers-down":
			if d.Decision != stile.Done {
				t.Errorf("%s under working keys: %s %s", name, d.Decision, d.Reason)
			}
		case d.Decision != stile.Halt || string(d.Reason) != said[1]:
			t.Errorf("%s ended %s %s, want HALT %s", name, d.Decision, d.Reason, said[1])
		}
	}
}

// The ledger's second reply needs the first turn's OUTPUT in the prompt, the third
// one the second turn's SCRATCHPAD: the scripted model has no other way to them.
func TestLedgerNeedsWhatIsCarried(t *testing.T) {
	script := read(t, "ledger/audit.jsonl")
	for _, section := range []string{"<<<NSENV:V3:OUTPUT>>>", "<<<NSENV:V3:SCRATCHPAD>>>"} {
		if !regexp.MustCompile(`"re2": "[^"]*` + section).MatchString(script) {
			t.Errorf("no reply is matched on %s", section)
		}
	}
	rt := runtime(t)
	agent, err := stile.LoadAgent("ledger/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Open(t.Context(), "ledger", agent)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(t.Context(), "Which entries are wrong?")
	if err != nil {
		t.Fatal(err)
	}
	d, err := run.Decision(t.Context())
	if err != nil || d.Decision != stile.Done || d.Turns != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	out, err := s.Blob(t.Context(), d.Turn.Output)
	if err != nil {
		t.Fatal(err)
	}
	// The three slips that the generator made.
	for _, want := range []string{"rum off by -96 gill", "biscuit off by 40 lb", "water off by -25 gallon"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the last turn does not say %q:\n%s", want, out)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
