package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// What a run said: while it grows, with its decision and value, and as an error when it did not
// come to its end.
func Example_answer() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	type answer struct {
		Total float64 `json:"total"`
	}
	s, err := rt.Open(ctx, "shop", &stile.Agent{Dialect: "plain", Output: answer{}, Model: stile.ScriptedModel(`{"total": 2.5}`)})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "The bill, please.")
	if err != nil {
		panic(err)
	}
	for piece, err := range run.TextStream(ctx) {
		if err != nil {
			panic(err) // a HALT too
		}
		fmt.Print(piece)
	}
	fmt.Println()
	o, err := run.Decision(ctx)
	if err != nil {
		panic(err) // no outcome: ctx has ended, or the journal cannot be read
	}
	fmt.Println(o.Decision, o.Turns, "turn,", o.CostMicroUSD, "millionths of a dollar,", o.Duration() >= 0)
	var bill struct{ Total float64 }
	if err := o.Decode(&bill); err != nil {
		panic(err) // no value: the run ended HALT or ABORT, or its agent has no schema
	}
	fmt.Println(bill.Total)

	if run, err = s.Submit(ctx, "And the next one."); err != nil { // the script has no reply for it
		panic(err)
	}
	text, err := run.Text(ctx) // waits for the end
	switch {
	case stile.IsHalt(err):
		fmt.Println("halted by", stile.CodeOf(err), "after saying", text)
	case err != nil:
		panic(err)
	default:
		fmt.Println(text)
	}
	// Output:
	// {"total": 2.5}
	// DONE 1 turn, 0 millionths of a dollar, true
	// 2.5
	// halted by ERR_MODEL after saying
}
