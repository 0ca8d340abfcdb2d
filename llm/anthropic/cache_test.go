package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm/llmtest"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// The provider is to cache what the next prompt begins with: not what passes with this one.
func TestCachedUpToWhatPasses(t *testing.T) {
	srv := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Pieces: wiretest.Anthropic().Stream("Hi.")}))
	m, err := New(Options{BaseURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for passing, want := range map[int]string{0: "feeds", 1: "results"} {
		req := llm.Request{Model: "m", Grows: true, Passing: passing, Messages: []messages.Message{
			{Role: messages.RoleUser, Text: "One"},
			{Role: messages.RoleAssistant, Text: "Two"},
			{Role: messages.RoleUser, Text: "results"},
			{Role: messages.RoleUser, Text: "feeds"},
		}}
		if got := llmtest.Read(t.Context(), m, req); got.Err != nil {
			t.Fatal(got.Err)
		}
		seen := srv.Seen()
		var body struct {
			Messages []struct {
				Content []struct {
					Text  string
					Cache any `json:"cache_control"`
				}
			}
		}
		if err := json.Unmarshal(seen[len(seen)-1].Body, &body); err != nil {
			t.Fatal(err)
		}
		var cached []string
		for _, m := range body.Messages {
			for _, c := range m.Content {
				if c.Cache != nil {
					cached = append(cached, c.Text)
				}
			}
		}
		if got := strings.Join(cached, "|"); got != want {
			t.Errorf("%d pass: cached up to %q, want %q", passing, got, want)
		}
	}
}
