package tests

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A feed that the prompt has just fetched has a last update, also in the session's first
// turn and without a cache_ttl.
func TestFeedsListedInTheFirstTurn(t *testing.T) {
	for range 20 {
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\ncontext_feeds: [{id: now, source: {type: internal, action: system_clock}}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{})
		s := open(t, rt, "s", &stile.Agent{Manifest: m, Model: scripted.New(`<action id="l" type="internal">{"name":"list_context_feeds"}</action><response>$l</response>`)})
		ask(t, s, "go")
		if got := said(t, s); !strings.Contains(got, `"last_update":"2`) {
			t.Fatalf("it lists %s", got)
		}
	}
}

// A prompt waits for a slow feed no longer than its definition says, and has its last value
// from then on; a replay has what it had.
func TestFeedOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nimport: {tools: [own.slow]}\ncontext_feeds: [{id: slow, deadline: 200ms, source: {type: tool, name: own.slow}}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		model := &recorder{Model: says("<response final=\"true\">yes</response>")}
		a := &stile.Agent{Manifest: m, Model: model, Tools: []tools.Tool{{
			Name: "own.slow", Description: "Sleeps.", Class: messages.ReadOnly,
			Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
				time.Sleep(time.Second)
				return neuroscript.String("value"), nil
			},
		}}}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		for _, want := range []string{`<context_feed id="slow" error="timeout">`, "<context_feed id=\"slow\" stale=\"true\">\nvalue"} {
			begun := time.Now()
			wantDone(t, ask(t, s, "go"))
			if took := time.Since(begun); took < 200*time.Millisecond || took > 400*time.Millisecond {
				t.Errorf("the prompt waited for %s", took)
			}
			all := model.requests()
			if got := shown(all[len(all)-1]); !strings.Contains(got, want) {
				t.Errorf("the prompt has\n%s\nwant %s", got, want)
			}
			time.Sleep(2 * time.Second)
		}
		replays(t, rt, a)
	})
}
