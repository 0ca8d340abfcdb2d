// Package seam is what the packages tools and tools/catalog share and no author of a
// tool needs: how a tool that was not written by hand takes its arguments, and what the
// host's own tools know of the session.
package seam

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// Form is how a tool takes its arguments. The zero value coerces them by Tool.Params. C
// is tools.Call.
type Form[C any] struct {
	// Bound makes Pure for one program, for a tool that needs to know what the program
	// may call.
	Bound func(names func() []string) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error)
	// Prepare judges and completes the arguments before anything else is done
	// with them; set by Define, whose tools take named arguments too. It replaces
	// the coercion by Params, which then only describe.
	Prepare func([]neuroscript.Value) ([]neuroscript.Value, error)
	// Name is Prepare for arguments that are named already: a map in them is an argument.
	// nil gives Prepare the object as it is.
	Name func([]neuroscript.Entry) ([]neuroscript.Value, error)
	// Appends is neuroscript.Tool.Appends.
	Appends bool
	// Direct does the work on JSON as it was written, which values of programs would
	// round; set by catalog.NewForeign.
	Direct func(ctx context.Context, c *C, args string) (result string, err error)
	// Schema is the JSON schema of the arguments object, when Params alone would
	// say less than is known.
	Schema string
	// Basis is what a call rests on beside its arguments, by name: digests of what may be
	// another tomorrow, such as a folder. It asks nothing and waits for nothing.
	Basis func(sid string) map[string]string
}

// Host is what the host's own tools know of their call beside what authors do.
type Host struct {
	// Memory is the dialect's, within the run.
	Memory []byte
	// Zone is the user's time zone, "" unknown.
	Zone string
	// Variables are the session's own, JSON by name, as they were when an internal
	// action began; nil for other actions. They must not be changed.
	Variables map[string]string
	// Keep does an operation on a key-value relic of the session; that of a feed only
	// reads. nil where there is no session.
	Keep func(ctx context.Context, k KeepCall) (result string, err error)
	// Feeds does an internal action on the session's feeds and notes what it changed;
	// nil for other actions.
	Feeds func(ctx context.Context, action, args string) (result string, err error)
	// Session reads other sessions; nil where a host offers none.
	Session Reader
	// Child records a run of a child session; nil where nothing keeps it. It may be
	// called until the tool returns.
	Child func(messages.ChildLink)
	// Basis is what a person has approved beside the arguments, as Form's of the tool says
	// it in JSON; "" where none was asked.
	Basis string
}

// KeepCall is one operation on a catalog.Shelf, as Host.Keep takes it.
type KeepCall struct {
	Relic  string
	Args   string // JSON object: the operation and its parameters
	Key    string // idempotency key: done again under it, nothing is done twice
	Limits messages.RelicLimits
}

// Reader reads what sessions have made public. The tool that asks has checked
// the right to it; a Reader checks nothing.
type Reader interface {
	// Output gives the OUTPUT of the session's last decided turn; ok is false
	// when there is no such session.
	Output(ctx context.Context, of messages.SessionKey) (text string, ok bool, err error)
}
