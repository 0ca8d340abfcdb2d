package driver

import (
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Over is how an attempt at an action was ended from outside, if it was.
type Over int

// The ways.
const (
	InTime    Over = iota // it was not
	TimeUp                // its time is up
	Cancelled             // it was cancelled
)

// String is the way's name.
func (o Over) String() string { return [...]string{"in time", "time up", "cancelled"}[o] }

// Deadline is when the time of an attempt is up that begins now: at the deadline of its
// action, or earlier when its target has a timeout of its own, 0 being none. It is zero for an
// attempt without a bound.
func Deadline(start *turn.StartAction, now time.Time, timeout time.Duration) time.Time {
	at := start.Deadline
	if timeout > 0 {
		at = earlier(at, now.Add(timeout))
	}
	return at
}

// Concluded is the end of an attempt whose target gave end. A target that gave up because its
// time was over has no failure of its own; one that says that nothing of it goes on
// (plan.Stopped) leaves nothing unknown.
func Concluded(start *turn.StartAction, over Over, end *turn.ActionEnded) *turn.ActionEnded {
	switch {
	case end.Failure == plan.Stopped:
		end.Failure, end.Reason = 0, "timeout"
		if over == Cancelled {
			end.State, end.Reason = messages.ActionCancelled, "cancelled"
		}
		return end
	case over == InTime || end.State != messages.ActionFailed:
		return end
	}
	return Lost(start, over)
}

// Lost is the end of an attempt whose target gave no answer: unknown when it may have
// happened, else cancelled or failed.
func Lost(start *turn.StartAction, over Over) *turn.ActionEnded {
	end := &turn.ActionEnded{State: messages.ActionFailed, Failure: plan.TimedOut, Reason: "timeout", ErrorCode: turn.CodeToolFailed}
	if over == Cancelled {
		end.State, end.Failure, end.Reason = messages.ActionCancelled, 0, "cancelled"
	}
	if start.Class.Durable() {
		end.State, end.Failure = messages.ActionUnknown, 0
	}
	return end
}
