package llmtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a provider is asked, and has of a conversation, is seen by the test.
func TestProvider(t *testing.T) {
	srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
		if r.N == 3 {
			return llmtest.Response{Error: llm.CodeLost, Status: 400}
		}
		return llmtest.Response{Text: []string{"It ", "rains."}}
	})
	m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: openai.Responses})
	if err != nil {
		t.Fatal(err)
	}
	req := llm.Request{Model: "m", Messages: []messages.Message{{Role: messages.RoleUser, Text: "The weather?"}}}
	s, err := m.(llm.SessionModel).Connect(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	say := func(text string, sent int) (o llmtest.Outcome) {
		if text != "" {
			req.Messages = append(req.Messages, messages.Message{Role: messages.RoleAssistant, Text: "It rains."}, messages.Message{Role: messages.RoleUser, Text: text})
		}
		for c, err := range s.Continue(t.Context(), req, sent) {
			o.Take(c, err)
		}
		return o
	}
	if o := say("", 0); o.Err != nil || o.Text != "It rains." {
		t.Fatalf("%+v", o)
	}
	if o := say("And tomorrow?", 2); o.Err != nil {
		t.Fatalf("%+v", o)
	}
	second := srv.Seen()[1]
	if len(second.New) != 1 || len(second.All) != 3 || second.All[1].String() != "assistant: It rains." || second.Parent != "resp_1" {
		t.Errorf("%+v", second)
	}
	if o := say("And then?", 4); llm.FailureOf(o.Err).Code != llm.CodeLost {
		t.Errorf("%+v", o)
	}
	if srv.Open() != 1 || srv.Conns() != 1 || srv.Sent() == 0 {
		t.Errorf("%d of %d connections, %d bytes", srv.Open(), srv.Conns(), srv.Sent())
	}
}
