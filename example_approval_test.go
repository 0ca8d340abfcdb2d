package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A call that needs confirmation suspends its turn: nothing runs, the session may
// sleep and the process may end. An answer lets the turn continue.
func Example_approval() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	pay := stile.Tool{
		Name: "shop.pay", Params: []stile.ToolParam{{Name: "euros", Type: "int"}},
		Run: func(context.Context, *stile.ToolCall) (stile.ToolValue, error) {
			return tools.String("paid"), nil
		},
	}
	agent := &stile.Agent{
		Dialect: "aeiou", Tools: []stile.Tool{pay},
		Gate: func(stile.GateRequest) (stile.GateAnswer, string, bool) {
			return stile.GateConfirm, "it is money", true
		},
		Model: stile.ScriptedModel("command\nemit tool.shop.pay(7)\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"),
	}
	s, err := rt.Open(ctx, "ada", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "buy it")
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
		case *messages.TurnSuspended:
			waiting, err := s.Approvals(ctx)
			if err != nil {
				panic(err)
			}
			for _, a := range waiting {
				fmt.Println("may", a.Tool, a.Args, "happen?")
				if err := s.Approve(ctx, a, "grace"); err != nil {
					panic(err)
				}
			}
		case *stile.Emit:
			if !b.Candidate {
				fmt.Println(b.Text)
			}
		case *messages.RunEnd:
			fmt.Println(b.Decision)
		}
	}
	// Output:
	// may shop.pay [7] happen?
	// paid
	// DONE
}
