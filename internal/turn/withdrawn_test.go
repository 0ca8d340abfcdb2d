package turn

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// A keyed action that a crash cut off is begun again under its key. When the run is
// cancelled before that second attempt begins, the first one may still have happened:
// the action is unknown, not cancelled.
func TestCancelledSecondAttemptIsUnknown(t *testing.T) {
	r := newRig(t, Rules{Judge: programJudge{}}, 1)
	all := func(in Input) []Effect {
		t.Helper()
		if _, _, err := r.step(in); err != nil {
			t.Fatal(err)
		}
		return r.ack(int64(len(r.log)))
	}
	all(&Open{})
	all(&Submit{Input: messages.Input{Text: "go"}})
	id, _ := r.m.Flight()
	all(&ModelOpened{Ident: id})
	all(&ReplyEnd{Ident: id, Finish: messages.FinishComplete, Events: []messages.Event{{Kind: messages.EventProgram, Text: []byte("p")}}})
	all(&ProgramCall{Ident: id, ID: "#1", Name: "pay", Args: "[]", Class: messages.Keyed})
	all(&Judged{Ident: id, ID: "#1", Answer: messages.GateApprove})

	r.activate()
	if _, _, err := r.step(r.recorded()); err != nil { // nothing of it is acknowledged
		t.Fatal(err)
	}
	id, _ = r.m.Flight()
	_, ready, err := r.step(&Cancel{By: "user"})
	if err != nil {
		t.Fatal(err)
	}
	withdrawn := 0
	for _, e := range ready {
		switch e := e.(type) {
		case *CancelAction:
			if e.Withdrawn {
				withdrawn++
			}
		case *StopProgram:
			if e.Withdrawn {
				withdrawn++
			}
		}
	}
	if withdrawn != 2 {
		t.Fatalf("%d of the attempt and the program are withdrawn", withdrawn)
	}
	all(&ProgramEnd{Ident: id, Code: messages.ErrCancelled})
	all(&ActionEnded{Ident: id, ID: "#1", State: messages.ActionCancelled, Reason: reasonCancelled})
	for _, rec := range r.log {
		if end, ok := rec.Body.(*messages.ActionEnded); ok {
			if end.State != messages.ActionUnknown {
				t.Errorf("the action is %s", end.State)
			}
			return
		}
	}
	t.Error("the action has no end")
}
