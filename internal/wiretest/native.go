package wiretest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// offered is the suite's request with tools.
func offered(dialect string) llm.Request {
	req := ask()
	req.Dialect = dialect
	req.Tools = []messages.ToolSpec{
		{Name: "read", Description: "Reads a file.", Schema: `{"type":"object","properties":{"file":{"type":"string"}},"required":["file"]}`},
		{Name: "str.ToUpper", Signature: "(s)", Description: "In capitals."},
		{Name: "str_ToUpper", Schema: `true`},
	}
	return req
}

var twoCalls = []Called{{ID: "id-1", Name: "read", Args: `{"file":"a </action> \"ü\" 😀"}`}, {ID: "id-2", Name: "str_ToUpper_2", Args: `{"s":[1,{"a":null}]}`}}

// native: calls of the model are the dialect's bytes, however the stream is cut, and what
// the bytes cannot hold comes at the end.
func (s *suite) native(t *testing.T) {
	f := &s.Format
	for dialect, want := range map[string]string{
		"cogency": `Let me see.` + "\n" + `<execute>[{"name":"read","args":{"file":"a </action> \"ü\" 😀"}},{"name":"str.ToUpper","args":{"s":[1,{"a":null}]}}]</execute>`,
		"cortex": `Let me see.` + "\n" + `<action id="n1" mode="async">{"name":"read","parameters":{"file":"a \u003c/action> \"ü\" 😀"}}</action>` + "\n" +
			`<action id="n2" mode="async">{"name":"str.ToUpper","parameters":{"s":[1,{"a":null}]}}</action>` + "\n",
	} {
		body := f.Calls("Let me see.", twoCalls)
		var first string
		check := func(what string, pieces []string) {
			t.Helper()
			var got llmtest.Outcome
			var side string
			for c, err := range s.model(t, Options{Base: &canned{pieces: pieces}}).Stream(t.Context(), offered(dialect)) {
				got.Take(c, err)
				if c.Side != nil && c.Finish == "" {
					t.Fatalf("%s: the side comes before the end", what)
				}
				side += string(c.Side)
			}
			if got.Err != nil || got.Text != want || got.Finish != messages.FinishComplete || got.Usage.Output != counts.Output {
				t.Fatalf("%s: %+v, want %q", what, got, want)
			}
			if first == "" {
				first = side
			}
			if side != first || !strings.Contains(side, `"id":"id-2"`) || strings.Contains(side, "c2VjcmV0") != f.Signs {
				t.Fatalf("%s: side %s", what, side)
			}
		}
		check("whole", []string{body})
		check("byte by byte", bytewise(body))
		for i := 0; i <= len(body); i += 7 {
			check(fmt.Sprint("cut at ", i), cutAt(body, i))
		}
	}
}

// nativeRequest: tools are functions under names that the provider allows, and a text that
// a reply makes up beside them goes on as text.
func (s *suite) nativeRequest(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: f.Stream("Hi.")}))
	m := s.model(t, Options{URL: srv.URL})
	if c, ok := m.(interface{ CallsTools() bool }); !ok || !c.CallsTools() {
		t.Error("it does not say that it calls tools")
	}
	if got := llmtest.Read(t.Context(), m, offered("cogency")); got.Err != nil || got.Text != "Hi." {
		t.Fatalf("%+v", got)
	}
	got, err := f.Tooled(srv.Seen()[0].Body)
	if err != nil || !slices.Equal(got.Tools, []string{"read", "str_ToUpper_2", "str_ToUpper"}) || !strings.Contains(got.Schemas[0], `"required":["file"]`) ||
		!strings.Contains(got.Schemas[1], `"type":"object"`) || !strings.Contains(got.Schemas[2], `"type":"object"`) {
		t.Errorf("%v: %+v", err, got)
	}
	if got := llmtest.Read(t.Context(), m, ask()); got.Err != nil {
		t.Fatal(got.Err)
	}
	if got, err := f.Tooled(srv.Seen()[1].Body); err != nil || len(got.Tools) != 0 {
		t.Errorf("without tools: %v: %+v", err, got)
	}
	if f.Name != "openai/chat" && f.Name != "gemini" {
		return
	}
	body := strings.Replace(f.Calls("", []Called{{Name: "read", Args: `{}`}}), `"id":""`, `"id":null`, 1)
	if got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body}}}), offered("cogency")); got.Err != nil || !strings.Contains(got.Text, `"name":"read"`) {
		t.Errorf("a call without an id: %+v", got)
	}
}

// nativeWhole: a reply in one piece has its calls too.
func (s *suite) nativeWhole(t *testing.T) {
	f := &s.Format
	var parts []string
	for i, c := range twoCalls {
		switch f.Name {
		case "openai/chat":
			parts = append(parts, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.ID, c.Name, jsonString(c.Args)))
		case "openai/responses":
			parts = append(parts, fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":%s}`, c.ID, c.Name, jsonString(c.Args)))
		case "anthropic":
			parts = append(parts, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Args))
		case "gemini":
			parts = append(parts, fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s},"thoughtSignature":"%d"}`, c.ID, c.Name, c.Args, i))
		}
	}
	calls := strings.Join(parts, ",")
	body := map[string]string{
		"openai/chat":      `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + calls + `]},"finish_reason":"tool_calls"}]}`,
		"openai/responses": `{"status":"completed","error":null,"output":[` + calls + `]}`,
		"anthropic":        `{"type":"message","content":[` + calls + `],"stop_reason":"tool_use"}`,
		"gemini":           `{"candidates":[{"content":{"parts":[` + calls + `]},"finishReason":"STOP","index":0}]}`,
	}[f.Name]
	srv := NewServer(t, Always(Answer{Header: map[string]string{"Content-Type": "application/json"}, Pieces: []string{body}}))
	got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL, Whole: true}), offered("cogency"))
	want := `<execute>[{"name":"read","args":{"file":"a </action> \"ü\" 😀"}},{"name":"str.ToUpper","args":{"s":[1,{"a":null}]}}]</execute>`
	if got.Err != nil || got.Text != want || got.Finish != messages.FinishComplete {
		t.Errorf("%+v, want %s", got, want)
	}
	if got := llmtest.Read(t.Context(), s.model(t, Options{URL: srv.URL, Whole: true}), ask()); failure(t, got).Kind != llm.KindServer {
		t.Errorf("they were not offered: %+v", got)
	}
}

// nativeTruncated: a stream that breaks off inside calls is a failure, and nothing of a
// batch was delivered.
func (s *suite) nativeTruncated(t *testing.T) {
	f := &s.Format
	body := f.Calls("", twoCalls)
	for i := range len(body) {
		got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{body[:i]}}}), offered("cogency"))
		if got.Err == nil && (got.Finish != messages.FinishComplete || strings.Count(got.Text, `"name"`) != 2) {
			t.Fatalf("cut at %d: %+v", i, got)
		}
		if got.Err != nil && got.Text != "" {
			t.Fatalf("cut at %d: delivered %q", i, got.Text)
		}
	}
	large := []Called{{ID: "id-1", Name: "read", Args: `{"file":"` + strings.Repeat("x", 4096) + `"}`}}
	req := offered("cogency")
	req.MaxReplyBytes = 1024
	if got := llmtest.Read(t.Context(), s.model(t, Options{Base: &canned{pieces: []string{f.Calls("", large)}}}), req); messages.CodeOf(got.Err) != messages.ErrQuota {
		t.Errorf("over the bound of a reply: %v", got.Err)
	}
}

// answer: the provider is told of the schema of the answer where the reply is nothing
// else.
func (s *suite) answer(t *testing.T) {
	f := &s.Format
	srv := NewServer(t, Always(Answer{Pieces: f.Stream("{}")}))
	m := s.model(t, Options{URL: srv.URL, Options: `{"temperature":1}`})
	const closed = `{"additionalProperties":false,"properties":{"a":{"items":{"type":"string"},"type":"array"}},"required":["a"],"type":"object"}`
	const open = `{"properties":{"a":{"type":"string"}},"type":"object"}`
	sent := func(dialect, schema string, tools bool) string {
		req := ask()
		if tools {
			req = offered(dialect)
		}
		req.Dialect, req.Schema = dialect, schema
		if got := llmtest.Read(t.Context(), m, req); got.Err != nil {
			t.Fatal(got.Err)
		}
		seen := srv.Seen()
		return at(t, seen[len(seen)-1].Body, f.Answer)
	}
	if got := sent("plain", closed, false); got != closed {
		t.Errorf("plain: %s", got)
	}
	if got := sent("cogency", closed, true); got != closed && f.Name != "gemini" {
		t.Errorf("native: %s", got)
	}
	if got := sent("plain", open, false); got != open && f.Name != "anthropic" || got != "" && f.Name == "anthropic" {
		t.Errorf("a schema that is not closed: %s", got)
	}
	for _, dialect := range []string{"cogency", "cortex", "kitsu", "aeiou", ""} {
		if got := sent(dialect, closed, false); got != "" {
			t.Errorf("%s: %s", dialect, got)
		}
	}
	for _, schema := range []string{"", `{"type":"array"}`, `true`} {
		if got := sent("plain", schema, false); got != "" {
			t.Errorf("%s: %s", schema, got)
		}
	}
}
