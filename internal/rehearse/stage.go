package rehearse

import (
	"context"
	"slices"
	"sync"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// Options change what a Stage does.
type Options struct {
	// Effects lets calls run whatever their class.
	Effects bool
}

// Stage answers the calls of one session. Its methods are safe for concurrent use.
type Stage struct {
	opts Options

	mu     sync.Mutex
	left   map[key][]messages.ActionEnded
	counts Counts
}

// Counts say what became of the calls so far.
type Counts struct {
	Reused  int64 `json:"reused"`  // got their recorded result
	Ran     int64 `json:"ran"`     // reached their target
	Refused int64 `json:"refused"` // were neither recorded nor allowed to run
	Unused  int64 `json:"unused"`  // recorded results that no call has asked for
	// Refusals are the refused calls by name, each name once, in order of the first.
	Refusals []Refusal `json:"refusals,omitzero"`
}

// Refusal counts the refused calls of one name.
type Refusal struct {
	Type  messages.ActionType `json:"type"`
	Name  string              `json:"name"`
	Class messages.Class      `json:"class"`
	N     int64               `json:"n"`
}

// maxRefusals bounds the names that Counts tells apart; Refused counts them all.
const maxRefusals = 64

// New makes a stage with the calls that a session has recorded; nil for none.
func New(calls []Call, opts Options) *Stage {
	s := &Stage{opts: opts, left: map[key][]messages.ActionEnded{}}
	for i := range calls {
		k := keyOf(calls[i].Type, calls[i].Name, calls[i].Args)
		s.left[k] = append(s.left[k], calls[i].End)
		s.counts.Unused++
	}
	return s
}

// Reason is that of a refused call, in its record.
const Reason = "rehearsal"

// Around is what stile.Agent.Around takes.
func (s *Stage) Around(ctx context.Context, call *messages.ActionDeclared, do func(context.Context) *messages.ActionEnded) *messages.ActionEnded {
	if end := s.take(call); end != nil {
		return end
	}
	if !s.runs(call.Class) {
		return s.refuse(call)
	}
	s.mu.Lock()
	s.counts.Ran++
	s.mu.Unlock()
	return do(ctx)
}

// Reaches reports whether the next call like this one would reach its target: it has no
// recorded end left and is not refused. A person need not be asked about any other.
func (s *Stage) Reaches(typ messages.ActionType, name, args string, class messages.Class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.left[keyOf(typ, name, args)]) == 0 && s.runs(class)
}

// Counts returns what became of the calls so far.
func (s *Stage) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Refusals = slices.Clone(c.Refusals)
	return c
}

// runs reports whether calls of a class reach their targets.
func (s *Stage) runs(class messages.Class) bool {
	return s.opts.Effects || class == messages.Pure || class == messages.ReadOnly
}

// take returns the next recorded end of a call; nil when there is none.
func (s *Stage) take(call *messages.ActionDeclared) *messages.ActionEnded {
	k := keyOf(call.Type, call.Name, call.Args)
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := s.left[k]
	if len(ends) == 0 {
		return nil
	}
	s.left[k] = ends[1:]
	s.counts.Reused++
	s.counts.Unused--
	// What the call used and which sessions ran for it is of the recorded run.
	return &messages.ActionEnded{ID: call.ID, State: ends[0].State, Reason: ends[0].Reason, Result: ends[0].Result, ErrorCode: ends[0].ErrorCode}
}

func (s *Stage) refuse(call *messages.ActionDeclared) *messages.ActionEnded {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Refused++
	typ := typeOf(call.Type)
	i := slices.IndexFunc(s.counts.Refusals, func(r Refusal) bool { return r.Type == typ && r.Name == call.Name })
	switch {
	case i >= 0:
		s.counts.Refusals[i].N++
	case len(s.counts.Refusals) < maxRefusals:
		s.counts.Refusals = append(s.counts.Refusals, Refusal{Type: typ, Name: call.Name, Class: call.Class, N: 1})
	}
	text := "refused: this is a rehearsal, in which calls of class " + string(call.Class) + " are not done; " + clip.Excerpt(call.Name) +
		" was not recorded with these arguments. Nothing was changed. Use a call that only reads, or go on without it."
	return &messages.ActionEnded{
		ID: call.ID, State: messages.ActionFailed, Reason: Reason, ErrorCode: neuroscript.CodeDenied, Result: string(jsonstring.Append(nil, text)),
	}
}
