package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

type order struct {
	Item  string `json:"item" jsonschema:"what to order"`
	Count int    `json:"count,omitempty"`
}

type receipt struct {
	Text string `json:"text"`
}

// A Go function becomes a tool; its parameters and their schema come from the types
// of its argument. The class says what a restart may do with a call: an effectful one
// never happens twice.
func Example_tool() {
	ctx := context.Background()
	buy, err := stile.DefineTool("shop.buy", "Orders an item.", stile.Effectful,
		func(_ context.Context, o order) (receipt, error) {
			return receipt{fmt.Sprintf("%d × %s, on its way", max(o.Count, 1), o.Item)}, nil
		})
	if err != nil {
		panic(err)
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "aeiou", Tools: []stile.Tool{buy}, Model: stile.ScriptedModel(`command
		set r = tool.shop.buy("rope", 2)
		emit r["text"]
		emit tool.aeiou.magic("LOOP", {"action": "done"})
	endcommand`)}
	s, err := rt.Open(ctx, "shopping", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "Two ropes, please.")
	if err != nil {
		panic(err)
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			panic(err)
		}
		if u.Record == nil {
			continue
		}
		switch b := u.Record.Body.(type) {
		case *stile.ActionEnded:
			fmt.Println(b.State, b.Result)
		case *stile.Emit:
			if !b.Candidate {
				fmt.Println(b.Text)
			}
		}
	}
	// Output:
	// ok {"text":"2 × rope, on its way"}
	// 2 × rope, on its way
}
