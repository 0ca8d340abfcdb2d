package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// Events follows a run: its records in order, none missing, and the deltas of text
// while it grows. A late subscriber gets the records from the journal.
func Example_events() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "plain", Model: stile.ScriptedModel("Hello, Ada.")}
	s, err := rt.Open(ctx, "greeting", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "I am Ada.")
	if err != nil {
		panic(err)
	}
	for u, err := range run.Events(ctx) {
		switch {
		case err != nil:
			panic(err)
		case u.Delta != nil:
			continue // shown while it is fresh; the record below has the whole text
		}
		switch b := u.Record.Body.(type) {
		case *stile.UnitText:
			fmt.Println(u.Record.Seq, b.Kind(), b.Text)
		default:
			fmt.Println(u.Record.Seq, b.Kind())
		}
	}
	// Output:
	// 2 input
	// 3 run.begin
	// 4 turn.begin
	// 5 model.request
	// 6 response Hello, Ada.
	// 7 model.reply
	// 8 turn.decided
	// 9 run.end
}
