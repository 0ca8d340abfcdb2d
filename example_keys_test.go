package stile_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed14be6753/stile"
)

// Keys rotate while sessions run. What the old ones signed stays verifiable; the key
// file is sealed by a passphrase.
func Example_keys() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "stile")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	rt, err := stile.New(ctx, stile.Config{Dir: dir, Passphrase: []byte("correct horse")})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "plain", Model: stile.ScriptedModel("one", "two")}
	s, err := rt.Open(ctx, "long", agent)
	if err != nil {
		panic(err)
	}
	for range 2 {
		run, err := s.Submit(ctx, "go on")
		if err != nil {
			panic(err)
		}
		if _, err := run.Decision(ctx); err != nil {
			panic(err)
		}
		if err := rt.RotateKeys(ctx, agent.Retention()); err != nil {
			panic(err)
		}
	}
	report, err := rt.Archive().Verify(ctx, s.Incarnation(), stile.VerifyOptions{})
	fmt.Println("verified:", report.OK(), err)
	set, err := rt.Archive().PublicKeys(ctx)
	fmt.Println(len(set.Keys()), "receipt keys", err)
	// Output:
	// verified: true <nil>
	// 3 receipt keys <nil>
}
