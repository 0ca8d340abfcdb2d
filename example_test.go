package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// The shortest way to a decision.
func Example() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "plain", Model: stile.ScriptedModel("Hello, Ada.")}
	s, _ := rt.Open(ctx, "greeting", agent)
	run, _ := s.Submit(ctx, "I am Ada.")
	d, err := run.Decision(ctx)
	fmt.Println(d.Decision, d.Turns, err)
	// Output: DONE 1 <nil>
}
