package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// systems are the first messages of requests.
func systems(t *testing.T, r *recorder) (all []string) {
	t.Helper()
	for _, req := range r.requests() {
		if req.Messages[0].Role != messages.RoleSystem {
			t.Fatalf("the prompt begins with %+v", req.Messages[0])
		}
		all = append(all, req.Messages[0].Text)
	}
	return all
}

// What a function gives for a session is made once for a run, stands in front in all its
// turns, is on record, and a replay has it from there.
func TestInstructGivesForARun(t *testing.T) {
	const call = `<action id="a" type="tool">{"name":"str.ToUpper","parameters":{"s":"a"}}</action>`
	for dialect, replies := range map[string][]string{
		"plain":   {"yes", "yes"},
		"cortex":  {call, "<response>yes</response>", "<response>yes</response>"},
		"cogency": {`<execute>[{"name":"str.ToUpper","args":{"s":"a"}}]</execute>`, "yes<end>", "yes<end>"},
		"kitsu":   {"<action:get_time>", "yes", "yes"},
		"aeiou":   {program(sayContinue), program(sayDone), program(sayDone)},
	} {
		t.Run(dialect, func(t *testing.T) {
			rt := start(t, stile.Config{})
			var n atomic.Int64
			model := &recorder{Model: once(replies...)}
			m := manifest.Default(dialect)
			if dialect != "kitsu" && dialect != "plain" {
				m.Import.Tools = []string{"str.ToUpper"}
			}
			a := &stile.Agent{
				Manifest: m, Model: model, Instructions: "Speak to ${builtin.instructions} for $$5, not $x.",
				Instruct: func(_ context.Context, sid string) (string, error) {
					return strings.Repeat("I", int(n.Add(1))) + " of " + sid, nil
				},
			}
			s := open(t, rt, "s", a)
			wantDone(t, ask(t, s, "first"))
			wantDone(t, ask(t, s, "second"))
			seen := systems(t, model)
			for i, system := range seen {
				count := "I"
				if i == len(seen)-1 {
					count = "II"
				}
				if !strings.HasPrefix(system, "Speak to "+count+" of "+s.SID()+" for $5, not $x.") {
					t.Errorf("turn %d: %.80q", i+1, system)
				}
			}
			if n.Load() != 2 {
				t.Errorf("made %d times", n.Load())
			}
			recorded := 0
			for _, fd := range bodies[*messages.FeedInjected](records(t, s)) {
				if fd.ID == messages.InstructionsFeed {
					recorded++
				}
			}
			if recorded != 2 {
				t.Errorf("%d records", recorded)
			}
			for _, again := range []*stile.Agent{nil, a} {
				if _, err := rt.Replay(t.Context(), "s", again); err != nil {
					t.Error(err)
				}
			}
			if n.Load() != 2 {
				t.Error("a replay made them")
			}
		})
	}
}

// ${NAME} is a variable or a feed of the manifest, as it was when the run began.
func TestInstructionsPlaceholders(t *testing.T) {
	t.Setenv("STILE_TEST_CITY", "Brest")
	rt := start(t, stile.Config{})
	model := &recorder{Model: says("yes")}
	m := manifest.Default("plain")
	m.Environment.Allow = []string{"STILE_TEST_CITY", "STILE_TEST_UNSET"}
	m.Environment.Variables = map[string]string{"WHO": "a pilot"}
	m.ContextFeeds = []manifest.Feed{{ID: "me", Source: manifest.FeedSource{Type: "internal", Action: "agent_metadata"}, Type: "on_demand"}}
	m.Name = "harbour"
	m.Instructions.Text = "You are ${WHO} of ${STILE_TEST_CITY}, ${STILE_TEST_UNSET:-awake}. ${me}"
	a := &stile.Agent{Manifest: m, Model: model}
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "go"))
	t.Setenv("STILE_TEST_CITY", "Nantes")
	wantDone(t, ask(t, s, "go"))
	seen := systems(t, model)
	for i, city := range []string{"Brest", "Nantes"} {
		if !strings.HasPrefix(seen[i], "You are a pilot of "+city+", awake. {") || !strings.Contains(seen[i], `"harbour"`) {
			t.Errorf("run %d: %q", i+1, seen[i])
		}
	}
	t.Setenv("STILE_TEST_CITY", "Gone")
	if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
		t.Error(err)
	}
}

// Without its instructions no model is asked: the run says why.
func TestInstructionsFail(t *testing.T) {
	for name, c := range map[string]struct {
		gives func() (string, error)
		part  string
	}{
		"an error":  {func() (string, error) { return "", errors.New("no such tenant") }, "no such tenant"},
		"a panic":   {func() (string, error) { panic("broken") }, "not made"},
		"too large": {func() (string, error) { return strings.Repeat("x", manifest.MaxInstructions+1), nil }, "at most 65536"},
		"not UTF-8": {func() (string, error) { return "\xff", nil }, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			rt := start(t, stile.Config{})
			model := &recorder{Model: says("yes")}
			a := &stile.Agent{Dialect: "plain", Model: model, Instruct: func(context.Context, string) (string, error) { return c.gives() }}
			s := open(t, rt, "s", a)
			wantHalt(t, ask(t, s, "go"), messages.ErrConfig, "instructions", c.part)
			if n := len(model.requests()); n != 0 {
				t.Errorf("the model was asked %d times", n)
			}
			if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is wrong with instructions is said when they are read, with the place.
func TestInstructionsMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		manifest, file string
		want           []string
	}{
		"unknown":         {"dialect: plain\ninstructions: \"You are ${WHO}.\"\n", "", []string{"agent.yaml", "WHO is neither", "instructions"}},
		"unknown in file": {"dialect: plain\ninstructions: {file: i.md}\n", "You are ${WHO}.", []string{"i.md", "WHO is neither"}},
		"missing":         {"dialect: plain\ninstructions: {file: other.md}\n", "", []string{"other.md", "cannot read"}},
		"too large":       {"dialect: plain\ninstructions: {file: i.md}\n", strings.Repeat("x", manifest.MaxInstructions+1), []string{"i.md", "64"}},
		"not UTF-8":       {"dialect: plain\ninstructions: {file: i.md}\n", "\xff", []string{"i.md", "UTF-8"}},
		"not given":       {"dialect: plain\ninstructions: \"${builtin.instructions}\"\n", "", []string{"instructions", "none does"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "agent.yaml")
			for file, text := range map[string]string{path: c.manifest, filepath.Join(dir, "i.md"): c.file} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			a, err := stile.LoadAgent(path)
			if err == nil {
				a.Model = says("yes")
				err = stile.Check(a, stile.Config{})
			}
			wantCode(t, err, messages.ErrConfig)
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
	both := &stile.Agent{Manifest: manifest.Default("plain"), Model: says("yes"), Instructions: "a"}
	both.Manifest.Instructions.Text = "b"
	wantCode(t, stile.Check(both, stile.Config{}), messages.ErrConfig)
}
