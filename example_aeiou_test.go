package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// An aeiou session: the model writes programs, and a signed control token in what a
// program emits says how the turn ends. Here the first turn goes on, the second is
// done.
func Example_aeiou() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "aeiou", Model: stile.ScriptedModel(
		`command
			emit "looking around"
			emit tool.aeiou.magic("LOOP", {"action": "continue"})
		endcommand`,
		`command
			emit "found it"
			emit tool.aeiou.magic("LOOP", {"action": "done"})
		endcommand`,
	)}
	s, err := rt.Open(ctx, "search", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "Where is the rope?")
	if err != nil {
		panic(err)
	}
	text, err := run.Text(ctx)
	fmt.Println(text)
	fmt.Println(err)
	// Output:
	// looking around
	// found it
	// <nil>
}
