package stile_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/tools"
)

// What was in flight when a process ended goes on when the next one starts: the turn
// is restored, its program runs again, and a keyed call is repeated under its key.
func Example_restart() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "stile")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	began := make(chan string, 2)
	order := stile.Tool{
		Name: "shop.order", Class: stile.Keyed,
		Run: func(ctx context.Context, c *stile.ToolCall) (stile.ToolValue, error) {
			began <- c.Key
			if c.Attempt == 1 { // the process ends before the shop answers
				<-ctx.Done()
				return stile.ToolValue{}, ctx.Err()
			}
			return tools.String("order 17"), nil
		},
	}
	support := func() *stile.Agent {
		return &stile.Agent{Dialect: "aeiou", Name: "support", Tools: []stile.Tool{order}, Model: stile.ScriptedModel(strings.Join([]string{
			"command", `emit "ordering"`, `emit tool.shop.order()`, `emit tool.aeiou.magic("LOOP", {"action": "done"})`, "endcommand\n",
		}, "\n"))}
	}

	rt, err := stile.New(ctx, stile.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	s, err := rt.Open(ctx, "ada", support())
	if err != nil {
		panic(err)
	}
	if _, err := s.Submit(ctx, "one, please"); err != nil {
		panic(err)
	}
	key := <-began
	if err := rt.Close(ctx); err != nil {
		panic(err)
	}

	agent := support()
	rt, err = stile.New(ctx, stile.Config{Dir: dir, Agents: []*stile.Agent{agent}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	rep, err := rt.Booted(ctx) // how many sessions had something open, and what became of them
	if err != nil {
		panic(err)
	}
	fmt.Println("found", rep.Found, "settled", rep.Settled)
	fmt.Println("the same key:", <-began == key)
	if s, err = rt.Open(ctx, "ada", agent); err != nil {
		panic(err)
	}
	d, err := s.Run(1).Decision(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Decision, "after", d.Turns, "turn")
	fmt.Println(d.Text)
	// Output:
	// found 1 settled 1
	// the same key: true
	// DONE after 1 turn
	// ordering
	// order 17
}
