package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// A session takes one run at a time. What comes meanwhile waits its turn or is
// refused, by policy; the same submit twice is one run, by its idempotency key.
func Example_policy() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	gate := &gated{open: make(chan struct{}), Model: stile.ScriptedModel("first", "second")}
	s, err := rt.Open(ctx, "busy", &stile.Agent{Dialect: "plain", Model: gate})
	if err != nil {
		panic(err)
	}
	first, err := s.Submit(ctx, "one", stile.IdempotencyKey("form-7"))
	if err != nil {
		panic(err)
	}
	_, err = s.Submit(ctx, "two", stile.Policy(stile.Reject))
	fmt.Println(stile.CodeOf(err))
	second, err := s.Submit(ctx, "two", stile.Policy(stile.Enqueue))
	fmt.Println("run", second.Ordinal(), err)
	again, err := s.Submit(ctx, "one", stile.IdempotencyKey("form-7"))
	fmt.Println("run", again.Ordinal(), "joined:", again.Joined(), err)
	close(gate.open)
	for _, run := range []*stile.Run{first, second, again} {
		d, err := run.Decision(ctx)
		fmt.Println(run.Ordinal(), d.Decision, err)
	}
	// Output:
	// ERR_BUSY
	// run 2 <nil>
	// run 1 joined: true <nil>
	// 1 DONE <nil>
	// 2 DONE <nil>
	// 1 DONE <nil>
}
