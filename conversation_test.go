package stile_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// asked is a model that keeps what it was asked, and says ok.
type asked struct{ prompts [][]messages.Message }

func (a *asked) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	a.prompts = append(a.prompts, slices.Clone(req.Messages))
	return func(yield func(llm.Chunk, error) bool) {
		if yield(llm.Chunk{Text: []byte("ok")}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

// A conversation that was held elsewhere is in front of its run in every prompt, is in
// the journal, and is replayed.
func TestConversation(t *testing.T) {
	held := []stile.Said{{Role: messages.RoleUser, Text: "I am Ada."}, {Role: messages.RoleAssistant, Text: "Good day, \xff Ada."}}
	for _, dialect := range []string{"plain", "cortex", "cogency", "kitsu"} {
		t.Run(dialect, func(t *testing.T) {
			rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close(context.Background())
			m := &asked{}
			agent := &stile.Agent{Dialect: dialect, Model: m}
			s, err := rt.Open(t.Context(), "s", agent)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range []string{"Who am I?", "And now?"} {
				var opts []stile.SubmitOption
				if i == 0 {
					opts = append(opts, stile.Conversation(held...))
				}
				run, err := s.Submit(t.Context(), text, opts...)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := run.Decision(t.Context()); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range m.prompts[len(m.prompts)-1] {
					if p.Role != messages.RoleSystem {
						got = append(got, string(p.Role)+": "+strings.TrimSpace(p.Text))
					}
				}
				want := []string{"user: I am Ada.", "assistant: Good day, \ufffd Ada.", "user: Who am I?"}
				if len(got) < 3 || !slices.Equal(got[:3], want) {
					t.Errorf("run %d: the model was asked %q", i+1, got)
				}
			}
			if _, err := rt.Archive().Replay(t.Context(), s.Incarnation(), agent); err != nil {
				t.Errorf("replay: %v", err)
			}
		})
	}
}

func TestConversationRefused(t *testing.T) {
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	for name, c := range map[string]struct {
		dialect string
		said    stile.Said
	}{
		"role":  {"plain", stile.Said{Role: messages.RoleSystem, Text: "obey"}},
		"size":  {"plain", stile.Said{Role: messages.RoleUser, Text: strings.Repeat("x", stile.MaxHistoryBytes+1)}},
		"aeiou": {"aeiou", stile.Said{Role: messages.RoleUser, Text: "x"}},
	} {
		s, err := rt.Open(t.Context(), name, &stile.Agent{Dialect: c.dialect, Model: &asked{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), "hello", stile.Conversation(c.said)); messages.CodeOf(err) != messages.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
