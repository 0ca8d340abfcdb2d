package openai

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// Every request is the one that the official SDK makes of the same question: same method,
// address, content type and, as JSON, same body. The SDK is the witness here, and in no
// binary.
func TestRequestsAreTheSDKs(t *testing.T) {
	half, seed := 0.5, int64(7)
	tools := []messages.ToolSpec{{
		Name: "file.read", Description: "Reads <a> file & more.",
		Schema: `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`,
	}, {Name: "clock", Schema: `{"type":"object"}`}}
	hello := []messages.Message{{Role: messages.RoleUser, Text: "Hello, <b>you</b> & \u2028 \"all\""}}
	talk := append([]messages.Message{
		{Role: messages.RoleSystem, Text: "Be brief."},
		{Role: messages.RoleSystem, Text: "Be kind."},
		{Role: messages.RoleUser, Text: "One"},
		{Role: messages.RoleAssistant, Text: "Two"},
	}, hello...)
	strict := `{"type":"object","properties":{"n":{"type":"number"}},"required":["n"],"additionalProperties":false}`
	requests := map[string]llm.Request{
		"one message":     {Messages: hello},
		"a conversation":  {Messages: talk},
		"model first":     {Messages: append([]messages.Message{{Role: messages.RoleAssistant, Text: "Ready."}}, hello...)},
		"a session":       {Messages: hello, Session: "0197-s"},
		"a schema":        {Messages: hello, Dialect: "plain", Schema: strict},
		"a loose schema":  {Messages: hello, Dialect: "plain", Schema: `{"type":"object","properties":{"n":{"pattern":"<"}}}`},
		"tools":           {Messages: talk, Dialect: "cogency", Tools: tools},
		"calls":           {Messages: called(t, "two", "ok", ""), Dialect: "cogency", Tools: tools},
		"calls alone":     {Messages: called(t, "", "", ""), Dialect: "cogency", Tools: tools},
		"a thought":       {Messages: called(t, "two", "ok", `{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"x<y"}`), Dialect: "cogency", Tools: tools},
		"nothing to say":  {},
		"schema of tools": {Messages: hello, Dialect: "cogency", Tools: tools, Schema: strict},
	}
	options := map[string]wire.Options{
		"": {}, "all": {Temperature: &half, TopP: &half, MaxTokens: 99, Stop: []string{"END", "<end>"}, Seed: &seed, Effort: "low"},
		"zero": {Temperature: new(float64), Seed: new(int64)},
	}
	for api, c := range map[string]struct {
		ours func(vendor, *http.Client, *wire.Ask) error
		sdk  func(context.Context, vendor, *wire.Ask, []option.RequestOption) error
	}{
		Chat:      {func(v vendor, c *http.Client, a *wire.Ask) error { return chat{v}.Send(t.Context(), c, a) }, sdkChat},
		Responses: {func(v vendor, c *http.Client, a *wire.Ask) error { return response{v}.Send(t.Context(), c, a) }, sdkResponse},
	} {
		for name, req := range requests {
			for set, o := range options {
				for _, home := range []bool{false, true} {
					for _, whole := range []bool{false, true} {
						v := vendor{options: Options{MaxTokens: 500}, home: home, base: "http://host/v1"}
						req.Model = "m"
						ask := &wire.Ask{Request: &req, Options: &o, Whole: whole, Source: "here"}
						var a, b sent
						errA := c.ours(v, &http.Client{Transport: &a}, ask)
						errB := c.sdk(t.Context(), v, ask, []option.RequestOption{option.WithBaseURL(v.base + "/"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: &b})})
						if (a.line == "") != (b.line == "") || (a.line == "") != (errA != nil) {
							t.Fatalf("%s, %s: %q, %v; the SDK %q, %v", api, name, a.line, errA, b.line, errB)
						}
						a.text, b.text = "", ""
						if diff := gocmp.Diff(b, a, gocmp.AllowUnexported(sent{})); diff != "" {
							t.Errorf("%s, %s, options %q, home %v, whole %v (-SDK +ours):\n%s", api, name, set, home, whole, diff)
						}
					}
				}
			}
		}
	}
}

// Markup in a prompt stays as it is: written as \u003c it would cost tokens.
func TestRequestsKeepMarkup(t *testing.T) {
	for _, api := range []string{Chat, Responses} {
		var s sent
		m, err := New(Options{BaseURL: "http://host/v1", API: api, Base: &s})
		if err != nil {
			t.Fatal(err)
		}
		for range m.Stream(t.Context(), llm.Request{Model: "m", Messages: []messages.Message{{Role: messages.RoleUser, Text: "<b> & more"}}}) {
			continue
		}
		if !strings.Contains(s.text, `"<b> & more"`) {
			t.Errorf("%s: %s", api, s.text)
		}
	}
}

// called is a prompt in which the model called both tools: it said what it said beside
// them, more came behind their results, and item is its own to have back.
func called(t *testing.T, said, more, item string) []messages.Message {
	t.Helper()
	encode := func(m *native.Message) string {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	own := &native.Message{Provider: "here", Text: said, Calls: []native.Call{{ID: "c1", Name: "file_read", Args: `{"path": "a<b"}`}, {Name: "clock", Args: "{}"}}}
	if item != "" {
		own.Items = append(own.Items, jsontext.Value(item))
	}
	return []messages.Message{
		{Role: messages.RoleUser, Text: "Do it."},
		{Role: messages.RoleAssistant, Text: said + "(calls)", Native: encode(own)},
		{Role: messages.RoleUser, Text: "(results)" + more, Native: encode(&native.Message{Results: []native.Result{{ID: "c1", Name: "file_read", Text: "fair & square"}, {Name: "clock"}}, Shown: len("(results)")})},
	}
}

// sent keeps the request that comes to it, and answers with an empty stream.
type sent struct {
	line string // method, address and content type
	body any
	text string
}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.line = req.Method + " " + req.URL.String() + " " + req.Header.Get("Content-Type")
	s.text = string(body)
	if err := json.Unmarshal(body, &s.body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(nil)), Request: req}, nil
}

// sdkChat sends a request of Chat Completions with the SDK.
func sdkChat(ctx context.Context, v vendor, ask *wire.Ask, with []option.RequestOption) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	p := sdk.ChatCompletionNewParams{Model: ask.Model}
	if !ask.Whole {
		p.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	if turns.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(turns.System))
	}
	for i := range turns.Turns {
		p.Messages = append(p.Messages, sdkChatTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return err
		}
		own := shared.FunctionDefinitionParam{Name: f.Name, Parameters: parameters}
		if f.Description != "" {
			own.Description = sdk.String(f.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(own))
	}
	o := ask.Options
	if n := cmp.Or(o.MaxTokens, v.options.MaxTokens); n > 0 {
		if v.home {
			p.MaxCompletionTokens = sdk.Int(n)
		} else {
			p.MaxTokens = sdk.Int(n) // the name that compatible servers know
		}
	}
	if schema, strict := ask.Answer(); schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: schema, Strict: sdk.Bool(strict)},
		}
	}
	if v.home {
		p.Store = sdk.Bool(false)
	}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	if o.Seed != nil {
		p.Seed = sdk.Int(*o.Seed)
	}
	p.Stop.OfStringArray = o.Stop
	p.ReasoningEffort = sdk.ReasoningEffort(o.Effort)
	svc := sdk.NewChatCompletionService(with...)
	if ask.Whole {
		_, err := svc.New(ctx, p)
		return err
	}
	return svc.NewStreaming(ctx, p).Err()
}

// sdkChatTurn is a turn as messages: each result is one of its own.
func sdkChatTurn(t *wire.Turn) (ms []sdk.ChatCompletionMessageParamUnion) {
	for _, r := range t.Results {
		ms = append(ms, sdk.ToolMessage(r.Text, r.ID))
	}
	// One text each: compatible servers take a string everywhere, a list not.
	switch text := t.Text(); {
	case t.Role == messages.RoleAssistant && len(t.Calls) > 0:
		own := &sdk.ChatCompletionAssistantMessageParam{}
		if text != "" {
			own.Content.OfString = sdk.String(text)
		}
		for _, c := range t.Calls {
			own.ToolCalls = append(own.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Object())},
			}})
		}
		ms = append(ms, sdk.ChatCompletionMessageParamUnion{OfAssistant: own})
	case t.Role == messages.RoleAssistant:
		ms = append(ms, sdk.AssistantMessage(text))
	case text != "":
		ms = append(ms, sdk.UserMessage(text))
	}
	return ms
}

// sdkResponse sends a request of Responses with the SDK.
func sdkResponse(ctx context.Context, v vendor, ask *wire.Ask, with []option.RequestOption) error {
	turns, err := wire.Conversation(ask)
	if err != nil {
		return err
	}
	p := responses.ResponseNewParams{Model: ask.Model, Store: sdk.Bool(false)}
	if turns.System != "" {
		p.Instructions = sdk.String(turns.System)
	}
	o := ask.Options
	if n := cmp.Or(o.MaxTokens, v.options.MaxTokens); n > 0 {
		p.MaxOutputTokens = sdk.Int(n)
	}
	if o.Temperature != nil {
		p.Temperature = sdk.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = sdk.Float(*o.TopP)
	}
	p.Reasoning.Effort = sdk.ReasoningEffort(o.Effort)
	if schema, strict := ask.Answer(); schema != nil {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: schema, Strict: sdk.Bool(strict)}
	}
	if ask.Session != "" {
		// Requests of one session go where its beginning is cached. The name itself is
		// not the provider's business.
		sum := sha256.Sum256([]byte("stile/prompt-cache\n" + ask.Session))
		p.PromptCacheKey = sdk.String(hex.EncodeToString(sum[:16]))
	}
	var input responses.ResponseInputParam
	for i := range turns.Turns {
		input = append(input, sdkResponseTurn(&turns.Turns[i])...)
	}
	for _, f := range turns.Tools {
		parameters, err := wire.Object(f.Schema)
		if err != nil {
			return err
		}
		tool := responses.ToolParamOfFunction(f.Name, parameters, false)
		if f.Description != "" {
			tool.OfFunction.Description = sdk.String(f.Description)
		}
		p.Tools = append(p.Tools, tool)
	}
	if len(p.Tools) > 0 { // nothing is stored there, and thoughts belong to their calls
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	p.Input.OfInputItemList = input
	svc := responses.NewResponseService(with...)
	if ask.Whole {
		_, err := svc.New(ctx, p)
		return err
	}
	return svc.NewStreaming(ctx, p).Err()
}

// sdkResponseTurn is a turn as items: each thought, text, call and result is one of its own.
func sdkResponseTurn(t *wire.Turn) (items []responses.ResponseInputItemUnionParam) {
	for _, r := range t.Results {
		item := responses.ResponseInputItemParamOfFunctionCallOutput(r.Text)
		item.OfFunctionCallOutput.CallID = sdk.String(r.ID)
		items = append(items, item)
	}
	for _, own := range t.Items {
		items = append(items, param.Override[responses.ResponseInputItemUnionParam](jsontext.Value(own)))
	}
	role := responses.EasyInputMessageRoleUser
	if t.Role == messages.RoleAssistant {
		role = responses.EasyInputMessageRoleAssistant
	}
	if text := t.Text(); text != "" {
		items = append(items, responses.ResponseInputItemParamOfMessage(text, role))
	}
	for _, c := range t.Calls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(c.Object()), c.ID, c.Name))
	}
	return items
}
