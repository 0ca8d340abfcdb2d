package openai

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	sdkrt "github.com/openai/openai-go/v3/realtime"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// Events are those that the official SDK makes.
func TestRealtimeEventsAreTheSDKs(t *testing.T) {
	v := realtime{vendor{options: Options{MaxTokens: 500}, base: "http://host/v1"}}
	talk := v.Talk()
	var want []any
	event := func(of func(id param.Opt[string]) any, id string) { want = append(want, of(param.NewOpt(id))) }
	create := func(item sdkrt.ConversationItemUnionParam) func(param.Opt[string]) any {
		return func(id param.Opt[string]) any { return sdkrt.ConversationItemCreateEventParam{EventID: id, Item: item} }
	}
	user := func(id, text string) func(param.Opt[string]) any {
		return create(sdkrt.ConversationItemUnionParam{OfRealtimeUserMessageItem: &sdkrt.RealtimeConversationItemUserMessageParam{
			ID: param.NewOpt(id), Content: []sdkrt.RealtimeConversationItemUserMessageContentParam{{Type: "input_text", Text: param.NewOpt(text)}},
		}})
	}
	respond := func(tools ...sdkrt.RealtimeResponseCreateParamsToolUnion) func(param.Opt[string]) any {
		return func(id param.Opt[string]) any {
			return sdkrt.ResponseCreateEventParam{EventID: id, Response: sdkrt.RealtimeResponseCreateParams{
				OutputModalities: []string{"text"}, MaxOutputTokens: sdkrt.RealtimeResponseCreateParamsMaxOutputTokensUnion{OfInt: param.NewOpt(int64(500))}, Tools: tools,
			}}
		}
	}
	function := sdkrt.RealtimeResponseCreateParamsToolUnion{OfRealtimeFunctionTool: &sdkrt.RealtimeFunctionToolParam{
		Type: "function", Name: param.NewOpt("file_read"), Description: param.NewOpt("Reads."), Parameters: map[string]any{"type": "object"},
	}}
	var got []any
	next := func(req llm.Request, sent int, from string) {
		t.Helper()
		all, err := talk.Next(&wire.Ask{Request: &req, Options: &wire.Options{}, Source: "here"}, sent, from)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, all...)
	}

	next(prompted("One", "Two", "Three <b>"), 0, "")
	event(func(id param.Opt[string]) any {
		return sdkrt.SessionUpdateEventParam{EventID: id, Session: sdkrt.SessionUpdateEventSessionUnionParam{OfRealtime: &sdkrt.RealtimeSessionCreateRequestParam{
			Instructions: param.NewOpt("Be brief."), OutputModalities: []string{"text"}, Truncation: sdkrt.RealtimeTruncationUnionParam{OfRealtimeTruncationStrategy: param.NewOpt("disabled")},
		}}}
	}, "r1.1")
	event(user("stile_1", "One"), "r1.2")
	event(create(sdkrt.ConversationItemUnionParam{OfRealtimeAssistantMessageItem: &sdkrt.RealtimeConversationItemAssistantMessageParam{
		ID: param.NewOpt("stile_2"), Content: []sdkrt.RealtimeConversationItemAssistantMessageContentParam{{Type: "output_text", Text: param.NewOpt("Two")}},
	}}), "r1.3")
	event(user("stile_3", "Three <b>"), "r1.4")
	event(respond(), "r1.5")

	// What stands behind the place is deleted, the reply too.
	talk.Heard("response.output_item.added", []byte(`{"item":{"id":"item_1"}}`))
	next(llm.Request{Model: "m", Messages: called(t, "two", "ok", ""), Dialect: "cogency", Tools: []messages.ToolSpec{{Name: "file.read", Description: "Reads.", Schema: `{"type":"object"}`}}}, 2, "2")
	for i, id := range []string{"stile_3", "item_1"} {
		event(func(e param.Opt[string]) any { return sdkrt.ConversationItemDeleteEventParam{EventID: e, ItemID: id} }, fmt.Sprintf("r2.%d", i+1))
	}
	for i, r := range [][2]string{{"c1", "fair & square"}, {wire.MadeID + "1_1", ""}} {
		event(create(sdkrt.ConversationItemUnionParam{OfFunctionCallOutput: &sdkrt.RealtimeConversationItemFunctionCallOutputParam{
			ID: param.NewOpt(fmt.Sprintf("stile_%d", 4+i)), CallID: r[0], Output: r[1],
		}}), fmt.Sprintf("r2.%d", 3+i))
	}
	event(user("stile_6", "ok"), "r2.5")
	event(respond(function), "r2.6")
	got = append(got, talk.Cancel("resp_1"))
	event(func(id param.Opt[string]) any {
		return sdkrt.ResponseCancelEventParam{EventID: id, ResponseID: param.NewOpt("resp_1")}
	}, "c2")

	// Pictures stand in front of the text of their message.
	next(pictured("look"), 0, "2")
	event(func(id param.Opt[string]) any {
		return sdkrt.SessionUpdateEventParam{EventID: id, Session: sdkrt.SessionUpdateEventSessionUnionParam{OfRealtime: &sdkrt.RealtimeSessionCreateRequestParam{
			Instructions: param.NewOpt("Be brief."), OutputModalities: []string{"text"}, Truncation: sdkrt.RealtimeTruncationUnionParam{OfRealtimeTruncationStrategy: param.NewOpt("disabled")},
		}}}
	}, "r3.1")
	for i, id := range []string{"stile_4", "stile_5", "stile_6"} {
		event(func(e param.Opt[string]) any { return sdkrt.ConversationItemDeleteEventParam{EventID: e, ItemID: id} }, fmt.Sprintf("r3.%d", i+2))
	}
	event(create(sdkrt.ConversationItemUnionParam{OfRealtimeUserMessageItem: &sdkrt.RealtimeConversationItemUserMessageParam{
		ID: param.NewOpt("stile_7"), Content: []sdkrt.RealtimeConversationItemUserMessageContentParam{
			{Type: "input_image", ImageURL: param.NewOpt("data:image/png;base64,cA==")}, {Type: "input_image", ImageURL: param.NewOpt("data:image/jpeg;base64,ag==")}, {Type: "input_text", Text: param.NewOpt("look")},
		},
	}}), "r3.5")
	event(respond(), "r3.6")

	plain := func(all []any) (out []any) {
		for _, e := range all {
			text, err := stdjson.Marshal(e)
			var one any
			if err == nil {
				err = stdjson.Unmarshal(text, &one)
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, one)
		}
		return out
	}
	if diff := gocmp.Diff(plain(want), plain(got)); diff != "" {
		t.Errorf("(-SDK +ours):\n%s", diff)
	}
	if _, err := talk.Next(&wire.Ask{Request: &llm.Request{}, Options: &wire.Options{}}, 0, ""); err == nil {
		t.Error("nothing to answer is asked")
	}
}

// The official SDK's client takes the fake provider for Realtime, and knows every event of it.
func TestRealtimeFakeIsTheSDKs(t *testing.T) {
	srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
		return llmtest.Response{Text: []string{"Hel", "lo"}, Calls: []messages.Call{{ID: "c1", Name: "f", Args: `{"a":1}`}}, Usage: messages.Usage{Input: 10, CacheRead: 4, Output: 3}}
	})
	client := sdk.NewClient(option.WithBaseURL(srv.URL+"/v1"), option.WithAPIKey("sk-1"))
	conn, err := client.Realtime.Connect(t.Context(), sdkrt.RealtimeConnectionOptions{}, option.WithQuery("model", "m"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Abort()
	talk := realtime{}.Talk()
	send := func(req llm.Request, sent int, from string) {
		t.Helper()
		all, err := talk.Next(&wire.Ask{Request: &req, Options: &wire.Options{}}, sent, from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			text, err := stdjson.Marshal(e)
			if err == nil {
				err = conn.SendRaw(t.Context(), text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := map[string]int{}
	var text, args string
	until := func(last string) sdkrt.RealtimeServerEventUnion {
		t.Helper()
		for {
			e, err := conn.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.AsAny() == nil {
				t.Errorf("the SDK does not know %s", e.Type)
			}
			seen[e.Type]++
			switch e.Type {
			case "response.output_text.delta":
				text += e.AsResponseTextDeltaEvent().Delta
			case "response.function_call_arguments.delta":
				args += e.AsResponseFunctionCallArgumentsDeltaEvent().Delta
			}
			if e.Type == last {
				return e
			}
		}
	}
	send(prompted("One", "Two", "Three"), 0, "")
	done := until("response.done").AsResponseDoneEvent().Response
	if text != "Hello" || args != `{"a":1}` || done.Status != "completed" || len(done.Output) != 2 || done.Usage.InputTokens != 10 || done.Usage.InputTokenDetails.CachedTokens != 4 || done.Usage.OutputTokens != 3 {
		t.Errorf("%q, %q: %s", text, args, done.RawJSON())
	}
	if seen["session.created"] != 1 || seen["session.updated"] != 1 || seen["conversation.item.added"] != 4 || seen["response.output_item.done"] != 2 {
		t.Errorf("%v", seen)
	}
	// The reply stands in front of what is sent next; a cancellation that comes too late is refused.
	if text, err := stdjson.Marshal(talk.Cancel("resp_1")); err != nil || conn.SendRaw(t.Context(), text) != nil {
		t.Fatal(err)
	}
	if e := until("error").AsRealtimeErrorEvent().Error; e.Code != "response_cancel_not_active" || e.EventID != "c1" {
		t.Errorf("%s", e.RawJSON())
	}
}

// talkPort is a model whose provider gives one reply.
func talkPort(t *testing.T, api string) func(*testing.T, llmtest.Reply) llm.Model {
	t.Helper()
	return func(t *testing.T, r llmtest.Reply) llm.Model {
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
			out := llmtest.Response{Text: r.Pieces, Hang: r.Hang, Usage: messages.Usage{Input: r.Usage.Input, Output: r.Usage.Output}}
			if r.Finish == messages.FinishLength {
				out.Finish = "response.incomplete"
			}
			return out
		})
		if r.Failure != 0 {
			srv.Refuse = func(int) (int, string) { return r.Failure, "" }
		}
		return keeps(t, srv, spoken(api))
	}
}

// A model of Realtime is a model: without a conversation it has a connection for each request.
func TestRealtimePort(t *testing.T) {
	llmtest.Port(t, talkPort(t, Realtime))
	srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"ok"}} })
	m := keeps(t, srv, spoken(Realtime))
	for range 2 {
		if o := llmtest.Read(t.Context(), m, prompted("One", "Two", "Three")); o.Err != nil || o.Text != "ok" {
			t.Errorf("%+v", o)
		}
	}
	if srv.Conns() != 2 || len(srv.Seen()[1].All) != 4 {
		t.Errorf("%d connections", srv.Conns())
	}
}

// What the model wrote behind what was taken is deleted, with the question that it answers, and
// told as the journal has it.
func TestRealtimeDeletes(t *testing.T) {
	step := make(chan struct{})
	srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
		if c.N == 2 {
			return llmtest.Response{Text: []string{"until here", "and more"}, Step: step, Free: 1}
		}
		return llmtest.Response{Text: []string{"ok"}}
	})
	s := connect(t, keeps(t, srv, spoken(Realtime)))
	if o := read(t.Context(), s, prompted("One"), 0); o.Err != nil {
		t.Fatal(o.Err)
	}
	settled(t, s, true)
	for range s.Continue(t.Context(), prompted("One", "ok", "Two"), 3) {
		break
	}
	settled(t, s, false)
	if o := read(t.Context(), s, prompted("One", "ok", "Two", "until", "Three"), 3); o.Err != nil {
		t.Fatal(o.Err)
	}
	var lines []string
	for _, i := range srv.Seen()[2].All {
		lines = append(lines, i.String())
	}
	if got := strings.Join(lines, "|"); got != "system: Be brief.|user: One|assistant: ok|user: Two|assistant: until|user: Three" {
		t.Errorf("the provider has %s", got)
	}
	if o := read(t.Context(), s, prompted("Anew"), 0); o.Err != nil || len(srv.Seen()[3].All) != 2 {
		t.Errorf("%+v: the provider has %v", o, srv.Seen()[3].All)
	}
}

// Every way in which a provider of Realtime can fail ends the request with a failure that says
// what can be done, or is passed over. A refused part of a request ends the connection,
// because what the conversation has is unknown.
func TestRealtimeFails(t *testing.T) {
	created := `{"type":"response.created","response":{"id":"other"}}`
	delta := `{"type":"response.output_text.delta","response_id":"other","output_index":0,"delta":"STRAY"}`
	garbage := llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
	for name, c := range map[string]struct {
		say  llmtest.Response
		want llm.Failure // Kind and Code
		text string
		gone bool
		good bool // passed over
	}{
		"expired":             {say: llmtest.Response{Error: "session_expired"}, want: llm.Failure{Code: llm.CodeLimit}, gone: true},
		"another response":    {say: llmtest.Response{Error: "conversation_already_has_active_response"}, want: llm.Failure{Code: "conversation_already_has_active_response"}, gone: true},
		"a wrong id":          {say: llmtest.Response{Error: "item_delete_invalid_item_id"}, want: llm.Failure{Code: "item_delete_invalid_item_id"}, gone: true},
		"rate":                {say: llmtest.Response{Error: "rate_limit_exceeded"}, want: llm.Failure{Kind: llm.KindRateLimit, Code: "rate_limit_exceeded"}, gone: true},
		"too long":            {say: llmtest.Response{Error: "context_length_exceeded"}, want: llm.Failure{Kind: llm.KindContext, Code: "context_length_exceeded"}, gone: true},
		"key":                 {say: llmtest.Response{Error: "invalid_api_key"}, want: llm.Failure{Kind: llm.KindAuth, Code: "invalid_api_key"}, gone: true},
		"key in the middle":   {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "invalid_api_key"}, want: llm.Failure{Kind: llm.KindAuth, Code: "invalid_api_key"}, text: "begun", gone: true},
		"failed":              {say: llmtest.Response{Text: []string{"begun"}, Finish: "response.failed"}, want: llm.Failure{Kind: llm.KindServer, Code: "server_error"}, text: "begun"},
		"stopped":             {say: llmtest.Response{Text: []string{"begun"}, Finish: "response.cancelled"}, want: llm.Failure{Code: "cancelled_by_provider"}, text: "begun"},
		"broken off":          {say: llmtest.Response{Text: []string{"be", "gun"}, Drop: true}, want: llm.Failure{Kind: llm.KindTruncated, Code: "truncated"}, text: "begun", gone: true},
		"gone":                {say: llmtest.Response{Drop: true}, want: llm.Failure{Kind: llm.KindNetwork, Code: "transport"}, gone: true},
		"garbage":             {say: llmtest.Response{Before: []string{"{"}}, want: garbage, gone: true},
		"no event":            {say: llmtest.Response{Before: []string{"7"}}, want: garbage, gone: true},
		"two at once":         {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{created}}, want: garbage, text: "be", gone: true},
		"a wrong delta":       {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{`{"type":"response.output_text.delta","delta":7}`}}, want: garbage, text: "be", gone: true},
		"huge":                {say: llmtest.Response{Before: []string{`{"type":"` + strings.Repeat("x", 70<<10) + `"}`}}, want: llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}, gone: true},
		"late deltas":         {say: llmtest.Response{Before: []string{delta, delta}, Text: []string{"well"}}, text: "well", good: true},
		"another's end":       {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"response.done","response":{"id":"other","status":"completed"}}`}}, text: "well", good: true},
		"another's error":     {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"error","error":{"code":"response_cancel_not_active","event_id":"c0"}}`}}, text: "well", good: true},
		"more than asked for": {say: llmtest.Response{Text: []string{"well"}, Behind: []string{created, delta}}, text: "well", good: true},
		"sound":               {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"response.output_audio.done","response_id":"resp_1"}`, `{"type":"rate_limits.updated","rate_limits":[]}`}}, text: "well", good: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(create *llmtest.Request) llmtest.Response {
					if create.N == 1 {
						return c.say
					}
					return llmtest.Response{Text: []string{"again"}}
				})
				s := connect(t, keeps(t, srv, func(o *Options) { o.API, o.MaxEventBytes = Realtime, 64<<10 }))
				o := read(t.Context(), s, prompted("One"), 0)
				if c.good && (o.Err != nil || o.Text != c.text) {
					t.Fatalf("%+v", o)
				}
				if f := llm.FailureOf(o.Err); !c.good && (messages.CodeOf(o.Err) != messages.ErrModel || c.want.Kind != "" && f.Kind != c.want.Kind || f.Code != c.want.Code || o.Text != c.text || strings.Contains(o.Err.Error(), "SECRET")) {
					t.Fatalf("%+v\n%+v", f, o)
				}
				synctest.Wait() // all that the provider has sent is here
				if s.Ended() != c.gone {
					t.Fatalf("ended: %v", s.Ended())
				}
				if c.gone {
					return
				}
				settled(t, s, c.good)
				if o := read(t.Context(), s, prompted("One"), 0); o.Err != nil || o.Text != "again" {
					t.Errorf("the next request: %+v", o)
				}
			})
		})
	}
	t.Run("an item that is not acknowledged", func(t *testing.T) {
		talk := realtime{}.Talk()
		req := prompted("One")
		if _, err := talk.Next(&wire.Ask{Request: &req, Options: &wire.Options{}}, 0, ""); err != nil {
			t.Fatal(err)
		}
		if mark := talk.Mark("resp_1"); mark != "" {
			t.Errorf("it goes on from %q", mark)
		}
		talk.Heard("conversation.item.added", []byte(`{"item":{"id":"stile_1"}}`))
		if mark := talk.Mark("resp_1"); mark != "1" {
			t.Errorf("the mark is %q", mark)
		}
	})
	t.Run("a reply that is left before it begins", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
				<-hold
				return llmtest.Response{Text: []string{"x", "y"}, Step: make(chan struct{}), Free: 1}
			})
			s := connect(t, keeps(t, srv, spoken(Realtime)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if o := read(ctx, s, prompted("One"), 0); o.Finish != messages.FinishCancelled {
				t.Errorf("%+v", o)
			}
			close(hold) // and the provider begins
			settled(t, s, false)
		})
	})
}

// What the API does not have is refused when the model is made.
func TestRealtimeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"whole":       {Options{API: Realtime, Whole: true}, "stream"},
		"temperature": {Options{API: Realtime, Options: `{"temperature":0.5}`}, "options.temperature"},
		"own members": {Options{API: Realtime, Options: `{"extra":{"response":{"tools":[]}}}`}, "options.extra.response.tools"},
	} {
		_, err := New(c.o)
		var bad *messages.Error
		if !errors.As(err, &bad) || bad.Field != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"ok"}} })
	m := keeps(t, srv, func(o *Options) {
		o.API, o.Options = Realtime, `{"reasoning_effort":"low","extra":{"response":{"metadata":{"a":"b"}}}}`
	})
	if o := llmtest.Read(t.Context(), m, prompted("One")); o.Err != nil {
		t.Fatal(o.Err)
	}
	frames := strings.Split(strings.TrimSpace(string(srv.Seen()[0].Body)), "\n")
	var last struct {
		Response struct {
			Reasoning struct{ Effort string }
			Metadata  map[string]string
		}
	}
	if err := stdjson.Unmarshal([]byte(frames[len(frames)-1]), &last); err != nil || last.Response.Reasoning.Effort != "low" || last.Response.Metadata["a"] != "b" {
		t.Errorf("%v: %s", err, frames)
	}
	if slices.ContainsFunc(frames[:len(frames)-1], func(f string) bool { return strings.Contains(f, "metadata") }) {
		t.Errorf("%s", frames)
	}
}
