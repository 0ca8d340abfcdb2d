package tests

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// asking is an agent whose feed news has its value from the agent scout.
func asking(t *testing.T, m *recorder, scout *stile.Agent, feed string) *stile.Agent {
	t.Helper()
	a := fed(t, m, "extensions: [remote_feeds]\nimport: {agents: [scout]}\ncontext_feeds:\n  - {id: news, "+feed+"}\n")
	a.Agents = []*stile.Agent{scout}
	return a
}

const hourly = `cache_ttl: 3600, source: {type: agent, name: scout, params: {message: "what is new?"}}`

func kids(t *testing.T, rt *stile.Runtime, s *stile.Session) (names []string) {
	t.Helper()
	for head, err := range rt.Archive().Sessions(t.Context(), s.SID()+".feed.") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(head.SID, s.SID()))
	}
	slices.Sort(names)
	return names
}

// A feed of an agent has its answer, from a session that is kept and remembers. A replay asks
// nobody.
func TestFeedOfAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scout := worker("scout", "plain")
		said := &recorder{Model: scripted.New("rain", "sun")}
		scout.Model = said
		m := &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>", "<response>c $news</response>")}
		a := asking(t, m, scout, hourly)
		rt := start(t, stile.Config{})
		s := open(t, rt, "asks", a)
		wantDone(t, ask(t, s, "one"))
		wantDone(t, ask(t, s, "two"))
		time.Sleep(2 * time.Hour)
		wantDone(t, ask(t, s, "three"))
		for i, want := range []string{"rain", "rain", "sun"} {
			if got := fedWith(m.requests()[i]); got != "<context_feed id=\"news\">\n"+want+"\n</context_feed>\n" {
				t.Errorf("prompt %d has %q", i, got)
			}
		}
		if got := said.requests(); len(got) != 2 || !strings.Contains(got[1].Messages[1].Text, "rain") && !strings.Contains(got[1].Messages[2].Text, "rain") {
			t.Errorf("the scout was asked %d times, at last with %+v", len(got), got)
		}
		if got := kids(t, rt, s); !slices.Equal(got, []string{".feed.news"}) {
			t.Errorf("child sessions %q", got)
		}
		child, err := rt.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		opened := records(t, child)[0].Body.(*messages.SessionOpened)
		if want := (messages.ParentLink{SID: s.SID(), Incarnation: s.Incarnation().String(), Action: "feed:news", Depth: 1}); opened.Parent == nil || *opened.Parent != want {
			t.Errorf("%+v", opened.Parent)
		}
		for _, name := range []string{"asks", child.SID()} {
			if _, err := rt.Replay(t.Context(), name, nil); err != nil {
				t.Error(err)
			}
		}
		if n := len(said.requests()); n != 2 {
			t.Errorf("a replay asked the agent: %d requests", n)
		}
	})
}

// What the agent used for a prompt counts to the run, what it used by the clock does not; both
// count once to the user.
func TestFeedOfAgentCounts(t *testing.T) {
	for name, c := range map[string]struct {
		feed   string
		counts bool
	}{
		"on demand": {hourly, true},
		"periodic":  {`interval: 60, source: {type: agent, name: scout, params: {message: "what is new?"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &recorder{Model: scripted.New("<response>a</response>")}
				scout := worker("scout", "plain")
				scout.Model = costing(t, "rain", 30)
				a := asking(t, m, scout, c.feed)
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				synctest.Wait()
				wantDone(t, ask(t, s, "one"))
				var of messages.Budget
				child, err := rt.Find(t.Context(), s.SID()+".feed.news")
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range bodies[*messages.ModelReply](records(t, child)) {
					of.Tokens += b.Usage.Input + b.Usage.Output
				}
				var recorded int64
				for _, b := range bodies[*messages.FeedInjected](records(t, s)) {
					recorded += b.Tokens
				}
				want := int64(0)
				if c.counts {
					want = of.Tokens
				}
				if of.Tokens == 0 || recorded != want {
					t.Errorf("the agent used %d, %d count to the run", of.Tokens, recorded)
				}
				replays(t, rt, a)
			})
		})
	}
}

// A fetch uses no more than its budget, and what it used ends a run that has no more left.
func TestFeedOfAgentBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>")}
		scout := worker("scout", "cortex")
		scout.Model = costing(t, `<response final="false">x</response>`, 30)
		a := asking(t, m, scout, strings.Replace(hourly, "params", "budget: {tokens: 20}, params", 1))
		rt := start(t, stile.Config{})
		s := open(t, rt, "asks", a)
		wantDone(t, ask(t, s, "one"))
		b := bodies[*messages.FeedInjected](records(t, s))[0]
		if b.Error != feeds.ErrorFailed || !strings.Contains(b.Reason, "ERR_QUOTA") || b.Tokens == 0 {
			t.Errorf("%+v", b)
		}
		scout = worker("scout", "plain")
		scout.Model = costing(t, "rain", 300)
		a = asking(t, &recorder{Model: scripted.New("<response>never</response>")}, scout, hourly)
		a.Manifest.Quotas.Tokens = 100
		s = open(t, rt, "poor", a)
		wantHalt(t, ask(t, s, "one"), messages.ErrQuota, "tokens")
		if n := len(a.Model.(*recorder).requests()); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
		if _, err := rt.Replay(t.Context(), "poor", nil); err != nil {
			t.Error(err)
		}
	})
}

// A user who has used what they may in a day has no more fetches that day.
func TestFeedOfAgentOfTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asking(t, &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>")}, worker("scout", "plain"),
			`interval: 60, source: {type: agent, name: scout, params: {message: "what is new?"}}`)
		a.Agents[0].Model = costing(t, "rain", 300, "sun", 300)
		rt := start(t, stile.Config{Spending: stile.Spending{UserTokensPerDay: 200}})
		s := open(t, rt, "asks", a)
		time.Sleep(5 * time.Minute)
		child, err := rt.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(bodies[*messages.RunEnd](records(t, child))); n != 1 {
			t.Errorf("%d runs", n)
		}
		all, err := s.Feeds(t.Context())
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, "what they may in a day") {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// An agent that takes its time is not waited for: the prompt goes on, and the next one has the
// answer. One that takes too long is stopped.
func TestFeedOfSlowAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scout := worker("scout", "cortex", `<action id="a" mode="sync">{"name":"t.slow"}</action>`, "<response>rain</response>", `<action id="a" mode="sync">{"name":"t.ever","timeout":3600}</action>`)
		slow, ever := tool("t.slow", messages.ReadOnly, pause(time.Minute)), tool("t.ever", messages.ReadOnly, waits)
		scout.Tools = append(scout.Tools, slow, ever)
		scout.Manifest.Import.Tools = []string{"t.slow", "t.ever"}
		scout.Manifest.Quotas.TurnWall, scout.Manifest.Quotas.RunWall = 2*time.Hour, 2*time.Hour
		m := &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>", "<response>c</response>", "<response>d</response>")}
		rt := start(t, stile.Config{})
		s := open(t, rt, "asks", asking(t, m, scout, hourly))
		begun := time.Now()
		wantDone(t, ask(t, s, "one"))
		if d := time.Since(begun); d > 3*time.Second {
			t.Errorf("the prompt waited %s", d)
		}
		time.Sleep(2 * time.Minute)
		wantDone(t, ask(t, s, "two"))
		time.Sleep(2 * time.Hour)
		wantDone(t, ask(t, s, "three"))
		time.Sleep(feeds.AgentTimeout + time.Minute)
		synctest.Wait()
		if got, want := injected(records(t, s)), []string{"news timeout", "news", "news stale"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		child, err := rt.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		ends := bodies[*messages.RunEnd](records(t, child))
		if len(ends) != 2 || ends[1].Reason != messages.ErrCancelled {
			t.Errorf("the runs of the agent ended %+v", ends)
		}
	})
}

// With fresh each fetch has a session of its own.
func TestFeedOfFreshAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>")}
		scout := worker("scout", "plain")
		said := &recorder{Model: scripted.New("rain", "sun")}
		scout.Model = said
		rt := start(t, stile.Config{})
		s := open(t, rt, "asks", asking(t, m, scout, strings.Replace(hourly, "params", "fresh: true, params", 1)))
		wantDone(t, ask(t, s, "one"))
		time.Sleep(2 * time.Hour)
		wantDone(t, ask(t, s, "two"))
		if got := kids(t, rt, s); len(got) != 2 {
			t.Errorf("child sessions %q", got)
		}
		if got := said.requests(); len(got) != 2 || len(got[1].Messages) != len(got[0].Messages) {
			t.Errorf("a fresh session remembers: %+v", got)
		}
		if err := rt.Delete(t.Context(), "asks", "test"); err != nil {
			t.Fatal(err)
		}
		for _, name := range kids(t, rt, s) {
			if _, err := rt.Find(t.Context(), s.SID()+name); !stile.IsNotFound(err) {
				t.Errorf("%s is left: %v", name, err)
			}
		}
	})
}

// The erasure of a session erases those in which agents were asked for its feeds, also one that
// is being asked.
func TestFeedOfAgentErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scout := worker("scout", "cortex", `<action id="a" mode="sync">{"name":"t.ever"}</action>`)
		scout.Tools = append(scout.Tools, tool("t.ever", messages.ReadOnly, waits))
		scout.Manifest.Import.Tools = []string{"t.ever"}
		rt := start(t, stile.Config{})
		s := open(t, rt, "asks", asking(t, &recorder{Model: scripted.New("<response>a</response>")}, scout, hourly))
		wantDone(t, ask(t, s, "one"))
		if got := kids(t, rt, s); len(got) != 1 {
			t.Fatalf("child sessions %q", got)
		}
		child, err := rt.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Delete(t.Context(), "asks", "test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for r, err := range child.Records(t.Context()) {
			if err != nil || r.Raw != nil {
				t.Fatalf("%v: %+v is left", err, r)
			}
		}
	})
}

// A run that was for a fetch of a process that is gone is cancelled when its session wakes, and
// the next fetch asks anew.
func TestFeedOfAgentAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		keys, err := stile.GenerateKeys(stile.Config{})
		if err != nil {
			t.Fatal(err)
		}
		scout := worker("scout", "cortex", "<response>sun</response>", `<action id="a" mode="sync">{"name":"t.ever","timeout":3600}</action>`, "<response>rain</response>")
		scout.Tools = append(scout.Tools, tool("t.ever", messages.ReadOnly, waits))
		scout.Manifest.Import.Tools = []string{"t.ever"}
		a := asking(t, &recorder{Model: scripted.New("<response>a</response>", "<response>b</response>", "<response>c</response>")}, scout, hourly)
		first, err := stile.New(t.Context(), stile.Config{Store: store, Keys: keys, Agents: []*stile.Agent{a}})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, first, "asks", a)
		wantDone(t, ask(t, s, "one"))
		time.Sleep(2 * time.Hour)
		wantDone(t, ask(t, s, "two"))
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := start(t, stile.Config{Store: store, Keys: keys, Agents: []*stile.Agent{a}})
		if _, err := second.Booted(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		child, err := second.Find(t.Context(), s.SID()+".feed.news")
		if err != nil {
			t.Fatal(err)
		}
		ends := bodies[*messages.RunEnd](records(t, child))
		if len(ends) != 2 || ends[1].Reason != messages.ErrCancelled || !strings.Contains(ends[1].Detail, "feed news of "+s.SID()+", which is not waited for any more") {
			t.Fatalf("%+v", ends)
		}
		s = open(t, second, "asks", a)
		wantDone(t, ask(t, s, "three"))
		if got, want := injected(records(t, s)), []string{"news", "news stale", "news"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Manifests that are refused, with the place and the way out.
func TestFeedOfAgentRefused(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"too often", `cache_ttl: 29, source: {type: agent, name: scout}`, "context_feeds[0].cache_ttl: ERR_CONFIG/BAD_VALUE: 29 is below 30 seconds"},
		{"for each prompt", `source: {type: agent, name: scout}`, "context_feeds[0].cache_ttl: ERR_CONFIG/MISSING"},
		{"ticks too often", `interval: 59, source: {type: agent, name: scout}`, "context_feeds[0].interval: ERR_CONFIG/BAD_VALUE: 59 is below 60 seconds"},
		{"not imported", `cache_ttl: 30, source: {type: agent, name: other}`, `context_feeds[0].source.name: ERR_CONFIG/BAD_VALUE: the agent "other" is not in import.agents`},
		{"nameless", `cache_ttl: 30, source: {type: agent}`, "context_feeds[0].source.name: ERR_CONFIG/MISSING"},
		{"fresh elsewhere", `source: {type: internal, action: session, fresh: true}`, "context_feeds[0].source.fresh: ERR_CONFIG/BAD_VALUE: only a source of type agent has one"},
		{"budget elsewhere", `source: {type: internal, action: session, budget: {tokens: 1}}`, "context_feeds[0].source.budget: ERR_CONFIG/BAD_VALUE"},
	} {
		m, err := manifest.Parse("m.yaml", []byte("dialect: cortex\nname: asks\nextensions: [remote_feeds]\nimport: {agents: [scout]}\ncontext_feeds: [{id: news, "+c.yaml+"}]\ndefine: {agents: [{name: scout, dialect: plain}]}\n"))
		if err == nil {
			_, err = start(t, stile.Config{}).Open(t.Context(), "s", &stile.Agent{Manifest: m, Model: scripted.New("x")})
		}
		if err == nil || !strings.Contains(err.Error(), strings.Split(c.want, ": ERR")[0]) || !strings.Contains(err.Error(), c.want[strings.LastIndex(c.want, "/")+1:]) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	// An agent that feeds itself, by itself and by another one.
	a := fed(t, scripted.New("x"), "extensions: [remote_feeds]\nimport: {agents: [scout]}\ncontext_feeds: [{id: news, "+hourly+"}]\n")
	scout := fed(t, scripted.New("x"), "extensions: [remote_feeds]\nimport: {agents: [fed]}\ncontext_feeds: [{id: news, cache_ttl: 30, source: {type: agent, name: fed}}]\n")
	scout.Manifest.Name = "scout"
	a.Agents, scout.Agents = []*stile.Agent{scout}, []*stile.Agent{a}
	if _, err := start(t, stile.Config{}).Open(t.Context(), "s", a); err == nil || !strings.Contains(err.Error(), "fed > scout > fed") {
		t.Errorf("%v", err)
	}
	// The model adds none.
	set, err := feeds.NewSet(nil, feeds.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	p := feeds.Permission{Import: map[feeds.Kind][]string{feeds.Agent: {"scout"}}}
	_, err = set.Do(feeds.Call{Name: feeds.AddFeed, Permission: p, Params: `{"id":"b","cache_ttl":60,"source":{"type":"agent","name":"scout","params":{"message":"x"}}}`})
	if err == nil || feeds.FailureReason(err) != feeds.ReasonNotAllowed {
		t.Errorf("%v", err)
	}
}

// The other dialect that calls more than tools has feeds of agents as well.
func TestFeedOfAgentInCogency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asking(t, &recorder{Model: scripted.New("hello")}, worker("scout", "plain", "rain"), hourly)
		m := manifest.Default("cogency")
		m.Name, m.Import, m.Extensions, m.ContextFeeds = "fed", a.Manifest.Import, a.Manifest.Extensions, a.Manifest.ContextFeeds
		a.Manifest = m
		s := open(t, start(t, stile.Config{}), "asks", a)
		wantDone(t, ask(t, s, "one"))
		if got := injected(records(t, s)); !slices.Equal(got, []string{"news"}) {
			t.Errorf("%q", got)
		}
	})
}
