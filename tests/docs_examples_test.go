package tests_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// The Go of docs/howto. TestDocsSnippets holds every snippet there equal to lines
// here, so what the documentation shows compiles and does what it says.

// Statements that end a turn.
const (
	sayDone     = `emit tool.aeiou.magic("LOOP", {"action": "done"})`
	sayContinue = `emit tool.aeiou.magic("LOOP", {"action": "continue"})`
)

// program is an ACTIONS program of these lines.
func program(lines ...string) string {
	return "command\n" + strings.Join(lines, "\n") + "\nendcommand\n"
}

type order struct {
	Item string `json:"item" jsonschema:"what to order"`
	Qty  int    `json:"qty,omitempty" jsonschema:"how many; 1 if left out"`
}

type receipt struct {
	Number string `json:"number"`
}

// Compiled, not run: it needs a server.
func Example_share() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, postgres.Options{URL: os.Getenv("STILE_JOURNAL")})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	rt, err := stile.New(ctx, stile.Config{Store: store})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
}

func Example_tool() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)

	place, err := stile.DefineTool("shop.order", "Orders an item.", stile.Effectful,
		func(ctx context.Context, o order) (receipt, error) {
			return receipt{Number: "A-17 " + o.Item}, nil
		})
	if err != nil {
		panic(err)
	}
	agent := &stile.Agent{
		Dialect: "aeiou",
		Tools:   []stile.Tool{place},
		Model: stile.ScriptedModel(`command
  set r = must tool.shop.order("rope", 2)
  emit "ordered: " + r.number
  emit tool.aeiou.magic("LOOP", {"action": "done"})
endcommand
`),
	}
	s, err := rt.Open(ctx, "shop", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "We need rope.")
	if err != nil {
		panic(err)
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			panic(err)
		}
		if u.Record == nil {
			continue // a delta of growing text
		}
		switch b := u.Record.Body.(type) {
		case *messages.ActionDeclared:
			fmt.Println("call", b.Name, b.Args)
		case *stile.Emit:
			if !b.Candidate {
				fmt.Println("emit", b.Text)
			}
		case *messages.RunEnd:
			fmt.Println(b.Decision)
		}
	}
	// Output:
	// call shop.order ["rope",2]
	// emit ordered: A-17 rope
	// DONE
}

func Example_keyedTool() {
	charge := stile.Tool{
		Name: "pay.charge", Class: stile.Keyed, Timeout: 10 * time.Second,
		Params: []stile.ToolParam{{Name: "cents", Type: "int"}},
		Run: func(ctx context.Context, c *stile.ToolCall) (stile.ToolValue, error) {
			cents, _ := c.Args[0].AsInt()
			return tools.String(fmt.Sprintf("charged %d once under %d bytes of key", cents, len(c.Key))), nil
		},
	}
	rt, err := stile.New(context.Background(), stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(context.Background())
	agent := &stile.Agent{Dialect: "aeiou", Tools: []stile.Tool{charge}, Model: stile.ScriptedModel(program(`emit tool.pay.charge(250)`, sayDone))}
	fmt.Println(firstEmission(rt, "till", agent))
	// Output: charged 250 once under 43 bytes of key
}

func Example_gate() {
	ctx := context.Background()
	m := manifest.Default("aeiou")
	m.Name = "careful"
	m.Import.Tools = []string{"shop.buy", "shop.cancel"}
	m.Approval.Tools = map[string]stile.GateAnswer{"shop.cancel": stile.GateDeny}
	agent := &stile.Agent{Manifest: m, Gate: func(q stile.GateRequest) (stile.GateAnswer, string, bool) {
		if qty, ok := q.Args[0].AsInt(); ok && qty > 100 {
			return stile.GateDeny, "more than the store holds", true
		}
		return "", "", false // leave it to the manifest
	}}
	buy := func(context.Context, *stile.ToolCall) (stile.ToolValue, error) { return tools.Bool(true), nil }
	qty := []stile.ToolParam{{Name: "qty", Type: "int"}}
	agent.Tools = []stile.Tool{{Name: "shop.buy", Params: qty, Run: buy}, {Name: "shop.cancel", Params: qty, Run: buy}}
	agent.Model = stile.ScriptedModel(program(
		`on error as e do`, `emit e.code + " " + e.message`, `clear_error`, `endon`,
		`emit tool.shop.buy(7)`, `emit tool.shop.buy(700)`, `emit tool.shop.cancel(1)`, sayDone))
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	fmt.Println(emissions(rt, "careful", agent))
	// Output: [true 1003 more than the store holds 1003 denied by policy]
}

// echo is a model that repeats what it was told.
type echo struct{}

func (echo) Stream(ctx context.Context, req stile.ModelRequest) iter.Seq2[stile.ModelChunk, error] {
	return func(yield func(stile.ModelChunk, error) bool) {
		last := req.Messages[len(req.Messages)-1].Text
		if !yield(stile.ModelChunk{Text: []byte("You said: ")}, nil) {
			return
		}
		yield(stile.ModelChunk{Text: []byte(last), Finish: stile.FinishComplete}, nil)
	}
}

func Example_model() {
	ctx := context.Background()
	m, err := manifest.Parse("agent.yaml", []byte("dialect: plain\nmodel: {provider: echo}\n"))
	if err != nil {
		panic(err)
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Models: map[string]stile.Model{"echo": echo{}}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "echo", &stile.Agent{Manifest: m})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "hello")
	if err != nil {
		panic(err)
	}
	text, err := run.Text(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(text)
	// Output: You said: hello
}

func Example_archive() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "stile-docs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	rt, err := stile.New(ctx, stile.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	agent := &stile.Agent{Dialect: "aeiou", Name: "twice", Model: stile.ScriptedModel(program(`emit "one"`, sayContinue), program(`emit "two"`, sayDone))}
	fmt.Println(emissions(rt, "twice", agent))

	if err := rt.RotateKeys(ctx, agent.Retention()); err != nil {
		panic(err)
	}
	head, err := rt.Fork(ctx, "twice", 1, "twice-again")
	if err != nil {
		panic(err)
	}
	fmt.Println(head.SID, "stands after turn", head.Turn)
	stopped, err := rt.ForkStopped(ctx, "twice", 1, "twice-stopped")
	if err != nil {
		panic(err)
	}
	edited, err := rt.ForkInput(ctx, "twice", 2, "twice-edited", "and now?")
	if err != nil {
		panic(err)
	}
	fmt.Println(stopped.Open, edited.Queued)
	if err := rt.Close(ctx); err != nil {
		panic(err)
	}

	a, err := stile.OpenArchive(dir)
	if err != nil {
		panic(err)
	}
	defer a.Close()
	head2, err := a.Head(ctx, "twice")
	if err != nil {
		panic(err)
	}
	trial, err := a.Try(ctx, head2.Inc, agent)
	if err != nil {
		panic(err)
	}
	fmt.Println(trial.Same, "turns the same,", trial.Differ, "otherwise")
	rep, err := a.Verify(ctx, head2.Inc, stile.VerifyOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("verified:", rep.OK(), "receipts:", rep.Valid)
	again, err := a.Replay(ctx, head2.Inc, agent)
	if err != nil {
		panic(err) // a *replay.Divergence says where
	}
	fmt.Println("turns decided again:", again.Turns)
	// Output:
	// [one two]
	// local:local:twice-again stands after turn 1
	// false 1
	// 2 turns the same, 0 otherwise
	// verified: true receipts: 3
	// turns decided again: 2
}

// emissions runs an agent once and gives what its programs emitted, tokens aside.
func emissions(rt *stile.Runtime, name string, agent *stile.Agent) (all []string) {
	ctx := context.Background()
	s, err := rt.Open(ctx, name, agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "go")
	if err != nil {
		panic(err)
	}
	if o, err := run.Decision(ctx); err != nil || o.Decision != stile.Done {
		panic(fmt.Sprint(o, err))
	}
	for r, err := range s.Records(ctx) {
		if err != nil {
			panic(err)
		}
		if e, ok := r.Body.(*stile.Emit); ok && !e.Candidate {
			all = append(all, e.Text)
		}
	}
	return all
}

func firstEmission(rt *stile.Runtime, name string, agent *stile.Agent) string {
	return strings.Join(emissions(rt, name, agent), "\n")
}
