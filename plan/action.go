package plan

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Mode says who waits for an action (streaming.md §4).
type Mode string

// The modes.
const (
	Sync          Mode = "sync"            // what comes after it waits for its end
	Async         Mode = "async"           // the document goes on
	FireAndForget Mode = "fire_and_forget" // as async, and nobody reads a result
)

// OnError says what the last failed attempt means to dependents (streaming.md
// §5.3).
type OnError string

// The answers to failure. Retry differs from Fail only in how many attempts a
// dialect gives an action that does not say.
const (
	OnErrorFail  OnError = "fail"
	OnErrorSkip  OnError = "skip" // tolerated: dependents run, the output is null
	OnErrorRetry OnError = "retry"
)

// TypeInternal is the one type that matters here: the session itself executes
// such actions, in order, always as if sync and never retried (streaming.md §7.4).
const TypeInternal = "internal"

// An Action is what the model declared, with defaults filled in. The plan keeps
// it; nobody changes it or what it refers to afterwards.
type Action struct {
	ID         string // unique in its generation
	Type       string
	Name       string // the target
	Mode       Mode   // "" is sync
	Parameters string // a JSON object as declared, references in it; "" is {}
	OutputKey  string // "" for none
	DependsOn  []string
	OnError    OnError // "" is fail
	Policy     Policy
}

// normal gives an action as the plan keeps it, or an ERR_CONFIG that names the
// member. A parser refuses such blocks itself; this is for callers that have none.
func (p *Plan) normal(a *Action) (Action, *messages.Error) {
	bad := func(field, detail string) (Action, *messages.Error) {
		return Action{}, &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
	}
	n := *a
	if n.ID == "" {
		return bad("id", "empty")
	}
	switch n.Mode {
	case "":
		n.Mode = Sync
	case Sync, Async, FireAndForget:
	default:
		return bad("mode", "none of sync, async and fire_and_forget: "+string(n.Mode))
	}
	switch n.OnError {
	case "":
		n.OnError = OnErrorFail
	case OnErrorFail, OnErrorSkip, OnErrorRetry:
	default:
		return bad("on_error", "none of fail, skip and retry: "+string(n.OnError))
	}
	if n.Parameters == "" {
		n.Parameters = "{}"
	}
	if i := space(n.Parameters, 0); i == len(n.Parameters) || n.Parameters[i] != '{' || !p.valid(n.Parameters) {
		return bad("parameters", "not a JSON object")
	}
	n.Policy = n.Policy.Bounded()
	if n.Type == TypeInternal {
		n.Mode, n.Policy.Retries = Sync, 0
	}
	return n, nil
}

// tolerated tells whether a failure of the action satisfies its dependents.
func (a *Action) tolerated() bool { return a.OnError == OnErrorSkip }

// EffectKind says what the caller is to do.
type EffectKind uint8

// The effects.
const (
	// Dispatch: judge and begin the action with Parameters; answer Started, Park
	// or Ended. It holds a slot from here on.
	Dispatch EffectKind = iota + 1
	// End: the plan itself has ended the action, with State, Reason and, for an
	// unresolved reference, the Place in its parameters. It needs no answer.
	End
	// Stop: ask the executor to give up; it answers with Ended all the same.
	Stop
	// Fetch: somebody needs the value of Feed; answer FeedReady.
	Fetch
)

// String is the effect's name in traces.
func (k EffectKind) String() string {
	return [...]string{"?", "dispatch", "end", "stop", "fetch", "?"}[min(k, Fetch+1)]
}

// An Effect is what a call causes. They are to be done in order.
type Effect struct {
	Kind       EffectKind
	Ref        Ref    // of the action
	Feed       string // of Fetch
	Parameters string // of Dispatch: JSON, references substituted
	State      State  // of End
	Reason     string // of End and Stop
	Place      string // JSON pointer into the parameters
}

// Reasons of ends that the plan decides (streaming.md §§4, 5.1, 6). The first four
// and ReasonUnresolved are followed by a colon and the id, ids or reference.
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
	DefaultActions        = 64              // per generation, streaming.md §4
	DefaultParallel       = 5               // per session, streaming.md §4
	DefaultParameterBytes = 8 << 20         // of one action after substitution; `value` of design.md §8
	DefaultGrowthBytes    = 1 << 20         // by substitution in one response, streaming.md §6
	GateBufferBytes       = 256 << 10       // of events behind a gate, streaming.md §4
	DrainTime             = 5 * time.Second // after a final response, streaming.md §4
)
