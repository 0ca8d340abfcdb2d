// Package target is the host's own and no part of the public API: it may change in any release.
//
// It has the runtimes that a load can be run against: agents in this process, a host
// of stile over HTTP, a server that speaks OpenAI's chat completions, and one that answers at
// once, which shows what the bench itself takes.
//
// What holds: every wait ends with the submit's context; answers are read up to a bound; the text
// of an answer is in no error.
package target

import (
	"context"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/process"
)

// Null answers every submit at once.
type Null struct{}

// Name implements load.Target.
func (Null) Name() string { return "null" }

// Do implements load.Target.
func (Null) Do(_ context.Context, _ *load.Request, w load.Watcher) (string, error) {
	w.Accepted()
	w.Texts(1, 1)
	return "DONE", nil
}

// Usage implements load.Target.
func (Null) Usage(context.Context) measure.Usage { return process.Own() }
