package tests

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/stiletest"
)

// What Prompts shows is what the model was sent, byte for byte, in every dialect.
func TestPromptsAreWhatWasSent(t *testing.T) {
	lookup, err := stile.DefineTool("shop.order", "Looks an order up.", stile.ReadOnly, func(_ context.Context, in struct {
		ID string `json:"id"`
	},
	) (string, error) {
		if in.ID == "gone" {
			return "", errors.New("no such order")
		}
		return "order " + in.ID + " <b>&amp; more", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		agent   *stile.Agent
		replies []string
		says    []string
	}{
		"plain":             {&stile.Agent{Dialect: "plain"}, []string{"One.", "Two.", "Three."}, []string{"a", "b <action>", "c"}},
		"cortex":            {&stile.Agent{Dialect: "cortex"}, []string{`<action id="x">{"name": "shop.order", "parameters": {"id": "7"}}</action>`, "<response>It is $x.</response>", "<response>Bye.</response>"}, []string{"look", "bye"}},
		"cortex, a failure": {&stile.Agent{Dialect: "cortex"}, []string{`<action id="x">{"name": "shop.order", "parameters": {"id": "gone"}}</action>`, "<response>Gone.</response>"}, []string{"look"}},
		"cogency":           {&stile.Agent{Dialect: "cogency"}, []string{`<execute>[{"name": "shop.order", "args": {"id": "7"}}]</execute>`, "Done.\n<end>", "Bye.\n<end>"}, []string{"look", "bye"}},
		"kitsu":             {&stile.Agent{Dialect: "kitsu"}, []string{"Hello.", "Bye."}, []string{"hi", "bye"}},
		"aeiou": {&stile.Agent{Dialect: "aeiou"}, []string{
			"command\nemit tool.shop.order(\"7\")\nwhisper self, \"note\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand\n",
			"command\nemit \"done\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n",
		}, []string{"look"}},
		"aeiou, a repair": {&stile.Agent{Dialect: "aeiou"}, []string{
			"command\nemit (\nendcommand\n", "command\nemit \"done\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n",
		}, []string{"look"}},
		"instructions and a window": {&stile.Agent{Dialect: "plain", Instructions: "Be short."}, []string{"One.", "Two."}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.agent.Dialect == "cortex" || c.agent.Dialect == "cogency" || c.agent.Dialect == "aeiou" {
				c.agent.Tools = []stile.Tool{lookup}
			}
			s := stiletest.Open(t, c.agent, c.replies...)
			for _, text := range c.says {
				s.Say(text)
			}
			sent := s.Requests()
			if len(sent) != len(c.replies) {
				t.Fatalf("%d requests, want %d", len(sent), len(c.replies))
			}
			shown := 0
			for turn := int64(1); shown < len(sent); turn++ {
				all, err := s.Runtime.Archive().Prompts(t.Context(), s.Incarnation(), c.agent, turn)
				if err != nil {
					t.Fatalf("turn %d: %v", turn, err)
				}
				for _, p := range all {
					if !p.Exact || p.Why != "" {
						t.Errorf("turn %d: exact %t, %s", turn, p.Exact, p.Why)
					}
					if d := cmp.Diff(saidTexts(sent[shown].Messages), saidTexts(p.Messages)); d != "" {
						t.Errorf("turn %d: %s", turn, d)
					}
					if string(p.Reply) != c.replies[shown] || p.Ended == nil {
						t.Errorf("turn %d: the reply is %q, want %q", turn, p.Reply, c.replies[shown])
					}
					shown++
				}
			}
			if _, err := s.Runtime.Archive().Prompts(t.Context(), s.Incarnation(), c.agent, 99); !stile.IsNotFound(err) {
				t.Errorf("turn 99: %v", err)
			}
		})
	}
}

func saidTexts(ms []messages.Message) (out [][2]string) {
	for _, m := range ms {
		out = append(out, [2]string{string(m.Role), m.Text})
	}
	return out
}

// A prompt that does not come out as it was sent says so, and shows what the journal has.
func TestPromptsThatDiffer(t *testing.T) {
	dir := t.TempDir()
	agent := &stile.Agent{Dialect: "plain", Instructions: "Be short.", Transform: func(h stile.History) []messages.Message {
		return append(h.Messages, messages.Message{Role: stile.RoleUser, Text: "Mind the gap."})
	}}
	var inc messages.Incarnation
	t.Run("session", func(t *testing.T) {
		s := stiletest.OpenIn(t, stile.Config{Dir: dir}, agent, "One.")
		s.Say("hello")
		inc = s.Incarnation()
	})
	a, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	with, err := a.Prompts(t.Context(), inc, agent, 1)
	if err != nil || len(with) != 1 || !with[0].Exact {
		t.Fatalf("with its agent: %+v, %v", with, err)
	}
	without, err := a.Prompts(t.Context(), inc, nil, 1)
	if err != nil || len(without) != 1 {
		t.Fatalf("%+v, %v", without, err)
	}
	p := without[0]
	if p.Exact || p.Why == "" || string(p.Reply) != "One." {
		t.Errorf("without its agent: %+v", p)
	}
	if len(p.Messages) == 0 || p.Messages[0].Role != stile.RoleSystem || !strings.Contains(p.Messages[0].Text, "Be short.") {
		t.Errorf("it shows %+v", p.Messages)
	}
}

// Each turn is shown under the manifest that it ran under.
func TestPromptsOverAnEdit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.yaml")
	script := `{"match": {"re2": "(?s).*"}, "chunks": [{"text": "Yes."}]}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "script.jsonl"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{InMemory: true})
	for _, words := range []string{"Be short.", "Be long."} {
		doc := "dialect: plain\ninstructions: " + words + "\nmodel: {provider: scripted, script: script.jsonl}\n"
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		agent, err := stile.LoadAgent(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := rt.Open(t.Context(), "ada", agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "hello")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Text(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	head, err := rt.Archive().Head(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	for turn, words := range map[int64]string{1: "Be short.", 2: "Be long."} {
		all, err := rt.Archive().Prompts(t.Context(), head.Inc, nil, turn)
		if err != nil || len(all) != 1 || !all[0].Exact || !strings.Contains(all[0].Text(), words) {
			t.Errorf("turn %d: %+v, %v", turn, all, err)
		}
	}
	if err := rt.Delete(t.Context(), "ada", "test"); err != nil {
		t.Fatal(err)
	}
	if all, err := rt.Archive().Prompts(t.Context(), head.Inc, nil, 1); err == nil {
		t.Errorf("of an erased session: %+v", all)
	}
}

// A fork says which session has the turns before it.
func TestPromptsOfAFork(t *testing.T) {
	agent := &stile.Agent{Dialect: "plain", Model: scripted.New("One.", "Two.")}
	rt := start(t, stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	s, err := rt.Open(t.Context(), "first", agent)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run, err := s.Submit(t.Context(), "hello")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Decision(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fork, err := rt.Fork(t.Context(), "first", 1, "second")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rt.Archive().Prompts(t.Context(), fork.Inc, agent, 1)
	if err != nil || len(all) != 1 || all[0].Exact || !strings.Contains(all[0].Why, "local:local:first") {
		t.Errorf("of a fork: %+v, %v", all, err)
	}
}
