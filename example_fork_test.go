package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// A fork goes on from any decided turn as a session of its own; the session it comes
// from does not notice.
func Example_fork() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "plain", Model: stile.ScriptedModel("north", "east", "west")}
	s, err := rt.Open(ctx, "walk", agent)
	if err != nil {
		panic(err)
	}
	for range 2 {
		run, err := s.Submit(ctx, "where to?")
		if err != nil {
			panic(err)
		}
		if _, err := run.Decision(ctx); err != nil {
			panic(err)
		}
	}
	head, err := rt.Fork(ctx, "walk", 1, "other-walk")
	if err != nil {
		panic(err)
	}
	fmt.Println(head.SID, "has", head.Turn, "turn")
	// Ended there, and before the run of turn 2 with other words for it.
	stopped, err := rt.ForkStopped(ctx, "walk", 1, "short-walk")
	if err != nil {
		panic(err)
	}
	edited, err := rt.ForkInput(ctx, "walk", 2, "another-walk", "where to at night?")
	if err != nil {
		panic(err)
	}
	fmt.Println(stopped.SID, "has", stopped.Queued, "inputs waiting,", edited.SID, "has", edited.Queued)
	other, err := rt.Open(ctx, "other-walk", agent)
	if err != nil {
		panic(err)
	}
	run, err := other.Submit(ctx, "where to instead?")
	if err != nil {
		panic(err)
	}
	d, err := run.Decision(ctx)
	fmt.Println(d.Decision, "in turn", d.Turn.TurnIndex, err)
	// Output:
	// local:local:other-walk has 1 turn
	// local:local:short-walk has 0 inputs waiting, local:local:another-walk has 1
	// DONE in turn 2 <nil>
}
