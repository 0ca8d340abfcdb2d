package wire

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// speaker speaks as much of Responses as a conversation of texts takes.
type speaker struct {
	byID
	Vendor
	base string
}

func (v *speaker) Address(string) string { return v.base + "/v1/responses" }
func (v *speaker) Talk() Talk            { return v }
func (*speaker) Events() Events          { return deltas{} }

func (*speaker) Next(ask *Ask, sent int, from string) ([]any, error) {
	input := []any{}
	for i := range ask.Messages[sent:] {
		m := &ask.Messages[sent+i]
		input = append(input, map[string]any{"role": m.Role, "content": m.Text})
	}
	event := map[string]any{"type": "response.create", "model": ask.Model, "store": false, "input": input}
	if from != "" {
		event["previous_response_id"] = from
	}
	return []any{event}, nil
}

type deltas struct{ Events }

func (deltas) Event(ev Event, r *Reply) error {
	var e struct {
		Delta Raw `json:"delta"`
	}
	if err := Decode(ev.Data, &e); err != nil {
		return err
	}
	if strings.HasSuffix(ev.Name, ".delta") {
		return r.Text(e.Delta)
	}
	if ev.Name == "response.completed" {
		r.Finish("complete")
		r.Over()
	}
	return nil
}

// The bounds of a connection hold, whatever speaks over it.
func TestBadInput(t *testing.T) {
	wiretest.Bad(t, func(_ testing.TB, url string, base http.RoundTripper) llm.SessionModel {
		return NewTalking(Config{Vendor: &speaker{base: url}, Keys: llm.NewKeys(), Base: base})
	})
}

// A key that is refused over an open connection ends that: another one takes the next key.
func TestKeyRefusedOverAConnection(t *testing.T) {
	srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
		return llmtest.Response{Text: []string{"be", "gun"}, Error: "invalid_api_key", Status: 401}
	})
	s, err := NewTalking(Config{Vendor: &speaker{base: srv.URL}, Keys: llm.NewKeys()}).Connect(t.Context(), llm.Request{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var o llmtest.Outcome
	for c, err := range s.Continue(t.Context(), llm.Request{Model: "m", Messages: []messages.Message{{Role: messages.RoleUser, Text: "One"}}}, 0) {
		o.Take(c, err)
	}
	if f := llm.FailureOf(o.Err); f.Kind != llm.KindAuth || o.Text != "begun" || !s.Ended() {
		t.Errorf("ended %v: %+v", s.Ended(), o)
	}
}
