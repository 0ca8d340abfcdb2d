//go:build !lite

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// What a manifest says of how a model answers is sent, recorded, and in what a replay
// compares; a fallback has its own.
func TestModelOptions(t *testing.T) {
	chat, gemini := wiretest.Chat(), wiretest.Gemini()
	down := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{Status: 400, Pieces: []string{chat.Refusal(400, "bad", "no")}}))
	up := wiretest.NewServer(t, wiretest.Always(wiretest.Answer{
		Header: map[string]string{"Content-Type": "application/json"},
		Pieces: []string{gemini.Whole("Here.", messages.FinishComplete, wiretest.Counts{All: 7, Output: 3})},
	}))
	m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, `dialect: plain
model:
  provider: openai
  model: m-1
  base_url: %q
  max_tokens: 9
  options: {temperature: 0, seed: 4, stop: [END], extra: {top_k: 3}}
  fallback: [{provider: gemini, model: m-2, base_url: %q, stream: false, options: {max_output_tokens: 5, reasoning_effort: low}}]
`, down.URL+"/v1", up.URL))
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Providers: providers(map[string]string{"OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"})})
	s := open(t, rt, "s", &stile.Agent{Manifest: m})
	wantDone(t, ask(t, s, "go"))
	recs := records(t, s)
	asked := bodies[*messages.ModelRequest](recs)
	if len(asked) != 2 || asked[0].Options != `{"extra":{"top_k":3},"seed":4,"stop":["END"],"temperature":0}` || asked[1].Options != `{"max_output_tokens":5,"reasoning_effort":"low"}` {
		t.Errorf("%+v", asked)
	}
	var first map[string]json.RawMessage
	if err := json.Unmarshal(down.Seen()[0].Body, &first); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"temperature": "0", "seed": "4", "stop": `["END"]`, "top_k": "3", "max_tokens": "9", "stream": "true"} {
		if string(first[name]) != want {
			t.Errorf("%s is %s, want %s", name, first[name], want)
		}
	}
	if seen := up.Seen()[0]; !bytes.Contains(seen.Body, []byte(`"maxOutputTokens":5`)) || strings.Contains(seen.Path, "stream") {
		t.Errorf("%s %s", seen.Path, seen.Body)
	}
	reply := bodies[*messages.ModelReply](recs)
	if len(reply) != 1 || reply[0].Usage != (messages.Usage{Input: 7, Output: 3}) {
		t.Errorf("%+v", reply)
	}
	if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
		t.Error(err)
	}
}

// An llm that an action asks has the options of the agent's model, or its own.
func TestModelOptionsOfDefinitions(t *testing.T) {
	f := wiretest.Chat()
	srv := wiretest.NewServer(t, func(seen *wiretest.Seen) wiretest.Answer {
		a, err := f.Asked(seen.Body)
		switch {
		case err != nil:
			t.Errorf("%v: %s", err, seen.Body)
		case strings.HasPrefix(a.Texts[0], "sum"):
			return wiretest.Answer{Pieces: f.Stream("Four.")}
		}
		return wiretest.Answer{Pieces: f.Stream(`<action id="a" type="llm">{"name":"as","parameters":{}}</action><action id="b" type="llm">{"name":"own","parameters":{}}</action><response>${a} ${b}</response>`)}
	})
	m, err := manifest.Parse("agent.yaml", fmt.Appendf(nil, `dialect: cortex
model: {provider: openai, model: m-1, base_url: %q, options: {temperature: 1}}
import: {llms: [as, own]}
define: {llms: [{name: as, template: sum as}, {name: own, template: sum own, options: {temperature: 0.5, seed: 1}}]}
`, srv.URL+"/v1"))
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, stile.Config{Providers: providers(map[string]string{"OPENAI_API_KEY": "o"})})
	s := open(t, rt, "s", &stile.Agent{Manifest: m})
	wantDone(t, ask(t, s, "go"))
	temperatures := map[string]string{}
	for _, seen := range srv.Seen() {
		var b struct {
			Temperature, Seed json.RawMessage
			Messages          []struct{ Content string }
		}
		if err := json.Unmarshal(seen.Body, &b); err != nil {
			t.Fatal(err)
		}
		temperatures[b.Messages[0].Content] = string(b.Temperature) + string(b.Seed)
	}
	if temperatures["sum as"] != "1" || temperatures["sum own"] != "0.51" {
		t.Errorf("%q", temperatures)
	}
}

// A model that is made in Go gets them with the request.
func TestModelOptionsInGo(t *testing.T) {
	m := manifest.Default("plain")
	m.Model.Options.Stop = []string{"x"}
	var got string
	model := streams(func(req llm.Request, yield func(llm.Chunk, error) bool) {
		got = req.Options
		yield(llm.Chunk{Text: []byte("Hi."), Finish: messages.FinishComplete}, nil)
	})
	m.Model.Provider = "mine"
	rt := start(t, stile.Config{})
	wantDone(t, ask(t, open(t, rt, "s", &stile.Agent{Manifest: m, Model: model}), "go"))
	if got != `{"stop":["x"]}` {
		t.Errorf("%q", got)
	}
}

// streams is a model of one function.
type streams func(llm.Request, func(llm.Chunk, error) bool)

// Stream implements llm.Model.
func (f streams) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { f(req, yield) }
}
