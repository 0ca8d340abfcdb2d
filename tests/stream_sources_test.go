package tests

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// The answer of a model is shown as it comes, and is the result. What a step of a workflow
// emits is not shown: it is not the workflow's result.
func TestStreamedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nextensions: [stream]\nimport: {tools: [log.steps], llms: [l], workflows: [w]}\n"+
			"define: {llms: [{name: l, template: $q}], workflows: [{name: w, steps: [{id: n, name: log.steps}], output: done}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		script, err := scripted.Parse("s.jsonl", []byte(`{"match":{"equals":"count"},"chunks":[{"text":"one "},{"text":"zwölf ","at_ms":300},{"text":"three","at_ms":900}],"usage":{"input":3,"output":4}}
{"match":{"equals":"break"},"chunks":[{"text":"half"}],"error":{"status":500,"code":"server_error","after_bytes":2}}
{"chunks":[{"text":"<action id=\"a\" type=\"llm\" mode=\"async\">{\"name\":\"l\",\"stream\":true,\"parameters\":{\"q\":\"count\"}}</action><action id=\"b\" type=\"llm\" mode=\"async\">{\"name\":\"l\",\"stream\":true,\"parameters\":{\"q\":\"break\"}}</action><action id=\"c\" type=\"workflow\" mode=\"async\">{\"name\":\"w\",\"stream\":true}</action><response final=\"true\">${a.partial}! $c</response>"}]}
`))
		if err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{})
		a := &stile.Agent{Manifest: m, Model: script, Tools: []tools.Tool{logging("log.steps", messages.ReadOnly, 3, time.Millisecond, nil)}}
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		seen := newScreen(t)
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
		}
		wantDone(t, decision(t, run))
		got := ends(t, s)
		if got["a"] != `ok "one zwölf three"` || !strings.HasPrefix(got["b"], "failed") || got["c"] != `ok "done"` {
			t.Errorf("%q", got)
		}
		if text := said(t, s); text != "one zwölf three! done" {
			t.Errorf("said %q", text)
		}
		if seen.pieces < 4 {
			t.Errorf("%d pieces were shown", seen.pieces)
		}
		texts := map[string]string{}
		for _, c := range bodies[*messages.ActionChunk](records(t, s)) {
			texts[c.ID] += string(c.Bytes)
		}
		if texts["a"] != "one zwölf three" || !strings.HasPrefix("half", texts["b"]) || texts["c"] != "" {
			t.Errorf("recorded %q", texts)
		}
		replays(t, rt, a)
	})
}

// Streams that do not end, pieces of any length and pieces that come too late.
func TestStreamedBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 20
		big := strings.Repeat("é", 100<<10) // 200 KiB: cut inside of characters
		var sum int
		var stopped error
		late := make(chan error, 1)
		text := neuroscript.String
		a := streamed(nil, []string{`<action id="ever" mode="async" show="none">{"name":"ever","stream":true}</action>
<action id="big" mode="async">{"name":"big","stream":true}</action>
<action id="bytes" mode="async" show="none">{"name":"bytes","stream":true}</action>
<action id="late" mode="async">{"name":"late","stream":true}</action>
<action id="other" mode="async">{"name":"other","stream":true}</action>
<action id="deaf" mode="async" show="none">{"name":"deaf","stream":true}</action>
<response final="true">end</response>`},
			tool("ever", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				piece := strings.Repeat("x", 60<<10)
				for {
					if stopped = c.Emit(ctx, piece); stopped != nil {
						return neuroscript.Value{}, stopped
					}
					sum += len(piece)
				}
			}),
			tool("deaf", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				piece, refused := strings.Repeat("x", 60<<10), 0
				for range limit/len(piece) + 200 { // the error comes again, and at once
					if c.Emit(ctx, piece) != nil {
						refused++
					}
				}
				return neuroscript.Number(float64(refused)), nil
			}),
			tool("bytes", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				return text("?"), c.Emit(ctx, strings.Repeat("\xff", 3<<20)) // three bytes of text each
			}),
			tool("big", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				return text(big), c.Emit(ctx, big)
			}),
			tool("late", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				ctx = context.WithoutCancel(ctx)
				go func() {
					time.Sleep(time.Second)
					late <- c.Emit(ctx, "too late")
				}()
				return text("in time"), c.Emit(ctx, "in time")
			}),
			tool("other", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				return text("this"), c.Emit(ctx, "that")
			}))
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		ended := make(chan time.Time, 1)
		go func() {
			_, err := run.Decision(t.Context())
			if err != nil {
				t.Error(err)
			}
			ended <- time.Now()
		}()
		began := time.Now()
		// This reader takes an hour; the run does not wait for it.
		seen := newScreen(t)
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
			if u.Delta != nil && (u.Delta.Action == "ever" || u.Delta.Action == "deaf" || u.Delta.Action == "bytes") {
				t.Fatalf("%s is not to be shown", u.Delta.Action)
			}
			time.Sleep(time.Minute)
		}
		if d := (<-ended).Sub(began); d > 10*time.Second {
			t.Errorf("the run took %s: as long as its slowest reader", d)
		}
		if len(seen.ended) != 6 {
			t.Errorf("the reader saw the ends of %v", seen.ended)
		}
		if err := <-late; !errors.Is(err, tools.ErrEnded) {
			t.Errorf("a late piece: %v", err)
		}
		var failure *messages.Error
		if sum > limit || sum < limit-60<<10 || stopped == nil || errors.As(stopped, &failure) && failure.Code == messages.ErrCancelled {
			t.Errorf("%d bytes, then %v", sum, stopped)
		}
		got := ends(t, s)
		for id, want := range map[string]string{
			"ever":  `failed error "the streamed result is over its limit of 8388608 bytes"`,
			"bytes": "failed stream_too_large ", "other": "failed stream ", "deaf": "failed stream ", "big": `ok "` + big + `"`, "late": `ok "in time"`,
		} {
			if !strings.HasPrefix(got[id], want) {
				t.Errorf("%s: %.100q, want %.100q", id, got[id], want)
			}
		}
		replays(t, rt, a)
	})
}

// A condition waits for the whole result; the text so far decides nothing.
func TestPartialInCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := tool("object", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			if err := c.Emit(ctx, `{"partial":true}`); err != nil {
				return neuroscript.Value{}, err
			}
			return neuroscript.MapOf([]neuroscript.Entry{{Key: "partial", Value: neuroscript.Bool(true)}}), nil
		})
		a := streamed(func(m *manifest.Manifest) { m.Extensions = []string{"stream", "if"} }, []string{`<action id="a" mode="async">{"name":"object","stream":true}</action>
<action id="b" mode="async">{"name":"object"}</action>
<if id="x" test="$a.partial"><action id="y">{"name":"object"}</action></if>
<if id="e" test="exists($a.partial)"><action id="f">{"name":"object"}</action></if>
<if id="z" test="$b.partial"><action id="w">{"name":"object"}</action></if>
<response final="true">end</response>`}, object)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		got := ends(t, s)
		if !strings.HasPrefix(got["a"], "ok") || !strings.HasPrefix(got["y"], "skipped bad_condition") || !strings.HasPrefix(got["f"], "skipped branch_not_taken") || !strings.HasPrefix(got["w"], "ok") {
			t.Errorf("%q", got)
		}
		replays(t, rt, a)
	})
}

// What a child says is shown while it says it, and is the result: also where it ends badly,
// where its text comes in turns, and where it was all said before the first look.
func TestStreamedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := func(name, text string) *scripted.Script {
			s, err := scripted.Parse(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		slow := worker("slow", "plain")
		slow.Model = script("slow", `{"chunks":[{"text":"one "},{"text":"zwölf ","at_ms":300},{"text":"three","at_ms":900}]}`)
		breaks := worker("breaks", "plain")
		breaks.Model = script("breaks", `{"chunks":[{"text":"half"},{"text":" of it","at_ms":500}],"error":{"status":400,"code":"bad","after_bytes":7}}`)
		hangs := worker("hangs", "plain")
		hangs.Model = script("hangs", `{"chunks":[{"text":"never"},{"text":" ends","at_ms":3600000}]}`)
		turns := worker("turns", "cortex", `<response final="false">first</response>`, `<thought>hm</thought><response>second</response>`)
		a := boss(script("boss", `{"chunks":[{"text":"<action id=\"a\" type=\"agent\" mode=\"async\">{\"name\":\"slow\",\"stream\":true,\"parameters\":{\"message\":\"go\"}}</action>`+
			`<action id=\"b\" type=\"agent\" mode=\"async\">{\"name\":\"breaks\",\"stream\":true,\"parameters\":{\"message\":\"go\"}}</action>`+
			`<action id=\"c\" type=\"agent\" mode=\"async\">{\"name\":\"turns\",\"stream\":true,\"parameters\":{\"message\":\"go\"}}</action>`+
			`<action id=\"d\" type=\"agent\" mode=\"async\">{\"name\":\"hangs\",\"stream\":true,\"timeout\":2,\"parameters\":{\"message\":\"go\"}}</action>`+
			`<action id=\"e\" type=\"agent\" mode=\"async\">{\"name\":\"slow\",\"parameters\":{\"message\":\"go\"}}</action><response final=\"true\">${a.partial}! $c</response>"}]}`), slow, breaks, turns, hangs)
		a.Manifest.Extensions = []string{"stream"}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		seen := newScreen(t)
		early := map[string]string{} // half a second after the start
		began := time.Now()
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
			if u.Delta != nil && time.Since(began) < 500*time.Millisecond {
				early[u.Delta.Action] = seen.results[u.Delta.Action]
			}
		}
		wantDone(t, decision(t, run))
		if early["a"] != "one zwölf " || early["b"] != "half" || early["d"] != "never" {
			t.Errorf("early was %q", early)
		}
		got := ends(t, s)
		for id, want := range map[string]string{"a": `ok "one zwölf three"`, "b": "failed ERR_MODEL", "c": `ok "first\n\nsecond"`, "d": "failed ", "e": `ok "one zwölf three"`} {
			if !strings.HasPrefix(got[id], want) {
				t.Errorf("%s: %q, want %q", id, got[id], want)
			}
		}
		if text := said(t, s); text != "one zwölf three! first\n\nsecond" {
			t.Errorf("said %q", text)
		}
		texts := map[string]string{}
		for _, c := range bodies[*messages.ActionChunk](records(t, s)) {
			texts[c.ID] += string(c.Bytes)
		}
		if texts["a"] != "one zwölf three" || !strings.HasPrefix("half of it", texts["b"]) || texts["c"] != "first\n\nsecond" || texts["d"] != "never" || texts["e"] != "" {
			t.Errorf("recorded %q", texts)
		}
		replays(t, rt, a)
	})
}

// The pieces that an MCP server sends of a result are shown while its tool works, and its other
// progress as progress. Of a call that does not stream it is asked for neither.
func TestStreamedMCP(t *testing.T) {
	p := &puller{mcp: mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)}
	half, heard := make(chan struct{}), make(chan struct{})
	p.mcp.AddTool(&mcp.Tool{Name: "tail", InputSchema: rawSchema(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := req.Params.GetProgressToken()
		if asked := req.Params.Meta["stile/partial"] == true; asked != (token != nil) {
			t.Errorf("asked with %v", req.Params.Meta)
		}
		if token == nil {
			return says1("whole")
		}
		for seen := false; !seen; { // progress is not kept for a reader that comes later
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "half"}); err != nil {
				return nil, err
			}
			select {
			case <-half:
				seen = true
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 2, Meta: mcp.Meta{"stile/partial": "one "}}); err != nil {
			return nil, err
		}
		select {
		case <-heard: // the piece was shown
		case <-ctx.Done():
		}
		return says1("one two")
	})
	p.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return p.mcp }, nil))
	t.Cleanup(p.end)
	a := load(t, write(t, "agent.yaml", "dialect: cortex\nextensions: [stream]\nmodel: {script: m.jsonl}\nimport: {mcp: [{name: notes, url: "+p.URL+", tools: [{name: tail, class: read_only}]}]}\n", "m.jsonl", lines("x")))
	a.Model = stile.ScriptedModel(`<action id="a" mode="async">{"name":"notes.tail","stream":true}</action><action id="b" mode="async">{"name":"notes.tail"}</action><response final="true">$a, $b</response>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	run := submit(t, s, "go")
	seen, progress, shown := newScreen(t), "", false
	for u, err := range run.Events(stile.WithProgress(t.Context())) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Delta != nil && u.Delta.Kind == messages.KindProgress {
			if progress == "" {
				close(half)
			}
			progress = u.Delta.Action + " " + u.Delta.Text
			continue
		}
		if seen.update(u); u.Delta != nil && seen.results["a"] == "one " && !shown {
			shown = true
			close(heard)
		}
	}
	wantDone(t, decision(t, run))
	if text := said(t, s); text != "one two, whole" || progress != "a half" {
		t.Errorf("said %q; progress %q", text, progress)
	}
	texts := map[string]string{}
	for _, c := range bodies[*messages.ActionChunk](records(t, s)) {
		texts[c.ID] += string(c.Bytes)
	}
	if len(texts) != 1 || texts["a"] != "one two" {
		t.Errorf("recorded %q", texts)
	}
	replays(t, rt, a)
}

// A child takes back what was shown of its answer: the action shows it anew, in another attempt
// that joins the same run, and is no retry.
func TestStreamedAgentTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worker("w", "cortex", `<action id="b" mode="async">{"name":"log.breaks","stream":true,"retry":1}</action><response final="true">So: ${b.partial}</response>`)
		w.Manifest.Extensions, w.Manifest.Import.Tools = []string{"stream"}, []string{"log.breaks"}
		w.Tools = []tools.Tool{logging("log.breaks", messages.ReadOnly, 10, 200*time.Millisecond, map[int64]int{1: 5})}
		a := boss(scripted.New(`<action id="a" type="agent" mode="async">{"name":"w","stream":true,"parameters":{"message":"do"}}</action><action id="c" type="agent" mode="async">{"name":"w","parameters":{"message":"do"}}</action><response final="true">end</response>`), w)
		a.Manifest.Extensions = []string{"stream"}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		seen := newScreen(t)
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
		}
		wantDone(t, decision(t, run))
		if got := ends(t, s); !strings.HasPrefix(got["a"], `ok "So: log.breaks 2.0 é`) || !strings.HasPrefix(got["c"], `ok "So: log.breaks 2.0 é`) {
			t.Errorf("%q", got)
		}
		var attempts, runs int
		var again, over time.Time
		for _, r := range records(t, s) {
			switch b := r.Body.(type) {
			case *messages.ActionStarted:
				if b.ID == "a" {
					attempts, again = attempts+1, r.TS
				}
			case *messages.ActionEnded:
				if b.ID == "a" {
					runs, over = len(b.Children), r.TS
				}
			}
		}
		if d := over.Sub(again); d < time.Second { // the child speaks for two seconds more
			t.Errorf("the text was taken back %s before the end, and not when the child took it back", d)
		}
		if attempts != 2 || runs != 1 || seen.taken != 1 {
			t.Errorf("%d attempts with %d runs of children; %d times text was taken back", attempts, runs, seen.taken)
		}
		replays(t, rt, a)
	})
}
