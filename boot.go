package stile

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/journal"
)

// Boot says how a runtime takes up what was open when the process before it ended.
// It does so for the sessions of Config.Agents; every other session waits until it
// is opened (docs/decisions/011).
type Boot struct {
	// Off leaves every session alone until it is opened, also suspended ones whose
	// approvals expire.
	Off bool
	// Concurrency bounds how many sessions are loaded and settled at once; 0 is 16.
	Concurrency int
	// PerSecond bounds how many are begun in a second; 0 is 50. Each may go on with a
	// turn, and asks its model then.
	PerSecond int
}

// BootReport counts what the boot scan did.
type BootReport = actors.BootReport

// Booted waits until the scan of the start is over, and tells what it did: how many
// sessions had something open, how many of them run again or have ended, how many
// wait to be opened because none of Config.Agents is theirs. Without Config.Agents
// there is no scan. The error is the journal's, or ctx's.
func (rt *Runtime) Booted(ctx context.Context) (BootReport, error) { return rt.host.Boot(ctx) }

// Status says in a word what a session is about.
type Status string

// The statuses of sessions.
const (
	StatusIdle    Status = "idle"    // nothing is open
	StatusRunning Status = "running" // a run is in flight
	// StatusSuspended: the run in flight waits for an approval.
	StatusSuspended Status = "suspended"
	// StatusInterrupted: a run or an input is open, and no process is at it. It goes on
	// when the session is opened, or when a runtime starts that knows its agent.
	StatusInterrupted Status = "interrupted"
	StatusClosed      Status = "closed"
	StatusRetired     Status = "retired" // another incarnation has its name now
)

// Status tells what a session that was listed is about. A runtime's own archive
// knows what runs in it. Any other looks whether a runtime works on the journal, and
// whether it has touched the session since it started.
func (a *Archive) Status(ctx context.Context, h journal.Head) (Status, error) {
	switch {
	case !h.Live:
		return StatusRetired, nil
	case h.Closed:
		return StatusClosed, nil
	case h.Suspended():
		return StatusSuspended, nil
	case !h.Open && h.Queued == 0:
		return StatusIdle, nil
	}
	running, err := a.running(ctx, h)
	if err != nil || running {
		return StatusRunning, err
	}
	return StatusInterrupted, nil
}

func (a *Archive) running(ctx context.Context, h journal.Head) (bool, error) {
	if a.awake != nil {
		return a.awake(h.SID), nil
	}
	store, ok := a.store.(interface {
		Attended() (since time.Time, attended bool, err error)
	})
	if !ok {
		return false, nil
	}
	since, attended, err := store.Attended()
	if err != nil || !attended {
		return false, err
	}
	for r, err := range a.store.Read(ctx, h.Inc, h.Seq, h.Seq) {
		if err != nil {
			return false, err
		}
		return !r.TS.Before(since), nil
	}
	return false, nil
}
