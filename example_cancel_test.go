package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// A cancel ends the run's turn with HALT(ERR_CANCELLED), reaches whatever the turn
// started, and leaves a session that goes on. A run that still waits never begins.
func Example_cancel() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	model := &gated{open: make(chan struct{}), Model: stile.ScriptedModel("too late")}
	s, err := rt.Open(ctx, "undecided", &stile.Agent{Dialect: "plain", Model: model})
	if err != nil {
		panic(err)
	}
	first, err := s.Submit(ctx, "one")
	if err != nil {
		panic(err)
	}
	second, err := s.Submit(ctx, "two")
	if err != nil {
		panic(err)
	}
	for _, run := range []*stile.Run{second, first} {
		if err := run.Cancel(ctx, "Ada"); err != nil {
			panic(err)
		}
		d, err := run.Decision(ctx)
		fmt.Println(d.Decision, d.Reason, d.Detail, err)
	}
	// Output:
	// HALT ERR_CANCELLED cancelled by Ada before it began <nil>
	// HALT ERR_CANCELLED cancelled by Ada <nil>
}
