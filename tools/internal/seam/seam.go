// Package seam has what the packages tools and tools/catalog share, and authors of tools do
// not need: how a tool that was not written by hand takes its arguments, and what the host's
// own tools know of the session.
package seam

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// Form says how a tool takes its arguments. The zero value coerces them by Tool.Params. C is
// tools.Call.
type Form[C any] struct {
	// Bound returns Tool.Pure for one program, for a tool that needs the names of the tools
	// that the program may call.
	Bound func(names func() []string) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error)
	// Prepare checks and completes the arguments before any other step; set by Define,
	// whose tools take named arguments too. It replaces the coercion by Params, which
	// then only describe the tool.
	Prepare func([]neuroscript.Value) ([]neuroscript.Value, error)
	// Name is Prepare for arguments that have names already: a map among them is an
	// argument. If it is nil, Prepare gets the object as it is.
	Name func([]neuroscript.Entry) ([]neuroscript.Value, error)
	// Appends is neuroscript.Tool.Appends.
	Appends bool
	// Direct does the work on JSON as it was written, because values of programs would
	// round its numbers; set by catalog.NewForeign.
	Direct func(ctx context.Context, c *C, args string) (result string, err error)
	// Schema is the JSON schema of the arguments object, if it says more than Params.
	Schema string
	// Basis returns what a call depends on beside its arguments: digests by name of things
	// that may change, such as a folder. It must not block.
	Basis func(sid string) map[string]string
}

// Host is the part of a call that only the host's own tools use.
type Host struct {
	// Memory is the dialect's memory within the run.
	Memory []byte
	// Zone is the user's time zone; "" when it is unknown.
	Zone string
	// Variables are the session's variables when an internal action began, JSON by name;
	// nil for other actions. They must not be changed.
	Variables map[string]string
	// Keep performs an operation on a key-value relic of the session; for a feed it only
	// reads. nil without a session.
	Keep func(ctx context.Context, k KeepCall) (result string, err error)
	// Feeds performs an internal action on the session's feeds and records the change; nil
	// for other actions.
	Feeds func(ctx context.Context, action, args string) (result string, err error)
	// Session reads other sessions; nil if the host offers none.
	Session Reader
	// Child records a run of a child session; nil where none are recorded. It may be called
	// until the tool returns.
	Child func(messages.ChildLink)
	// Feed is the feed for whose value an agent is asked; nil for an action.
	Feed *FeedCall
	// Progress shows those who follow the session how far the call is; nil where none do.
	Progress func(done, total int64, text string)
	// Basis is the Form.Basis that a person has approved, as JSON; "" if no approval was
	// needed.
	Basis string
}

// KeepCall is one operation on a catalog.KeyValueRelic, as Host.Keep takes it.
type KeepCall struct {
	Relic  string
	Args   string // JSON object: the operation and its parameters
	Key    string // idempotency key: a repeated call changes nothing
	Limits messages.RelicLimits
	Scope  string // messages.ScopeUser or ScopeTenant; "" for the session
}

// FeedCall is a fetch of a feed of an agent.
type FeedCall struct {
	ID    string // of the feed
	Fresh bool   // the fetch has a session of its own
}

// Reader reads the OUTPUT of sessions. It does not check access: its caller must.
type Reader interface {
	// Output returns the OUTPUT of the session's last decided turn; ok is false when the
	// session does not exist.
	Output(ctx context.Context, of messages.SessionKey) (text string, ok bool, err error)
}
