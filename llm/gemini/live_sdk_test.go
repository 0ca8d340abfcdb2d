package gemini

import (
	stdjson "encoding/json"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm/llmtest"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"
	sdk "google.golang.org/genai"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// dial connects the official SDK's own client to a provider.
func dial(t *testing.T, srv *llmtest.Provider, cfg *sdk.LiveConnectConfig) *sdk.Session {
	t.Helper()
	client, err := sdk.NewClient(t.Context(), &sdk.ClientConfig{
		Backend: sdk.BackendGeminiAPI, APIKey: "sk-1", HTTPOptions: sdk.HTTPOptions{BaseURL: strings.Replace(srv.URL, "http", "ws", 1), APIVersion: version},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.Live.Connect(t.Context(), "m", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// called is a prompt with a call and its result, whose id came from source.
func called(t *testing.T, source string) llm.Request {
	t.Helper()
	encode := func(m *native.Message) string {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	r := prompted("One", "Hello(calls)", "(results)")
	r.Tools, r.Dialect = []messages.ToolSpec{{Name: "file.read", Description: "Reads.", Schema: `{"type":"object"}`}}, "cogency"
	r.Messages[2].Native = encode(&native.Message{Provider: source, Text: "Hello", Calls: []native.Call{{ID: "c1", Name: "file_read", Args: `{"a":1}`}}})
	r.Messages[3].Native = encode(&native.Message{Results: []native.Result{{ID: "c1", Name: "file_read", Text: "fair & square"}}, Shown: len("(results)")})
	return r
}

// The messages of a client are those that the official SDK's own client sends, and the fake
// provider is one that it takes.
func TestLiveIsTheSDKs(t *testing.T) {
	answer := func(c *llmtest.Request) llmtest.Response {
		if c.N%2 == 1 {
			return llmtest.Response{Text: []string{"Hel", "lo"}, Calls: []messages.Call{{ID: "c1", Name: "file_read", Args: `{"a":1}`}}, Usage: messages.Usage{Input: 10, CacheRead: 4, Output: 3}}
		}
		return llmtest.Response{Text: []string{"Well."}, Behind: []string{llmtest.GoAway(50e9)}}
	}
	srv := llmtest.NewProvider(t, answer)
	tools := []*sdk.Tool{{FunctionDeclarations: []*sdk.FunctionDeclaration{{Name: "file_read", Description: "Reads.", ParametersJsonSchema: map[string]any{"type": "object"}}}}}
	s := dial(t, srv, &sdk.LiveConnectConfig{
		ResponseModalities: []sdk.Modality{sdk.ModalityText}, MaxOutputTokens: 500, SessionResumption: &sdk.SessionResumptionConfig{}, Tools: tools,
		SystemInstruction: &sdk.Content{Parts: []*sdk.Part{{Text: "Be brief."}}},
	})
	if s.SetupComplete == nil {
		t.Error("it is not set up")
	}
	if first, err := s.Receive(); err != nil || first.SetupComplete == nil {
		t.Fatal(err)
	}
	until := func(over func(*sdk.LiveServerMessage) bool) (text string, last *sdk.LiveServerMessage) {
		t.Helper()
		for {
			m, err := s.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if c := m.ServerContent; c != nil && c.ModelTurn != nil {
				text += c.ModelTurn.Parts[0].Text
			}
			if over(m) {
				return text, m
			}
		}
	}
	no := false
	user := func(text string) *sdk.Content {
		return &sdk.Content{Role: sdk.RoleUser, Parts: []*sdk.Part{{Text: text}}}
	}
	if err := s.SendClientContent(sdk.LiveClientContentInput{Turns: []*sdk.Content{user("Zero"), {Role: sdk.RoleModel, Parts: []*sdk.Part{{Text: "Half <b>"}}}}, TurnComplete: &no}); err != nil {
		t.Fatal(err)
	}
	if err := s.SendClientContent(sdk.LiveClientContentInput{Turns: []*sdk.Content{user("One")}}); err != nil {
		t.Fatal(err)
	}
	text, m := until(func(m *sdk.LiveServerMessage) bool { return m.ToolCall != nil })
	if c := m.ToolCall.FunctionCalls[0]; text != "Hello" || c.ID != "c1" || c.Name != "file_read" || c.Args["a"] != 1.0 || m.UsageMetadata.PromptTokenCount != 10 || m.UsageMetadata.CachedContentTokenCount != 4 || m.UsageMetadata.ResponseTokenCount != 3 {
		t.Errorf("%q, %+v", text, m)
	}
	if err := s.SendToolResponse(sdk.LiveToolResponseInput{FunctionResponses: []*sdk.FunctionResponse{{ID: "c1", Name: "file_read", Response: map[string]any{"output": "fair & square"}}}}); err != nil {
		t.Fatal(err)
	}
	if text, _ := until(func(m *sdk.LiveServerMessage) bool { return m.ServerContent != nil && m.ServerContent.TurnComplete }); text != "Well." {
		t.Errorf("%q", text)
	}
	if _, m := until(func(m *sdk.LiveServerMessage) bool { return m.SessionResumptionUpdate != nil }); m.SessionResumptionUpdate.NewHandle == "" || !m.SessionResumptionUpdate.Resumable {
		t.Errorf("%+v", m)
	}
	if _, m := until(func(m *sdk.LiveServerMessage) bool { return m.GoAway != nil }); m.GoAway.TimeLeft.Seconds() != 50 {
		t.Errorf("%+v", m)
	}

	// The same with ours.
	ours := llmtest.NewProvider(t, answer)
	model := keeps(t, ours, func(o *Options) { o.MaxTokens = 500 })
	first := prompted("Zero", "Half <b>", "One")
	r := called(t, "gemini (live)/m")
	first.Tools, first.Dialect = r.Tools, r.Dialect
	c := connect(t, model, first)
	o := read(t.Context(), c, first, 0)
	if o.Err != nil || o.Usage.Input != 10 {
		t.Fatalf("%+v", o)
	}
	settled(t, c, true)
	second := first
	second.Messages = append(append([]messages.Message(nil), first.Messages...), r.Messages[2:]...)
	if o := read(t.Context(), c, second, 5); o.Err != nil || o.Text != "Well." {
		t.Fatalf("%+v", o)
	}
	bodies := func(srv *llmtest.Provider) (all []any) {
		for _, c := range srv.Seen() {
			for line := range strings.Lines(string(c.Body)) {
				var one any
				if err := json.Unmarshal([]byte(line), &one); err != nil {
					t.Fatal(err)
				}
				all = append(all, one)
			}
		}
		return all
	}
	if diff := gocmp.Diff(bodies(srv), bodies(ours)); diff != "" {
		t.Errorf("(-SDK +ours):\n%s", diff)
	}
}

// What stands behind the results of calls goes with the last of them: it would cancel the calls.
func TestLiveResults(t *testing.T) {
	talk := (&live{}).Talk()
	r := called(t, "here")
	r.Messages = append(r.Messages, messages.Message{Role: messages.RoleSystem, Text: "Conclude."}, messages.Message{Role: messages.RoleUser, Text: "Now."})
	ask := func(sent int) string {
		t.Helper()
		all, err := talk.Next(&wire.Ask{Request: &r, Options: &wire.Options{}, Source: "here"}, sent, "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := stdjson.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := ask(3); got != `[{"toolResponse":{"functionResponses":[{"id":"c1","name":"file_read","response":{"message":"Conclude.\n\nNow.","output":"fair \u0026 square"}}]}}]` {
		t.Error(got)
	}
	// A picture has no place in a result: the calls are answered in the form of content.
	plain := r.Messages
	r.Messages = append(append([]messages.Message(nil), plain[:len(plain)-1]...), pictured("Now.").Messages[1])
	r.Files = pictured("Now.").Files
	if got := ask(3); strings.Contains(got, "toolResponse") || strings.Count(got, `"inlineData"`) != 2 || !strings.Contains(got, `"functionResponse":{"id":"c1"`) {
		t.Error(got)
	}
	r.Messages, r.Files = plain, nil
	if got := ask(0); !strings.Contains(got, `"functionCall":{"id":"c1"`) || strings.Contains(got, "toolResponse") || !strings.HasSuffix(got, `{"clientContent":{"turns":[{"parts":[{"text":"Now."}],"role":"user"}],"turnComplete":true}}]`) {
		t.Error(got)
	}
	if _, err := talk.Next(&wire.Ask{Request: &llm.Request{}, Options: &wire.Options{}}, 0, ""); err == nil {
		t.Error("nothing to answer is asked")
	}
}
