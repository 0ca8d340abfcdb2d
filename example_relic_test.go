package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
)

// A session keeps what its model gives it: a relic of service_type key_value, and
// variables. Later runs, and later processes, find both.
func Example_relic() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	m, err := manifest.Parse("agent.yaml", []byte(`
dialect: cortex
import: {relics: [notes]}
define: {relics: [{name: notes, service_type: key_value}]}
internal_actions: {allowed_actions: [set_variable]}
`))
	if err != nil {
		panic(err)
	}
	s, err := rt.Open(ctx, "visits", &stile.Agent{Manifest: m, Model: stile.ScriptedModel(
		`<action type="relic">{"name": "notes", "parameters": {"operation": "add", "key": "visits"}}</action>`+
			`<action type="internal">{"name": "set_variable", "parameters": {"name": "city", "value": "Oslo"}}</action>`+
			`<response final="true">Noted.</response>`,
		`<action type="relic" id="n">{"name": "notes", "parameters": {"operation": "add", "key": "visits"}}</action>`+
			`<response>This is visit ${n.value} to $city.</response>`,
	)})
	if err != nil {
		panic(err)
	}
	for _, text := range []string{"hello", "hello again"} {
		run, err := s.Submit(ctx, text)
		if err != nil {
			panic(err)
		}
		said, err := run.Text(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(said)
	}
	// Output:
	// Noted.
	// This is visit 2 to Oslo.
}
