package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// costing is a script whose replies have used tokens, in pairs: a text, and how many.
func costing(t *testing.T, replies ...any) *scripted.Script {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(replies); i += 2 {
		fmt.Fprintf(&b, `{"chunks":[{"at_ms":1000,"text":%q}],"usage":{"input":%d,"output":0}}`+"\n", replies[i], replies[i+1])
	}
	s, err := scripted.Parse("costing.jsonl", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// delegations is a reply that runs an agent so many times.
func delegations(name, mode string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<action id="%c" type="agent" mode="%s">{"name":"%s","parameters":{"message":"do"}}</action>`, 'a'+i, mode, name)
	}
	return b.String()
}

// granted are the budgets that child sessions were given, in order of their actions.
func granted(t *testing.T, rt *stile.Runtime, s *stile.Session) (all []int64) {
	t.Helper()
	for _, kid := range children(t, rt, s) {
		in := bodies[*messages.Input](records(t, kid))[0]
		if in.Budget == nil {
			t.Fatalf("%s has no budget", kid.SID())
		}
		all = append(all, in.Budget.Tokens)
	}
	return all
}

// A child gets what its parent has left, whatever it says itself: all of it behind a
// gate, a share of it beside others, and what it did not use comes back.
func TestBudgetOfChildren(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		tokens      int64 // of the parent's manifest
		child       int64 // of the child's; 0 is the default, which is more
		uses        int
		grants      string
		ends        string
		spent       int64 // of the parent's run
	}{
		{"sync", delegations("w", "sync", 2) + "<response>end</response>", 1000, 0, 100, "[1000 890]", "ok ok", 210},
		{"its own", delegations("w", "sync", 1) + "<response>end</response>", 1000, 150, 100, "[150]", "ok", 110},
		{"side by side", delegations("w", "async", 3) + "<response>$a $b $c</response>", 1000, 0, 100, "[200 200 200]", "ok ok ok", 310},
		{"seven, five at once", delegations("w", "async", 7) + "<response>$a $b $c $d $e $f $g</response>", 1000, 0, 20, "[200 200 200 200 200 170 180]", "ok ok ok ok ok ok ok", 150},
		{"more than it has", delegations("w", "sync", 1) + "<response>end</response>", 1000, 150, 160, "[150]", "failed", 170},
		{"more than there is", delegations("w", "sync", 2) + "<response>end</response>", 1000, 0, 1001, "[1000]", "failed", 1011},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worker("w", "plain")
				w.Model = costing(t, "x", c.uses)
				if c.child > 0 {
					w.Manifest.Quotas.Tokens = c.child
				}
				a := boss(nil, w)
				a.Model, a.Manifest.Quotas.Tokens = costing(t, c.reply, 10), c.tokens
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				o := ask(t, s, "go")
				if over := c.spent > c.tokens; over != (o.Reason == messages.ErrQuota) {
					t.Errorf("%+v", o)
				}
				if got := fmt.Sprint(granted(t, rt, s)); got != c.grants {
					t.Errorf("granted %s, want %s", got, c.grants)
				}
				var states []string
				spent := int64(0)
				held := map[string]int64{}
				for _, r := range records(t, s) {
					switch b := r.Body.(type) {
					case *messages.ModelReply:
						spent += b.Usage.Input
					case *messages.ActionStarted:
						held[b.ID] = b.Reserved.Tokens
					case *messages.ActionEnded:
						states = append(states, string(b.State))
						spent += b.Tokens
						delete(held, b.ID)
						if b.State == messages.ActionFailed && b.Reason != string(messages.ErrQuota) {
							t.Errorf("%s: %s", b.ID, b.Reason)
						}
					}
					sum := int64(0)
					for _, n := range held {
						sum += n
					}
					if sum > c.tokens {
						t.Errorf("%d reserved at record %d", sum, r.Seq)
					}
				}
				if got := strings.Join(states, " "); !strings.HasPrefix(got, c.ends) || spent != c.spent {
					t.Errorf("%s, %d spent, want %s, %d", got, spent, c.ends, c.spent)
				}
				replays(t, rt, a)
			})
		})
	}
}

// Of nothing no child is made, and no question asked.
func TestBudgetUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worker("w", "plain")
		w.Model = costing(t, "x", 100)
		a := boss(nil, w)
		a.Model = costing(t, delegations("w", "sync", 2)+"<response final=\"false\">so</response>", 0, "<response>end</response>", 0)
		a.Manifest.Quotas.Tokens = 100
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		got := ends(t, s)
		if got["a"] != `ok "x"` || got["b"] != `failed quota "tokens: nothing is left of the run's 100 that is not reserved"` {
			t.Errorf("%q", got)
		}
		if n := len(granted(t, rt, s)); n != 1 {
			t.Errorf("%d children", n)
		}
		replays(t, rt, a)
	})
}

// The actions of children count to those of the run, at every depth.
func TestBudgetOfActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := strings.Repeat(`<action>{"name":"math.Add","parameters":{"a":1,"b":2}}</action>`, 3)
		leaf := worker("leaf", "cortex", calls+"<response>leaf</response>")
		leaf.Manifest.Import.Tools = []string{"math.Add"}
		mid := worker("mid", "cortex", delegations("leaf", "sync", 1)+"<response>mid</response>")
		mid.Agents, mid.Manifest.Import.Agents = []*stile.Agent{leaf}, []string{"leaf"}
		a := boss(scripted.New(delegations("mid", "sync", 3)+"<response>end</response>"), mid)
		a.Manifest.Quotas.Actions = 12
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		// Each mid takes 1 + 3 actions, and the three are 3 themselves: the last has one
		// left, and nothing for the leaf.
		var counts []int64
		for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
			counts = append(counts, b.Actions)
		}
		if got := fmt.Sprint(counts); got != "[4 4 1]" {
			t.Errorf("counted %s", got)
		}
		last := children(t, rt, s)[2]
		if got := ends(t, last)["a"]; got != `failed quota "actions: nothing is left of the run's 1 that is not reserved"` {
			t.Error(got)
		}
		replays(t, rt, a)
		b := boss(scripted.New(delegations("mid", "sync", 4)+"<response>end</response>"), mid)
		b.Manifest.Quotas.Actions = 12
		wantHalt(t, ask(t, open(t, rt, "four", b), "go"), messages.ErrQuota, "actions: over the limit of 12")
	})
}

// An llm is asked when the question fits into what is left, and the answer is cut where
// the budget ends. All attempts have one reservation.
func TestBudgetOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\nimport: {llms: [l]}\nquotas: {tokens: 100}\ndefine: {llms: [{name: l, template: $q}]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		asks := func(id, q string, more string) string {
			return fmt.Sprintf(`<action id="%s" type="llm">{"name":"l","parameters":{"q":%q}%s}</action>`, id, q, more)
		}
		rt := start(t, stile.Config{})
		for i, c := range []struct{ reply, answers, id, want string }{
			{asks("a", strings.Repeat("x", 400), ""), `{"match":{"contains":"xx"},"chunks":[{"text":"never"}]}`, "a", `failed quota "quota: tokens: the question has about 100, and 100 are left"`},
			{asks("a", strings.Repeat("x", 360), ""), `{"match":{"contains":"xx"},"chunks":[{"text":"` + strings.Repeat("y", 41) + `"}]}`, "a", `failed quota "quota: tokens: the answer is longer than the 40 bytes that the budget has left"`},
			{asks("a", strings.Repeat("x", 360), ""), `{"match":{"contains":"xx"},"chunks":[{"text":"` + strings.Repeat("y", 40) + `"}],"usage":{"input":80,"output":9}}`, "a", `ok "` + strings.Repeat("y", 40) + `"`},
			{asks("a", "xx", `,"retry":5`), `{"match":{"contains":"xx"},"chunks":[],"error":{"status":400,"code":"bad_request"},"usage":{"input":40,"output":0}}`, "a", "failed quota"},
		} {
			a := &stile.Agent{Manifest: m}
			script, err := scripted.Parse("s.jsonl", []byte(c.answers+"\n"+fmt.Sprintf(`{"chunks":[{"text":%q}]}`, c.reply+"<response>end</response>")+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			a.Model = script
			name := "stream"
			if i > 0 {
				name = fmt.Sprint("stream", i)
			}
			s := open(t, rt, name, a)
			o := ask(t, s, "go")
			if got := ends(t, s)[c.id]; !strings.HasPrefix(got, c.want) {
				t.Errorf("%d: %s (%+v), want %s", i, got, o, c.want)
			}
			if i == 3 {
				if n := len(bodies[*messages.ActionStarted](records(t, s))); n != 3 {
					t.Errorf("%d attempts", n)
				}
				if e := bodies[*messages.ActionEnded](records(t, s))[0]; e.Tokens != 120 {
					t.Errorf("%d tokens", e.Tokens)
				}
			}
			if _, err := rt.Replay(t.Context(), name, a); err != nil {
				t.Error(err)
			}
		}
	})
}

// Steps of a workflow share what the workflow has.
func TestBudgetOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worker("w", "plain")
		w.Model = costing(t, "x", 100)
		a := boss(nil, w)
		m, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nloop: {strict: [unseen]}\nname: boss\nimport: {agents: [w], workflows: [f]}\nquotas: {tokens: 430}\ndefine:\n  workflows:\n"+
			"  - {name: f, steps: [{id: a, type: agent, name: w, parameters: {message: a}}, {id: b, type: agent, name: w, parameters: {message: a}}, {id: c, type: agent, name: w, parameters: {message: \"$a $b\"}}, {id: d, type: agent, name: w, parameters: {message: $c}}], output: [$c, $d]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		a.Manifest, a.Model = m, costing(t, `<action id="f" type="workflow">{"name":"f"}</action><response>end</response>`, 0)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		ask(t, s, "go")
		end := bodies[*messages.ActionEnded](records(t, s))[0]
		if end.State != messages.ActionOK || end.Result != `["x","x"]` || end.Tokens != 400 {
			t.Errorf("%+v", end)
		}
		var grants []int64
		for _, link := range end.Children {
			kid, err := rt.Find(t.Context(), link.SID)
			if err != nil {
				t.Fatal(err)
			}
			grants = append(grants, bodies[*messages.Input](records(t, kid))[0].Budget.Tokens)
		}
		// 430/4, the rest by 3; then 230/2 and 130.
		if got := fmt.Sprint(grants); got != "[107 107 115 130]" {
			t.Errorf("granted %s", got)
		}
		replays(t, rt, a)
	})
}

// What is reserved stays so over a restart: the repeated action gets what it had.
func TestBudgetAfterRestart(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		go1, go2 := make(chan struct{}), make(chan struct{})
		agentOf := func(now chan struct{}) *stile.Agent {
			w := worker("w", "plain")
			w.Model = answersAfter(now, "x")
			a := boss(scripted.New(delegations("w", "async", 2)+"<response>$a $b</response>"), w)
			a.Manifest.Quotas.Tokens = 1000
			return a
		}
		s := open(t, l.begin(), "stream", agentOf(go1))
		run := submit(t, s, "go")
		replied(t, s)
		l.end()
		close(go2)
		a := agentOf(go2)
		rt := l.begin()
		defer l.end()
		s = open(t, rt, "stream", a)
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		for _, b := range bodies[*messages.ActionStarted](records(t, s)) {
			if b.Reserved == nil || b.Reserved.Tokens != 200 {
				t.Errorf("%+v", b)
			}
		}
		replays(t, rt, a)
		close(go1)
	})
}

// A model that says nothing of tokens is estimated, and the budget of tokens bounds its
// run; a script costs nothing.
func TestEstimatedUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop := program("emit turn_index", sayContinue)
		replies := slices.Repeat([]string{loop}, 60)
		silent := &recorder{Model: scripted.New(replies...)}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", agent(silent, func(m *manifest.Manifest) { m.Quotas.Tokens = 5000 }))
		wantHalt(t, ask(t, s, "go"), messages.ErrQuota, "tokens", "5000")
		for _, b := range bodies[*messages.ModelReply](records(t, s)) {
			if u := b.Usage; !u.Estimated || u.Input < 500 || u.Output != int64(len(loop)+3)/4 {
				t.Errorf("usage %+v", u)
			}
		}
		script := open(t, rt, "script", agent(scripted.New(replies...), func(m *manifest.Manifest) { m.Quotas.Tokens = 5000 }))
		wantHalt(t, ask(t, script, "go"), messages.ErrMaxTurns)
	})
}

// A script has the price of the model that it stands for, so that a budget can be tried.
func TestPriceOfAScript(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jsonl": `{"chunks": [{"text": "One."}], "usage": {"input": 1000, "output": 100}}` + "\n" + `{"chunks": [{"text": "Two."}], "usage": {"input": 1000, "output": 100, "cost_micro_usd": 7}}` + "\n",
		"a.yaml":  "dialect: plain\nmodel: {provider: scripted, script: a.jsonl, price: {input_usd: 3, output_usd: 15}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := stile.LoadAgent(filepath.Join(dir, "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, start(t, stile.Config{InMemory: true}), "ada", agent)
	for _, want := range []int64{4500, 7} { // 3000 of input and 1500 of output; its own
		run, err := s.Submit(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		if o, err := run.Decision(t.Context()); err != nil || o.CostMicroUSD != want || o.Unpriced {
			t.Errorf("%+v, %v; want %d", o, err, want)
		}
	}
}
