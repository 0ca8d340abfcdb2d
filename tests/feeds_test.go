package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// fed is an agent in cortex with these feeds, as YAML, and tools.
func fed(t testing.TB, m llm.Model, feeds string, ts ...tools.Tool) *stile.Agent {
	t.Helper()
	man, err := manifest.Parse("fed.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\nname: fed\n"+feeds))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range ts {
		man.Import.Tools = append(man.Import.Tools, own.Name)
	}
	return &stile.Agent{Manifest: man, Model: m, Tools: ts}
}

// counted returns "n1", "n2" …, by its calls.
func counted(name string, n *atomic.Int64) tools.Tool {
	return tool(name, messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return neuroscript.String(fmt.Sprintf("n%d", n.Add(1))), nil
	})
}

// fedWith is what a prompt has of feeds: the message behind what the system says.
func fedWith(req llm.Request) string {
	for _, m := range req.Messages {
		if m.Role != messages.RoleSystem {
			if strings.HasPrefix(m.Text, "<context_feed ") {
				return m.Text
			}
			return ""
		}
	}
	return ""
}

// injected lists the records of a session's feeds.
func injected(recs []*stile.Record) (all []string) {
	for _, b := range bodies[*messages.FeedInjected](recs) {
		s := b.ID
		if b.Stale {
			s += " stale"
		}
		if b.Truncated {
			s += " truncated"
		}
		if b.Error != "" {
			s += " " + b.Error
		}
		all = append(all, s)
	}
	return all
}

func TestFeedsInThePromptAndBehindReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var got []string
		keeps := tools.Tool{
			Name: "own.keep", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "any"}},
			Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
				b, err := neuroscript.AppendJSON(nil, c.Args[0])
				got = append(got, string(b))
				return c.Args[0], err
			},
		}
		m := &recorder{Model: scripted.New(
			`<action id="k">{"name":"own.keep","parameters":{"v":{"whole":"$who","text":"at $tick: ${who.agent}"}}}</action>`,
			`<response>$tick, $nothing, $off</response>`,
		)}
		a := fed(t, m, `
context_feeds:
  - {id: tick, source: {type: tool, name: own.count}}
  - {id: who, source: {type: internal, action: agent_metadata}}
  - {id: off, enabled: "no", source: {type: internal, action: session}}
  - {id: big, max_size_bytes: 4, source: {type: tool, name: own.long}}
`, counted("own.count", &n), keeps, tool("own.long", messages.ReadOnly, gives("</context_feed> and more")))
		rt := start(t, stile.Config{})
		s := open(t, rt, "fed", a)
		wantDone(t, ask(t, s, "go"))
		if n.Load() != 2 {
			t.Errorf("fetched %d times for two prompts", n.Load())
		}
		reqs := m.requests()
		want := "<context_feed id=\"tick\">\nn1\n</context_feed>\n" +
			"<context_feed id=\"who\">\n{\"dialect\":\"cortex\",\"name\":\"fed\"}\n</context_feed>\n" +
			"<context_feed id=\"big\" truncated=\"true\">\n</co\n[truncated: 4 of 24 bytes]\n</context_feed>\n"
		if got := fedWith(reqs[0]); got != want {
			t.Errorf("the prompt has\n%s, want\n%s", got, want)
		}
		if got := fedWith(reqs[1]); !strings.Contains(got, "n2") || strings.Contains(got, "n1") {
			t.Errorf("the second prompt has\n%s", got)
		}
		if len(got) != 1 || got[0] != `{"text":"at n1: ${who.agent}","whole":{"dialect":"cortex","name":"fed"}}` {
			t.Errorf("the tool got %v", got)
		}
		recs := records(t, s)
		if got := fmt.Sprint(injected(recs)); got != "[tick who big truncated tick who big truncated]" {
			t.Errorf("records %s", got)
		}
		said := bodies[*messages.UnitText](recs)
		if got := said[len(said)-1].Text; got != "n2, $nothing, $off" {
			t.Errorf("said %q", got)
		}
		b := bodies[*messages.FeedInjected](recs)[1]
		if v, err := s.Blob(t.Context(), b.Digest); err != nil || !strings.Contains(string(v), `"name":"fed"`) {
			t.Errorf("the value is kept as %q: %v", v, err)
		}
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}

// A feed that fails, hangs or panics is reported as such, and delays no prompt beyond the
// deadline.
func TestFeedsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{Model: scripted.New(`<response>$bad</response>`, `<response>again</response>`)}
		a := fed(t, m, `
context_feeds:
  - {id: bad, source: {type: tool, name: own.bad}}
  - {id: hangs, source: {type: tool, name: own.hangs}}
  - {id: panics, source: {type: tool, name: own.panics}}
  - {id: needs, source: {type: tool, name: own.good, params: {of: $bad}}}
  - {id: good, source: {type: tool, name: own.good}}
`,
			tool("own.bad", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
				return neuroscript.Value{}, errors.New("no luck")
			}),
			tool("own.hangs", messages.ReadOnly, waits),
			tool("own.panics", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) { panic("broken") }),
			tools.Tool{Name: "own.good", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "of", Type: "any", Optional: true}}, Run: gives("yes")},
		)
		rt := start(t, stile.Config{})
		s := open(t, rt, "fed", a)
		began := time.Now()
		wantDone(t, ask(t, s, "go"))
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the turn took %s, want the deadline of its feeds", took)
		}
		recs := records(t, s)
		if got := fmt.Sprint(injected(recs)); got != "[bad failed hangs timeout panics failed needs failed good]" {
			t.Errorf("records %s", got)
		}
		var reasons []string
		for _, b := range bodies[*messages.FeedInjected](recs) {
			reasons = append(reasons, b.Reason)
		}
		if got := strings.Join(reasons, "|"); got != "no luck|not fetched in time|the source crashed|needs bad: no luck|" {
			t.Errorf("reasons %s", got)
		}
		states, err := s.Feeds(t.Context())
		if err != nil || states[0].Reason != "no luck" || states[4].Reason != "" {
			t.Errorf("states %+v, %v", states, err)
		}
		if got := fedWith(m.requests()[0]); strings.Contains(got, "luck") || !strings.Contains(got, "<context_feed id=\"hangs\" error=\"timeout\">\n\n</context_feed>") {
			t.Errorf("the prompt has\n%s", got)
		}
		said := bodies[*messages.UnitText](recs)
		if got := said[len(said)-1].Text; got != "[unavailable: bad]" {
			t.Errorf("said %q", got)
		}
		wantDone(t, ask(t, s, "and again")) // the crashed one is held back, the others are not
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}

// A cancel while feeds are fetched ends the turn at once, and no model is asked.
func TestCancelWhileFeedsAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{Model: scripted.New(`<response>never</response>`, `<response>then</response>`)}
		a := fed(t, m, "context_feeds: [{id: hangs, source: {type: tool, name: own.hangs}}]\n", tool("own.hangs", messages.ReadOnly, waits))
		rt := start(t, stile.Config{})
		s := open(t, rt, "fed", a)
		run := submit(t, s, "go")
		synctest.Wait()
		began := time.Now()
		if err := s.Cancel(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, run), messages.ErrCancelled)
		if time.Since(began) > time.Second || len(m.requests()) != 0 {
			t.Errorf("it took %s, and the model was asked %d times", time.Since(began), len(m.requests()))
		}
		wantDone(t, ask(t, s, "again"))
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}

// Periodic feeds tick while their session is awake and not while it sleeps; values
// outlive the sleep, and go stale when nothing refreshes them.
func TestPeriodicFeedsSleepWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var broken atomic.Bool
		m := &recorder{Model: scripted.New(`<response>1</response>`, `<response>2</response>`, `<response>3</response>`, `<response>4</response>`)}
		a := fed(t, m, "context_feeds: [{id: tick, type: periodic, interval: 10, source: {type: tool, name: own.count}}]\n",
			tool("own.count", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
				if broken.Load() {
					return neuroscript.Value{}, errors.New("down")
				}
				return neuroscript.String(fmt.Sprint(n.Add(1))), nil
			}))
		rt := start(t, stile.Config{IdleTimeout: time.Minute})
		s := open(t, rt, "fed", a)
		time.Sleep(time.Second) // it is in the cache
		wantDone(t, ask(t, s, "go"))
		time.Sleep(24 * time.Second)
		if got := n.Load(); got != 3 {
			t.Errorf("%d fetches after 25 s, want at 0, 10 and 20", got)
		}
		time.Sleep(10 * time.Minute)
		if rt.SessionsInMemory() != 0 {
			t.Fatal("the session does not sleep")
		}
		before := n.Load()
		if before > 9 {
			t.Errorf("%d fetches: it ticks in its sleep", before)
		}
		wantDone(t, ask(t, s, "up")) // begins anew
		time.Sleep(time.Second)
		if n.Load() < before+1 || n.Load() > before+2 { // the prompt may come before its first tick
			t.Errorf("%d fetches after it woke, want %d or one more", n.Load(), before+1)
		}
		broken.Store(true)
		time.Sleep(20 * time.Second)
		wantDone(t, ask(t, s, "stale"))
		time.Sleep(20 * time.Second)
		wantDone(t, ask(t, s, "gone"))
		got := injected(records(t, s))
		if len(got) != 4 || got[2] != "tick stale" || got[3] != "tick failed" {
			t.Errorf("records %v", got)
		}
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}

// ${NAME} in the parameters of an action is a variable that the manifest allows, $NAME
// and every other one is text. A replay takes the value from the journal.
func TestEnvironmentInParameters(t *testing.T) {
	t.Setenv("STILE_TEST_ROOT", "/data")
	t.Setenv("STILE_TEST_SECRET", "hidden")
	var got []string
	keeps := tools.Tool{
		Name: "own.keep", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "string"}},
		Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			text, _ := c.Args[0].AsString()
			got = append(got, text)
			return c.Args[0], nil
		},
	}
	a := fed(t, scripted.New(
		`<action id="a">{"name":"own.keep","parameters":{"v":"${STILE_TEST_ROOT}/x ${OWN} $STILE_TEST_ROOT ${STILE_TEST_SECRET} ${STILE_TEST_UNSET}"}}</action>`+
			`<action id="b">{"name":"own.keep","parameters":{"v":"${STILE_TEST_ROOT}"}}</action>`+
			`<action id="c">{"name":"own.keep","parameters":{"v":"${STILE_TEST_SECRET}"}}</action>`+
			`<response>${STILE_TEST_ROOT}</response>`), `
environment: {allow: [STILE_TEST_ROOT, STILE_TEST_UNSET], variables: {OWN: mine}}
`, keeps)
	rt := start(t, stile.Config{})
	s := open(t, rt, "fed", a)
	wantDone(t, ask(t, s, "go"))
	if fmt.Sprintf("%q", got) != `["/data/x mine $STILE_TEST_ROOT ${STILE_TEST_SECRET} ${STILE_TEST_UNSET}" "/data"]` {
		t.Errorf("the tool got %q", got)
	}
	recs := records(t, s)
	ends := bodies[*messages.ActionEnded](recs)
	if last := ends[len(ends)-1]; last.State != messages.ActionFailed || last.Reason != "unresolved_variable:STILE_TEST_SECRET" {
		t.Errorf("a variable that is not allowed: %+v", last)
	}
	seen := injected(recs)
	slices.Sort(seen) // they are read side by side
	if got := fmt.Sprint(seen); got != "[env.OWN env.STILE_TEST_ROOT env.STILE_TEST_UNSET failed]" {
		t.Errorf("records %s", got)
	}
	said := bodies[*messages.UnitText](recs)
	if got := said[len(said)-1].Text; got != "${STILE_TEST_ROOT}" {
		t.Errorf("said %q", got)
	}
	t.Setenv("STILE_TEST_ROOT", "/elsewhere")
	if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
		t.Errorf("replay: %v", err)
	}
}

// A process that dies after the reply goes on with the values the turn had.
func TestFeedsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	var n atomic.Int64
	held := make(chan struct{})
	var once atomic.Bool
	var got atomic.Value
	keep := tools.Tool{
		Name: "own.keep", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "string"}},
		Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			text, _ := c.Args[0].AsString()
			got.Store(text)
			if !once.Swap(true) {
				close(held)
				<-ctx.Done()
			}
			return c.Args[0], ctx.Err()
		},
	}
	agent := func() *stile.Agent {
		return fed(t, scripted.New(`<action id="a">{"name":"own.keep","parameters":{"v":"$tick"}}</action><response>$tick</response>`),
			"context_feeds: [{id: tick, source: {type: tool, name: own.count}}]\n", counted("own.count", &n), keep)
	}
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, rt, "fed", agent())
	submit(t, s, "go")
	<-held
	for { // the reply is on disk
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(bodies[*messages.ModelReply](stored(t, s))) > 0 {
			break
		}
	}
	if err := rt.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	a := agent()
	rt = start(t, stile.Config{Dir: dir, Agents: []*stile.Agent{a}})
	if _, err := rt.Booted(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open(t, rt, "fed", a)
	wantDone(t, decision(t, s.Run(1)))
	recs := records(t, s)
	if len(bodies[*messages.TurnRestored](recs)) != 1 || got.Load() != "n1" || n.Load() != 1 {
		t.Errorf("kinds %v, the tool got %v, %d fetches", kinds(recs), got.Load(), n.Load())
	}
	said := bodies[*messages.UnitText](recs)
	if got := said[len(said)-1].Text; got != "n1" {
		t.Errorf("said %q", got)
	}
	if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
		t.Errorf("replay: %v", err)
	}
}

// Documents of the agent's folder are ingested, and nothing outside of it.
func TestIngestFeed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.yaml":  "dialect: cortex\nloop: {strict: [unseen]}\ncontext_feeds: [{id: docs, type: ingest, source: {params: {paths: [docs/], format: tree}}}]\n",
		"docs/one.md": "# one", "docs/two/b.md": "b",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := &recorder{Model: scripted.New(`<response>ok</response>`)}
	a.Model = m
	s := open(t, start(t, stile.Config{}), "fed", a)
	wantDone(t, ask(t, s, "go"))
	if got := fedWith(m.requests()[0]); !strings.Contains(got, "one.md") || !strings.Contains(got, "b.md") {
		t.Errorf("the prompt has\n%s", got)
	}
}

// All that is wrong with feeds is said at once, each at its line.
func TestFeedMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(`dialect: cortex
environment: {allow: [HOME]}
context_feeds:
  - {id: a, type: periodic, source: {type: internal, action: system_clock}}
  - {id: a, source: {type: tool, name: no.such}}
  - id: c
    interval: 5
    source: {type: internal, action: env, params: {names: [HOME, PATH]}}
  - {id: d, source: {type: internal, action: nothing}}
  - {id: "1", cache_ttl: -1, source: {type: relic}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := stile.LoadAgent(file)
	for _, want := range []string{
		"agent.yaml:4:", "context_feeds[0].interval", "agent.yaml:5:", "context_feeds[1].id", "context_feeds[1].source.name",
		"agent.yaml:8:", "context_feeds[2].source.params.names[1]", "agent.yaml:9:", "context_feeds[3].source.action",
		"agent.yaml:10:", "context_feeds[4].id", "context_feeds[4].cache_ttl", "context_feeds[4].source.name",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the mistakes do not name %s:\n%v", want, err)
		}
	}
}

// Where nothing opens repositories and addresses, a feed of them is an error of the
// manifest and not one of each prompt.
func TestFeedsFromElsewhere(t *testing.T) {
	for _, how := range []string{"git", "url"} {
		a := fed(t, scripted.New(`<response>ok</response>`), "context_feeds:\n  - {id: builtin.identity}\n  - {id: repo, source: {type: ingest, params: {"+how+": \"https://example.org/r\"}}}\n")
		err := stile.Check(a, stile.Config{})
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "context_feeds[1].source.params."+how) || !strings.Contains(err.Error(), "Config.Feeds.Remote") {
			t.Errorf("%s: %v", how, err)
		}
		if err := stile.Check(a, stile.Config{Feeds: stile.Feeds{Remote: elsewhere{}}}); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		s := open(t, start(t, stile.Config{Feeds: stile.Feeds{Remote: elsewhere{}}}), "fed", a)
		wantDone(t, ask(t, s, "go"))
		if got := fmt.Sprint(injected(records(t, s))); got != "[repo]" {
			t.Errorf("records %s", got)
		}
	}
}

// elsewhere has one file in every place.
type elsewhere struct{}

func (elsewhere) Open(_ context.Context, how, _ string) (fs.FS, error) {
	return fstest.MapFS{how + ".md": {Data: []byte("text")}}, nil
}

// The internal source env reads variables as parameters do: what the manifest says of one
// goes before the process.
func TestEnvironmentOfFeeds(t *testing.T) {
	t.Setenv("STILE_TEST_ROOT", "/process")
	m := &recorder{Model: scripted.New(`<response>ok</response>`)}
	a := fed(t, m, "environment: {allow: [STILE_TEST_ROOT], variables: {STILE_TEST_ROOT: /manifest}}\n"+
		"context_feeds: [{id: env, source: {type: internal, action: env, params: {names: [STILE_TEST_ROOT]}}}]\n")
	wantDone(t, ask(t, open(t, start(t, stile.Config{}), "fed", a), "go"))
	if got := fedWith(m.requests()[0]); !strings.Contains(got, `{"STILE_TEST_ROOT":"/manifest"}`) {
		t.Errorf("the prompt has\n%s", got)
	}
}

// Steps change what a feed's prompt, references and cache have; a step that fails leaves
// nothing of the value. The model may give its own feeds steps, and leaves redact alone.
func TestTransformedFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "sk-abc1"
		var got []string
		keeps := tools.Tool{
			Name: "own.keep", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "v", Type: "any"}},
			Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
				b, err := neuroscript.AppendJSON(nil, c.Args[0])
				got = append(got, string(b))
				return c.Args[0], err
			},
		}
		m := &recorder{Model: scripted.New(
			`<action id="a" type="internal">{"name":"add_context_feed","parameters":{"id":"first","source":{"type":"tool","name":"own.log"},"transform":[{"op":"head","lines":1}]}}</action>`+
				`<action id="b" type="internal">{"name":"update_context_feed","parameters":{"id":"log","transform":null}}</action>`+
				`<action id="c" type="internal">{"name":"add_context_feed","parameters":{"id":"x","source":{"type":"tool","name":"own.log"},"transform":[{"op":"redact","re2":"."}]}}</action>`+
				`<action id="d" type="internal">{"name":"add_context_feed","parameters":{"id":"x","source":{"type":"tool","name":"own.log"},"transform":[{"op":"jump"}]}}</action>`+
				`<action id="k">{"name":"own.keep","parameters":{"v":"$log"}}</action>`,
			`<response>$first</response>`,
		)}
		a := fed(t, m, `
extensions: [feed_transform]
context_feeds:
  - {id: log, max_size_bytes: 400, source: {type: tool, name: own.log}, transform: [{op: redact, re2: "sk-[a-z0-9]+"}, {op: match, re2: "^ERROR (.*)$", group: 1}]}
  - {id: bad, source: {type: tool, name: own.log}, transform: [{op: text}, {op: select, path: items}]}
`, keeps, tool("own.log", messages.ReadOnly, gives("INFO start\nERROR key "+secret+"\nERROR disk\n")))
		rt := start(t, stile.Config{})
		s := open(t, rt, "fed", a)
		wantDone(t, ask(t, s, "go"))
		reqs := m.requests()
		const log = "<context_feed id=\"log\">\nkey [redacted]\ndisk\n</context_feed>\n<context_feed id=\"bad\" error=\"failed\">\n"
		for i, want := range []string{log, log} {
			if got := fedWith(reqs[i]); !strings.HasPrefix(got, want) || strings.Contains(got, secret) {
				t.Errorf("prompt %d has\n%s", i, got)
			}
		}
		if got := fedWith(reqs[1]); !strings.Contains(got, "<context_feed id=\"first\">\nINFO start\n</context_feed>") {
			t.Errorf("the second prompt has\n%s", got)
		}
		if len(got) != 1 || got[0] != `"key [redacted]\ndisk"` {
			t.Errorf("the tool got %v", got)
		}
		if primer := reqs[0].Messages[0].Text; !strings.Contains(primer, `"transform": [{"op": "json"}`) {
			t.Error("the primer says nothing of transform")
		}
		recs := records(t, s)
		for _, b := range bodies[*messages.FeedInjected](recs) {
			if b.ID == "bad" && b.Reason != `transform[1] select: type: select takes an array or an object, and the value is of type string` {
				t.Errorf("the reason is %q", b.Reason)
			}
		}
		ends := map[string]string{}
		for _, b := range bodies[*messages.ActionEnded](recs) {
			ends[b.ID] = b.Reason
		}
		for id, want := range map[string]string{
			"a": "", "b": "not_allowed", "c": "not_allowed",
			"d": `invalid_feed: transform[0].op: BAD_VALUE: unknown operation "jump": it is one of drop, head, json, markdown, match, redact, replace, select, sort, tail, template, text, unique, yaml`,
		} {
			if ends[id] != want {
				t.Errorf("%s ended as %q, want %q", id, ends[id], want)
			}
		}
		if _, err := rt.Replay(t.Context(), "fed", a); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}
