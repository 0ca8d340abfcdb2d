//go:build !lite

package tests

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/anthropic"
	"github.com/seed14be6753/stile/llm/gemini"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// vendor is a provider as a manifest names it, and how its server writes.
type vendor struct {
	name, api, root string
	format          wiretest.Format
}

var vendors = []vendor{
	{"openai", "chat", "/v1", wiretest.Chat()},
	{"openai", "responses", "/v1", wiretest.Responses()},
	{"anthropic", "", "", wiretest.Anthropic()},
	{"gemini", "", "", wiretest.Gemini()},
}

const testKey = "sk-live-93d0c7aa51e2"

// providers are those of the command, with this environment.
func providers(env map[string]string) map[string]llm.Provider {
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return map[string]llm.Provider{"openai": openai.Provider(lookup), "anthropic": anthropic.Provider(lookup), "gemini": gemini.Provider(lookup)}
}

// agent of a manifest text that asks this vendor.
func (v *vendor) agent(t testing.TB, dialect, url, more string) *stile.Agent {
	t.Helper()
	api := ""
	if v.api != "" {
		api = ", api: " + v.api
	}
	m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, "dialect: %s\nmodel: {provider: %s, model: m-1, base_url: %q, secret: THE_KEY%s%s}\n", dialect, v.name, url+v.root, api, more))
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Manifest: m}
}

func TestProvidersHoldSessions(t *testing.T) {
	for _, v := range vendors {
		t.Run(v.format.Name, func(t *testing.T) {
			f := v.format
			srv := wiretest.NewServer(t, func(seen *wiretest.Seen) wiretest.Answer {
				a, err := f.Asked(seen.Body)
				if err != nil {
					t.Errorf("%v: %s", err, seen.Body)
				}
				switch last := a.Texts[len(a.Texts)-1]; {
				case strings.Contains(last, "NSENV") && len(a.Texts) == 1:
					word := "hello"
					if strings.Contains(last, "first") {
						word = "again"
					}
					say := sayDone
					if word == "hello" {
						say = sayContinue
					}
					return wiretest.Answer{Pieces: f.Stream("Here you are:\n<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{}\n<<<NSENV:V3:AC", "TIONS>>>\n"+program(`emit "first `+word+`"`, say)+"<<<NSENV:V3:END>>>\nBye.")}
				default:
					return wiretest.Answer{Pieces: f.Stream("You said ", last, fmt.Sprintf(" (%d)", len(a.Texts)))}
				}
			})
			core, logs := observer.New(zap.DebugLevel)
			store := memory.New()
			rt := start(t, stile.Config{Store: store, Providers: providers(map[string]string{"THE_KEY": testKey}), Log: zap.New(core)})

			talk := open(t, rt, "talk", v.agent(t, "plain", srv.URL, `, price: {input_usd: "3", output_usd: "15"}`))
			wantDone(t, ask(t, talk, "ahoy"))
			wantDone(t, ask(t, talk, "and again"))
			recs := records(t, talk)
			said := bodies[*messages.UnitText](recs)
			if len(said) != 2 || said[0].Text != "You said ahoy (1)" || said[1].Text != "You said and again (3)" {
				t.Errorf("%+v", said)
			}
			for _, b := range bodies[*messages.ModelReply](recs) {
				// 20 fresh of 120 tokens, the cached ones at the price of input, 9 out
				if b.Usage.Input != 120 || b.Usage.Output != 9 || b.Usage.CacheRead != 100 || b.Unpriced || b.CostUSD != 120*3+9*15 {
					t.Errorf("%+v", b)
				}
			}
			prog := open(t, rt, "program", v.agent(t, "aeiou", srv.URL, ""))
			wantDone(t, ask(t, prog, "go"))
			recs = append(recs, records(t, prog)...)
			if got := strings.Join(texts(records(t, prog)), "|"); got != "first hello|first again" {
				t.Errorf("emitted %q", got)
			}
			if b := bodies[*messages.ModelReply](records(t, prog)); len(b) != 2 || !b[0].Unpriced || b[0].CostUSD != 0 {
				t.Errorf("without a price: %+v", b)
			}
			for _, name := range []string{"talk", "program"} {
				if _, err := rt.Replay(t.Context(), name, nil); err != nil {
					t.Errorf("replay of %s: %v", name, err)
				}
			}
			for _, seen := range srv.Seen() {
				if f.Key(seen.Header) != testKey {
					t.Error("a request without the key")
				}
			}
			keyless(t, recs, logs)
		})
	}
}

// keyless checks that the key is nowhere.
func keyless(t *testing.T, recs []*stile.Record, logs *observer.ObservedLogs) {
	t.Helper()
	for _, r := range recs {
		if strings.Contains(fmt.Sprintf("%+v %s", r.Body, r.Raw), testKey) {
			t.Errorf("the key is in record %d, %s", r.Seq, r.Body.Kind())
		}
	}
	for _, e := range logs.All() {
		if strings.Contains(fmt.Sprintf("%s %v", e.Message, e.ContextMap()), testKey) {
			t.Errorf("the key is in the log: %s", e.Message)
		}
	}
}

// A provider that refuses the key, says it back, and breaks off: HALT(ERR_MODEL) that
// says what to do, and no key.
func TestProvidersFail(t *testing.T) {
	for _, v := range vendors {
		t.Run(v.format.Name, func(t *testing.T) {
			f := v.format
			status, body := f.BadKey("wrong: " + testKey)
			for _, c := range []struct {
				name   string
				answer wiretest.Answer
				wants  []string
			}{
				{"the key is wrong", wiretest.Answer{Status: status, Pieces: []string{body}, Header: map[string]string{"X-Key": testKey}}, []string{"refuses the key in THE_KEY"}},
				{"the request is bad", wiretest.Answer{Status: 400, Pieces: []string{f.Refusal(400, testKey, testKey)}}, []string{"STATUS_400"}},
				{"broken off", wiretest.Answer{Pieces: []string{f.Begin(1), f.Text(`"So"`)}, Drop: true}, []string{"TRUNCATED", "broke off"}},
				{"too long to wait", wiretest.Answer{Status: 429, Header: map[string]string{"Retry-After": "3600"}}, []string{"STATUS_429", "1h"}},
			} {
				srv := wiretest.NewServer(t, wiretest.Always(c.answer))
				core, logs := observer.New(zap.DebugLevel)
				rt := start(t, stile.Config{Providers: providers(map[string]string{"THE_KEY": testKey}), Log: zap.New(core)})
				s := open(t, rt, "s", v.agent(t, "plain", srv.URL, ""))
				o := ask(t, s, "ahoy")
				wantHalt(t, o, messages.ErrModel, c.wants...)
				if strings.Contains(o.Detail, testKey) {
					t.Errorf("the key is in the decision: %s", o.Detail)
				}
				keyless(t, records(t, s), logs)
				if n := len(srv.Seen()); n != 1 {
					t.Errorf("%s: %d requests", c.name, n)
				}
			}
		})
	}
}

// A cancel reaches the provider, and what the reply had cost is recorded: also in a
// replay.
func TestProvidersCancel(t *testing.T) {
	for _, v := range vendors {
		t.Run(v.format.Name, func(t *testing.T) {
			f := v.format
			srv := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Pieces: []string{f.Begin(120), f.Text(`"12345678"`)}, Hang: true}))
			rt := start(t, stile.Config{Providers: providers(map[string]string{"THE_KEY": testKey})})
			s := open(t, rt, "s", v.agent(t, "plain", srv.URL, `, price: {input_usd: "3", output_usd: "15"}`))
			run := submit(t, s, "ahoy, how are you")
			for u, err := range run.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if u.Delta != nil {
					break
				}
			}
			if err := run.Cancel(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
			wantHalt(t, decision(t, run), messages.ErrCancelled)
			seen := srv.Seen()[0]
			if <-seen.Gone; !seen.Left {
				t.Error("the provider did not see the request end")
			}
			b := bodies[*messages.ModelReply](records(t, s))
			if len(b) != 1 || b[0].Finish != messages.FinishCancelled || !b[0].Usage.Estimated || b[0].Usage.Output != 2 || b[0].Usage.Input == 0 ||
				b[0].CostUSD != b[0].Usage.Input*3+2*15 {
				t.Errorf("%+v", b[0])
			}
			if f.EarlyInput && b[0].Usage.Input != 120 {
				t.Errorf("%+v", b[0].Usage)
			}
			if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// One provider is down, the next one answers; with several keys the next key does.
func TestProvidersStandIn(t *testing.T) {
	bad, body := wiretest.Anthropic().BadKey("no")
	down := wiretest.NewServer(t, func(seen *wiretest.Seen) wiretest.Answer {
		if wiretest.Anthropic().Key(seen.Header) == "good" {
			return wiretest.Answer{Pieces: []string{wiretest.Anthropic().Overloaded}}
		}
		return wiretest.Answer{Status: bad, Pieces: []string{body}}
	})
	up := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Pieces: wiretest.Gemini().Stream("Here.")}))
	m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, `dialect: plain
model:
  provider: anthropic
  model: m-1
  base_url: %s
  fallback: [{provider: gemini, model: m-2, base_url: %s, price: {output_usd: "1000000"}}]
quotas: {cost_usd: "5"}
`, down.URL, up.URL))
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Providers: providers(map[string]string{
		"ANTHROPIC_API_KEY_1": "wrong", "ANTHROPIC_KEY_2": "bad", "ANTHROPIC_KEY_3": "worse", "ANTHROPIC_KEY_4": "worst", "ANTHROPIC_API_KEY": "good", "GOOGLE_API_KEY_3": "g",
	})})
	s := open(t, rt, "s", &stile.Agent{Manifest: m})
	o := ask(t, s, "ahoy")
	// 9 tokens at a dollar each are over the quota: the cost of the fallback counts.
	wantHalt(t, o, messages.ErrQuota, "cost_usd")
	recs := records(t, s)
	// Rotations are no attempts: the key that is good for something gets all three.
	good := 0
	for _, seen := range down.Seen() {
		if wiretest.Anthropic().Key(seen.Header) == "good" {
			good++
		}
	}
	if good != retry.DefaultAttempts || len(down.Seen()) != good+4 {
		t.Errorf("%d requests, %d with the good key", len(down.Seen()), good)
	}
	fb := bodies[*messages.ModelFallback](recs)
	if len(fb) != 1 || fb[0].From != "anthropic/m-1" || fb[0].To != "gemini/m-2" {
		t.Fatalf("%+v", fb)
	}
	if said := bodies[*messages.UnitText](recs); len(said) != 1 || said[0].Text != "Here." {
		t.Errorf("%+v", said)
	}
	if n, asked := len(bodies[*messages.ModelRequest](recs)), len(down.Seen())+len(up.Seen()); n < asked {
		t.Errorf("%d requests are recorded, %d were made", n, asked)
	}
	if k := wiretest.Gemini().Key(up.Seen()[0].Header); k != "g" {
		t.Errorf("key %q", k)
	}
	if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
		t.Error(err)
	}
}

// What a manifest says of a provider is judged when the agent is opened.
func TestProvidersAreConfigured(t *testing.T) {
	for text, wants := range map[string][]string{
		`{provider: openai}`:                                                                                       {"model.model", "needs the name"},
		`{provider: openai, model: m}`:                                                                             {"model.provider", "OPENAI_API_KEY", "environment"},
		`{provider: anthropic, model: m}`:                                                                          {"model.provider", "ANTHROPIC_API_KEY"},
		`{provider: gemini, model: m}`:                                                                             {"model.provider", "GEMINI_API_KEY"},
		`{provider: deepthought, model: m}`:                                                                        {"model.provider", "anthropic, gemini, mine, openai, scripted"},
		`{provider: openai, model: m, secret: MY_KEY}`:                                                             {"model.secret", "MY_KEY"},
		`{provider: openai, model: m, secret: BROKEN}`:                                                             {"BROKEN", "is no key"},
		`{provider: anthropic, model: m, base_url: "http://localhost:1", api: chat}`:                               {"model.api", "one interface"},
		`{provider: gemini, model: m, base_url: "http://localhost:1", api: chat}`:                                  {"model.api", "none of gemini's"},
		`{provider: mine, model: m, base_url: "http://localhost:1"}`:                                               {"model", "takes no settings"},
		`{provider: mine, model: m, fallback: [{provider: openai, model: m, secret: MY_KEY}]}`:                     {"model.fallback[0].secret", "MY_KEY"},
		`{provider: mine, model: m, fallback: [{provider: openai, secret: MY_KEY}]}`:                               {"model.fallback[0].model"},
		`{provider: openai, model: m, secret: SET, options: {stop: [a]}}`:                                          {"model.options.stop", "openai (responses)"},
		`{provider: openai, model: m, secret: SET, api: chat, options: {extra: {messages: 1}}}`:                    {"model.options.extra.messages", "host writes"},
		`{provider: anthropic, model: m, secret: SET, options: {seed: 1}}`:                                         {"model.options.seed", "anthropic"},
		`{provider: anthropic, model: m, secret: SET, options: {temperature: 1.5}}`:                                {"model.options.temperature", "anthropic"},
		`{provider: mine, model: m, options: {temperature: 1}}`:                                                    {"model", "takes no settings"},
		`{provider: mine, model: m, fallback: [{provider: anthropic, model: m, secret: SET, options: {seed: 1}}]}`: {"model.fallback[0].options.seed"},
		`{provider: openai, model: m, base_url: "http://localhost:1"}`:                                             nil,
		`{provider: openai, model: m, secret: SET}`:                                                                nil,
		`{provider: mine, model: m, fallback: [{provider: gemini, model: x, base_url: "http://[::1]"}]}`:           nil,
	} {
		m, err := manifest.Parse("agent.yaml", []byte("dialect: plain\nmodel: "+text+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		env := map[string]string{"SET": testKey, "BROKEN": testKey + "\n" + testKey}
		err = stile.Check(&stile.Agent{Manifest: m}, stile.Config{Models: map[string]llm.Model{"mine": says("x")}, Providers: providers(env)})
		if wants == nil {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		wantCode(t, err, messages.ErrConfig)
		for _, w := range wants {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not name %q", text, err, w)
			}
		}
		if strings.Contains(err.Error(), testKey) {
			t.Errorf("%s: the key is in the error", text)
		}
	}
}
