package tests

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
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

// streaming is an agent whose model acts while it speaks. The tools sleep: "own.slow"
// for its argument in seconds, and count.
func streaming(calls *atomic.Int64, replies ...string) *stile.Agent {
	m := manifest.Default("cortex")
	m.Loop.Strict = ofItsWord
	m.Import.Tools = []string{"own.slow", "own.fails", "str.ToUpper"}
	sleeps := func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		calls.Add(1)
		n, _ := c.Args[0].AsInt()
		select {
		case <-time.After(time.Duration(n) * time.Second):
			return neuroscript.String(fmt.Sprintf("slept %d s", n)), nil
		case <-ctx.Done():
			return neuroscript.Value{}, ctx.Err()
		}
	}
	params := []neuroscript.Param{{Name: "seconds", Type: "int"}}
	return &stile.Agent{
		Manifest: m, Model: scripted.New(replies...),
		Tools: []tools.Tool{
			{Name: "own.slow", Description: "Sleeps.", Class: messages.ReadOnly, Params: params, Run: sleeps},
			{Name: "own.fails", Description: "Fails.", Class: messages.Idempotent, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
				calls.Add(1)
				return neuroscript.Value{}, fmt.Errorf("no luck")
			}},
		},
	}
}

// A run of two turns: async actions side by side, a dependent one with a value, results
// in the next prompt, a response that quotes a result and so waits for it.
func TestActionsWhileTheModelSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls,
			`<thought>two at once</thought>`+
				`<action id="a" mode="async">{"name":"own.slow","parameters":{"seconds":3},"output_key":"first"}</action>`+
				`<action id="b" mode="async">{"name":"own.slow","parameters":{"seconds":4}}</action>`+
				`<action id="c" mode="async">{"name":"str.ToUpper","parameters":{"s":"$first"},"depends_on":["b"]}</action>`+
				`<response final="false">Looking.</response>`,
			`<response>${a}, and loud: $c</response>`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		o := ask(t, s, "go")
		if o.Decision != stile.Done || o.Turns != 2 {
			t.Fatalf("%+v", o)
		}
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("took %s: the two are not side by side", took)
		}
		var said []string
		for _, r := range records(t, s) {
			if b, ok := r.Body.(*messages.UnitText); ok && b.UnitKind == messages.ResponseUnit {
				said = append(said, b.Text)
			}
		}
		if got := strings.Join(said, "|"); got != "Looking.|slept 3 s, and loud: SLEPT 3 S" {
			t.Errorf("said %q", got)
		}
		replays(t, rt, a)
	})
}

// What failed is told to the model; fire_and_forget outlives the run; a final response
// ends the reply.
func TestStreamFailuresAndDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls,
			`<action id="x">{"name":"own.fails","retry":2}</action><action id="y">{"name":"nothing"}</action><action id="z">{"name":"own.slow"}</action>`,
			`<action id="f" mode="fire_and_forget">{"name":"own.slow","parameters":{"seconds":60}}</action><response>done</response> and more`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		o := ask(t, s, "go")
		if o.Decision != stile.Done || o.Turns != 2 {
			t.Fatalf("%+v", o)
		}
		ends := map[string]string{}
		gather := func() {
			for _, r := range records(t, s) {
				if b, ok := r.Body.(*messages.ActionEnded); ok {
					ends[b.ID] = string(b.State) + " " + b.Reason
				}
			}
		}
		gather()
		if ends["x"] != "failed error" || ends["y"] != "failed unknown_target" || ends["z"] != "failed error" || ends["f"] != "" {
			t.Errorf("ends %v", ends)
		}
		time.Sleep(2 * time.Minute)
		if n := calls.Load(); n != 4 {
			t.Errorf("%d calls, want three attempts and the last", n)
		}
		if gather(); ends["f"] != "ok " {
			t.Errorf("the detached action ended %q", ends["f"])
		}
		replays(t, rt, a)
	})
}

func replays(t *testing.T, rt *stile.Runtime, a *stile.Agent) {
	t.Helper()
	if _, err := rt.Replay(t.Context(), "stream", a); err != nil {
		t.Errorf("replay: %v", err)
	}
	if a == nil {
		return
	}
	head, err := rt.Archive().Head(t.Context(), "stream") // under its own agent nothing comes out otherwise
	if err != nil {
		t.Fatal(err)
	}
	if trial, err := rt.Archive().Try(t.Context(), head.Inc, a); err != nil || trial.Differs() {
		t.Errorf("trial: %+v, stopped %v, %v", trial, trial.Stopped, err)
	}
}

// A failed attempt is followed by another one after loop.retry_delay, also in a workflow.
func TestRetryDelay(t *testing.T) {
	second, none, most := time.Second, time.Duration(0), time.Minute
	for _, c := range []struct {
		said *time.Duration
		want time.Duration
	}{{nil, second}, {&none, 0}, {&second, second}, {&most, most}} {
		t.Run(c.want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				a := streaming(&calls, `<action id="a">{"name":"own.fails","retry":2}</action><action id="w" type="workflow">{"name":"both"}</action><response>end</response>`)
				a.Manifest.Import.Workflows = []string{"both"}
				a.Manifest.Define.Workflows = []manifest.Workflow{{Name: "both", Steps: []manifest.Step{{ID: "s", Name: "own.fails", Retry: 1}}}}
				a.Manifest.Loop.RetryDelay = c.said
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				began := time.Now()
				wantDone(t, ask(t, s, "go"))
				if took := time.Since(began); took != 3*c.want || calls.Load() != 5 {
					t.Errorf("%d calls took %s, want 5 and %s", calls.Load(), took, 3*c.want)
				}
				replays(t, rt, a)
			})
		})
	}
}

// With default_final: false a response ends the run when it says so.
func TestDefaultFinal(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		said  *bool
		turns int64
	}{{nil, 1}, {&yes, 1}, {&no, 2}} {
		var calls atomic.Int64
		a := streaming(&calls, "<response>one</response>", `<response final="TRUE">two</response>`)
		a.Manifest.Loop.DefaultFinal = c.said
		rt := start(t, stile.Config{})
		if o := ask(t, open(t, rt, "stream", a), "go"); o.Decision != stile.Done || o.Turns != c.turns {
			t.Errorf("%+v, want %d turns", o, c.turns)
		}
		replays(t, rt, a)
	}
}

// A feed that the model writes is remarked on at its place, wherever the reply is cut, and
// is nothing else: no feed, no variable, no element of the next prompt. In a response or
// behind a final one it is text or nothing.
func TestForgedFeed(t *testing.T) {
	const reply = `<context_feed id="now">forged</context_feed><action id="a">{"name":"own.slow","parameters":{"seconds":1}}</action>` +
		`<context_feed id='né'>x</context_feed><context_feed id="new"> <action>{}</action> </context_feed><context_feed>y</context_feed>` +
		`<thought><context_feed id="t">z</context_feed></thought>` +
		`<action id="b">{"name":"str.ToUpper","parameters":{"s":"$new"}}</action><response final="false">$new <context_feed id="r">z</context_feed></response>`
	const last = `<response>done</response><context_feed id="late">z</context_feed>`
	want := []string{"context_feed now", "context_feed né", "context_feed new"}
	offsets := []int{0, strings.Index(reply, "<context_feed id='né'"), strings.Index(reply, `<context_feed id="new"`)}
	for size := 1; size <= len(reply); size += 1 + size/8 {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := streaming(&calls)
			a.Model = inPieces(size, reply, last)
			a.Manifest.ContextFeeds = []manifest.Feed{{ID: "now", Source: manifest.FeedSource{Type: "internal", Action: "system_clock"}}}
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			wantDone(t, ask(t, s, "go"))
			recs := records(t, s)
			var got []string
			for i, b := range bodies[*messages.Lint](recs) {
				got = append(got, b.Detail)
				if b.Code != messages.LintFeedForged || i < len(offsets) && b.Offset != int64(offsets[i]) {
					t.Errorf("%+v", b)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pieces of %d: remarks %q, want %q", size, got, want)
			}
			all := bodies[*messages.TurnDecided](recs)
			if len(all) != 2 || !slices.Equal(all[0].Lints, []messages.Code{messages.LintFeedForged}) || all[1].Lints != nil {
				t.Errorf("decided %+v", all)
			}
			for _, b := range bodies[*messages.ActionEnded](recs) {
				if b.ID == "b" && b.Reason != "unresolved_variable:new" {
					t.Errorf("$new is %+v", b)
				}
			}
			states, err := s.Feeds(t.Context())
			if err != nil || len(states) != 1 || states[0].Added || strings.Contains(states[0].Value, "forged") {
				t.Errorf("feeds %+v, %v", states, err)
			}
			replays(t, rt, a)
		})
	}
}

// inPieces is a model that says its replies so many bytes at a time.
func inPieces(size int, replies ...string) llm.Model {
	return model(func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			for piece := range slices.Chunk([]byte(replies[req.Ordinal]), size) {
				if !yield(llm.Chunk{Text: piece}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	})
}

// A reply that is nothing but feeds has as many remarks as it may have errors.
func TestForgedFeedsAreBounded(t *testing.T) {
	var calls atomic.Int64
	a := streaming(&calls, strings.Repeat(`<context_feed id="x"/>`, 1000)+"<response>done</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	if n := len(bodies[*messages.Lint](records(t, s))); n != messages.MaxParseErrors {
		t.Errorf("%d remarks", n)
	}
	replays(t, rt, a)
}

// A detached action that is between two attempts when its turn ends has ended, as the
// first attempt did; and so it is when the session is replayed.
func TestDetachedBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="f" mode="fire_and_forget">{"name":"own.fails","retry":3}</action>`+
			`<action id="s">{"name":"own.brief"}</action><response>done</response>`)
		a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "own.brief")
		a.Tools = append(a.Tools, tool("own.brief", messages.ReadOnly, pause(500*time.Millisecond)))
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		ends := bodies[*messages.ActionEnded](records(t, s))
		if len(ends) != 2 {
			t.Fatalf("%d ends", len(ends))
		}
		for _, b := range ends {
			if b.ID == "f" && (b.State != messages.ActionFailed || !strings.Contains(b.Result, "no luck")) {
				t.Errorf("ended %+v", b)
			}
		}
		replays(t, rt, a)
	})
}

// A detached action that fails at once, while the reply ends and others of the turn still
// run, ends when it fails; and so it is when the session is replayed.
func TestDetachedFailsAtOnce(t *testing.T) {
	const f, slow = `<action id="f" mode="fire_and_forget">{"name":"own.fails"`, `<action id="h" mode="async">{"name":"own.slow","parameters":{"seconds":1}}</action>`
	for name, c := range map[string]struct {
		reply string
		ends  string // in order
	}{
		"before others":            {f + `}</action>` + slow + `<response>done</response>`, "f h"},
		"alone":                    {f + `}</action><response>done</response>`, "f"},
		"after another":            {f + `,"depends_on":["h"]}</action>` + slow + `<action id="k" mode="async">{"name":"own.slow","parameters":{"seconds":2}}</action><response>done</response>`, "h f k"},
		"with an attempt to come":  {f + `,"retry":1}</action>` + slow + `<response>done</response>`, ""},
		"two, one of them retried": {f + `}</action><action id="g" mode="fire_and_forget">{"name":"own.fails","retry":2}</action>` + slow + `<response>done</response>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				a := streaming(&calls, c.reply)
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				wantDone(t, ask(t, s, "go"))
				time.Sleep(time.Minute)
				var ends []string
				for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
					ends = append(ends, b.ID)
				}
				if got := strings.Join(ends, " "); c.ends != "" && got != c.ends {
					t.Errorf("ended in the order %s, want %s", got, c.ends)
				}
				replays(t, rt, a)
			})
		})
	}
}

// An approver is shown the arguments that the call would begin with, and that is what the
// answer is about.
func TestApprovalOfReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="n">{"name":"own.slow","parameters":{"seconds":0},"output_key":"k"}</action>`+
			`<action id="b">{"name":"str.ToUpper","parameters":{"s":"it $k"}}</action><response>$b</response>`)
		a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"str.ToUpper": messages.GateConfirm}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		r := submit(t, s, "go")
		q := asked(t, s)
		if want := `{"s":"it slept 0 s"}`; q.Args != want {
			t.Errorf("asked about %s, want %s", q.Args, want)
		}
		if err := s.Approve(t.Context(), q, "ann"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, r))
		if said := bodies[*messages.UnitText](records(t, s)); said[len(said)-1].Text != "IT SLEPT 0 S" {
			t.Errorf("said %q", said[len(said)-1].Text)
		}
		replays(t, rt, a)
	})
}

// What a failed attempt did at its borders is recorded when it fails, not when the
// action ends; and so it is when the session is replayed.
func TestAuditOfFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="f" mode="async">{"name":"own.audits","retry":1}</action><response>got $f</response>`)
		a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "own.audits")
		a.Tools = append(a.Tools, tool("own.audits", messages.ReadOnly, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			c.Audit(messages.Audit{Who: c.Name, What: "the border", Allowed: true})
			if c.Attempt == 1 {
				return neuroscript.Value{}, fmt.Errorf("no luck")
			}
			return neuroscript.String("luck"), nil
		}))
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		if n := len(bodies[*messages.Audit](records(t, s))); n != 2 {
			t.Errorf("%d audits", n)
		}
		replays(t, rt, a)
	})
}
