package plan

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// normal returns an action as the plan keeps it, with defaults filled in and limits capped, or
// an ERR_CONFIG that names the member. Decoders check actions themselves; this is for callers
// without one, such as workflows.
func (p *Plan) normal(a *messages.Action) (messages.Action, *messages.Error) {
	bad := func(field, detail string) (messages.Action, *messages.Error) {
		return messages.Action{}, &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
	}
	n := *a
	if n.ID == "" {
		return bad("id", "empty")
	}
	switch n.Mode {
	case "":
		n.Mode = messages.ModeSync
	case messages.ModeSync, messages.ModeAsync, messages.ModeFireAndForget:
	default:
		return bad("mode", "none of sync, async and fire_and_forget: "+n.Mode)
	}
	switch n.OnError {
	case "":
		n.OnError = messages.OnErrorFail
	case messages.OnErrorFail, messages.OnErrorSkip, messages.OnErrorRetry, messages.OnErrorRollback:
	default:
		return bad("on_error", "none of fail, skip, retry and rollback: "+n.OnError)
	}
	if n.Args == "" {
		n.Args = "{}"
	}
	if i := space(n.Args, 0); i == len(n.Args) || n.Args[i] != '{' || !p.valid(n.Args) {
		return bad("parameters", "not a JSON object")
	}
	bounded := PolicyOf(&n, 0)
	n.Timeout, n.Retry = bounded.Timeout, bounded.Retries
	if n.Type == messages.TypeInternal {
		// The session itself executes these, in order, as if sync and once.
		n.Mode, n.Retry = messages.ModeSync, 0
	}
	return n, nil
}

// EffectKind is what the caller must do.
type EffectKind uint8

// The effects.
const (
	// Dispatch: judge and begin the action with Parameters; answer Started, Park
	// or Ended. It holds a slot from here on.
	Dispatch EffectKind = iota + 1
	// End: the plan itself has ended the action, with State and Reason, and for an
	// unresolved reference the Place in its parameters. It needs no answer.
	End
	// Stop: ask the executor to give up; its answer is still Ended.
	Stop
	// Fetch: an action needs the value of Feed; answer FeedReady.
	Fetch
	// Judge: a block can be decided; answer Decide.
	Judge
	// Open: the children of the block are known now, and their effects follow.
	Open
	// EndBlock: the block has ended, with State and Reason. It needs no answer.
	EndBlock
	// Say: the response N of a block may be shown; answer Said.
	Say
)

// String is the effect's name in traces.
func (k EffectKind) String() string {
	return [...]string{"?", "dispatch", "end", "stop", "fetch", "judge", "open", "end-block", "say", "?"}[min(k, Say+1)]
}

// An Effect is what a call causes. Effects must be done in order.
type Effect struct {
	Kind       EffectKind
	Ref        Ref    // of the action or block
	Feed       string // of Fetch
	Parameters string // of Dispatch: JSON, references substituted
	State      State  // of End
	Reason     string // of End and Stop
	Place      string // JSON pointer into the parameters
	N          int    // of Say
	OK, Failed int    // of EndBlock: of a group, its children by their ends
}

// Reasons of ends that the plan decides (docs/spec/streaming.md §§4, 5.1, 6). A colon and the
// id, ids or reference follow the first four and ReasonUnresolved.
const (
	ReasonDependencyFailed  = "dependency_failed"
	ReasonUnknownDependency = "unknown_dependency"
	ReasonDependencyCycle   = "dependency_cycle"
	ReasonForwardDependency = "forward_dependency"
	ReasonUnresolved        = "unresolved_variable"
	ReasonQuota             = "quota"
	ReasonTooLarge          = "parameters_too_large"
)

// Limits with their sources.
const (
	DefaultActions        = 64              // per generation, docs/spec/streaming.md §4
	DefaultParallel       = 5               // per session, docs/spec/streaming.md §4
	DefaultParameterBytes = 8 << 20         // of one action after substitution; `value` of docs/spec/design.md §8
	DefaultGrowthBytes    = 1 << 20         // by substitution in one response, docs/spec/streaming.md §6
	GateBufferBytes       = 256 << 10       // of events behind a gate, docs/spec/streaming.md §4
	DrainTime             = 5 * time.Second // after a final response, docs/spec/streaming.md §4
)
