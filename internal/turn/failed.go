package turn

import (
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of what later turns learn of one that failed.
const (
	MaxFailed      = 12      // turns; a run has fewer repairs and settlements
	FailedCalls    = 32      // calls of one of them
	FailedArgs     = 200     // bytes of a call's arguments
	FailedResult   = 400     // bytes of a call's result
	FailedShown    = 2 << 10 // bytes of the text that the user has seen
	FailedWhyBytes = 2 << 10
)

// Failed is a turn that did not complete, as the turns after it learn of it until one
// completes (docs/spec/design.md §5). Its emissions and whispers are not carried, so this is
// all that they know of it.
type Failed struct {
	Run  int64  `json:"run,omitzero"`
	Turn int64  `json:"turn,omitzero"`
	Why  string `json:"why,omitzero"`
	// Reply is the blob of the model's reply, zero for an empty one.
	Reply messages.Digest `json:"reply,omitzero"`
	Shown string          `json:"shown,omitzero"` // emissions, LF after each
	Calls []FailedCall    `json:"calls,omitzero"`
	More  int64           `json:"more,omitzero"` // calls over FailedCalls
}

// FailedCall is an action of such a turn that has ended.
type FailedCall struct {
	Name   string               `json:"name"`
	Args   string               `json:"args,omitzero"`
	Class  messages.Class       `json:"class,omitzero"`
	State  messages.ActionState `json:"state"`
	Reason string               `json:"reason,omitzero"`
	Result string               `json:"result,omitzero"`
}

// Tell returns the failed turns as a dialect renders them, the latest with the text of its
// reply, which blob reads by its digest. It fails when blob does.
func (e *OpenModel) Tell(blob func(messages.Digest) ([]byte, error)) ([]messages.Reply, error) {
	var all []messages.Reply
	for i := range e.Failed {
		f := &e.Failed[i]
		r := messages.Reply{Turn: f.Turn, Why: f.Why, Shown: f.Shown, MoreCalls: f.More, Before: f.Run != e.Run}
		if i == len(e.Failed)-1 && !f.Reply.IsZero() {
			text, err := blob(f.Reply)
			if err != nil {
				return nil, err
			}
			r.Text = string(text)
		}
		for _, c := range f.Calls {
			r.Calls = append(r.Calls, messages.Call{Name: c.Name, Args: c.Args, Class: c.Class, State: c.State, Reason: c.Reason, Value: c.Result})
		}
		all = append(all, r)
	}
	return all, nil
}

// Of the fold.

// carry keeps the streams of a decided turn for the next one. A turn that did not complete
// leaves the streams of the turn before in place and adds itself to Failed. In the first
// version only a turn that a crash ended, which stored no streams, leaves them in place.
func (s *State) carry(r *messages.Record, b *messages.TurnDecided, t *OpenTurn) {
	switch {
	case !t.keepsDeeds() && b.Resumed:
	case !t.keepsDeeds() || completed(b):
		s.OutDigest, s.ScrDigest = b.Output, b.Scratch
		s.Failed = nil
		if s.Open != nil {
			s.Open.Completed = true
		}
	}
	if !t.keepsDeeds() || b.Decision != messages.Halt {
		return
	}
	f := t.Did
	f.Run, f.Turn, f.Why = r.Run, r.Turn, clip.Short(whyFailed(b), FailedWhyBytes)
	was := s.Failed
	if n := len(was) - MaxFailed + 1; n > 0 {
		was = was[n:]
	}
	s.Failed = append(was[:len(was):len(was)], f)
}

// completed reports whether a turn ran to its end, so that its streams are carried: also one
// that a guard of the host then halted.
func completed(b *messages.TurnDecided) bool {
	switch b.Reason {
	case messages.ErrNoProgress, messages.ErrLoop, messages.ErrMaxTurns:
		return true
	}
	return b.Decision != messages.Halt
}

// whyFailed returns a decision's reason and detail as one text.
func whyFailed(b *messages.TurnDecided) string {
	switch {
	case b.Detail == "":
		return string(b.Reason)
	case strings.HasPrefix(b.Detail, string(b.Reason)):
		return b.Detail
	}
	return string(b.Reason) + ": " + b.Detail
}

// unanswered reports whether the turn before, of the same run, did not complete: its input
// is not answered yet.
func (s *State) unanswered() bool {
	n := len(s.Failed)
	return n > 0 && s.Open.Turn.keepsDeeds() && s.Failed[n-1].Run == s.Open.Run
}

// emitted remembers the text that the user has seen.
func (t *OpenTurn) emitted(b *messages.Emit) {
	if !t.keepsDeeds() || b.Candidate || b.Held || len(t.Did.Shown) > FailedShown {
		return
	}
	t.Did.Shown += clip.Short(clean(b.Text), FailedShown) + "\n"
}

// called remembers what an action did.
func (t *OpenTurn) called(a *OpenAction, b *messages.ActionEnded) {
	switch {
	case !t.keepsDeeds():
	case len(t.Did.Calls) >= FailedCalls:
		t.Did.More++
	default:
		t.Did.Calls = append(t.Did.Calls, FailedCall{
			Name: a.Name, Args: clip.Short(a.Args, FailedArgs), Class: a.Class, State: b.State, Reason: b.Reason, Result: clip.Short(b.Result, FailedResult),
		})
	}
}
