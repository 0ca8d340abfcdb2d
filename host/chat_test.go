//go:build !lite

package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// chatDoor is a door with a client of the vendor's SDK.
func chatDoor(t *testing.T) (*door, openai.Client) {
	t.Helper()
	d := talkers(t)
	return d, openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey("none"))
}

func user(text string) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
}

// The official client asks, with and without streaming, with and without a session.
func TestChatCompletions(t *testing.T) {
	d, client := chatDoor(t)
	ctx := t.Context()
	conversation := []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be brief."), openai.UserMessage("I am Ada."), openai.AssistantMessage("Good day."), openai.UserMessage("Who am I?"),
	}
	const whole = "[user: Be brief.][user: I am Ada.][assistant: Good day.][user: Who am I?]"
	got, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "echo", Messages: conversation, Temperature: param.NewOpt(0.5)})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 1 || got.Choices[0].Message.Content != whole || got.Choices[0].FinishReason != "stop" || got.Choices[0].Message.Role != "assistant" {
		t.Errorf("%s", got.RawJSON())
	}
	if u := got.Usage; u.PromptTokens != 12 || u.CompletionTokens != 7 || u.TotalTokens != 19 || u.PromptTokensDetails.CachedTokens != 3 {
		t.Errorf("usage %s", u.RawJSON())
	}
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "echo", Messages: conversation, StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	})
	var acc openai.ChatCompletionAccumulator
	pieces := 0
	for stream.Next() {
		c := stream.Current()
		if !acc.AddChunk(c) {
			t.Errorf("a chunk that does not fit: %s", c.RawJSON())
		}
		if len(c.Choices) == 1 && c.Choices[0].Delta.Content != "" {
			pieces++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(acc.Choices) != 1 || acc.Choices[0].Message.Content != whole || acc.Choices[0].FinishReason != "stop" || acc.Usage.TotalTokens != 19 || pieces == 0 {
		t.Errorf("%d pieces: %+v", pieces, acc.ChatCompletion)
	}

	// A named session remembers by itself: only the last message is submitted.
	var res *http.Response
	for i, want := range []string{"[user: Who am I?]", "[user: Who am I?][assistant: [user: Who am I?]][user: Who am I?]"} {
		got, err = client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "echo", Messages: conversation, User: param.NewOpt("ada@example.com")}, option.WithHeader("X-Stile-Session", "ada"), option.WithResponseInto(&res))
		if err != nil {
			t.Fatal(err)
		}
		if got.Choices[0].Message.Content != want {
			t.Errorf("%d: %s", i, got.Choices[0].Message.Content)
		}
	}
	id := res.Header.Get("X-Stile-Session")
	if id != "ada" || res.Header.Get("X-Stile-Run") != "2" {
		t.Errorf("the session is %q, run %q", id, res.Header.Get("X-Stile-Run"))
	}
	var ses struct{ Run int64 }
	if d.call(200, &ses, "GET", "/v1/sessions/"+id, ""); ses.Run != 2 {
		t.Errorf("%+v", ses)
	}
	d.session("own", "echo")
	got, err = client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "echo", Messages: user("hello")}, option.WithHeader("X-Stile-Session", "own"))
	if err != nil || got.Choices[0].Message.Content != "[user: hello]" {
		t.Errorf("%+v, %v", got, err)
	}

	// Text that its dialect replaces is not sent before it counts.
	for range 2 {
		stream = client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "kitsu", Messages: user("weather?")})
		text := ""
		for stream.Next() {
			if c := stream.Current(); len(c.Choices) == 1 {
				text += c.Choices[0].Delta.Content
			}
		}
		if stream.Err() != nil || text != "It will rain." {
			t.Errorf("%q, %v", text, stream.Err())
		}
	}

	models, err := client.Models.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range models.Data {
		names = append(names, m.ID)
	}
	if !slices.Equal(names, []string{"broken", "echo", "kitsu"}) {
		t.Errorf("%q", names)
	}
	if m, err := client.Models.Get(ctx, "echo"); err != nil || m.ID != "echo" {
		t.Errorf("%+v, %v", m, err)
	}
}

// chatFailure is the error that the official client gives.
func chatFailure(t *testing.T, err error) *openai.Error {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v", err)
	}
	return e
}

// A key that comes with the same message again is answered with the first answer, with
// another one it is refused.
func TestChatKeys(t *testing.T) {
	_, client := chatDoor(t)
	say := func(text string) (*openai.ChatCompletion, error) {
		return client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "echo", Messages: user(text)},
			option.WithHeader("X-Stile-Session", "ann"),
			option.WithHeader("Idempotency-Key", "k"), option.WithMaxRetries(0))
	}
	for range 2 {
		if got, err := say("hello"); err != nil || got.Choices[0].Message.Content != "[user: hello]" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	_, err := say("good bye")
	if e := chatFailure(t, err); e.StatusCode != 422 || e.Code != "ERR_CONFLICT" || e.Param != "Idempotency-Key" {
		t.Errorf("%s", e.RawJSON())
	}
}

// What is refused, and a HALT, are errors in the shape of the protocol with our code.
func TestChatErrors(t *testing.T) {
	d, client := chatDoor(t)
	ctx := t.Context()
	tool := openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "f"})
	d.session("own", "kitsu")
	for name, c := range map[string]struct {
		in     openai.ChatCompletionNewParams
		status int
		kind   string
		code   messages.Code
		param  string
		opts   []option.RequestOption
	}{
		"no such model":   {in: openai.ChatCompletionNewParams{Model: "gpt", Messages: user("x")}, status: 404, kind: "invalid_request_error", code: "model_not_found", param: "model"},
		"tools":           {in: openai.ChatCompletionNewParams{Model: "echo", Messages: user("x"), Tools: []openai.ChatCompletionToolUnionParam{tool}}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "tools"},
		"two choices":     {in: openai.ChatCompletionNewParams{Model: "echo", Messages: user("x"), N: param.NewOpt(int64(2))}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "n"},
		"no message":      {in: openai.ChatCompletionNewParams{Model: "echo", Messages: []openai.ChatCompletionMessageParamUnion{}}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "messages"},
		"assistant last":  {in: openai.ChatCompletionNewParams{Model: "echo", Messages: []openai.ChatCompletionMessageParamUnion{openai.AssistantMessage("x")}}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "messages[0].role"},
		"tool message":    {in: openai.ChatCompletionNewParams{Model: "echo", Messages: []openai.ChatCompletionMessageParamUnion{openai.ToolMessage("x", "1"), openai.UserMessage("x")}}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "messages[0].role"},
		"picture":         {in: openai.ChatCompletionNewParams{Model: "echo", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:,"})})}}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "messages[0].content"},
		"another's agent": {in: openai.ChatCompletionNewParams{Model: "echo", Messages: user("x")}, opts: []option.RequestOption{option.WithHeader("X-Stile-Session", "own"), option.WithMaxRetries(0)}, status: 409, kind: "invalid_request_error", code: messages.ErrConflict, param: "model"},
		"hostile session": {in: openai.ChatCompletionNewParams{Model: "echo", Messages: user("x")}, opts: []option.RequestOption{option.WithHeader("X-Stile-Session", "a:b:c")}, status: 400, kind: "invalid_request_error", code: messages.ErrInvalid, param: "X-Stile-Session"},
		"halt":            {in: openai.ChatCompletionNewParams{Model: "broken", Messages: user("x")}, opts: []option.RequestOption{option.WithHeader("X-Stile-Session", "u")}, status: 400, kind: "stile_halt", code: messages.ErrModel},
	} {
		_, err := client.Chat.Completions.New(ctx, c.in, c.opts...)
		e := chatFailure(t, err)
		if e.StatusCode != c.status || e.Type != c.kind || e.Code != string(c.code) || e.Param != c.param || e.Message == "" {
			t.Errorf("%s: %d %s", name, e.StatusCode, e.RawJSON())
		}
	}
	// The client did not try the halted run again by itself.
	var ses struct{ Run int64 }
	if d.call(200, &ses, "GET", "/v1/sessions/u", ""); ses.Run != 1 {
		t.Errorf("%d runs of one request", ses.Run)
	}
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "broken", Messages: user("x")})
	text, finish := "", ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text += c.Delta.Content
			finish += c.FinishReason
		}
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "ERR_MODEL") || text != "I beg" || finish != "" {
		t.Errorf("%q %q, %v", text, finish, err)
	}
	// Bodies that no client of theirs sends.
	for body, want := range map[string]string{
		`{`: "body", `[]`: "body", ``: "body", `{"model": 7}`: "model", `{"model": "echo", "messages": [{"role": "user", "content": 7}]}`: "messages.content",
		`{"model": "echo", "messages": [{"role": "ghost", "content": "x"}]}`: "messages[0].role",
	} {
		res := d.ask("POST", "/v1/chat/completions", body)
		var e struct {
			Error struct{ Type, Code, Param string }
		}
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil || res.StatusCode != 400 || e.Error.Code != "ERR_INVALID" || !strings.HasPrefix(e.Error.Param, want) {
			t.Errorf("%s: %s %+v, %v", body, res.Status, e, err)
		}
	}
	res := d.ask("POST", "/v1/chat/completions", `{"model": "echo", "x": "`+strings.Repeat("x", 2<<20)+`"}`)
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || !bytes.Contains(b, []byte(`{"error":{"message":`)) {
		t.Errorf("a large body: %s %s, %v", res.Status, b, err)
	}
}

// A token is asked for in the protocol's own words, and a tenant has its own sessions.
func TestChatTenants(t *testing.T) {
	keys := newTokens(t)
	if other, _ := keys.make("acme", "bob", "read"); other == "" {
		t.Fatal("no token")
	}
	d := serve(t, host.Config{Access: keys}, agentOf("echo", echo))
	_, err := func() (any, error) {
		c := openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey("wrong"))
		return c.Models.List(t.Context())
	}()
	if e := chatFailure(t, err); e.StatusCode != 401 || e.Type != "authentication_error" || e.Code != "ERR_DENIED" {
		t.Errorf("%s", e.RawJSON())
	}
	for _, tenant := range []string{"acme", "bolt"} {
		secret, _ := keys.make(tenant, "ann", "submit", "read")
		c := openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey(secret))
		got, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "echo", Messages: user("hello")}, option.WithHeader("X-Stile-Session", "same"))
		if err != nil || got.Choices[0].Message.Content != "[user: hello]" {
			t.Errorf("%s sees %+v, %v", tenant, got, err)
		}
	}
}

// Whoever hangs up cancels a run that nobody else can know of, and no other.
func TestChatHangUp(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"one ", "two"}, goOn)))
	for _, named := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		body := `{"model": "talker", "stream": true, "messages": [{"role": "user", "content": "go"}]}`
		req, err := http.NewRequestWithContext(ctx, "POST", d.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if named {
			req.Header.Set("X-Stile-Session", "own")
		}
		go func() { goOn <- struct{}{} }()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		cancel()
		res.Body.Close()
		if named {
			goOn <- struct{}{}
		}
		seen := events(t, d.ask("GET", "/v1/sessions/"+res.Header.Get("X-Stile-Session")+"/runs/1/events", "").Body, 100)
		last := seen[len(seen)-1].data["body"].(map[string]any)
		if want := map[bool]string{false: "HALT", true: "DONE"}[named]; last["decision"] != want {
			t.Errorf("named %v: the run ended %v", named, last)
		}
	}
}

// patient are two agents: one whose reply waits until the other is asked.
func patient() []*stile.Agent {
	goOn := make(chan struct{}, 16)
	bell := model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			goOn <- struct{}{}
			if yield(llm.Chunk{Text: []byte("ding")}, nil) {
				yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
			}
		}
	})
	return []*stile.Agent{agentOf("patient", speaks([]string{"at last"}, goOn)), agentOf("bell", bell)}
}

// The official client asks again when its connection fails: one call is one run.
func TestChatRepeat(t *testing.T) {
	d := serve(t, host.Config{}, patient()...)
	for _, session := range []string{"", "s"} {
		var runs []string
		var rung sync.WaitGroup
		tries := 0
		cut := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			if tries++; tries > 1 {
				rung.Go(func() { d.ask("POST", "/v1/chat/completions", chatBody("bell", "ring")).Body.Close() })
				res, err := next(req)
				if err == nil {
					runs = append(runs, res.Header.Get("X-Stile-Session")+" "+res.Header.Get("X-Stile-Run"))
				}
				return res, err
			}
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			go func() {
				for d.rt.Counters().InFlight.Load() == 0 {
					runtime.Gosched()
				}
				cancel()
			}()
			return next(req.WithContext(ctx))
		}
		client := openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(1), option.WithMiddleware(cut))
		var headers []option.RequestOption
		if session != "" {
			headers = append(headers, option.WithHeader("X-Stile-Session", session))
		}
		got, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "patient", Messages: user("go")}, headers...)
		rung.Wait()
		if err != nil || got.Choices[0].Message.Content != "at last" || tries != 2 || len(runs) != 1 || !strings.HasSuffix(runs[0], " 1") {
			t.Errorf("session %q: %d tries, runs %q: %+v, %v", session, tries, runs, got, err)
		}
	}
	var list struct{ Sessions []struct{ Agent string } }
	d.call(200, &list, "GET", "/v1/sessions?ephemeral=true", "")
	n := 0
	for _, s := range list.Sessions {
		if s.Agent == "patient" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d sessions of two calls", n)
	}
}

// The official client for Node, unchanged.
func TestChatFromNode(t *testing.T) {
	node, packages, ok := installed(t, "openai")
	if !ok {
		return
	}
	d := talkers(t, patient()...)
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/openai.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url, nodePackages+"="+packages)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
