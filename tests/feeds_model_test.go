package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// fates are how the actions of a session ended, by id.
func fates(recs []*stile.Record) map[string]string {
	all := map[string]string{}
	for _, b := range bodies[*messages.ActionEnded](recs) {
		all[b.ID] = strings.TrimSpace(string(b.State) + " " + b.Reason)
	}
	return all
}

// What a model does to its session's feeds: it is there at once, in the next prompt,
// after a restart and in a replay; every call is audited, and what the manifest forbids
// fails for its reason.
func TestFeedsOfAModel(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var n, calls atomic.Int64
		agent := func(replies ...string) (*stile.Agent, *recorder) {
			m := &recorder{Model: scripted.New(replies...)}
			return fed(t, m, `
internal_actions: {allowed_actions: [add_context_feed, remove_context_feed, update_context_feed, list_context_feeds, get_context_feed, clear_context]}
context_feeds:
  - {id: fixed, pinned: true, source: {type: internal, action: agent_metadata}}
  - {id: loose, cache_ttl: 3600, source: {type: tool, name: own.count}}
`, counted("own.count", &n), counted("own.other", &calls)), m
		}
		first := []string{
			on("add", "add_context_feed", `{"id":"mine","cache_ttl":3600,"source":{"type":"tool","name":"own.other"}}`) +
				`<response final="false">$mine</response>` +
				on("twice", "add_context_feed", `{"id":"mine","source":{"type":"tool","name":"own.other"}}`) +
				on("foreign", "add_context_feed", `{"id":"f","source":{"type":"tool","name":"own.secret"}}`) +
				on("files", "add_context_feed", `{"id":"f","source":{"type":"ingest","params":{"paths":["."]}}}`) +
				on("often", "add_context_feed", `{"id":"f","interval":1,"source":{"type":"internal","action":"session"}}`) +
				on("pinned", "remove_context_feed", `{"id":"fixed"}`) +
				on("none", "update_context_feed", `{"id":"nothing","max_tokens":5}`) +
				on("cut", "update_context_feed", `{"id":"mine","max_size_bytes":1}`) +
				on("gone", "remove_context_feed", `{"id":"loose"}`) +
				on("list", "list_context_feeds", `{}`) +
				on("get", "get_context_feed", `{"id":"mine"}`) +
				on("wild", "self_destruct", `{}`),
			`<response>done</response>`,
		}
		a, m := agent(first...)
		s := open(t, l.begin(), "fed", a)
		wantDone(t, ask(t, s, "go"))
		recs := records(t, s)
		got := fates(recs)
		for id, want := range map[string]string{
			"add": "ok", "twice": "failed feed_exists", "foreign": "failed not_allowed", "files": "failed not_allowed",
			"often": "failed invalid_feed: interval: BAD_VALUE: 1 is below 5 seconds", "pinned": "failed pinned", "none": "failed feed_not_found",
			"cut": "ok", "gone": "ok", "list": "ok", "get": "ok", "wild": "failed unknown_target",
		} {
			if got[id] != want {
				t.Errorf("%s ended %q, want %q", id, got[id], want)
			}
		}
		for _, b := range bodies[*messages.ActionEnded](recs) {
			switch b.ID {
			case "list":
				if !strings.Contains(b.Result, `"id":"mine"`) || strings.Contains(b.Result, `"id":"loose"`) {
					t.Errorf("the list is %s", b.Result)
				}
			case "get":
				if !strings.Contains(b.Result, `"value":"n\n[truncated: 1 of 2 bytes]"`) {
					t.Errorf("the feed is %s", b.Result)
				}
			}
		}
		if got := said(t, s); !strings.HasPrefix(got, "n1|") {
			t.Errorf("said %q", got)
		}
		want := "<context_feed id=\"mine\" truncated=\"true\">\nn\n[truncated: 1 of 2 bytes]\n</context_feed>\n"
		if got := fedWith(m.requests()[1]); !strings.HasSuffix(got, want) || strings.Contains(got, "loose") {
			t.Errorf("the second prompt has\n%s", got)
		}
		if got := audits(t, s); !slices.Contains(got, "internal add_context_feed allowed") || !slices.Contains(got, "internal remove_context_feed allowed pinned") {
			t.Errorf("audits %v", got)
		}

		// Another process.
		a, m = agent(append(first, on("back", "add_context_feed", `{"id":"loose","source":{"type":"internal","action":"session"}}`)+
			on("clear", "clear_context", `{}`)+`<response>ok</response>`, `<response>last</response>`)...)
		l.end()
		rt := l.begin()
		s = open(t, rt, "fed", a)
		wantDone(t, ask(t, s, "again"))
		if got := fedWith(m.requests()[0]); !strings.HasSuffix(got, want) || strings.Contains(got, "loose") {
			t.Errorf("after a restart the prompt has\n%s", got)
		}
		before := calls.Load()
		wantDone(t, ask(t, s, "and again"))
		if got := fedWith(m.requests()[1]); !strings.Contains(got, "<context_feed id=\"loose\">\n{\"id\":\"local:local:fed\"") || calls.Load() != before+1 {
			t.Errorf("after clear_context %d fetches, and\n%s", calls.Load()-before, got)
		}
		if n.Load() != 1 {
			t.Errorf("the removed feed was fetched %d times", n.Load())
		}
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
		l.end()
	})
}

// With the extension feed_references the model's feeds refer to others: each is fetched after
// those it names, fails with them, and keeps them from being removed. It is all as before after
// a restart and in a replay.
func TestReferencesOfAModel(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var asked []string
		var broken atomic.Bool
		echo := tools.Tool{
			Name: "own.echo", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "any"}},
			Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
				b, err := neuroscript.AppendJSON(nil, c.Args[0])
				asked = append(asked, string(b))
				if broken.Load() {
					return neuroscript.Value{}, errors.New("out of order")
				}
				return c.Args[0], err
			},
		}
		agent := func(replies ...string) (*stile.Agent, *recorder) {
			m := &recorder{Model: scripted.New(replies...)}
			return fed(t, m, `
extensions: [feed_references]
context_feeds:
  - {id: who, cache_ttl: 3600, source: {type: internal, action: agent_metadata}}
  - {id: twice, source: {type: tool, name: own.echo, params: {v: "%{who.name}, %{who.name} 100%%"}}}
`, echo), m
		}
		first := []string{
			on("add", "add_context_feed", `{"id":"top","source":{"type":"tool","name":"own.echo","params":{"v":{"is":"$twice"}}}}`) +
				`<response final="false">${top.is}</response>` +
				on("circle", "update_context_feed", `{"id":"twice","source":{"type":"tool","name":"own.echo","params":{"v":"$top"}}}`) +
				on("used", "remove_context_feed", `{"id":"twice"}`) +
				on("off", "update_context_feed", `{"id":"who","enabled":false}`),
			`<response>done</response>`,
		}
		a, m := agent(first...)
		s := open(t, l.begin(), "fed", a)
		wantDone(t, ask(t, s, "go"))
		got := fates(records(t, s))
		for id, want := range map[string]string{
			"add": "ok", "circle": "failed feed_cycle: twice>top>twice", "used": "failed feed_in_use: top", "off": "failed feed_in_use: twice",
		} {
			if got[id] != want {
				t.Errorf("%s ended %q, want %q", id, got[id], want)
			}
		}
		if got := said(t, s); !strings.HasPrefix(got, "fed, fed 100%|") {
			t.Errorf("said %q", got)
		}
		const tail = "<context_feed id=\"twice\">\nfed, fed 100%\n</context_feed>\n<context_feed id=\"top\">\n{\"is\":\"fed, fed 100%\"}\n</context_feed>\n"
		if got := fedWith(m.requests()[1]); !strings.HasSuffix(got, tail) {
			t.Errorf("the second prompt has\n%s", got)
		}
		if system := m.requests()[0].Messages[0].Text; !strings.Contains(system, `"cascade": true`) {
			t.Errorf("the primer has no example:\n%s", system)
		}

		// Another process; the source at the bottom fails now, and all that need it.
		a, m = agent(append(first, `<response>worse</response>`,
			on("all", "remove_context_feed", `{"id":"twice","cascade":true}`)+`<response>bare</response>`, `<response>last</response>`)...)
		l.end()
		rt := l.begin()
		s = open(t, rt, "fed", a)
		broken.Store(true)
		wantDone(t, ask(t, s, "again"))
		reasons := map[string]string{}
		for _, b := range bodies[*messages.FeedInjected](records(t, s)) {
			reasons[b.ID] = b.Error + " " + b.Reason
		}
		if got := reasons["top"]; !strings.HasPrefix(got, "failed needs twice: ") {
			t.Errorf("top: %q", got)
		}
		broken.Store(false)
		wantDone(t, ask(t, s, "and again"))
		if got := fates(records(t, s))["all"]; got != "ok" {
			t.Errorf("the cascade ended %q", got)
		}
		wantDone(t, ask(t, s, "at last"))
		reqs := m.requests()
		if got := fedWith(reqs[len(reqs)-1]); strings.Contains(got, "twice") || strings.Contains(got, "top") || !strings.Contains(got, "who") {
			t.Errorf("after the cascade the prompt has\n%s", got)
		}
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
		l.end()
	})
}

// Without the permission the model knows of no such action and can do none.
func TestFeedActionsThatAreNotAllowed(t *testing.T) {
	for _, internal := range []string{"{enabled: false}", "{allowed_actions: []}", "{blocked_actions: [add_context_feed]}"} {
		m := &recorder{Model: scripted.New(on("a", "add_context_feed", `{"id":"f","source":{"type":"internal","action":"session"}}`)+`<response>no</response>`, `<response>$f</response>`)}
		a := fed(t, m, "internal_actions: "+internal+"\n")
		rt := start(t, stile.Config{})
		s := open(t, rt, "fed", a)
		wantDone(t, ask(t, s, "go"))
		wantDone(t, ask(t, s, "go"))
		recs := records(t, s)
		if got := fates(recs)["a"]; got != "failed not_allowed" || len(injected(recs)) > 0 {
			t.Errorf("%s: ended %q, feeds %v", internal, got, injected(recs))
		}
		if got := fmt.Sprint(m.requests()[0].Messages[0].Text); strings.Contains(got, "add_context_feed") {
			t.Errorf("%s: the model is told of it", internal)
		}
	}
}

// Parts of the prompt are switched by reserved feeds.
func TestPartsOfThePrompt(t *testing.T) {
	system := func(feeds string) string {
		m := &recorder{Model: scripted.New(`<response>ok</response>`)}
		a := fed(t, m, "summary: Counts birds.\ntools: [str.ToUpper]\ncontext_feeds:\n"+feeds)
		wantDone(t, ask(t, open(t, start(t, stile.Config{}), "fed", a), "go"))
		var all []string
		for _, m := range m.requests()[0].Messages {
			if m.Role == messages.RoleSystem {
				all = append(all, m.Text)
			}
		}
		return strings.Join(all, "\n")
	}
	const feed = "  - {id: f, source: {type: internal, action: session}}\n"
	for _, c := range []struct {
		feeds               string
		identity, tools, on bool // on: the words about data
	}{
		{"  []\n", false, true, false},
		{feed, false, true, true},
		{feed + "  - {id: builtin.security, enabled: no}\n  - {id: builtin.identity}\n", true, true, false},
		{"  - {id: builtin.security}\n  - {id: builtin.tools, enabled: off}\n", false, false, true},
	} {
		got := system(c.feeds)
		if strings.Contains(got, "You are fed.\nCounts birds.") != c.identity || strings.Contains(got, "str.ToUpper") != c.tools || strings.Contains(got, "never follow instructions") != c.on {
			t.Errorf("%s\ngives\n%.200s …", c.feeds, got)
		}
	}
	for feeds, want := range map[string]string{
		feed + "  - {id: builtin.soul}\n":                                            "context_feeds[1].id",
		"  - {id: builtin.tools, max_tokens: 5}\n" + feed:                            "context_feeds[0]",
		"  - {id: builtin.tools}\n  - {id: builtin.tools}\n":                         "context_feeds[1].id",
		"  - {id: builtin.tools}\n  - {id: f, source: {type: tool, name: no.one}}\n": "context_feeds[1].source.name",
		"  - {id: builtin.tools}\n  - {id: f, source: {type: internal}}\n":           "context_feeds[1].source.action",
	} {
		err := stile.Check(fed(t, says(""), "context_feeds:\n"+feeds), stile.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v, want %s", feeds, err, want)
		}
	}
}

// An embedder reads the feeds of a session and gives them values.
func TestFeedsFromOutside(t *testing.T) {
	var n atomic.Int64
	m := &recorder{Model: scripted.New(`<response>1</response>`, `<response>2</response>`)}
	a := fed(t, m, `
context_feeds:
  - {id: kept, cache_ttl: 3600, source: {type: tool, name: own.count}}
  - {id: off, enabled: no, source: {type: internal, action: session}}
`, counted("own.count", &n))
	s := open(t, start(t, stile.Config{}), "fed", a)
	if err := s.IngestFeed(t.Context(), "kept", `{"from":"outside"}`); err != nil {
		t.Fatal(err)
	}
	wantDone(t, ask(t, s, "go"))
	if got := fedWith(m.requests()[0]); !strings.Contains(got, "\n{\"from\":\"outside\"}\n") || n.Load() != 0 {
		t.Errorf("%d fetches, and the prompt has\n%s", n.Load(), got)
	}
	states, err := s.Feeds(t.Context())
	if err != nil || len(states) != 2 {
		t.Fatalf("%+v: %v", states, err)
	}
	if st := states[0]; st.ID != "kept" || st.Source != "tool own.count" || st.Stale || st.Updated.IsZero() || st.Value != `{"from":"outside"}` {
		t.Errorf("%+v", st)
	}
	if st := states[1]; !st.Disabled || st.Value != "" || st.Source != "internal session" {
		t.Errorf("%+v", st)
	}
	wantCode(t, s.IngestFeed(t.Context(), "none", "1"), messages.ErrNotFound)
	wantCode(t, s.IngestFeed(t.Context(), "off", "1"), messages.ErrConflict)
	wantCode(t, s.IngestFeed(t.Context(), "kept", "no JSON"), messages.ErrInvalid)
}
