package driver

import (
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// What an attempt comes to by what its target says, when it says it, and what it may have done.
func TestAttemptEnds(t *testing.T) {
	const ok, failed, cancelled, unknown = messages.ActionOK, messages.ActionFailed, messages.ActionCancelled, messages.ActionUnknown
	for _, c := range []struct {
		said    messages.ActionState // "" for no answer
		failure plan.Failure
		class   messages.Class
		over    Over
		want    messages.ActionState
		reason  string
		fails   plan.Failure
	}{
		{ok, 0, messages.Keyed, InTime, ok, "said", 0},
		{ok, 0, messages.Keyed, TimeUp, ok, "said", 0},
		{ok, 0, messages.Keyed, Cancelled, ok, "said", 0},
		{unknown, 0, messages.ReadOnly, TimeUp, unknown, "said", 0},
		{failed, plan.Denied, messages.Keyed, InTime, failed, "said", plan.Denied},
		{failed, 0, messages.ReadOnly, TimeUp, failed, "timeout", plan.TimedOut},
		{failed, 0, messages.ReadOnly, Cancelled, cancelled, "cancelled", 0},
		{failed, 0, messages.Keyed, TimeUp, unknown, "timeout", 0},
		{failed, 0, messages.Effectful, Cancelled, unknown, "cancelled", 0},
		{failed, plan.Stopped, messages.Keyed, TimeUp, failed, "timeout", 0},
		{failed, plan.Stopped, messages.Keyed, Cancelled, cancelled, "cancelled", 0},
		{"", 0, messages.ReadOnly, TimeUp, failed, "timeout", plan.TimedOut},
		{"", 0, messages.ReadOnly, Cancelled, cancelled, "cancelled", 0},
		{"", 0, messages.Effectful, TimeUp, unknown, "timeout", 0},
		{"", 0, messages.Keyed, Cancelled, unknown, "cancelled", 0},
	} {
		start := &turn.StartAction{Class: c.class}
		var end *turn.ActionEnded
		if c.said == "" {
			end = Lost(start, c.over)
		} else {
			end = Concluded(start, c.over, &turn.ActionEnded{State: c.said, Failure: c.failure, Reason: "said", ErrorCode: 5})
		}
		if end.State != c.want || end.Reason != c.reason || end.Failure != c.fails {
			t.Errorf("%q (%d) of a %s action, %s: %s %s %d, want %s %s %d", c.said, c.failure, c.class, c.over, end.State, end.Reason, end.Failure, c.want, c.reason, c.fails)
		}
		if code := end.ErrorCode; c.said == "" && code != turn.CodeToolFailed || c.reason == "said" && code != 5 {
			t.Errorf("%q of a %s action, %s: code %d", c.said, c.class, c.over, code)
		}
	}
}

func TestDeadline(t *testing.T) {
	for _, c := range []struct{ action, timeout, want time.Duration }{
		{0, 0, 0},
		{3, 0, 3},
		{0, 5, 5},
		{3, 5, 3},
		{7, 5, 5},
	} {
		start := &turn.StartAction{}
		if c.action > 0 {
			start.Deadline = t0.Add(c.action)
		}
		var want time.Time
		if c.want > 0 {
			want = t0.Add(c.want)
		}
		if at := Deadline(start, t0, c.timeout); !at.Equal(want) {
			t.Errorf("an action until %d, a target with %d: %s, want %s", c.action, c.timeout, at, want)
		}
	}
}
