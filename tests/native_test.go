//go:build !lite

package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// nativeAgent is an agent of a dialect with one tool, own.double, that asks a vendor in its
// own form.
func (v *vendor) nativeAgent(t *testing.T, dialect, url string, calls *atomic.Int64) *stile.Agent {
	t.Helper()
	a := v.agent(t, dialect, url, ", tool_calls: native")
	double, err := tools.Define("own.double", "Doubles a text.", messages.ReadOnly, func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		calls.Add(1)
		return in.Text + in.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Tools = []stile.Tool{double}
	a.Manifest.Import.Tools = []string{"own.double"}
	return a
}

// A model that calls functions of its provider holds a session in cogency and cortex: its
// calls run, their results go back with their ids, also after a restart, and a replay has
// the same hashes.
func TestNativeCalls(t *testing.T) {
	for _, v := range vendors {
		for _, dialect := range []string{"cogency", "cortex"} {
			t.Run(v.format.Name+" "+dialect, func(t *testing.T) {
				f := v.format
				answer := "Both are done."
				if dialect == "cortex" {
					answer = "<response>Both are done.</response>"
				}
				var requests atomic.Int64
				srv := wiretest.NewServer(t, func(seen *wiretest.Seen) wiretest.Answer {
					switch requests.Add(1) {
					case 1:
						return wiretest.Answer{Pieces: strings.SplitAfter(f.Calls("Let me see.", []wiretest.Called{{ID: "id-1", Name: "own_double", Args: `{"text": "a<b>"}`}, {ID: "id-2", Name: "own_double", Args: `{"text":"cd"}`}}), "\n\n")}
					case 3:
						return wiretest.Answer{Pieces: []string{f.Calls("", []wiretest.Called{{ID: "id-3", Name: "own_double", Args: `{"text":"e"}`}})}}
					}
					return wiretest.Answer{Pieces: f.Stream(answer)}
				})
				var calls atomic.Int64
				store := memory.New()
				cfg := stile.Config{Store: store, Providers: providers(map[string]string{"THE_KEY": testKey})}
				keys, err := stile.GenerateKeys(cfg)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Keys = keys
				rt := start(t, cfg)
				agent := v.nativeAgent(t, dialect, srv.URL, &calls)
				s := open(t, rt, "s", agent)
				wantDone(t, ask(t, s, "go"))
				if n := calls.Load(); n != 2 {
					t.Fatalf("%d calls ran: %+v", n, bodies[*messages.ParseFault](records(t, s)))
				}
				first, second := tooled(t, f, srv, 0), tooled(t, f, srv, 1)
				if first.Tools[0] != "own_double" || !strings.Contains(first.Schemas[0], `"required":["text"]`) || len(first.Said) != 0 {
					t.Errorf("%+v", first)
				}
				wantSaid(t, second.Said, `call id-1 own_double {"text":"a<b>"}`, `call id-2 own_double {"text":"cd"}`, `result id-1 `, `result id-2 `)
				if !strings.Contains(second.Said[3], "cdcd") || strings.Contains(second.Said[3], "a<b>") {
					t.Errorf("%q", second.Said)
				}
				if f.Signs && !slices.Equal(second.Kept, []string{"c2VjcmV0"}) {
					t.Errorf("what the provider signed did not go back: %q", second.Kept)
				}
				asked, err := f.Asked(srv.Seen()[1].Body)
				if err != nil {
					t.Fatal(err)
				}
				if all := strings.Join(asked.Texts, "|"); !strings.Contains(all, "Let me see.") || strings.Contains(all, "execute") || strings.Contains(all, "<action ") {
					t.Errorf("%q", asked.Texts)
				}
				reply := bodies[*messages.ModelReply](records(t, s))
				if len(reply) != 2 || reply[0].Side.IsZero() || !reply[1].Side.IsZero() || reply[0].Usage.Output != 9 || reply[0].Usage.Estimated {
					t.Errorf("%+v", reply)
				}

				// A restart between: the history comes from the journal.
				if err := rt.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				rt = start(t, cfg)
				s = open(t, rt, "s", agent)
				wantDone(t, ask(t, s, "again"))
				if dialect == "cogency" { // its finished runs go back as they went
					wantSaid(t, tooled(t, f, srv, 3).Said, `call id-1 own_double {"text":"a<b>"}`, `call id-2 own_double {"text":"cd"}`, `result id-1 `, `result id-2 `, `call id-3 own_double {"text":"e"}`, `result id-3 `)
				} else {
					wantSaid(t, tooled(t, f, srv, 3).Said, `call id-3 own_double {"text":"e"}`, `result id-3 `)
				}
				if n := calls.Load(); n != 3 {
					t.Errorf("a reply that is only a call: %d calls ran", n)
				}
				if _, err := rt.Replay(t.Context(), "s", agent); err != nil {
					t.Errorf("replay: %v", err)
				}
				// What is shown of the prompt is what was sent: calls with their ids.
				shown, err := rt.Archive().Prompts(t.Context(), s.Incarnation(), agent, 2)
				if err != nil || len(shown) != 1 || !shown[0].Exact || len(shown[0].Tools) == 0 || !strings.Contains(shown[0].Text(), "id-1") {
					t.Errorf("the prompt: %+v, %v", shown, err)
				}
			})
		}
	}
}

// A provider that fails in the middle of calls: nothing of them runs, the run ends as any
// that its model fails, and the next one has the calls before it with their results.
func TestNativeFails(t *testing.T) {
	for _, v := range vendors {
		t.Run(v.format.Name, func(t *testing.T) {
			f := v.format
			one := f.Calls("", []wiretest.Called{{ID: "id-1", Name: "own_double", Args: `{"text":"a"}`}})
			var requests atomic.Int64
			srv := wiretest.NewServer(t, func(*wiretest.Seen) wiretest.Answer {
				switch requests.Add(1) {
				case 1:
					return wiretest.Answer{Pieces: []string{one}}
				case 2:
					return wiretest.Answer{Pieces: []string{f.Begin(1) + f.Text(`"Well."`), one[:len(one)/2]}, Drop: true}
				}
				return wiretest.Answer{Pieces: f.Stream("So.")}
			})
			var calls atomic.Int64
			rt := start(t, stile.Config{Providers: providers(map[string]string{"THE_KEY": testKey})})
			agent := v.nativeAgent(t, "cogency", srv.URL, &calls)
			s := open(t, rt, "s", agent)
			wantHalt(t, ask(t, s, "go"), messages.ErrModel)
			wantDone(t, ask(t, s, "again"))
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls ran", n)
			}
			wantSaid(t, tooled(t, f, srv, 2).Said, `call id-1 own_double {"text":"a"}`, `result id-1 `)
			if _, err := rt.Replay(t.Context(), "s", agent); err != nil {
				t.Error(err)
			}
		})
	}
}

func tooled(t *testing.T, f wiretest.Format, srv *wiretest.Server, request int) wiretest.Tooled {
	t.Helper()
	body := srv.Seen()[request].Body
	got, err := f.Tooled(body)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return got
}

// wantSaid compares calls whole, with the white space that providers may take out, and
// results by their beginning.
func wantSaid(t *testing.T, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		said := strings.NewReplacer(`": "`, `":"`, `\u003c`, "<", `\u003e`, ">").Replace(got[i])
		ok = said == want[i] || strings.HasPrefix(want[i], "result") && strings.HasPrefix(said, want[i])
	}
	if !ok {
		t.Errorf("%q, want %q", got, want)
	}
}

// What cannot be sent tools is refused where the manifest asks for it, and the vendors' own
// addresses are sent them when it says nothing.
func TestNativeIsSettled(t *testing.T) {
	for text, want := range map[string]string{
		"dialect: plain\nmodel: {provider: openai, model: m, secret: SET, tool_calls: native}":                                      "model.tool_calls",
		"dialect: aeiou\nmodel: {provider: openai, model: m, secret: SET, tool_calls: native}":                                      "model.tool_calls",
		"dialect: cogency\nmodel: {tool_calls: native, provider: mine}":                                                             "model.tool_calls",
		"dialect: cogency\nmodel: {tool_calls: native, provider: openai, model: m, secret: SET, fallback: [{provider: mine}]}":      "mine",
		"dialect: cogency\nmodel: {tool_calls: native, provider: openai, model: m, base_url: \"http://localhost:1\"}":               "",
		"dialect: cogency\nmodel: {tool_calls: text, provider: mine}":                                                               "",
		"dialect: plain\nmodel: {tool_calls: text, provider: mine}":                                                                 "",
		"dialect: cortex\nmodel: {provider: openai, model: m, secret: SET, fallback: [{provider: gemini, model: m, secret: SET}]}":  "",
		"dialect: cortex\nmodel: {provider: openai, model: m, secret: SET, fallback: [{provider: mine, model: m}]}":                 "",
		"dialect: cogency\nmodel: {provider: openai, model: m, secret: SET, fallback: [{provider: openai, model: m, secret: SET}]}": "",
	} {
		m, err := manifest.Parse("agent.yaml", []byte(text+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		err = stile.Check(&stile.Agent{Manifest: m}, stile.Config{Models: map[string]llm.Model{"mine": says("x")}, Providers: providers(map[string]string{"SET": testKey})})
		if want == "" && err != nil || want != "" && (messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
