package catalog

import (
	"context"
	"slices"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Internal is an action on the session itself (docs/spec/streaming.md §7.4). Internal actions
// of a session run one at a time, in the order of the document, and are not retried while
// the turn is in memory. A change takes effect with the recorded end of the action: Do must
// keep no state that a restart would lose.
type Internal struct {
	Name    string
	Summary string // one line for the model
	Params  Parameters
	// Class is read_only or idempotent: an action that a crash cut off is repeated.
	Class messages.Class
	// Do returns the result as JSON. args is the JSON object of its parameters, not yet
	// checked against Params. Its failures are made by tools.Refuse.
	Do func(ctx context.Context, c *tools.Call, args string) (result string, err error)
}

// Permission says which internal actions an agent may do (docs/spec/streaming.md §7.4).
type Permission struct {
	Disabled bool
	Allowed  []string
	Blocked  []string // also when allowed
}

// allows reports whether an agent may do an action.
func (p *Permission) allows(name string) bool {
	return !p.Disabled && !slices.Contains(p.Blocked, name) && slices.Contains(p.Allowed, name)
}

// reasonNotAllowed is the reason of an internal action that the manifest does not allow.
const reasonNotAllowed = "not_allowed"

// AddInternal adds actions on the session itself. Actions that p does not allow are added
// too, so that they fail as not allowed and not as unknown, but not described to the model.
// Errors are ERR_CONFIG.
func (t *Targets) AddInternal(p Permission, actions ...Internal) error {
	for _, in := range actions {
		if in.Class != messages.ReadOnly && in.Class != messages.Idempotent {
			return invalid("internal_actions", in.Name+" is neither read_only nor idempotent")
		}
		x := &Executor{Type: messages.TypeInternal, Name: in.Name, Summary: in.Summary, Params: in.Params, Class: in.Class, Within: true, Run: in.Do}
		if !p.allows(in.Name) {
			x.refuse = reasonNotAllowed
			x.Run = func(context.Context, *tools.Call, string) (string, error) {
				return "", tools.Refuse(reasonNotAllowed, in.Name+" is not allowed here")
			}
		}
		if err := t.Add(x); err != nil {
			return err
		}
	}
	return nil
}

// Refuse returns why an action must not be done, whatever the gate decides, or "".
func (t *Targets) Refuse(typ messages.ActionType, name string) (reason string) {
	if x := t.executor(typ, name); x != nil {
		return x.refuse
	}
	return ""
}
