package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// The journal is the truth about a session. A decision names its position there, why
// it was taken, and the digests of what the turn wrote. A turn that failed by a mistake of
// its model is followed by one that is told of it.
func Example_records() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "aeiou", Model: stile.ScriptedModel(
		"command\n emit \"no token\"\nendcommand",
		"command\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand",
	)}
	s, err := rt.Open(ctx, "forgetful", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "go")
	if err != nil {
		panic(err)
	}
	d, err := run.Decision(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Decision)
	for r, err := range s.Records(ctx) {
		if err != nil {
			panic(err)
		}
		if b, ok := r.Body.(*messages.TurnDecided); ok && r.Seq < d.DecidedSeq {
			out, err := s.Blob(ctx, b.Output)
			fmt.Printf("turn %d %s, %d bytes of OUTPUT: %q %v, signed: %v, repaired: %v\n", b.TurnIndex, b.Reason, b.OutputBytes, out, err, r.Sig != nil, b.Repair)
		}
	}
	// Output:
	// DONE
	// turn 1 ERR_TOKEN_MISSING, 9 bytes of OUTPUT: "no token\n" <nil>, signed: true, repaired: true
}
