package driver

import (
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// An action of type agent has a child session run for it. This file decides what the attempt
// at such an action does next, and which runs of child sessions have lost their action.

const (
	// MaxAgentDepth is how deep agents nest (docs/spec/design.md §8).
	MaxAgentDepth = 4
	// DelegationTries is how often a child session is asked, or followed, that breaks.
	DelegationTries = 3
	// ChildRun is the run that an action begins in its child session: the first.
	ChildRun = 1
)

// ShowsWhole reports whether an attempt shows the text of its child when that is whole, and not
// while it grows: too many before it were cut off, by the child, which took text back, or by
// crashes. attempt is its number, retries how many of those before it failed.
func ShowsWhole(attempt, retries int64) bool { return attempt-retries > turn.MaxTakenBack+1 }

// Errand is what an attempt at an action of type agent does next.
type Errand int

// The errands.
const (
	Submit Errand = iota // submit the input to the child session, or submit it again
	Await                // wait for the end of the child's run
	Cancel               // cancel the child's run, and wait for its end
	Cease                // end: nothing of the attempt goes on
	Lose                 // end: what the child does is unknown
)

// String is the errand's name.
func (e Errand) String() string {
	return [...]string{"submit", "await", "cancel", "cease", "lose"}[e]
}

// Delegation is one attempt at an action of type agent. The zero value has not begun.
type Delegation struct {
	asks     int  // submits so far
	failures int  // of waiting, since the run was accepted or stopped
	accepted bool // the child has the run
	stopping bool // its cancel was asked for
}

// Begin begins the attempt of a number, the first being 1. over reports whether the action's
// time is up or it was cancelled: then a first attempt has no child yet. A later one asks all
// the same, because an earlier one may have left a run.
func (d *Delegation) Begin(attempt int64, over bool) Errand {
	if over && attempt == 1 {
		return Cease
	}
	d.asks++
	return Submit
}

// Accepted says that the child has the run.
func (d *Delegation) Accepted() Errand {
	d.accepted = true
	return Await
}

// Broke says that the child session gave no answer to the submit or the cancel, or refused
// the submit: its process may have died, or it is busy with its end.
func (d *Delegation) Broke() Errand {
	if d.stopping || d.accepted || d.asks >= DelegationTries {
		return Lose
	}
	d.asks++
	return Submit
}

// Unheard says that the child's run cannot be followed.
func (d *Delegation) Unheard() Errand {
	if d.failures++; d.failures >= DelegationTries {
		return Lose
	}
	return Await
}

// Over says that the action's time is up, or that it was cancelled, once the child has the
// run: what was submitted must be known to be stopped.
func (d *Delegation) Over() Errand {
	if d.stopping {
		return Await
	}
	d.stopping, d.failures = true, 0
	return Cancel
}

// Stopping reports whether the child's run was to be cancelled.
func (d *Delegation) Stopping() bool { return d.stopping }

// Outcome is what the end of a child's run is for the action.
type Outcome int

// The outcomes.
const (
	Answered Outcome = iota // the run gave an answer
	Unknown                 // what some of the run's actions did is unknown
	Ceased                  // the run was stopped, and nothing of it goes on
	Refused                 // the run ended without an answer
)

// String is the outcome's name.
func (o Outcome) String() string {
	return [...]string{"answered", "unknown", "ceased", "refused"}[o]
}

// Ended says what the end of the child's run is for the action; unknown counts the run's
// actions whose outcome is unknown. An answer counts although it came while the run was to be
// cancelled.
func (d *Delegation) Ended(decision messages.Decision, unknown int) Outcome {
	switch {
	case decision == messages.Done:
		return Answered
	case unknown > 0:
		return Unknown
	case d.stopping:
		return Ceased
	}
	return Refused
}

// Parent is the session that asks: its key, its incarnation, and its own parent, nil for a
// top-level session.
type Parent struct {
	Key  messages.SessionKey
	SID  string
	Inc  string
	Link *messages.ParentLink
}

// Refusal is why an action of type agent has no child session.
type Refusal int

// The refusals.
const (
	Granted  Refusal = iota // it has one
	TooDeep                 // it would nest deeper than MaxAgentDepth
	Nameless                // tenant and user leave no room for the name of a child
)

// Child names the child session of an action of the turn turnIndex that runs agent under
// the idempotency key, after so many attempts that failed, and says how it is linked with its
// parent: the same for every repetition of the attempt.
func (p *Parent) Child(turnIndex int64, action, agent, key string, retries int64) (messages.SessionKey, messages.ParentLink, Refusal) {
	link := messages.ParentLink{SID: p.SID, Incarnation: p.Inc, Turn: turnIndex, Action: action, Depth: 1}
	if p.Link != nil {
		link.Depth += p.Link.Depth
	}
	if link.Depth > MaxAgentDepth {
		return messages.SessionKey{}, link, TooDeep
	}
	child, ok := p.Key.Child(agent, key, retries)
	if !ok {
		return child, link, Nameless
	}
	return child, link, Granted
}

// Canceller is who cancels the run of a child: the action, or the feed, that it works for.
func Canceller(link *messages.ParentLink) string {
	if feed, ok := FeedOf(link); ok {
		return "feed " + feed + " of " + link.SID
	}
	return "action " + link.Action + " of " + link.SID
}

// Unawaited is who cancels the run of a child whose action has ended, or whose feed another
// process fetched.
func Unawaited(link *messages.ParentLink) string { return Canceller(link) + unawaited }

const unawaited = ", which is not waited for any more"

// IsUnawaited reports whether a canceller is one that Unawaited names.
func IsUnawaited(by string) bool { return strings.HasSuffix(by, unawaited) }

// HasChildRun reports whether a session that is woken has the run open that an action may
// have begun in it, and nothing has cancelled it: then its parent is asked (Orphaned).
func HasChildRun(state *turn.State) bool {
	if open := state.Open; open != nil && open.Run == ChildRun && open.Cancel == nil {
		return true
	}
	for i := range state.Queue {
		if state.Queue[i].Run == ChildRun {
			return true
		}
	}
	return false
}

// Orphaned reports whether a child session works for an action that its parent, whose
// durable state is given, does not wait for any more.
func Orphaned(link *messages.ParentLink, parent *turn.State) bool {
	id, _, _ := strings.Cut(link.Action, "/") // a step of a workflow is action/step
	return !parent.Awaits(link.Turn, id)
}

// Ends reports whether an effect that ends the children of an action, of the session sid in
// its incarnation inc, means the child with this link.
func Ends(e *turn.EndChildren, sid, inc string, link *messages.ParentLink) bool {
	return link.SID == sid && link.Incarnation == inc && link.Turn == e.Turn &&
		(link.Action == e.ID || strings.HasPrefix(link.Action, e.ID+"/"))
}
