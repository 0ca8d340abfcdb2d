package openai

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// keeps is a model of a provider that keeps conversations.
func keeps(t testing.TB, srv *llmtest.Provider, change func(*Options)) llm.SessionModel {
	t.Helper()
	o := Options{BaseURL: srv.URL + "/v1", API: Responses, Base: srv.Base, Prices: map[string]llm.Price{"m": {Input: 1e6, Output: 2e6}}}
	if change != nil {
		change(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m.(llm.SessionModel)
}

// each runs a test for each API whose provider keeps conversations.
func each(t *testing.T, test func(t *testing.T, api string)) {
	for _, api := range []string{Responses, Realtime} {
		t.Run(api, func(t *testing.T) { test(t, api) })
	}
}

// spoken chooses the API.
func spoken(api string) func(*Options) { return func(o *Options) { o.API = api } }

// connect opens a conversation that the test's end closes.
func connect(t testing.TB, m llm.SessionModel) llm.Session {
	t.Helper()
	s, err := m.Connect(t.Context(), llm.Request{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// prompted is a prompt of these texts: the user's and the model's, in turn.
func prompted(texts ...string) llm.Request {
	r := llm.Request{Model: "m", Session: "s", Messages: []messages.Message{{Role: messages.RoleSystem, Text: "Be brief."}}}
	for i, text := range texts {
		role := messages.RoleUser
		if i%2 == 1 {
			role = messages.RoleAssistant
		}
		r.Messages = append(r.Messages, messages.Message{Role: role, Text: text})
	}
	return r
}

// read reads a reply to its end.
func read(ctx context.Context, s llm.Session, r llm.Request, sent int) (o llmtest.Outcome) {
	for c, err := range s.Continue(ctx, r, sent) {
		o.Take(c, err)
	}
	if o.Broken != "" || o.Err == nil && o.Finish == "" {
		o.Err = errors.Join(o.Err, errors.New("llmtest: "+o.Broken+" or without an end"))
	}
	return o
}

func settled(t testing.TB, s llm.Session, want bool) {
	t.Helper()
	if kept, err := s.Settle(t.Context()); err != nil || kept != want {
		t.Errorf("settled as %v, %v; want %v", kept, err, want)
	}
}

// Frames are those that the official SDK makes.
func TestFramesAreTheSDKs(t *testing.T) {
	v := response{vendor{options: Options{MaxTokens: 500}, base: "http://host/v1"}}
	tools := []messages.ToolSpec{{Name: "file.read", Description: "Reads.", Schema: `{"type":"object"}`}}
	own := func(role, text string) responses.ResponseInputItemUnionParam {
		return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRole(role))
	}
	base := func() responses.ResponsesClientEventResponseCreateParam {
		p := responses.ResponsesClientEventResponseCreateParam{
			Model: "m", Store: param.NewOpt(false), MaxOutputTokens: param.NewOpt(int64(500)),
		}
		return p
	}
	for name, c := range map[string]struct {
		req    llm.Request
		sent   int
		parent string
		want   func(*responses.ResponsesClientEventResponseCreateParam)
	}{
		"everything": {
			prompted("One", "Two", "Three <b>"), 0, "",
			func(p *responses.ResponsesClientEventResponseCreateParam) {
				p.Input.OfResponse = &responses.ResponseInputParam{own("system", "Be brief."), own("user", "One"), own("assistant", "Two"), own("user", "Three <b>")}
			},
		},
		"what is new": {
			prompted("One", "Two", "Three <b>"), 3, "resp_1",
			func(p *responses.ResponsesClientEventResponseCreateParam) {
				p.PreviousResponseID = param.NewOpt("resp_1")
				p.Input.OfResponse = &responses.ResponseInputParam{own("user", "Three <b>")}
			},
		},
		"what leads": {
			passing("feed", "One", "Two", "Three <b>"), 3, "resp_1",
			func(p *responses.ResponsesClientEventResponseCreateParam) {
				p.PreviousResponseID, p.StreamID, p.Generate = param.NewOpt("resp_1"), param.NewOpt("history"), param.NewOpt(false)
				p.Input.OfResponse = &responses.ResponseInputParam{own("user", "Three <b>")}
			},
		},
		"results": {
			llm.Request{Model: "m", Messages: called(t, "two", "ok", ""), Dialect: "cogency", Tools: tools},
			2, "resp_1",
			func(p *responses.ResponsesClientEventResponseCreateParam) {
				p.PreviousResponseID = param.NewOpt("resp_1")
				out := func(id, text string) responses.ResponseInputItemUnionParam {
					o := responses.ResponseInputItemParamOfFunctionCallOutput(text)
					o.OfFunctionCallOutput.CallID = param.NewOpt(id)
					return o
				}
				p.Input.OfResponse = &responses.ResponseInputParam{out("c1", "fair & square"), out(wire.MadeID+"1_1", ""), own("user", "ok")}
				p.Include = []responses.ResponseIncludable{"reasoning.encrypted_content"}
				p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "file_read", Description: param.NewOpt("Reads."), Parameters: map[string]any{"type": "object"}, Strict: param.NewOpt(false)}}}
			},
		},
	} {
		c.req.Session = ""
		ask := &wire.Ask{Request: &c.req, Options: &wire.Options{}, Source: "here"}
		body, err := v.Next(ask, c.sent, c.parent)
		if c.req.Passing > 0 {
			body = make([]any, 1)
			body[0], _, err = v.Lead(ask, c.sent, c.parent)
		}
		if err != nil || len(body) != 1 {
			t.Fatal(name, err)
		}
		want := base()
		c.want(&want)
		var a, b any
		for of, to := range map[any]*any{body[0]: &a, any(&want): &b} {
			text, err := jsonOf(of)
			if err == nil {
				err = json.Unmarshal(text, to)
			}
			if err != nil {
				t.Fatal(name, err)
			}
		}
		if diff := gocmp.Diff(b, a); diff != "" {
			t.Errorf("%s (-SDK +ours):\n%s", name, diff)
		}
	}
}

// A conversation goes on from where it is, and only from there.
func TestSessionGoesOn(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
			return llmtest.Response{Text: []string{"re", "ply " + fmt.Sprint(c.N)}, Usage: messages.Usage{Input: 10, CacheRead: 4, Output: 3}}
		})
		s := connect(t, keeps(t, srv, spoken(api)))
		o := read(t.Context(), s, prompted("One"), 0)
		if o.Err != nil || o.Text != "reply 1" || o.Finish != messages.FinishComplete || o.Usage != (messages.Usage{Input: 10, CacheRead: 4, Output: 3}) || o.Cost == 0 {
			t.Fatalf("%+v", o)
		}
		settled(t, s, true)
		if o := read(t.Context(), s, prompted("One", "reply 1", "Two"), 3); o.Err != nil || o.Text != "reply 2" {
			t.Fatalf("%+v", o)
		}
		// From the point before once more, as after a reply that the journal has otherwise.
		if o := read(t.Context(), s, prompted("One", "reply 1", "Two", "another", "Three"), 3); o.Err != nil || o.Text != "reply 3" {
			t.Fatalf("%+v", o)
		}
		var lines []string
		for _, i := range srv.Seen()[2].All {
			lines = append(lines, i.String())
		}
		if got := strings.Join(lines, "|"); got != "system: Be brief.|user: One|assistant: reply 1|user: Two|assistant: another|user: Three" {
			t.Errorf("the provider has %s", got)
		}
		if o := read(t.Context(), s, prompted("One", "reply 1", "Two"), 2); llm.FailureOf(o.Err).Code != llm.CodeLost || len(srv.Seen()) != 3 {
			t.Errorf("a point that the conversation never had: %+v", o)
		}
	})
}

// passing is a prompt whose last text passes with its request.
func passing(feeds string, texts ...string) llm.Request {
	r := prompted(texts...)
	r.Messages = append(r.Messages, messages.Message{Role: messages.RoleUser, Text: feeds, Holds: messages.HoldsFeeds})
	r.Passing = 1
	return r
}

// What passes is not in the conversation afterwards. Realtime keeps the reply to it; with Responses
// the next request has it, behind a place that was asked for before.
func TestSessionTakesBack(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
			return llmtest.Response{Text: []string{"reply ", fmt.Sprint(r.N)}, Usage: messages.Usage{Input: 100, CacheRead: 90, Output: 5}}
		})
		srv.Keep = 1
		m := keeps(t, srv, spoken(api))
		if !m.(interface{ TakesBack() bool }).TakesBack() {
			t.Fatal("nothing is taken back")
		}
		s := connect(t, m)
		stays := api == Realtime
		o := read(t.Context(), s, passing("feed 1", "One"), 0)
		if want := map[bool]int64{true: 100, false: 104}[stays]; o.Err != nil || o.Text != "reply 1" || o.Usage.Input != want || o.Usage.Output != 5 {
			t.Fatalf("%+v", o)
		}
		settled(t, s, stays)
		for n := 2; n < 5; n++ {
			texts := []string{"One"}
			for i := 1; i < n; i++ {
				texts = append(texts, fmt.Sprint("reply ", i), fmt.Sprint("More ", i+1))
			}
			sent := 2 * (n - 1) // what stood in front of the last feed
			if stays {
				sent++
			}
			feed := fmt.Sprint("feed ", n)
			if o := read(t.Context(), s, passing(feed, texts...), sent); o.Err != nil || o.Text != fmt.Sprint("reply ", n) {
				t.Fatalf("%+v", o)
			}
			settled(t, s, stays)
			var has []string
			for _, i := range srv.Seen()[n-1].All {
				has = append(has, i.Text)
			}
			if got, want := strings.Join(has, "|"), "Be brief.|"+strings.Join(texts, "|")+"|"+feed; got != want {
				t.Fatalf("the provider has %s, want %s", got, want)
			}
		}
		// Without anything that passes it goes on from the same place.
		if o := read(t.Context(), s, prompted("One", "reply 1", "More 2", "reply 2", "More 3", "reply 3", "More 4", "another", "Five"), 8); o.Err != nil {
			t.Fatalf("%+v", o)
		}
		settled(t, s, true)
		if leads := map[bool]int{false: 4}[stays]; srv.Leads() != leads {
			t.Errorf("%d requests led to another, want %d", srv.Leads(), leads)
		}
	})
}

// A request that leads to another can fail as any other. Where it is why, what passes would stay.
func TestSessionLeadFails(t *testing.T) {
	for name, c := range map[string]struct {
		lead, code string
		kind       llm.Kind
		ended      bool
	}{
		"it is unknown":        {"refuse", llm.CodePassing, llm.KindRequest, false},
		"it is answered":       {"answer", llm.CodePassing, llm.KindRequest, true},
		"it is forgotten":      {"forget", llm.CodePassing, llm.KindRequest, false},
		"the provider broke":   {"server_error", "server_error", llm.KindServer, false},
		"too much in a minute": {"rate_limit_exceeded", "rate_limit_exceeded", llm.KindRateLimit, false},
		"another connection":   {llm.CodeLimit, llm.CodeLimit, llm.KindRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"Hi."}} })
			srv.Lead = c.lead
			s := connect(t, keeps(t, srv, nil))
			o := read(t.Context(), s, passing("feed", "One"), 0)
			if f := llm.FailureOf(o.Err); f.Code != c.code || o.Text != "" || s.Ended() != c.ended || strings.Contains(fmt.Sprint(o.Err), "SECRET") {
				t.Fatalf("%+v, ended %v: %v", f, s.Ended(), o.Err)
			} else if f.Kind != c.kind && c.code != llm.CodeLimit {
				t.Errorf("kind %s", f.Kind)
			}
			if c.ended {
				return
			}
			if o := read(t.Context(), s, prompted("One"), 0); o.Err != nil || o.Text != "Hi." {
				t.Errorf("everything at once: %+v", o)
			}
		})
	}
	t.Run("it is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"Hi."}} })
			srv.Lead = "hang"
			s := connect(t, keeps(t, srv, nil))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if o := read(ctx, s, passing("feed", "One"), 0); o.Err != nil || o.Finish != messages.FinishCancelled {
				t.Errorf("%+v", o)
			}
			if kept, err := s.Settle(t.Context()); kept || err == nil || !s.Ended() {
				t.Errorf("settled as %v, %v", kept, err)
			}
		})
	})
}

// What the model goes on to say when its reply was left is dropped, and the conversation says
// whether there was anything.
func TestSessionDrains(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		// Responses goes on to the end, Realtime is stopped.
		reads := api == Responses
		for name, c := range map[string]struct {
			text []string
			kept bool
		}{
			"nothing":     {[]string{"until here"}, true},
			"white space": {[]string{"until here", "\n", " \n"}, reads},
			"more":        {[]string{"until here", " \n", "and more"}, false},
		} {
			t.Run(name, func(t *testing.T) {
				step := make(chan struct{})
				srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
					return llmtest.Response{Text: c.text, Step: step, Free: 1}
				})
				s := connect(t, keeps(t, srv, spoken(api)))
				for chunk, err := range s.Continue(t.Context(), prompted("One"), 0) {
					if err != nil {
						t.Fatal(err)
					}
					if string(chunk.Text) == "until here" {
						break
					}
				}
				if reads {
					close(step)
				}
				settled(t, s, c.kept)
				if !reads {
					close(step)
				}
				// The next request is answered for itself.
				if o := read(t.Context(), s, prompted("One"), 0); o.Err != nil || o.Text != strings.Join(c.text, "") {
					t.Errorf("%+v", o)
				}
			})
		}
		t.Run("cancelled", func(t *testing.T) {
			step := make(chan struct{})
			srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{"until here", "more"}, Step: step, Free: 1}
			})
			s := connect(t, keeps(t, srv, spoken(api)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var o llmtest.Outcome
			for c, err := range s.Continue(ctx, prompted("One"), 0) {
				o.Take(c, err)
				cancel()
			}
			if o.Err != nil || o.Text != "until here" || o.Finish != messages.FinishCancelled || o.Usage.Output == 0 {
				t.Errorf("%+v", o)
			}
			if reads {
				close(step)
			}
			settled(t, s, false)
		})
		t.Run("without an end", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
					return llmtest.Response{Text: []string{"until here", "more"}, Hang: true}
				})
				s := connect(t, keeps(t, srv, spoken(api)))
				for range s.Continue(t.Context(), prompted("One"), 0) {
					break
				}
				began := time.Now()
				if _, err := s.Settle(t.Context()); err == nil || !s.Ended() || time.Since(began) != 2*time.Second {
					t.Errorf("%v after %s", err, time.Since(began))
				}
			})
		})
	})
}

// Every way in which a provider can fail ends the request with a failure that says what can be
// done, or is passed over.
func TestSessionFails(t *testing.T) {
	created := `{"type":"response.created","response":{"id":"other"}}`
	delta := `{"type":"response.output_text.delta","output_index":0,"delta":"STRAY"}`
	for name, c := range map[string]struct {
		say  llmtest.Response
		want llm.Failure // Kind and Code, Status
		text string
		gone bool
		good bool // passed over
	}{
		"lost":                {say: llmtest.Response{Error: llm.CodeLost, Status: 400}, want: llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLost, Status: 400}},
		"limit":               {say: llmtest.Response{Error: llm.CodeLimit, Status: 400}, want: llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLimit, Status: 400}},
		"overloaded":          {say: llmtest.Response{Error: "server_is_overloaded", Status: 503}, want: llm.Failure{Kind: llm.KindOverloaded, Code: "server_is_overloaded", Status: 503}},
		"too long":            {say: llmtest.Response{Error: "context_length_exceeded", Status: 400}, want: llm.Failure{Kind: llm.KindContext, Code: "context_length_exceeded", Status: 400}},
		"key":                 {say: llmtest.Response{Error: "invalid_api_key", Status: 401}, want: llm.Failure{Kind: llm.KindAuth, Code: "invalid_api_key", Status: 401}, gone: true},
		"key in the middle":   {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "invalid_api_key", Status: 401}, want: llm.Failure{Kind: llm.KindAuth, Code: "invalid_api_key", Status: 401}, text: "begun", gone: true},
		"in the middle":       {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "server_error", Status: 500}, want: llm.Failure{Kind: llm.KindServer, Code: "server_error", Status: 500}, text: "begun"},
		"failed":              {say: llmtest.Response{Text: []string{"begun"}, Finish: "response.failed"}, want: llm.Failure{Kind: llm.KindServer}, text: "begun"},
		"broken off":          {say: llmtest.Response{Text: []string{"be", "gun"}, Drop: true}, want: llm.Failure{Kind: llm.KindTruncated, Code: "truncated"}, text: "begun", gone: true},
		"gone":                {say: llmtest.Response{Drop: true}, want: llm.Failure{Kind: llm.KindNetwork, Code: "transport"}, gone: true},
		"garbage":             {say: llmtest.Response{Before: []string{"{"}}, want: llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}, gone: true},
		"no event":            {say: llmtest.Response{Before: []string{"7"}}, want: llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}, gone: true},
		"two at once":         {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{created}}, want: llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}, text: "be", gone: true},
		"a wrong delta":       {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{`{"type":"response.output_text.delta","delta":7}`}}, want: llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}, text: "be", gone: true},
		"huge":                {say: llmtest.Response{Before: []string{`{"type":"` + strings.Repeat("x", 70<<10) + `"}`}}, want: llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}, gone: true},
		"late deltas":         {say: llmtest.Response{Before: []string{delta, delta}, Text: []string{"well"}}, text: "well", good: true},
		"another's end":       {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"response.completed","response":{"id":"other"}}`}}, text: "well", good: true},
		"another's lane":      {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"response.output_text.delta","stream_id":"x","delta":"STRAY"}`}}, text: "well", good: true},
		"more than asked for": {say: llmtest.Response{Text: []string{"well"}, Behind: []string{created, delta}}, text: "well", good: true},
		"unknown events":      {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"type":"response.new","x":{"delta":"STRAY"}}`}}, text: "well", good: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(create *llmtest.Request) llmtest.Response {
					if create.N == 1 {
						return c.say
					}
					return llmtest.Response{Text: []string{"again"}}
				})
				s := connect(t, keeps(t, srv, func(o *Options) { o.MaxEventBytes = 64 << 10 }))
				o := read(t.Context(), s, prompted("One"), 0)
				if c.good && (o.Err != nil || o.Text != c.text) {
					t.Fatalf("%+v", o)
				}
				if f := llm.FailureOf(o.Err); !c.good && (messages.CodeOf(o.Err) != messages.ErrModel || f.Kind != c.want.Kind || f.Code != c.want.Code || f.Status != c.want.Status || o.Text != c.text || strings.Contains(o.Err.Error(), "SECRET")) {
					t.Fatalf("%+v\n%+v", f, o)
				}
				synctest.Wait() // all that the provider has sent is here
				if s.Ended() != c.gone {
					t.Fatalf("ended: %v", s.Ended())
				}
				if c.gone {
					if _, err := s.Settle(t.Context()); err == nil {
						t.Error("an ended session settles")
					}
					return
				}
				settled(t, s, c.good)
				if o := read(t.Context(), s, prompted("One"), 0); o.Err != nil || o.Text != "again" {
					t.Errorf("the next request: %+v", o)
				}
			})
		})
	}
}

// A provider that says nothing is given up after the time for the first event, or for the next.
func TestSessionSilence(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, free := range map[string]int{"from the start": 0, "in the middle": 1} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					step := make(chan struct{})
					srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
						return llmtest.Response{Text: []string{"x", "y"}, Step: step, Free: free}
					})
					s := connect(t, keeps(t, srv, spoken(api)))
					began := time.Now()
					o := read(t.Context(), s, prompted("One"), 0)
					if f := llm.FailureOf(o.Err); f.Kind != llm.KindTruncated || time.Since(began) != time.Minute || !s.Ended() {
						t.Errorf("%+v after %s: %+v", f, time.Since(began), o)
					}
				})
			})
		}
		t.Run("without a word", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				defer close(hold)
				srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
					<-hold
					return llmtest.Response{}
				})
				s := connect(t, keeps(t, srv, spoken(api)))
				began := time.Now()
				o := read(t.Context(), s, prompted("One"), 0)
				if f := llm.FailureOf(o.Err); f.Kind != llm.KindNetwork || time.Since(began) != 30*time.Second || !s.Ended() {
					t.Errorf("%+v after %s: %+v", f, time.Since(began), o)
				}
			})
		})
	})
}

// A handshake that fails has the failures of a request, and shows no key.
func TestSessionRefused(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, c := range map[string]struct {
			status int
			body   string
			want   llm.Kind
		}{
			"key":          {401, `{"error":{"code":"invalid_api_key","message":"sk-live-secret is wrong"}}`, llm.KindAuth},
			"rate":         {429, `{"error":{"code":"rate_limit_exceeded"}}`, llm.KindRateLimit},
			"server":       {500, `oops`, llm.KindServer},
			"no such path": {404, `not here`, llm.KindRequest},
			"a page":       {200, `<html>`, llm.KindGarbage},
			"elsewhere":    {302, ``, llm.KindRequest},
		} {
			t.Run(name, func(t *testing.T) {
				srv := llmtest.NewProvider(t, nil)
				srv.Refuse = func(int) (int, string) { return c.status, c.body }
				keys, err := llm.FindKeys([]string{"K"}, func(string) (string, bool) { return "sk-live-secret", true })
				if err != nil {
					t.Fatal(err)
				}
				m := keeps(t, srv, func(o *Options) { o.API, o.Keys = api, llm.NewKeys(keys...) })
				_, err = m.Connect(t.Context(), llm.Request{Model: "m"})
				if f := llm.FailureOf(err); f.Kind != c.want || c.status != 200 && f.Status != c.status || strings.Contains(err.Error(), "secret") {
					t.Errorf("%+v: %v", f, err)
				}
			})
		}
	})
}

// A connection that breaks after any byte ends with the whole reply, or a failure and what came
// of it.
func TestSessionCutAnywhere(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		const whole = "two pieces"
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
			return llmtest.Response{Text: []string{"two", " pieces"}}
		})
		m := keeps(t, srv, spoken(api))
		good := 0
		step := int64(1)
		if api == Realtime {
			step = 5 // it has more to say
		}
		for cut := int64(1); good < 8; cut += step {
			if cut > 8<<10 {
				t.Fatal("a reply does not take that many bytes")
			}
			srv.Cut.Store(cut)
			s, err := m.Connect(t.Context(), llm.Request{Model: "m"})
			if err != nil {
				if messages.CodeOf(err) != messages.ErrModel || good > 0 {
					t.Fatalf("cut after %d: %v", cut, err)
				}
				continue
			}
			o := read(t.Context(), s, prompted("One"), 0)
			if good++; o.Err != nil {
				if good = 0; !strings.HasPrefix(whole, o.Text) || messages.CodeOf(o.Err) != messages.ErrModel {
					t.Fatalf("cut after %d: %+v", cut, o)
				}
				if _, err := s.Settle(t.Context()); err == nil {
					t.Fatalf("cut after %d: it settles", cut)
				}
			} else if o.Text != whole {
				t.Fatalf("cut after %d: %+v", cut, o)
			}
			_ = s.Close()
		}
	})
}

// What no provider should send is refused, in bounds, and a network may be gone.
func TestConversationsBadInput(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		wiretest.Bad(t, func(t testing.TB, url string, base http.RoundTripper) llm.SessionModel {
			m, err := New(Options{BaseURL: url + "/v1", API: api, Base: base})
			if err != nil {
				t.Fatal(err)
			}
			return m.(llm.SessionModel)
		})
	})
}

func jsonOf(v any) ([]byte, error) {
	if p, ok := v.(*responses.ResponsesClientEventResponseCreateParam); ok {
		return p.MarshalJSON()
	}
	return stdjson.Marshal(v)
}
