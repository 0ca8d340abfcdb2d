package tests

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A key-value relic is a source of feeds: they look at what the session keeps, directly
// and by a workflow. What would change it is refused, and has changed nothing.
func TestKeyValueAsFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manifest.Parse("agent.yaml", []byte(`dialect: cortex
loop: {strict: [unseen]}
import: {relics: [notes], workflows: [look]}
define:
  relics: [{name: notes, service_type: key_value}]
  workflows:
    - name: look
      steps: [{id: one, type: relic, name: notes, parameters: {operation: get, key: city}}]
      output: $one
context_feeds:
  - {id: city, type: on_demand, source: {type: relic, name: notes, params: {operation: get, key: city}}}
  - {id: keys, type: on_demand, source: {type: relic, name: notes, params: {operation: list, prefix: c}}}
  - {id: flow, type: on_demand, source: {type: workflow, name: look}}
  - {id: adds, type: on_demand, source: {type: relic, name: notes, params: {operation: add, key: n}}}
  - {id: sets, type: on_demand, source: {type: relic, name: notes, params: {operation: set, key: city, value: 1}}}
  - {id: drops, type: on_demand, source: {type: relic, name: notes, params: {operation: delete, key: absent}}}
  - {id: wrong, type: on_demand, source: {type: relic, name: notes, params: {operation: get}}}
`))
		if err != nil {
			t.Fatal(err)
		}
		model := &recorder{Model: scripted.New(
			put("a", "sync", "notes", `{"operation":"set","key":"city","value":"Oslo"}`)+`<response final="false">noted</response>`,
			put("b", "sync", "notes", `{"operation":"list"}`)+`<response>$b</response>`)}
		a := &stile.Agent{Manifest: m, Model: model}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		failed := ""
		for _, id := range []string{"adds", "sets", "drops", "wrong"} {
			failed += fmt.Sprintf("<context_feed id=\"%s\" error=\"failed\">\n\n</context_feed>\n", id)
		}
		for i, want := range []string{
			"<context_feed id=\"city\">\n{\"found\":false,\"value\":null}\n</context_feed>\n<context_feed id=\"keys\">\n{\"keys\":[],\"more\":false}\n</context_feed>\n<context_feed id=\"flow\">\n{\"found\":false,\"value\":null}\n</context_feed>\n" + failed,
			"<context_feed id=\"city\">\n{\"found\":true,\"value\":\"Oslo\"}\n</context_feed>\n<context_feed id=\"keys\">\n{\"keys\":[\"city\"],\"more\":false}\n</context_feed>\n<context_feed id=\"flow\">\n{\"found\":true,\"value\":\"Oslo\"}\n</context_feed>\n" + failed,
		} {
			if got := fedWith(model.requests()[i]); got != want {
				t.Errorf("prompt %d has\n%s\nwant\n%s", i, got, want)
			}
		}
		if got := said(t, s); !strings.HasSuffix(got, `{"keys":["city"],"more":false}`) {
			t.Errorf("said %s", got)
		}
		if n := len(bodies[*messages.RelicChanged](records(t, s))); n != 1 {
			t.Errorf("%d changes", n)
		}
		replays(t, rt, a)
	})
}

// A feed that looks at a relic every second does not keep its session awake.
func TestKeyValueFeedLetsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manifest.Parse("agent.yaml", []byte(`dialect: cortex
loop: {strict: [unseen]}
import: {relics: [notes]}
define: {relics: [{name: notes, service_type: key_value}]}
context_feeds: [{id: keys, type: periodic, interval: 1, source: {type: relic, name: notes, params: {operation: list}}}]
`))
		if err != nil {
			t.Fatal(err)
		}
		a := &stile.Agent{Manifest: m, Model: scripted.New(
			put("a", "sync", "notes", `{"operation":"set","key":"k","value":1}`)+`<response>1</response>`, `<response>$keys</response>`)}
		rt := start(t, stile.Config{IdleTimeout: time.Minute})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		time.Sleep(10 * time.Second)
		all, err := s.Feeds(t.Context())
		if err != nil || len(all) != 1 || all[0].Value != `{"keys":["k"],"more":false}` || all[0].Stale {
			t.Errorf("%+v %v", all, err)
		}
		time.Sleep(2 * time.Minute)
		if n := rt.SessionsInMemory(); n != 0 {
			t.Errorf("%d sessions are awake", n)
		}
		wantDone(t, ask(t, s, "again"))
		if got := said(t, s); !strings.HasSuffix(got, `|{"keys":["k"],"more":false}`) {
			t.Errorf("said %s", got)
		}
		replays(t, rt, a)
	})
}
