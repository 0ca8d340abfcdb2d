package turn

import (
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of what later turns are told of one that failed.
const (
	MaxFailed      = 12      // turns; a run's repairs and settlements are fewer
	FailedCalls    = 32      // calls of one of them
	FailedArgs     = 200     // bytes of a call's arguments
	FailedResult   = 400     // bytes of a call's result
	FailedShown    = 2 << 10 // bytes of what the user has seen
	FailedWhyBytes = 2 << 10
)

// Failed is a turn that did not complete, as the turns behind it are told of it until one
// completes (docs/spec/design.md §5). What it emitted and whispered is not carried, so
// this is all that they know.
type Failed struct {
	Run  int64  `json:"run,omitzero"`
	Turn int64  `json:"turn,omitzero"`
	Why  string `json:"why,omitzero"`
	// Reply is the blob of what the model wrote, zero for nothing.
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

// Tell gives the failed turns as a dialect renders them, the latest with what its model
// wrote. blob reads that by its digest.
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

// carry takes the streams of a turn that is decided to where the next one finds them. A
// turn that did not complete leaves those of the one before, and what is to be told of it;
// in the first version only one that a crash ended, which stored none.
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

// completed reports whether a turn did what its model meant it to do, whatever the host
// made of it: such a turn leaves its streams.
func completed(b *messages.TurnDecided) bool {
	switch b.Reason {
	case messages.ErrNoProgress, messages.ErrLoop, messages.ErrMaxTurns:
		return true
	}
	return b.Decision != messages.Halt
}

// whyFailed is a decision's reason and detail.
func whyFailed(b *messages.TurnDecided) string {
	switch {
	case b.Detail == "":
		return string(b.Reason)
	case strings.HasPrefix(b.Detail, string(b.Reason)):
		return b.Detail
	}
	return string(b.Reason) + ": " + b.Detail
}

// unanswered reports whether the turn before the one that begins, of the same run, did not
// complete: what it was given is still to be answered.
func (s *State) unanswered() bool {
	n := len(s.Failed)
	return n > 0 && s.Open.Turn.keepsDeeds() && s.Failed[n-1].Run == s.Open.Run
}

// emitted keeps what the user has seen.
func (t *OpenTurn) emitted(b *messages.Emit) {
	if !t.keepsDeeds() || b.Candidate || b.Held || len(t.Did.Shown) > FailedShown {
		return
	}
	t.Did.Shown += clip.Short(clean(b.Text), FailedShown) + "\n"
}

// called keeps what an action did.
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
