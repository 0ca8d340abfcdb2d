package stile_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
)

type count struct {
	To int `json:"to"`
}

// counts emits each line of its result, and returns the whole.
func counts(ctx context.Context, c *stile.ToolCall, in count) (string, error) {
	var all strings.Builder
	for n := range in.To {
		line := fmt.Sprintf("%d\n", n+1)
		if err := c.Emit(ctx, line); err != nil {
			return "", err
		}
		all.WriteString(line)
	}
	return all.String(), nil
}

// A result is shown as it grows: the tool emits its pieces, and a response may quote what there
// is of it.
func Example_stream() {
	ctx := context.Background()
	tool, err := stile.DefineToolCall("count", "Counts.", stile.ReadOnly, counts)
	if err != nil {
		panic(err)
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	m := manifest.Default("cortex")
	m.Extensions, m.Import.Tools = []string{"stream"}, []string{"count"}
	s, err := rt.Open(ctx, "counting", &stile.Agent{Manifest: m, Tools: []stile.Tool{tool}, Model: stile.ScriptedModel(
		`<action id="a" mode="async">{"name": "count", "parameters": {"to": 3}, "stream": true}</action>
<response>It counts: ${a.partial}</response>`)})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "Count.")
	if err != nil {
		panic(err)
	}
	text, err := run.Text(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Print(text)
	// Output:
	// It counts: 1
	// 2
	// 3
}
