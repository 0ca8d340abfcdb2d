package tests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/gemini"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// keepers are the providers of a host that keep conversations.
func keepers() map[string]llm.Provider {
	env := map[string]string{"THE_KEY": "sk-live-1"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return map[string]llm.Provider{"openai": openai.Provider(lookup), "gemini": gemini.Provider(lookup)}
}

// over runs a test over each transport of conversations.
func over(t *testing.T, test func(t *testing.T, transport string)) {
	for _, transport := range []string{"responses_ws", "realtime", "live"} {
		t.Run(transport, func(t *testing.T) { test(t, transport) })
	}
}

// resuming is an agent whose model is asked over conversations, with the tool own.double.
func resuming(t testing.TB, dialect, mode, url, more string) *stile.Agent {
	t.Helper()
	return resumingOver(t, "responses_ws", dialect, mode, url, more)
}

func resumingOver(t testing.TB, transport, dialect, mode, url, more string) *stile.Agent {
	t.Helper()
	of := fmt.Sprintf("provider: openai, base_url: %q, session: {transport: %s}", url+"/v1", transport)
	switch transport {
	case "responses_ws":
		of = fmt.Sprintf("provider: openai, base_url: %q, api: responses", url+"/v1")
	case "live":
		of = fmt.Sprintf("provider: gemini, base_url: %q, session: {transport: live}", url)
	}
	m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, "dialect: %s\nmodel: {%s, model: m-1, secret: THE_KEY, mode: %s%s}\n", dialect, of, mode, more))
	if err != nil {
		t.Fatal(err)
	}
	a := &stile.Agent{Manifest: m}
	if dialect == "plain" {
		return a
	}
	double, err := tools.Define("own.double", "Doubles a text.", messages.ReadOnly, func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return in.Text + in.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Tools, m.Import.Tools = []stile.Tool{double}, []string{"own.double"}
	return a
}

// talked is what the records say of conversations.
func talked(recs []*stile.Record) []string {
	var all []string
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ModelRequest:
			if b.Mode == messages.ModelReplay {
				all = append(all, "replay")
				continue
			}
			all = append(all, fmt.Sprintf("%s %d: %d of %d", b.Mode, b.Session, b.Sent, b.Messages))
		case *messages.ModelSession:
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d %s", b.What, b.Session, b.Reason)))
		}
	}
	return all
}

func wantTalked(t testing.TB, recs []*stile.Record, want ...string) {
	t.Helper()
	if got := talked(recs); !slices.Equal(got, want) {
		t.Errorf("conversations:\n got %q\nwant %q", got, want)
	}
}

// itemized is items as lines.
func itemized(items []llmtest.Item) string {
	var all []string
	for _, i := range items {
		if i.Role == "system" {
			all = append(all, "system")
			continue
		}
		all = append(all, i.String())
	}
	return strings.Join(all, "|")
}

const doubles = `<execute>[{"name":"own.double","args":{"text":"ab"}}]</execute>`

// A generation over an open conversation sends what is new alone, within a run and from run to
// run, in every dialect whose prompts grow at their end.
func TestResumeSendsWhatIsNew(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		const result = `user: <results>[{"tool":"own.double","status":"success","outcome":"ok","content":"abab"}]</results>`
		t.Run("cogency", func(t *testing.T) {
			replies := []string{"Let me see. " + doubles, "It is abab.", "You are welcome."}
			srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{replies[c.N-1]}}
			})
			rt := start(t, stile.Config{Providers: keepers()})
			s := open(t, rt, "s", resumingOver(t, transport, "cogency", "resume", srv.URL, ""))
			wantDone(t, ask(t, s, "double ab"))
			wantDone(t, ask(t, s, "thanks"))
			wantTalked(t, records(t, s), "opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "resume 1: 1 of 6")
			seen := srv.Seen()
			for i, want := range []string{"system|user: double ab", result, "user: thanks"} {
				if got := itemized(seen[i].New); got != want {
					t.Errorf("request %d sent %q, want %q", i+1, got, want)
				}
			}
			if got, want := itemized(seen[2].All), "system|user: double ab|assistant: "+replies[0]+"|"+result+"|assistant: It is abab.|user: thanks"; got != want {
				t.Errorf("the provider has\n%s\nwant\n%s", got, want)
			}
			if srv.Conns() != 1 || seen[0].Key != "sk-live-1" {
				t.Errorf("%d connections, key %q", srv.Conns(), seen[0].Key)
			}
		})
		t.Run("cogency native", func(t *testing.T) {
			srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
				if c.N == 1 {
					return llmtest.Response{Text: []string{"Let me see."}, Calls: []messages.Call{{ID: "id-1", Name: "own_double", Args: `{"text": "ab"}`}, {ID: "id-2", Name: "own_double", Args: `{"text":"cd"}`}}}
				}
				return llmtest.Response{Text: []string{"Both are done."}}
			})
			rt := start(t, stile.Config{Providers: keepers()})
			s := open(t, rt, "s", resumingOver(t, transport, "cogency", "resume", srv.URL, ", tool_calls: native"))
			wantDone(t, ask(t, s, "go"))
			wantDone(t, ask(t, s, "thanks"))
			wantTalked(t, records(t, s), "opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "resume 1: 1 of 6")
			if got := itemized(srv.Seen()[1].New); !strings.HasPrefix(got, "function_call_output id-1: ") || !strings.Contains(got, "|function_call_output id-2: ") || strings.Contains(got, "user") {
				t.Errorf("results went as %q", got)
			}
		})
		t.Run("kitsu", func(t *testing.T) {
			// The model does not see again what it wrote before a token: the question goes once
			// more, with the result, from the point before it.
			replies := []string{"Hello.", "I look.\n<action:get_time>", "It is late.", "You are welcome."}
			srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{replies[min(c.N, len(replies))-1]}}
			})
			srv.Keep = 3
			rt := start(t, stile.Config{Providers: keepers()})
			s := open(t, rt, "s", resumingOver(t, transport, "kitsu", "resume", srv.URL, ""))
			for _, text := range []string{"hello", "what time is it?", "thanks"} {
				wantDone(t, ask(t, s, text))
			}
			want := []string{"opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "diverged 1 HISTORY", "resume 1: 1 of 4", "diverged 1 HISTORY", "resume 1: 3 of 6"}
			if transport == "live" { // from nothing but the last reply
				want = []string{"opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "closed 1 HISTORY", "opened 2", "resume 2: 4 of 4", "closed 2 HISTORY", "opened 3", "resume 3: 6 of 6"}
			}
			wantTalked(t, records(t, s), want...)
			if got := itemized(srv.Seen()[3].All); strings.Contains(got, "I look") || strings.Contains(got, "Tool result") || !strings.HasSuffix(got, "user: what time is it?|assistant: It is late.|user: thanks") {
				t.Errorf("the provider has %s", got)
			}
		})
		t.Run("plain", func(t *testing.T) {
			srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{"Hel", "lo ", fmt.Sprint(c.N), "\n"}}
			})
			rt := start(t, stile.Config{Providers: keepers()})
			s := open(t, rt, "s", resumingOver(t, transport, "plain", "resume", srv.URL, ""))
			for range 3 {
				wantDone(t, ask(t, s, "hello"))
			}
			wantTalked(t, records(t, s), "opened 1", "resume 1: 1 of 1", "resume 1: 1 of 3", "resume 1: 1 of 5")
		})
	})
}

// What a model writes behind the end of its calls never becomes its history: the conversation
// goes on from the point before that reply.
func TestResumeForgetsWhatCameBehind(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		for name, keep := range map[string]int{"the provider keeps the point": 2, "it does not": 1} {
			t.Run(name, func(t *testing.T) {
				replies := [][]string{{"Hello."}, {"Let me see. ", doubles, " I know already: zz"}, {"It is abab."}}
				srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
					return llmtest.Response{Text: replies[min(len(c.All)/2-1, 2)]}
				})
				srv.Keep = keep
				rt := start(t, stile.Config{Providers: keepers()})
				s := open(t, rt, "s", resumingOver(t, transport, "cogency", "resume", srv.URL, ""))
				wantDone(t, ask(t, s, "hello"))
				wantDone(t, ask(t, s, "double ab"))
				want := []string{"opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "diverged 1 REPLY", "resume 1: 3 of 6"}
				switch {
				case transport == "live": // nothing is taken back
					want = append(want[:3], "closed 1 REPLY", "opened 2", "resume 2: 6 of 6")
				case keep == 1 && transport == "responses_ws": // Realtime has one conversation
					want = append(want, "seeded 1 LOST", "resume 1: 6 of 6")
				}
				wantTalked(t, records(t, s), want...)
				seen := srv.Seen()
				if got := itemized(seen[len(seen)-1].All); strings.Contains(got, "zz") || !strings.Contains(got, "|assistant: Let me see.\n\n"+doubles+"|user: <results>") {
					t.Errorf("the provider has %s", got)
				}
			})
		}
	})
}

// A run goes on without a conversation that cannot be had, the next one tries again; resume
// does not.
func TestAutoFallsBack(t *testing.T) {
	replies := map[string]string{"double ab": doubles, "thanks": "You are welcome."}
	srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
		if said, ok := replies[c.All[len(c.All)-1].Text]; ok {
			return llmtest.Response{Text: []string{said}}
		}
		return llmtest.Response{Text: []string{"It is abab."}}
	})
	srv.Refuse = func(conn int) (int, string) {
		if conn < 2 || conn > 2 {
			return 404, `{"error":{"message":"no sockets here"}}`
		}
		return 0, ""
	}
	rt := start(t, stile.Config{Providers: keepers()})
	a := resuming(t, "cogency", "auto", srv.URL, ", session: {transport: responses_ws}")
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "double ab"))
	wantDone(t, ask(t, s, "thanks"))
	wantTalked(t, records(t, s), "fallback 0 STATUS_404", "replay", "replay", "opened 1", "resume 1: 6 of 6")
	if _, err := rt.Replay(t.Context(), "s", a); err != nil {
		t.Error(err)
	}
	strict := open(t, rt, "strict", resuming(t, "cogency", "resume", srv.URL, ""))
	wantHalt(t, ask(t, strict, "double ab"), messages.ErrModel, "STATUS_404")
	wantTalked(t, records(t, strict))
	// Without its transport, auto at another address is replay.
	other := open(t, rt, "other", resuming(t, "cogency", "auto", srv.URL, ""))
	wantDone(t, ask(t, other, "thanks"))
	wantTalked(t, records(t, other), "replay")
}

// Realtime has no requests without a connection: what goes on without a conversation has a
// connection for each request. A provider's limit is another connection, and no fallback.
func TestRealtimeFallsBack(t *testing.T) {
	srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
		switch {
		case c.N == 4:
			return llmtest.Response{Error: "session_expired"}
		case c.All[len(c.All)-1].Text == "double ab":
			return llmtest.Response{Text: []string{doubles}}
		}
		return llmtest.Response{Text: []string{"Well."}}
	})
	srv.Refuse = func(conn int) (int, string) {
		if conn == 1 {
			return 404, `{"error":{"message":"no sockets here"}}`
		}
		return 0, ""
	}
	rt := start(t, stile.Config{Providers: keepers()})
	a := resumingOver(t, "realtime", "cogency", "auto", srv.URL, "")
	s := open(t, rt, "s", a)
	for _, text := range []string{"double ab", "thanks", "thanks"} {
		wantDone(t, ask(t, s, text))
	}
	wantTalked(t, records(t, s), "fallback 0 STATUS_404", "replay", "replay", "opened 1", "resume 1: 6 of 6", "resume 1: 1 of 8", "expired 1 LIMIT", "opened 2", "resume 2: 8 of 8")
	if srv.Conns() != 5 {
		t.Errorf("%d connections", srv.Conns())
	}
	if _, err := rt.Replay(t.Context(), "s", a); err != nil {
		t.Error(err)
	}
}

// Live, as Realtime, has no requests without a connection. A setup that is refused falls back; a
// provider that leaves, or forgets a handle, does not. A handle is its session's alone.
func TestLiveFallsBack(t *testing.T) { synctest.Test(t, liveFallsBack) }

func liveFallsBack(t *testing.T) {
	srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
		switch c.All[len(c.All)-1].Text {
		case "double ab":
			return llmtest.Response{Text: []string{doubles}}
		case "leave":
			return llmtest.Response{Text: []string{"We", "ll."}, In: []string{llmtest.GoAway(50 * time.Second)}}
		case "close":
			return llmtest.Response{Text: []string{"We", "ll."}, Error: "1011 SECRET"}
		}
		return llmtest.Response{Text: []string{"Well."}}
	})
	srv.Setup = func(conn int) string {
		if conn == 1 {
			return "1007 SECRET: this model has no text"
		}
		return ""
	}
	m, err := gemini.New(gemini.Options{BaseURL: srv.URL, API: gemini.Live, Base: srv.Base})
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{})
	a := resumingOver(t, "live", "cogency", "auto", srv.URL, "")
	a.Model, a.Manifest.Model = m, manifest.Model{Provider: "mine", Model: "m-1", Mode: manifest.ModeAuto, Session: manifest.ModelSession{Transport: manifest.TransportLive}}
	s := open(t, rt, "s", a)
	for _, text := range []string{"double ab", "leave", "thanks"} {
		wantDone(t, ask(t, s, text))
		synctest.Wait() // the handle is here
	}
	other := open(t, rt, "other", a)
	wantDone(t, ask(t, other, "leave"))
	synctest.Wait()
	srv.Forget()
	wantDone(t, ask(t, other, "thanks"))
	wantDone(t, ask(t, other, "close"))
	want := []string{"fallback 0 INVALID_ARGUMENT", "replay", "replay", "opened 1", "resume 1: 6 of 6", "expired 1 LIMIT"}
	wantTalked(t, records(t, s), append(want, "opened 2 HANDLE", "resume 2: 1 of 8")...)
	wantTalked(t, records(t, other), "opened 1", "resume 1: 2 of 2", "expired 1 LIMIT", "opened 2", "resume 2: 4 of 4", "resume 2: 1 of 6", "fallback 2 INTERNAL", "replay")
	for _, r := range append(records(t, s), records(t, other)...) {
		if text, err := json.Marshal(r.Body); err != nil || strings.Contains(string(text), "SECRET") || strings.Contains(string(text), "handle_") {
			t.Errorf("%v: %s", err, text)
		}
	}
	for _, sid := range []string{"s", "other"} {
		if _, err := rt.Replay(t.Context(), sid, a); err != nil {
			t.Error(err)
		}
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if synctest.Wait(); srv.Open() != 0 {
		t.Errorf("%d connections stay", srv.Open())
	}
}

// What cannot be had is refused when the agent is opened, at the setting that asks for it.
func TestRealtimeIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ dialect, model, field, says string }{
		"another interface":      {"plain", "provider: openai, model: m, base_url: 'http://localhost:1/v1', api: chat, session: {transport: realtime}", "model.session.transport", "leave model.api out"},
		"another provider":       {"plain", "provider: gemini, model: m, base_url: 'http://localhost:1/v1', session: {transport: realtime}", "model.session.transport", "provider gemini"},
		"a dialect":              {"cortex", "provider: openai, model: m, base_url: 'http://localhost:1/v1', mode: resume, session: {transport: realtime}", "model.mode", "context_feeds_at: end"},
		"feeds over Live":        {"cortex\ncontext_feeds_at: end", "provider: gemini, model: m, base_url: 'http://localhost:1', mode: resume, session: {transport: live}", "model.mode", "over live cannot take back the feeds"},
		"of gemini":              {"plain", "provider: openai, model: m, base_url: 'http://localhost:1/v1', session: {transport: live}", "model.session.transport", "provider openai"},
		"whole replies, by Live": {"plain", "provider: gemini, model: m, base_url: 'http://localhost:1', stream: false, session: {transport: live}", "model.stream", "in one piece"},
		"whole replies":          {"plain", "provider: openai, model: m, base_url: 'http://localhost:1/v1', stream: false, session: {transport: realtime}", "model.stream", "in one piece"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, "dialect: %s\nmodel: {%s}\n", c.dialect, c.model))
			if err != nil {
				t.Fatal(err)
			}
			none := func(string) (string, bool) { return "", false }
			rt := start(t, stile.Config{Providers: map[string]llm.Provider{"openai": openai.Provider(none), "gemini": gemini.Provider(none)}})
			_, err = rt.Open(t.Context(), "s", &stile.Agent{Manifest: m})
			var bad *messages.Error
			if !errors.As(err, &bad) || bad.Code != messages.ErrConfig || bad.Field != c.field || !strings.Contains(bad.Detail, c.says) {
				t.Errorf("%+v: %v", bad, err)
			}
		})
	}
}

// lookups is what a model says in cortex to have a text doubled.
const lookups = `<action id="d">{"name":"own.double","parameters":{"text":"ab"}}</action>`

// resumingFed is an agent in cortex with a feed at the end of its prompts, whose value is n1, n2 …
func resumingFed(t testing.TB, transport, mode, url, more string) *stile.Agent {
	t.Helper()
	a := resumingOver(t, transport, "cortex\ncontext_feeds_at: end\ncontext_feeds: [{id: tick, source: {type: tool, name: own.count}}]", mode, url, more)
	a.Tools = append(a.Tools, counted("own.count", &atomic.Int64{}))
	a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "own.count")
	return a
}

// tick is what the feed of resumingFed is in a prompt.
func tick(n int) string { return fmt.Sprintf("<context_feed id=\"tick\">\nn%d\n</context_feed>\n", n) }

// Feeds at the end of a prompt pass with their request: the conversation goes on without them. A
// generation sends what is new and the feeds as they are then.
func TestResumeTakesFeedsBack(t *testing.T) {
	const result = `user: <action_result id="d" status="ok" ms="0">"abab"</action_result>`
	for _, transport := range []string{"responses_ws", "realtime"} {
		t.Run(transport, func(t *testing.T) {
			for _, native := range []bool{false, true} {
				t.Run(fmt.Sprintf("native %v", native), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { takesFeedsBack(t, transport, native, result) })
				})
			}
		})
	}
}

func takesFeedsBack(t *testing.T, transport string, native bool, result string) {
	said := []string{"Let me see. " + lookups, lookups, "<response>It is abab.</response>", "<response>You are welcome.</response>"}
	srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
		if native && c.N < 3 {
			return llmtest.Response{Calls: []messages.Call{{ID: fmt.Sprint("id-", c.N), Name: "own_double", Args: `{"text":"ab"}`}}}
		}
		return llmtest.Response{Text: []string{said[c.N-1]}}
	})
	m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: map[string]string{"responses_ws": openai.Responses, "realtime": openai.Realtime}[transport], Base: srv.Base})
	if err != nil {
		t.Fatal(err)
	}
	calls := ", tool_calls: text"
	if native {
		calls = ", tool_calls: native"
	}
	a := resumingFed(t, transport, "resume", srv.URL, calls)
	a.Model, a.Manifest.Model.Provider, a.Manifest.Model.BaseURL, a.Manifest.Model.API, a.Manifest.Model.Secret = m, "mine", "", "", ""
	rt := start(t, stile.Config{})
	s := open(t, rt, "s", a)
	wantDone(t, ask(t, s, "double ab"))
	wantDone(t, ask(t, s, "thanks"))
	recs := records(t, s)
	first, second := result, result
	reply := func(n int) string { return "assistant: " + said[n] + "|" }
	if native {
		first, second = `function_call_output id-1: `, `function_call_output id-2: `
		reply = func(n int) string { return fmt.Sprintf(`function_call id-%d: own_double{"text":"ab"}|`, n+1) }
	}
	seen := srv.Seen()
	for i, want := range []struct{ before, sent string }{
		{"", "system|user: double ab"}, {reply(0), first}, {reply(1), second},
	} {
		sent := itemized(seen[i].New)
		if seen[i].Led != nil {
			sent = itemized(seen[i].Led.New) + "|" + sent
		}
		if transport == "responses_ws" { // the reply stands behind the feeds
			want.sent = want.before + want.sent
		}
		if !strings.HasPrefix(sent, want.sent) || !strings.HasSuffix(sent, "|user: "+tick(i+1)) || strings.Count(sent, "context_feed id") != 1 {
			t.Errorf("request %d sent %q, want %q and the feed", i+1, sent, want.sent)
		}
		has := itemized(seen[i].All)
		if strings.Count(has, "<context_feed id") != 1 || !strings.HasSuffix(has, "|user: "+tick(i+1)) {
			t.Errorf("for request %d the provider has %s", i+1, has)
		}
	}
	n := map[string]string{"responses_ws": "3", "realtime": "2"}[transport]
	// A finished run is told in other words: the question with its actions, and what was answered.
	wantTalked(t, recs, "opened 1", "resume 1: 3 of 3", "resume 1: "+n+" of 5", "resume 1: "+n+" of 7", "seeded 1 HISTORY", "resume 1: 5 of 5")
	if got := itemized(seen[3].All); strings.Contains(got, "\nn1\n") || strings.Contains(got, "\nn3\n") || !strings.HasSuffix(got, "assistant: It is abab.|user: thanks|user: "+tick(4)) {
		t.Errorf("in the second run the provider has %s", got)
	}
	if leads := map[string]int{"responses_ws": 4}[transport]; srv.Leads() != leads {
		t.Errorf("%d requests led to another, want %d", srv.Leads(), leads)
	}
	if _, err := rt.Replay(t.Context(), "s", a); err != nil {
		t.Error(err)
	}
}

// Of runs without actions the prompts grow at their end from run to run. A provider that keeps its
// last response alone, or that knows no request without a reply, is sent everything each time, and
// the records say why.
func TestResumeWhereFeedsStay(t *testing.T) {
	whole := []string{"seeded 1 FEEDS", "resume 1: 3 of 3", "seeded 1 FEEDS", "resume 1: 5 of 5", "seeded 1 FEEDS", "resume 1: 7 of 7"}
	for name, c := range map[string]struct {
		lead string
		want []string
	}{
		"they are taken back": {"", []string{"opened 1", "resume 1: 3 of 3", "resume 1: 3 of 5", "resume 1: 3 of 7"}},
		"nothing is kept":     {"forget", append([]string{"opened 1", "resume 1: 3 of 3"}, whole...)},
		"it is refused":       {"refuse", append([]string{"opened 1", "resume 1: 3 of 3"}, whole...)},
		"it is answered": {"answer", []string{
			"opened 1", "resume 1: 3 of 3", "closed 1 FEEDS", "opened 2", "resume 2: 3 of 3", "seeded 2 FEEDS", "resume 2: 5 of 5", "seeded 2 FEEDS", "resume 2: 7 of 7",
		}},
		"it is lost": {"lose", []string{
			"opened 1", "resume 1: 3 of 3", "resume 1: 3 of 5", "seeded 1 LOST", "resume 1: 5 of 5", "seeded 1 FEEDS", "resume 1: 7 of 7",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response {
				return llmtest.Response{Text: []string{"<response>We", "ll</response>"}, Usage: messages.Usage{Input: 10, Output: 5}}
			})
			srv.Keep, srv.Lead = 1, c.lead
			rt := start(t, stile.Config{Providers: keepers()})
			a := resumingFed(t, "responses_ws", "resume", srv.URL, "")
			s := open(t, rt, "s", a)
			for range 3 {
				wantDone(t, ask(t, s, "hello"))
			}
			wantTalked(t, records(t, s), c.want...)
			last := srv.Seen()[len(srv.Seen())-1]
			if got := itemized(last.All); strings.Count(got, "<context_feed id") != 1 || strings.Count(got, "user: hello") != 3 || !strings.HasSuffix(got, tick(3)) {
				t.Errorf("the provider has %s", got)
			}
			if _, err := rt.Replay(t.Context(), "s", a); err != nil {
				t.Error(err)
			}
			if c.lead == "" { // what leads is read by the provider, and counted
				usage := bodies[*messages.ModelReply](records(t, s))[0].Usage
				if usage.Input <= 10 || usage.Output != 5 {
					t.Errorf("usage %+v", usage)
				}
			}
		})
	}
}

// A new conversation is sent the latest messages of a prompt alone: it goes on from there as if it
// had the others, and the records say what was sent.
func TestResumeSeedWindow(t *testing.T) {
	for transport, api := range map[string]string{"responses_ws": openai.Responses, "realtime": openai.Realtime} {
		t.Run(transport, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
					if c.N == 4 {
						return llmtest.Response{Text: []string{doubles}}
					}
					return llmtest.Response{Text: []string{fmt.Sprint("Well ", c.N)}}
				})
				m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: api, Base: srv.Base})
				if err != nil {
					t.Fatal(err)
				}
				rt := start(t, stile.Config{IdleTimeout: time.Hour})
				a := resumingOver(t, transport, "cogency", "resume", srv.URL, "")
				a.Model, a.Manifest.Model = m, manifest.Model{Provider: "mine", Model: "m-1", Mode: manifest.ModeResume, Session: manifest.ModelSession{Idle: 30 * time.Second, Seed: 3}}
				s := open(t, rt, "s", a)
				for _, text := range []string{"one", "two"} {
					wantDone(t, ask(t, s, text))
				}
				time.Sleep(time.Minute)
				for _, text := range []string{"three", "four", "five"} {
					wantDone(t, ask(t, s, text))
				}
				wantTalked(t, records(t, s), "opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "closed 1 IDLE", "opened 2",
					"resume 2: 4 of 6", "resume 2: 1 of 8", "resume 2: 1 of 10", "resume 2: 1 of 12")
				const has = "system|user: two|assistant: Well 2|user: three|assistant: Well 3|user: four|assistant: " + doubles + "|user: <results>"
				if got := itemized(srv.Seen()[5].All); !strings.HasPrefix(got, has) || !strings.HasSuffix(got, "|assistant: Well 5|user: five") {
					t.Errorf("the provider has %s", got)
				}
				for _, r := range bodies[*messages.ModelRequest](records(t, s))[2:3] {
					if r.SentBytes < 20 || r.Sent != 4 {
						t.Errorf("%+v", r)
					}
				}
				if _, err := rt.Replay(t.Context(), "s", a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What compresses a conversation of Live is a part of its setup.
func TestLiveCompresses(t *testing.T) {
	for setting, want := range map[string]string{
		"":                       "",
		"{trigger_tokens: 9000}": `"contextWindowCompression":{"slidingWindow":{},"triggerTokens":"9000"}`,
		"{target_tokens: 500}":   `"contextWindowCompression":{"slidingWindow":{"targetTokens":"500"}}`,
		"{trigger_tokens: 9000, target_tokens: 500}": `"contextWindowCompression":{"slidingWindow":{"targetTokens":"500"},"triggerTokens":"9000"}`,
	} {
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"Well."}} })
		rt := start(t, stile.Config{Providers: keepers()})
		compress := ""
		if setting != "" {
			compress = ", compress: " + setting
		}
		m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, "dialect: plain\nmodel: {provider: gemini, model: m, secret: THE_KEY, base_url: %q, mode: resume, session: {transport: live%s}, options: {extra: {setup: {more: 1}}}}\n", srv.URL, compress))
		if err != nil {
			t.Fatal(err)
		}
		a := &stile.Agent{Manifest: m}
		wantDone(t, ask(t, open(t, rt, "s", a), "hello"))
		frame, _, _ := strings.Cut(string(srv.Seen()[0].Body), "\n")
		if !strings.Contains(frame, want) || strings.Contains(frame, "contextWindowCompression") != (want != "") || !strings.Contains(frame, `"more":1`) {
			t.Errorf("%s: set up with %s", setting, frame)
		}
		if _, err := rt.Replay(t.Context(), "s", a); err != nil {
			t.Error(err)
		}
	}
}

// The records of a session are the same with conversations as without, but for what they say of
// these; a replay gives them again, and asks no provider.
func TestResumeHasTheSameRecords(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		for dialect, replies := range map[string][]string{
			"plain":   {"Hello.", "Hello again.", "Bye."},
			"kitsu":   {"I look.\n<action:continue reason=\"more\">", "Hello.", "Hello again.", "Bye."},
			"cogency": {"Let me see. " + doubles + " behind it", "Well: " + doubles, "Hello.", doubles + " more", "Hello again.", "Bye. <end> or not"},
			"cortex": {
				"Let me see. " + lookups + "<response final=\"false\">I look.</response>", "<thought>Well</thought>" + lookups, "<response>It is abab.</response> behind it",
				"<response>Hello again.</response>", "<response>Bye.</response>",
			},
		} {
			if dialect == "cortex" && transport == "live" {
				continue // it is refused: TestRealtimeIsRefused
			}
			same := func(t *testing.T) {
				journals := map[string][]string{}
				sizes := map[string]int64{}
				for _, mode := range []string{"resume", "replay"} {
					provider := llmtest.NewProvider
					if dialect == "cortex" {
						provider = llmtest.NewPipedProvider
					}
					srv := provider(t, func(c *llmtest.Request) llmtest.Response {
						return llmtest.Response{Text: strings.SplitAfter(replies[c.N-1], " "), Usage: messages.Usage{Input: 10, Output: 5}}
					})
					rt := start(t, stile.Config{Providers: keepers()})
					a := resumingOver(t, transport, dialect, mode, srv.URL, "")
					if dialect == "cortex" {
						a = piped(t, resumingFed(t, transport, mode, srv.URL, ""), transport, mode, srv)
					}
					s := open(t, rt, "s", a)
					for _, text := range []string{"one", "two", "three"} {
						wantDone(t, ask(t, s, text))
					}
					recs := records(t, s)
					conns := srv.Conns()
					if _, err := rt.Replay(t.Context(), "s", a); err != nil || srv.Conns() != conns || len(srv.Seen()) != len(replies) {
						t.Errorf("%s: replay: %v; %d requests", mode, err, len(srv.Seen()))
					}
					sizes[mode] = srv.Sent()
					journals[mode] = alike(t, recs)
				}
				if diff := gocmp.Diff(journals["replay"], journals["resume"]); diff != "" {
					t.Errorf("(-replay +resume)\n%s", diff)
				}
				if sizes["resume"] >= sizes["replay"] {
					t.Errorf("%d bytes with conversations, %d without", sizes["resume"], sizes["replay"])
				}
			}
			t.Run(dialect, func(t *testing.T) {
				if dialect == "cortex" { // its prompts say how long actions took
					synctest.Test(t, same)
				} else {
					same(t)
				}
			})
		}
	})
}

// piped has an agent ask a provider over pipes, which a synctest bubble can wait for.
func piped(t *testing.T, a *stile.Agent, transport, mode string, srv *llmtest.Provider) *stile.Agent {
	t.Helper()
	m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: map[string]string{"responses_ws": openai.Responses, "realtime": openai.Realtime}[transport], Base: srv.Base})
	if err != nil {
		t.Fatal(err)
	}
	a.Model, a.Manifest.Model = m, manifest.Model{Provider: "mine", Model: "m-1", Mode: mode, ToolCalls: manifest.ToolCallsText}
	return a
}

// alike are the records that sessions have alike, whether the provider keeps the conversation or
// not, without what is random and what is a matter of time.
func alike(t *testing.T, recs []*stile.Record) (lines []string) {
	t.Helper()
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ModelSession, *messages.SessionOpened, *messages.ModelChunk, *messages.ModelReply:
			continue // of replies the next prompt tells: their cuts are a matter of time
		case *messages.TurnDecided:
			b.LatencyMS = 0
		case *messages.ModelRequest:
			b.Mode, b.Session, b.Sent, b.SentBytes = "", 0, 0, 0
		case *messages.TurnBegin:
			b.Nonce, b.Manifest = "", messages.Digest{}
		case *messages.RunBegin:
			b.Input = 0 // a position
		case *messages.ActionStarted:
			b.Key = ""
		case *messages.ActionEnded:
			b.MS = 0
		}
		text, err := json.Marshal(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		line := string(r.Body.Kind()) + " " + string(text)
		if n := len(lines); n > 0 && lines[n-1] == line && r.Body.Kind() == messages.KindModelRequest {
			continue // the provider had lost the point that was asked from, and is sent everything
		}
		lines = append(lines, line)
	}
	return lines
}

// A conversation ends with what it belongs to: a suspended turn, a session that sleeps, and the
// time that it may rest. The next request has another one, and the records say why.
func TestResumeLetsGo(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		synctest.Test(t, func(t *testing.T) {
			srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
				if strings.HasSuffix(c.All[len(c.All)-1].Text, "double ab") {
					return llmtest.Response{Text: []string{doubles}}
				}
				return llmtest.Response{Text: []string{"Well."}}
			})
			rt := start(t, stile.Config{IdleTimeout: 10 * time.Minute})
			a := resumingOver(t, transport, "cogency", "resume", srv.URL, "")
			a.Manifest.Model = manifest.Model{Provider: "mine", Model: "m-1", Mode: manifest.ModeResume, Session: manifest.ModelSession{Idle: 30 * time.Second, MaxAge: 2 * time.Minute}}
			a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"own.double": messages.GateConfirm}
			a.Model, a.MayApprove = keptBy(t, transport, srv.URL, srv.Base), nil
			s := open(t, rt, "s", a)
			closed := func(want int) {
				t.Helper()
				if synctest.Wait(); srv.Open() != want {
					t.Errorf("%d connections, want %d", srv.Open(), want)
				}
			}
			wantDone(t, ask(t, s, "hello"))
			closed(1)
			time.Sleep(29 * time.Second)
			wantDone(t, ask(t, s, "hello"))
			time.Sleep(31 * time.Second)
			closed(0)
			run := submit(t, s, "double ab")
			q := asked(t, s)
			closed(0)
			if err := s.Approve(t.Context(), q, "grace"); err != nil {
				t.Fatal(err)
			}
			wantDone(t, decision(t, run))
			for range 5 {
				time.Sleep(25 * time.Second)
				wantDone(t, ask(t, s, "hello"))
			}
			closed(1)
			want := []string{
				"opened 1", "resume 1: 2 of 2", "resume 1: 1 of 4", "closed 1 IDLE", "opened 2", "resume 2: 6 of 6",
				"closed 2 SUSPENDED", "opened 3", "resume 3: 8 of 8", "resume 3: 1 of 10", "resume 3: 1 of 12", "resume 3: 1 of 14", "resume 3: 1 of 16",
				"expired 3 AGE", "opened 4", "resume 4: 18 of 18",
			}
			if transport == "live" { // the provider knows the conversation by a handle
				// The turn may wait before the provider has told it.
				late := slices.Contains(talked(records(t, s)), "opened 3")
				for i, line := range want {
					if strings.HasPrefix(line, "opened ") && i > 0 && !(late && line == "opened 3") {
						want[i] += " HANDLE"
						n := strings.TrimPrefix(line, "opened ")
						of := want[i+1][strings.LastIndex(want[i+1], " ")+1:]
						want[i+1] = "resume " + n + ": 1 of " + of
					}
				}
			}
			wantTalked(t, records(t, s), want...)
			if err := rt.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			closed(0)
		})
	})
}

// What is sent and billed is counted by mode, and the conversations that are open. A session beyond
// the host's bound goes by replay while the others are in use.
func TestResumeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		came, others := make(chan struct{}), make(chan struct{})
		srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
			if c.All[len(c.All)-1].Text == "1234" {
				close(came)
				<-others
			}
			return llmtest.Response{Text: []string{"Well."}, Usage: messages.Usage{Input: 40, Output: 5, CacheRead: 30}}
		})
		m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: openai.Responses, Base: srv.Base})
		if err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{ModelSessions: 1})
		a := resuming(t, "plain", "auto", srv.URL, "")
		a.Manifest.Model = manifest.Model{Provider: "mine", Model: "m-1", Mode: manifest.ModeResume}
		a.Model = m
		s := open(t, rt, "s", a)
		auto := resuming(t, "plain", "auto", srv.URL, "")
		auto.Manifest.Model = manifest.Model{Provider: "mine", Model: "m-1", Session: manifest.ModelSession{Transport: "responses_ws"}}
		auto.Model = m
		other := open(t, rt, "other", auto)
		wantDone(t, ask(t, s, "12345678"))
		run := submit(t, s, "1234")
		<-came
		wantDone(t, ask(t, other, "12345678901"))
		wantTalked(t, records(t, other), "fallback 0 MODEL_SESSIONS", "replay")
		close(others)
		wantDone(t, decision(t, run))
		synctest.Wait() // a call is counted when its stream is over, which may be behind the decision
		check := func(want float64, name string, labels ...string) {
			t.Helper()
			if got := metric(t, rt, name, labels...); got != want {
				t.Errorf("%s %v is %v, want %v", name, labels, got, want)
			}
		}
		check(12, "prompt_bytes_total", "mode", "resume")
		check(11, "prompt_bytes_total", "mode", "replay")
		check(3, "prompt_tokens_total", "kind", "sent", "mode", "resume")
		check(3, "prompt_tokens_total", "kind", "sent", "mode", "replay")
		check(80, "prompt_tokens_total", "kind", "billed", "mode", "resume")
		check(60, "prompt_tokens_total", "kind", "cached", "mode", "resume")
		check(40, "prompt_tokens_total", "kind", "billed", "mode", "replay")
		check(1, "model_sessions_open")
		check(1, "model_sessions_total", "outcome", "opened")
		check(0, "model_sessions_total", "outcome", "closed")
		check(1, "model_sessions_total", "outcome", "fallback", "reason", "MODEL_SESSIONS")
		wantDone(t, ask(t, other, "again")) // takes the place
		synctest.Wait()
		check(1, "model_sessions_open")
		check(1, "model_sessions_total", "outcome", "closed", "reason", "EVICTED")
	})
}

// A check of an agent says which mode applies, and why.
func TestModeThatApplies(t *testing.T) {
	for name, c := range map[string]struct{ dialect, model, mode, why string }{
		"at home":           {"cogency", "provider: openai, model: m, secret: THE_KEY", "resume", "(responses_ws); a run goes on with replay"},
		"explicit":          {"plain", "provider: openai, model: m, secret: THE_KEY, mode: resume", "resume", "model.mode is resume"},
		"replay":            {"plain", "provider: openai, model: m, secret: THE_KEY, mode: replay", "replay", "model.mode is replay"},
		"another address":   {"plain", "provider: openai, model: m, secret: THE_KEY, api: responses, base_url: 'http://localhost:1/v1'", "replay", "own address"},
		"with a transport":  {"kitsu", "provider: openai, model: m, secret: THE_KEY, api: responses, base_url: 'http://localhost:1/v1', session: {transport: responses_ws}", "resume", "goes on"},
		"gemini":            {"plain", "provider: gemini, model: m, secret: THE_KEY", "replay", "gemini keeps no conversation"},
		"live":              {"plain", "provider: gemini, model: m, secret: THE_KEY, session: {transport: live}", "resume", "(live, and stores it for a while); a run goes on"},
		"chat completions":  {"plain", "provider: openai, model: m, secret: THE_KEY, api: chat", "replay", "openai keeps no conversation"},
		"feeds in front":    {"cortex", "provider: openai, model: m, secret: THE_KEY", "replay", "feeds stand in front of the conversation in cortex"},
		"feeds at the end":  {"cortex\ncontext_feeds_at: end", "provider: openai, model: m, secret: THE_KEY", "resume", "(responses_ws); a run goes on"},
		"feeds of Live":     {"plain\ncontext_feeds_at: end", "provider: gemini, model: m, secret: THE_KEY, session: {transport: live}", "replay", "over live cannot take back the feeds"},
		"prompts that turn": {"aeiou", "provider: openai, model: m, secret: THE_KEY", "replay", "dialect aeiou do not grow"},
		"no provider":       {"plain", "script: x.jsonl", "replay", "scripted keeps no conversation"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, "dialect: %s\nmodel: {%s}\n", c.dialect, c.model))
			if err != nil {
				t.Fatal(err)
			}
			a := &stile.Agent{Manifest: m}
			if c.model == "script: x.jsonl" {
				a.Model, m.Model = stile.ScriptedModel(), manifest.Model{}
			}
			mode, why, err := stile.CheckMode(a, stile.Config{Providers: keepers()})
			if err != nil || mode != c.mode || !strings.Contains(why, c.why) {
				t.Errorf("%s because %q, %v; want %s, %q", mode, why, err, c.mode, c.why)
			}
		})
	}
	if _, _, err := stile.CheckMode(nil, stile.Config{}); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

// A conversation that breaks in the middle of a reply: what the user has read stays, the run goes
// on in a turn that has the whole prompt, and knows what was read. Batches that have ended do not
// run again, and the turns are counted on.
func TestAutoGoesOnFromTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		dialect string
		replies []llmtest.Response
		prompt  string // of the request behind the fall-back
		text    string
		turns   int64
	}{
		"plain": {
			"plain",
			[]llmtest.Response{{Text: []string{"Hello", ", Ad"}, Drop: true}, {Text: []string{"Welcome, Ada."}}},
			"user: one|assistant: Hello, Ad|user: Your reply broke off. The user has read what is above: go on behind it in a new paragraph, and do not repeat it.",
			"Hello, Ad\n\nWelcome, Ada.", 2,
		},
		"kitsu": {
			"kitsu",
			[]llmtest.Response{{Text: []string{"Hello", ", Ad"}, Drop: true}, {Text: []string{"Welcome, Ada."}}},
			"user: one|assistant: Hello, Ad|user: Your reply broke off. The user has read what is above: go on behind it in a new paragraph, and do not repeat it.",
			"Hello, Ad\n\nWelcome, Ada.", 2,
		},
		"cogency": {
			"cogency",
			[]llmtest.Response{{Text: []string{"I look. ", doubles}}, {Text: []string{"It is ", "aba"}, Error: "server_error", Status: 500}, {Text: []string{"It is abab."}}},
			"user: one|assistant: I look.\n\n" + doubles + `|user: <results>[{"tool":"own.double","status":"success","outcome":"ok","content":"abab"}]</results>|assistant: It is aba|user: Your reply broke off. The user has read what is above: go on behind it in a new paragraph, and do not repeat it.`,
			"I look. \n\nIt is aba\n\nIt is abab.", 3,
		},
		"in the middle of a batch": {
			"cogency",
			[]llmtest.Response{{Text: []string{"I look. ", doubles[:20]}, Drop: true}, {Text: []string{"It is abab."}}},
			"", "I look. \n\nIt is abab.", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			replies := c.replies
			srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response { return replies[c.N-1] })
			rt := start(t, stile.Config{Providers: keepers()})
			a := resuming(t, c.dialect, "auto", srv.URL, ", session: {transport: responses_ws}")
			s := open(t, rt, "s", a)
			o := ask(t, s, "one")
			wantDone(t, o)
			if o.Text != c.text || o.Turns != c.turns {
				t.Errorf("%d turns, %q, want %d, %q", o.Turns, o.Text, c.turns, c.text)
			}
			recs := records(t, s)
			doubled, tried := 0, 0
			for _, r := range recs {
				switch b := r.Body.(type) {
				case *messages.ActionStarted:
					doubled++
				case *messages.TurnDecided:
					if b.Repair {
						tried++
					}
				}
			}
			if want := len(replies) - 2; doubled != want || tried != 1 {
				t.Errorf("%d calls began, %d turns broke off", doubled, tried)
			}
			seen := srv.Seen()
			last := seen[len(seen)-1]
			if got := strings.TrimPrefix(itemized(last.All), "system|"); last.Conn != 0 || c.prompt != "" && got != c.prompt {
				t.Errorf("over %d the model got\n%s\nwant\n%s", last.Conn, got, c.prompt)
			}
			if _, err := rt.Replay(t.Context(), "s", a); err != nil {
				t.Error(err)
			}
			// The next run has a conversation again.
			replies = append(replies, llmtest.Response{Text: []string{"Bye."}})
			wantDone(t, ask(t, s, "two"))
			if all := talked(records(t, s)); !strings.HasPrefix(all[len(all)-1], "resume 2: ") {
				t.Errorf("%q", all)
			}
			if _, err := rt.Replay(t.Context(), "s", a); err != nil {
				t.Error(err)
			}
		})
	}
}

// Where the cause is the user, the key, the prompt or a limit, a run does not go on by replay, in
// the middle of a reply or before it. resume never does.
func TestAutoFallsBackForNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		mode string
		say  llmtest.Response
		code messages.Code
	}{
		"resume":                 {"resume", llmtest.Response{Text: []string{"Hel", "lo"}, Drop: true}, messages.ErrModel},
		"the key in the middle":  {"auto", llmtest.Response{Text: []string{"Hel", "lo"}, Error: "invalid_api_key", Status: 401}, messages.ErrModel},
		"the key":                {"auto", llmtest.Response{Error: "invalid_api_key", Status: 401}, messages.ErrModel},
		"too long":               {"auto", llmtest.Response{Error: "context_length_exceeded", Status: 400}, messages.ErrModel},
		"stile's bound of bytes": {"auto", llmtest.Response{Text: []string{strings.Repeat("x", 60<<10), strings.Repeat("y", 60<<10)}}, messages.ErrQuota},
	} {
		t.Run(name, func(t *testing.T) {
			srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return c.say })
			rt := start(t, stile.Config{Providers: keepers()})
			a := resuming(t, "plain", c.mode, srv.URL, ", session: {transport: responses_ws}")
			a.Manifest.Quotas.Reply = 100 << 10
			s := open(t, rt, "s", a)
			o := ask(t, s, "one")
			if o.Reason != c.code || o.Turns != 1 {
				t.Errorf("%+v", o)
			}
			for _, line := range talked(records(t, s)) {
				if strings.HasPrefix(line, "fallback") || line == "replay" {
					t.Errorf("it went on: %s", line)
				}
			}
		})
	}
}

// A picture goes over an open conversation with its message, and is not sent again. A file that the
// transport has no form for is refused by its type, before the run begins.
func TestResumeSendsPartsOnce(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		srv := llmtest.NewProvider(t, func(*llmtest.Request) llmtest.Response { return llmtest.Response{Text: []string{"I see."}} })
		rt := start(t, stile.Config{Providers: keepers()})
		s := open(t, rt, "s", resumingOver(t, transport, "plain", "resume", srv.URL, ""))
		wantDone(t, ask(t, s, "hello"))
		run, err := s.Submit(t.Context(), "look", stile.Attach(stile.File{Data: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00")}))
		if err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, run))
		wantDone(t, ask(t, s, "and now?"))
		wantTalked(t, records(t, s), "opened 1", "resume 1: 1 of 1", "resume 1: 1 of 3", "resume 1: 1 of 5")
		shown := map[string]string{"live": "[image/png]"}[transport]
		for i, want := range []string{"user: hello", "user: " + cmp.Or(shown, "[input_image]") + "look", "user: and now?"} {
			if got := itemized(srv.Seen()[i].New); got != want {
				t.Errorf("request %d sent %q, want %q", i+1, got, want)
			}
		}
		_, err = s.Submit(t.Context(), "read", stile.Attach(stile.File{Name: "a.txt", Data: []byte("text")}))
		var refused *messages.Error
		if !errors.As(err, &refused) || refused.Code != messages.ErrInvalid || refused.Reason != "PART_TYPE" || refused.Field != "parts[0].type" {
			t.Errorf("a text: %v", err)
		}
	})
}

// A network that is gone for a minute costs a run that time and no more, however the agent asks: the
// run goes on when the network is back, and what was on its way then belongs to nothing.
func TestResumeWithoutNetwork(t *testing.T) {
	for _, mode := range []string{"resume", "auto"} {
		t.Run(mode, func(t *testing.T) {
			over(t, func(t *testing.T, transport string) {
				synctest.Test(t, func(t *testing.T) {
					srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
						return llmtest.Response{Text: []string{"We", "ll."}}
					})
					p := wiretest.NewProxy(t, srv)
					rt := start(t, stile.Config{})
					a := resumingOver(t, transport, "cogency", mode, srv.URL, "")
					a.Model = keptBy(t, transport, p.URL, p.Base)
					a.Manifest.Model = manifest.Model{Provider: "mine", Model: "m-1", Mode: mode, Session: manifest.ModelSession{Transport: transport}}
					s := open(t, rt, "s", a)
					wantDone(t, ask(t, s, "hello"))
					p.Down()
					time.AfterFunc(time.Minute+time.Second, p.Up)
					began := time.Now()
					run := submit(t, s, "are you there?")
					wantDone(t, decision(t, run))
					if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
						t.Errorf("it took %s", took)
					}
					wantDone(t, ask(t, s, "thanks"))
					replies := 0
					for _, r := range records(t, s) {
						if b, ok := r.Body.(*messages.ModelReply); ok && b.Length > 0 {
							replies++
						}
					}
					if text, err := run.Text(t.Context()); err != nil || text != "Well." || replies != 3 {
						t.Errorf("%q, %v: %d replies, %v", text, err, replies, talked(records(t, s)))
					}
					if _, err := rt.Replay(t.Context(), "s", a); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

// A conversation belongs to one session. What a provider says of another session's response, and
// handles of another session, are not gone on from, whatever breaks.
func TestResumeKeepsSessionsApart(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		owner := map[string]string{} // of responses and handles
		var mu sync.Mutex
		srv := llmtest.NewProvider(t, func(r *llmtest.Request) llmtest.Response {
			mu.Lock()
			defer mu.Unlock()
			whose := strings.Fields(r.New[len(r.New)-1].Text)[0]
			owner[fmt.Sprintf("resp_%d", r.N)] = whose
			for _, i := range r.All {
				if i.Role != "system" && !strings.HasPrefix(i.Text, whose+" ") {
					t.Errorf("%s is asked in the conversation %q", whose, itemized(r.All))
				}
			}
			if r.Parent != "" && owner[r.Parent] != whose {
				t.Errorf("%s goes on from a response of %s", whose, owner[r.Parent])
			}
			// What the other one was answered last, as if it belonged here.
			other := fmt.Sprintf("resp_%d", r.N-1)
			out := llmtest.Response{Text: []string{whose, " is", " heard"}}
			if transport != "live" && r.N > 1 {
				out.Before = []string{fmt.Sprintf(`{"type":"response.completed","response":{"id":%q,"status":"completed"}}`, other)}
				out.In = []string{
					fmt.Sprintf(`{"type":"response.output_text.delta","response_id":%q,"output_index":0,"delta":" STRAY"}`, other),
					fmt.Sprintf(`{"type":"response.done","response":{"id":%q,"status":"completed"}}`, other),
				}
				out.Behind = []string{fmt.Sprintf(`{"type":"response.created","response":{"id":%q}}`, other)}
			}
			return out
		})
		rt := start(t, stile.Config{Providers: keepers()})
		a := resumingOver(t, transport, "plain", "resume", srv.URL, "")
		all := []*stile.Session{open(t, rt, "ann", a), open(t, rt, "bob", a)}
		for i := range 6 {
			for k, s := range all {
				who := []string{"ann", "bob"}[k]
				run := submit(t, s, fmt.Sprint(who, " says ", i))
				wantDone(t, decision(t, run))
				if text, err := run.Text(t.Context()); err != nil || text != who+" is heard" {
					t.Errorf("%q, %v", text, err)
				}
				if (i+k)%3 == 2 {
					srv.HangUp()
				}
			}
		}
	})
}

// keptBy is a model that is asked over a transport.
func keptBy(t testing.TB, transport, url string, base http.RoundTripper) (m llm.Model) {
	t.Helper()
	var err error
	if transport == "live" {
		m, err = gemini.New(gemini.Options{BaseURL: url, API: gemini.Live, Base: base})
	} else {
		m, err = openai.New(openai.Options{BaseURL: url + "/v1", API: map[string]string{"responses_ws": openai.Responses, "realtime": openai.Realtime}[transport], Base: base})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}
