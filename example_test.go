package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// The shortest way to an answer.
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
	text, err := run.Text(ctx)
	fmt.Println(text, err)
	// Output: Hello, Ada. <nil>
}
