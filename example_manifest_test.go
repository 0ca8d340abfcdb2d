package stile_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
)

// An agent is described by a manifest, in YAML or in Go; both give the same agent.
// All mistakes of a file are reported at once, each with its place.
func Example_manifest() {
	ctx := context.Background()
	written, err := manifest.Parse("agent.yaml", []byte(`
name: porter
dialect: plain
model: {provider: echo}
quotas: {turn_wall: 1m}
`))
	if err != nil {
		panic(err)
	}
	built := manifest.Default("plain")
	built.Name, built.Model.Provider, built.Quotas.TurnWall = "porter", "echo", time.Minute
	fmt.Println("the same:", written.Digest() == built.Digest())

	rt, err := stile.New(ctx, stile.Config{InMemory: true, Models: map[string]stile.Model{"echo": echo{}}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "gate", &stile.Agent{Manifest: written})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "hello")
	if err != nil {
		panic(err)
	}
	text, err := run.Text(ctx)
	fmt.Println(text, err)

	_, err = manifest.Parse("bad.yaml", []byte("dialect: plain\nquotas: {gas: -1}\nloop: {busy: later}\n"))
	fmt.Println(err)
	// Output:
	// the same: true
	// HELLO  <nil>
	// bad.yaml:2:15: quotas.gas: ERR_CONFIG/BAD_VALUE: -1 is outside its bound: at least 1
	// bad.yaml:3:14: loop.busy: ERR_CONFIG/BAD_VALUE: "later" is not one of reject, enqueue, interrupt, rollback, merge, debounce
}
