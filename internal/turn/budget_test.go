package turn

import (
	"crypto/sha256"
	"testing"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// spending is a session in its first turn with 100 tokens a run, in which every tool may
// use some.
func spending(t *testing.T) *streamed {
	t.Helper()
	s := &streamed{rig: newRig(t, Rules{
		Dialect: "test", Judge: cortex.Dialect{}, Target: targets, Limits: Limits{Tokens: 100},
		Spends: func(messages.ActionType, string) (messages.Budget, bool) { return messages.Budget{}, true },
	}, 1)}
	s.do(&Open{Name: "s"})
	s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
	s.hear()
	return s
}

// hear begins the reply of the turn in flight.
func (s *streamed) hear() {
	s.t.Helper()
	id, _ := s.m.Flight()
	s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: id.Turn})
	s.do(&ModelOpened{Ident: id})
}

// A run that a detached action has brought over its budget ends there, not behind one more
// reply.
func TestDetachedOverBudget(t *testing.T) {
	s := spending(t)
	id, _ := s.m.Flight()
	s.push(`<action id="f" mode="fire_and_forget">{"name":"idem"}</action>so`)
	s.do(&Judged{Ident: id, ID: "f", Answer: messages.GateApprove})
	s.end()
	s.hear()
	s.push("and")
	s.do(&ActionEnded{Ident: id, ID: "f", Attempt: 1, State: messages.ActionOK, Result: "1", Used: messages.Budget{Tokens: 101}})
	s.overBudget()
}

// overBudget checks that the run has ended for its budget.
func (s *streamed) overBudget() {
	s.t.Helper()
	var last *messages.RunEnd
	for _, r := range s.log {
		if b, ok := r.Body.(*messages.RunEnd); ok {
			last = b
		}
	}
	if last == nil || last.Reason != messages.ErrQuota {
		s.t.Errorf("the run ends with %+v, in %s", last, s.m.Phase())
	}
}

// The same while a turn of the run waits for an answer, after a restart: nothing that was
// asked about begins.
func TestDetachedOverBudgetMeanwhile(t *testing.T) {
	s := spending(t)
	first, _ := s.m.Flight()
	s.push(`<action id="f" mode="fire_and_forget">{"name":"idem"}</action>so`)
	s.do(&Judged{Ident: first, ID: "f", Answer: messages.GateApprove})
	s.end()
	s.activate()
	s.do(s.recorded())
	s.hear()
	id, _ := s.m.Flight()
	s.push(`<action id="a" mode="async">{"name":"write"}</action>and`)
	s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateConfirm, By: "rule", Reason: "ask first"})
	s.end()
	if s.m.Phase() != Suspended {
		t.Fatalf("it is %s", s.m.Phase())
	}
	s.do(&ActionEnded{Ident: s.m.detached[0].Ident, ID: "f", Attempt: 2, State: messages.ActionOK, Result: "1", Used: messages.Budget{Tokens: 101}})
	q := s.m.State().Open.Turn.action("a")
	s.do(&Approve{Handle: 2, Approval: q.Question.ID, Answer: messages.GateApprove, By: "ann", Digest: sha256.Sum256([]byte(q.Asks()))})
	s.overBudget()
	for _, r := range s.log {
		if b, ok := r.Body.(*messages.ActionStarted); ok && b.ID == "a" {
			t.Error("what was asked about has begun")
		}
	}
}

// An action of which contact was lost is not called failed because nothing is left for
// another attempt.
func TestLostWithoutBudgetIsUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		tool string
		how  ActionEnded
		want messages.ActionState
	}{
		"a keyed one, lost":        {"keyed", ActionEnded{State: messages.ActionUnknown, Reason: "lost"}, messages.ActionUnknown},
		"a keyed one, its time up": {"keyed", ActionEnded{State: messages.ActionFailed, Failure: plan.TimedOut}, messages.ActionUnknown},
		"a keyed one, refused":     {"keyed", ActionEnded{State: messages.ActionFailed, Reason: "error"}, messages.ActionFailed},
		"one to be repeated, lost": {"idem", ActionEnded{State: messages.ActionFailed, Failure: plan.TimedOut}, messages.ActionFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := spending(t)
			id, _ := s.m.Flight()
			s.push(`<action id="a" mode="async">{"name":"` + tc.tool + `","retry":2}</action>so`)
			s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateApprove})
			end := tc.how
			end.Ident, end.ID, end.Attempt, end.Used = id, "a", 1, messages.Budget{Tokens: 100}
			s.do(&end)
			for _, r := range s.log {
				if b, ok := r.Body.(*messages.ActionEnded); ok {
					if b.State != tc.want || b.Reason != reasonQuota {
						t.Errorf("it is %s for %q, want %s", b.State, b.Reason, tc.want)
					}
					return
				}
			}
			t.Error("it has no end")
		})
	}
}

// What is reserved for one action is not there for another that begins beside it.
func TestReservedOnce(t *testing.T) {
	s := spending(t)
	id, _ := s.m.Flight()
	for _, a := range []string{"a", "b", "c", "d", "e"} {
		s.push(`<action id="` + a + `" mode="async">{"name":"keyed"}</action>`)
		s.do(&Judged{Ident: id, ID: a, Answer: messages.GateApprove})
	}
	sum := int64(0)
	for _, r := range s.log {
		if b, ok := r.Body.(*messages.ActionStarted); ok && b.Reserved != nil {
			sum += b.Reserved.Tokens
		}
	}
	if sum == 0 || sum > 100 {
		t.Errorf("%d tokens of 100 are reserved", sum)
	}
}
