package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// keeps is a model of a provider of Live.
func keeps(t testing.TB, srv *llmtest.Provider, change func(*Options)) llm.SessionModel {
	t.Helper()
	o := Options{BaseURL: srv.URL, API: Live, Base: srv.Base, Prices: map[string]llm.Price{"m": {Input: 1e6, Output: 2e6}}}
	if change != nil {
		change(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m.(llm.SessionModel)
}

// grows is a conversation that only grows.
type grows interface {
	llm.Session
	Fits(req llm.Request) bool
	Again(ctx context.Context, req llm.Request) (llm.Session, error)
}

// connect opens a conversation for a request, that the test's end closes.
func connect(t testing.TB, m llm.SessionModel, r llm.Request) grows {
	t.Helper()
	s, err := m.Connect(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(grows)
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

func lines(items []llmtest.Item) string {
	var all []string
	for _, i := range items {
		all = append(all, i.String())
	}
	return strings.Join(all, "|")
}

// says is a provider whose replies are text.
func says(text ...string) func(*llmtest.Request) llmtest.Response {
	return func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: text} }
}

// A conversation goes on from its last reply, and from nothing else.
func TestLiveGoesOn(t *testing.T) {
	srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
		return llmtest.Response{Text: []string{"re", "ply " + fmt.Sprint(c.N)}, Usage: messages.Usage{Input: 10, CacheRead: 4, Output: 3}}
	})
	s := connect(t, keeps(t, srv, nil), prompted("One", "Two", "Three"))
	o := read(t.Context(), s, prompted("One", "Two", "Three"), 0)
	if o.Err != nil || o.Text != "reply 1" || o.Finish != messages.FinishComplete || o.Usage != (messages.Usage{Input: 10, CacheRead: 4, Output: 3}) || o.Cost == 0 {
		t.Fatalf("%+v", o)
	}
	settled(t, s, true)
	next := prompted("One", "Two", "Three", "reply 1", "Four")
	if o := read(t.Context(), s, next, 5); o.Err != nil || o.Text != "reply 2" {
		t.Fatalf("%+v", o)
	}
	if got := lines(srv.Seen()[1].New); got != "user: Four" {
		t.Errorf("it sends %s", got)
	}
	if got := lines(srv.Seen()[1].All); got != "system: Be brief.|user: One|assistant: Two|user: Three|assistant: reply 1|user: Four" {
		t.Errorf("the provider has %s", got)
	}
	for _, sent := range []int{0, 4, 5} {
		if o := read(t.Context(), s, next, sent); llm.FailureOf(o.Err).Code != llm.CodeLost || len(srv.Seen()) != 2 {
			t.Errorf("from %d, where the conversation is not: %+v", sent, o)
		}
	}
	if other := prompted("One"); !s.Fits(other) {
		t.Error("it fits other messages")
	}
	for name, change := range map[string]func(*llm.Request){
		"system":  func(r *llm.Request) { r.Messages[0].Text = "Be long." },
		"tools":   func(r *llm.Request) { r.Tools = []messages.ToolSpec{{Name: "f", Schema: `{"type":"object"}`}} },
		"options": func(r *llm.Request) { r.Options = `{"temperature":0.5}` },
		"model":   func(r *llm.Request) { r.Model = "other" },
	} {
		other := prompted("One")
		if change(&other); s.Fits(other) {
			t.Errorf("it fits another %s", name)
		}
	}
}

// What the model wrote behind what was taken cannot be deleted: nothing is gone on from.
func TestLiveDrains(t *testing.T) {
	for name, c := range map[string]struct {
		text []string
		kept bool
	}{
		"nothing":     {[]string{"until here"}, true},
		"white space": {[]string{"until here", "\n", " \n"}, true},
		"more":        {[]string{"until here", " \n", "and more", "and more"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			step := make(chan struct{})
			srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: c.text, Step: step, Free: 1}
			})
			s := connect(t, keeps(t, srv, nil), prompted("One"))
			for chunk, err := range s.Continue(t.Context(), prompted("One"), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if string(chunk.Text) == "until here" {
					break
				}
			}
			close(step)
			settled(t, s, c.kept)
			settled(t, s, c.kept)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		step := make(chan struct{})
		defer close(step)
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
			return llmtest.Response{Text: []string{"until here", "more"}, Step: step, Free: 1}
		})
		s := connect(t, keeps(t, srv, nil), prompted("One"))
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
	})
	t.Run("without an end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{"until here"}, Hang: true}
			})
			s := connect(t, keeps(t, srv, nil), prompted("One"))
			for range s.Continue(t.Context(), prompted("One"), 0) {
				break
			}
			began := time.Now()
			if _, err := s.Settle(t.Context()); err == nil || !s.Ended() || time.Since(began) != 2*time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		})
	})
}

// Every way in which a provider of Live can fail ends the request with a failure that says what
// can be done, or is passed over. A failure ends the connection.
func TestLiveFails(t *testing.T) {
	content := `{"serverContent":{"modelTurn":{"parts":[{"text":"STRAY"}]}}}`
	garbage := llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
	for name, c := range map[string]struct {
		say    llmtest.Response
		want   llm.Failure // Kind and Code
		text   string
		unsure bool // the conversation is given up behind the reply
	}{
		"key":                  {say: llmtest.Response{Error: "1007 API key not valid. SECRET"}, want: llm.Failure{Kind: llm.KindAuth, Code: "API_KEY_INVALID"}},
		"key in the middle":    {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "1008 SECRET PERMISSION_DENIED"}, want: llm.Failure{Kind: llm.KindAuth, Code: "PERMISSION_DENIED"}, text: "begun"},
		"quota":                {say: llmtest.Response{Error: "1011 You exceeded your current quota, SECRET"}, want: llm.Failure{Kind: llm.KindRateLimit, Code: "RESOURCE_EXHAUSTED"}},
		"overloaded":           {say: llmtest.Response{Error: "1011 The model is overloaded."}, want: llm.Failure{Kind: llm.KindOverloaded, Code: "UNAVAILABLE"}},
		"server":               {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "1011 Internal error SECRET"}, want: llm.Failure{Kind: llm.KindServer, Code: "INTERNAL"}, text: "begun"},
		"argument":             {say: llmtest.Response{Error: "1007 Request contains an invalid argument. SECRET"}, want: llm.Failure{Kind: llm.KindRequest, Code: "INVALID_ARGUMENT"}},
		"policy":               {say: llmtest.Response{Error: "1008 Operation is not implemented, SECRET"}, want: llm.Failure{Kind: llm.KindRequest, Code: "FAILED_PRECONDITION"}},
		"an error":             {say: llmtest.Response{Error: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"SECRET"}}`}, want: llm.Failure{Kind: llm.KindRateLimit, Code: "RESOURCE_EXHAUSTED"}},
		"closed":               {say: llmtest.Response{Text: []string{"be", "gun"}, Error: "1001 going away"}, want: llm.Failure{Kind: llm.KindTruncated, Code: "truncated"}, text: "begun"},
		"interrupted":          {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{`{"serverContent":{"interrupted":true}}`}}, want: llm.Failure{Code: "interrupted"}, text: "be"},
		"withheld":             {say: llmtest.Response{Text: []string{"begun"}, Finish: "GENERATED_CONTENT_SAFETY"}, want: llm.Failure{Kind: llm.KindFiltered, Code: "GENERATED_CONTENT_SAFETY"}, text: "begun"},
		"malformed":            {say: llmtest.Response{Text: []string{"begun"}, Finish: "MALFORMED_FUNCTION_CALL"}, want: llm.Failure{Code: "MALFORMED_FUNCTION_CALL"}, text: "begun"},
		"broken off":           {say: llmtest.Response{Text: []string{"be", "gun"}, Drop: true}, want: llm.Failure{Kind: llm.KindTruncated, Code: "truncated"}, text: "begun"},
		"gone":                 {say: llmtest.Response{Drop: true}, want: llm.Failure{Kind: llm.KindNetwork, Code: "transport"}},
		"garbage":              {say: llmtest.Response{Before: []string{"{"}}, want: garbage},
		"no object":            {say: llmtest.Response{Before: []string{"7"}}, want: garbage},
		"a list":               {say: llmtest.Response{Before: []string{"[]"}}, want: garbage},
		"nothing":              {say: llmtest.Response{Before: []string{" "}}, want: garbage},
		"a wrong text":         {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{`{"serverContent":{"modelTurn":{"parts":[{"text":7}]}}}`}}, want: garbage, text: "be"},
		"two at once":          {say: llmtest.Response{Text: []string{"be", "gun"}, In: []string{`{"serverContent":{"generationComplete":true}}`}}, want: garbage, text: "be"},
		"huge":                 {say: llmtest.Response{Before: []string{`{"x":"` + strings.Repeat("x", 70<<10) + `"}`}}, want: llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}},
		"late text":            {say: llmtest.Response{Text: []string{"we", "ll"}, Behind: []string{content}}, text: "well", unsure: true},
		"a call behind":        {say: llmtest.Response{Text: []string{"well"}, Behind: []string{`{"toolCall":{"functionCalls":[{"id":"c","name":"f"}]}}`}}, text: "well", unsure: true},
		"a call of no tool":    {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"toolCall":{"functionCalls":[{"id":"c","name":"f"}]}}`}}, text: "we", unsure: true},
		"wrong ids":            {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"toolCallCancellation":{"ids":["none"]}}`}}, text: "well", unsure: true},
		"a second end":         {say: llmtest.Response{Text: []string{"well"}, Behind: []string{`{"serverContent":{"turnComplete":true}}`}}, text: "well"},
		"thoughts":             {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"serverContent":{"modelTurn":{"parts":[{"text":"SECRET","thought":true}]}}}`}}, text: "well"},
		"frames of other kind": {say: llmtest.Response{Text: []string{"we", "ll"}, In: []string{`{"voiceActivity":{}}`, `{}`, `{"usageMetadata":{"promptTokenCount":1}}`, `{"serverContent":{"outputTranscription":{"text":"STRAY"}}}`}}, text: "well"},
		"nothing said":         {say: llmtest.Response{Text: []string{""}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(create *llmtest.Request) llmtest.Response {
					if create.N == 1 {
						return c.say
					}
					return llmtest.Response{Text: []string{"again"}}
				})
				s := connect(t, keeps(t, srv, func(o *Options) { o.MaxEventBytes = 64 << 10 }), prompted("One"))
				o := read(t.Context(), s, prompted("One"), 0)
				good := c.want == (llm.Failure{})
				if good && (o.Err != nil || o.Text != c.text) {
					t.Fatalf("%+v", o)
				}
				if f := llm.FailureOf(o.Err); !good && (messages.CodeOf(o.Err) != messages.ErrModel || c.want.Kind != "" && f.Kind != c.want.Kind || f.Code != c.want.Code || o.Text != c.text || strings.Contains(o.Err.Error(), "SECRET")) {
					t.Fatalf("%+v\n%+v", f, o)
				}
				synctest.Wait() // all that the provider has sent is here
				if !good || c.unsure {
					if _, err := s.Settle(t.Context()); err == nil || !s.Ended() {
						t.Errorf("it settles: %v", err)
					}
					if _, err := s.Again(t.Context(), prompted("One", c.text, "Two")); err == nil {
						t.Error("another connection goes on")
					}
					return
				}
				settled(t, s, true)
				if o := read(t.Context(), s, prompted("One", c.text, "Two"), 3); o.Err != nil || o.Text != "again" {
					t.Errorf("the next request: %+v", o)
				}
			})
		})
	}
}

// A connection that is not set up has the failures of a request, and shows no key.
func TestLiveRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status int    // of the handshake
		setup  string // or how the connection is closed
		want   llm.Failure
	}{
		"handshake":  {403, `{"error":{"status":"PERMISSION_DENIED"}}`, llm.Failure{Kind: llm.KindAuth, Code: "PERMISSION_DENIED"}},
		"key":        {0, "1007 API key not valid. sk-live-secret", llm.Failure{Kind: llm.KindAuth, Code: "API_KEY_INVALID"}},
		"audio only": {0, "1007 Cannot extract voices from a non-audio request. sk-live-secret", llm.Failure{Kind: llm.KindRequest, Code: "INVALID_ARGUMENT"}},
		"model":      {0, "1008 models/m is not found for API version v1beta", llm.Failure{Kind: llm.KindRequest, Code: "FAILED_PRECONDITION"}},
		"quota":      {0, "1011 You exceeded your current quota", llm.Failure{Kind: llm.KindRateLimit, Code: "RESOURCE_EXHAUSTED"}},
		"an error":   {0, `{"error":{"code":503,"status":"UNAVAILABLE"}}`, llm.Failure{Kind: llm.KindOverloaded, Code: "UNAVAILABLE"}},
		"garbage":    {0, `{"serverContent":{}}`, llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}},
		"huge":       {0, `{"x":"` + strings.Repeat("x", 70<<10) + `"}`, llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}},
		"gone":       {0, "1000 bye", llm.Failure{Kind: llm.KindNetwork, Code: "transport"}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := llmtest.NewProvider(t, nil)
			srv.Refuse = func(int) (int, string) { return c.status, c.setup }
			srv.Setup = func(int) string { return c.setup }
			keys, err := llm.FindKeys([]string{"K"}, func(string) (string, bool) { return "sk-live-secret", true })
			if err != nil {
				t.Fatal(err)
			}
			m := keeps(t, srv, func(o *Options) { o.Keys, o.MaxEventBytes = llm.NewKeys(keys...), 64<<10 })
			_, err = m.Connect(t.Context(), prompted("One"))
			if f := llm.FailureOf(err); f.Kind != c.want.Kind || f.Code != c.want.Code || strings.Contains(err.Error(), "secret") {
				t.Errorf("%+v: %v", f, err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			srv := llmtest.NewPipedProvider(t, nil)
			srv.Setup = func(int) string { <-hold; return "1000 bye" }
			began := time.Now()
			_, err := keeps(t, srv, nil).Connect(t.Context(), prompted("One"))
			if f := llm.FailureOf(err); f.Kind != llm.KindNetwork || time.Since(began) != 30*time.Second {
				t.Errorf("%+v after %s: %v", f, time.Since(began), err)
			}
			close(hold)
		})
	})
}

// A provider that says nothing is given up after the time for the first event, or for the next.
func TestLiveSilence(t *testing.T) {
	for name, c := range map[string]struct {
		free int
		wait time.Duration
		kind llm.Kind
	}{"from the start": {0, 30 * time.Second, llm.KindNetwork}, "in the middle": {1, time.Minute, llm.KindTruncated}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
					return llmtest.Response{Text: []string{"x", "y"}, Step: make(chan struct{}), Free: c.free}
				})
				s := connect(t, keeps(t, srv, nil), prompted("One"))
				began := time.Now()
				o := read(t.Context(), s, prompted("One"), 0)
				if f := llm.FailureOf(o.Err); f.Kind != c.kind || time.Since(began) != c.wait || !s.Ended() {
					t.Errorf("%+v after %s: %+v", f, time.Since(began), o)
				}
			})
		})
	}
}

// A connection that breaks after any byte ends with the whole reply, or a failure and what came
// of it.
func TestLiveCutAnywhere(t *testing.T) {
	const whole = "two pieces"
	srv := llmtest.NewProvider(t, says("two", " pieces"))
	m := keeps(t, srv, nil)
	good := 0
	for cut := int64(1); good < 8; cut += 5 {
		if cut > 8<<10 {
			t.Fatal("a reply does not take that many bytes")
		}
		srv.Cut.Store(cut)
		s, err := m.Connect(t.Context(), prompted("One"))
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
}

// A model of Live is a model: without a conversation it has a connection for each request.
func TestLivePort(t *testing.T) {
	llmtest.Port(t, func(t *testing.T, r llmtest.Reply) llm.Model {
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
			return llmtest.Response{Text: r.Pieces, Hang: r.Hang, Usage: messages.Usage{Input: r.Usage.Input, Output: r.Usage.Output}}
		})
		if r.Failure != 0 {
			srv.Refuse = func(int) (int, string) { return r.Failure, "" }
		}
		return keeps(t, srv, func(o *Options) {
			if r.Finish == messages.FinishLength {
				o.MaxTokens = r.Usage.Output
			}
		})
	})
	srv := llmtest.NewProvider(t, says("ok"))
	m := keeps(t, srv, nil)
	for range 2 {
		if o := llmtest.Read(t.Context(), m, prompted("One", "Two", "Three")); o.Err != nil || o.Text != "ok" {
			t.Errorf("%+v", o)
		}
	}
	if srv.Conns() != 2 || len(srv.Seen()[1].All) != 4 {
		t.Errorf("%d connections", srv.Conns())
	}
}

// A handle of the conversation behind the last reply opens another connection to it, once. One
// that the provider does not know any more opens none.
func TestLiveGoesOnOverAnother(t *testing.T) {
	for name, c := range map[string]struct {
		forget, asks, leaves bool
		want                 string
	}{
		"known":            {want: "user: One|assistant: ok|user: Two"},
		"forgotten":        {forget: true},
		"asked since":      {asks: true},
		"left in a middle": {leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(create *llmtest.Request) llmtest.Response {
					if c.asks && create.N == 2 {
						return llmtest.Response{Drop: true}
					}
					return llmtest.Response{Text: []string{"ok"}}
				})
				m := keeps(t, srv, nil)
				s := connect(t, m, prompted("One"))
				for range s.Continue(t.Context(), prompted("One"), 0) {
					if c.leaves {
						break
					}
				}
				synctest.Wait() // the handle is here
				if c.asks {
					if o := read(t.Context(), s, prompted("One", "ok", "Two"), 3); o.Err == nil {
						t.Errorf("%+v", o)
					}
				}
				if c.leaves {
					settled(t, s, true)
					if got := lines(srv.Seen()[0].All); got == "" {
						t.Error("it was not asked")
					}
				}
				_ = s.Close()
				if c.forget {
					srv.Forget()
				}
				next := prompted("One", "ok", "Two")
				n, err := s.Again(t.Context(), next)
				if (err == nil) != (c.want != "" || c.leaves) {
					t.Fatal(err)
				}
				if _, err := s.Again(t.Context(), next); err == nil {
					t.Error("a handle is used twice")
				}
				if err != nil {
					return
				}
				defer n.Close()
				if o := read(t.Context(), n, next, 0); llm.FailureOf(o.Err).Code != llm.CodeLost {
					t.Errorf("everything is sent: %+v", o)
				}
				if o := read(t.Context(), n, next, 3); o.Err != nil || o.Text != "ok" {
					t.Fatalf("%+v", o)
				}
				last := srv.Seen()[len(srv.Seen())-1]
				if got := lines(last.All); got != "system: Be brief.|user: One|assistant: ok|user: Two" || lines(last.New) != "user: Two" {
					t.Errorf("the provider has %s, of which %s is new", got, lines(last.New))
				}
			})
		})
	}
}

// A provider that is about to leave says so between replies or in the middle of one, which ends
// as it would have; then the session has expired.
func TestLiveGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
			r := llmtest.Response{Text: []string{"we", "ll"}}
			if c.N == 2 {
				r.In = []string{llmtest.GoAway(50 * time.Second)}
			}
			return r
		})
		s := connect(t, keeps(t, srv, nil), prompted("One"))
		for i, texts := range [][]string{{"One"}, {"One", "well", "Two"}} {
			if o := read(t.Context(), s, prompted(texts...), len(texts)/2*3); o.Err != nil || o.Text != "well" {
				t.Fatalf("%+v", o)
			}
			if gone := !time.Now().Before(s.Expires()); gone != (i == 1) || s.Ended() {
				t.Errorf("after reply %d: gone %v, ended %v", i+1, gone, s.Ended())
			}
		}
	})
}

// What the API does not have is refused when the model is made. Members of a setup are added.
func TestLiveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"whole":       {Options{API: Live, Whole: true}, "stream"},
		"stop":        {Options{API: Live, Options: `{"stop":["x"]}`}, "options.stop"},
		"own members": {Options{API: Live, Options: `{"extra":{"setup":{"tools":[]}}}`}, "options.extra.setup.tools"},
		"another":     {Options{API: "chat"}, "api"},
	} {
		_, err := New(c.o)
		var bad *messages.Error
		if !errors.As(err, &bad) || bad.Field != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv := llmtest.NewProvider(t, says("ok"))
	m := keeps(t, srv, func(o *Options) {
		o.Options = `{"reasoning_effort":"low","temperature":0.5,"extra":{"setup":{"contextWindowCompression":{"slidingWindow":{}}}}}`
	})
	if o := llmtest.Read(t.Context(), m, prompted("One")); o.Err != nil {
		t.Fatal(o.Err)
	}
	frames := strings.Split(strings.TrimSpace(string(srv.Seen()[0].Body)), "\n")
	for _, want := range []string{`"thinkingLevel":"LOW"`, `"temperature":0.5`, `"contextWindowCompression":{"slidingWindow":{}}`} {
		if !strings.Contains(frames[0], want) || strings.Contains(frames[1], want) {
			t.Errorf("%s is not in the setup alone: %s", want, frames)
		}
	}
}

// A handle counts if it came while nothing was asked, is resumable and not too long, and a request
// uses it up: one that came in the middle of a reply would lose a part of it.
func TestLiveHandles(t *testing.T) {
	update := func(handle string, resumable bool) []byte {
		return fmt.Appendf(nil, `{"sessionResumptionUpdate":{"newHandle":%q,"resumable":%t}}`, handle, resumable)
	}
	talk := &liveTalk{v: &live{}}
	for _, c := range []struct {
		name  string
		frame []byte
		asked bool
		want  string
	}{
		{"between replies", update("h1", true), false, "h1"},
		{"in the middle of a reply", update("h2", true), true, "h1"},
		{"not resumable", update("h3", false), false, ""},
		{"again", update("h4", true), false, "h4"},
		{"too long", update(strings.Repeat("h", maxHandle+1), true), false, ""},
		{"after all", update("h5", true), false, "h5"},
		{"text that was not asked for", []byte(`{"serverContent":{"modelTurn":{"parts":[{"text":"x"}]}}}`), false, ""},
	} {
		if talk.Read(c.frame, c.asked); talk.Handle() != c.want {
			t.Errorf("%s: handle %q, want %q", c.name, talk.Handle(), c.want)
		}
	}
}

// What no provider should send is refused, in bounds, and a network may be gone.
func TestLiveBadInput(t *testing.T) {
	wiretest.Bad(t, func(t testing.TB, url string, base http.RoundTripper) llm.SessionModel {
		m, err := New(Options{BaseURL: url, API: Live, Base: base})
		if err != nil {
			t.Fatal(err)
		}
		return m.(llm.SessionModel)
	})
}
