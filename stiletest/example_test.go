package stiletest_test

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/stiletest"
)

// The code of docs/howto/test.md.
func TestExample(t *testing.T) {
	agent := desk(t, func(context.Context, refund) (string, error) { return "paid", nil })
	t.Run("refund", func(t *testing.T) { exampleRefund(t, agent) })
}

func exampleRefund(t *testing.T, agent *stile.Agent) {
	s := stiletest.Open(t, agent,
		`<action id="r">{"name": "desk.refund", "parameters": {"order": "A-17"}}</action>`,
		`<response>Your money is on its way.</response>`)
	s.Approve = func(q stile.Approval) bool { return q.Tool == "desk.refund" }
	r := s.Say("I want my money back.")
	r.Want(stile.Done)
	r.WantText("Your money is on its way.")
	r.WantCall("desk.refund", `{"order": "A-17"}`)
	stiletest.Golden(t, "testdata/prompt.txt", s.Prompt(0))
}
