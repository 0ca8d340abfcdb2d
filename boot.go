package stile

import (
	"context"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/livestore"
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
// knows what runs in it, and that sessions of other runtimes are not run any more when
// these have gone. Any other looks whether a runtime works on the journal, and
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
		if a.awake(h.SID) || a.alone == nil {
			return a.awake(h.SID), nil
		}
		alone, err := a.alone()
		return !alone, err
	}
	return livestore.Touched(ctx, a.store, h)
}

// aloneOf asks a store that tracks which runtimes have it open whether the others have
// gone; nil for one that cannot say.
func aloneOf(store journal.Store) func() (bool, error) {
	if s, ok := store.(interface{ Alone() (bool, error) }); ok {
		return s.Alone
	}
	return nil
}

// watch has those who follow sessions here hear what other runtimes write, and goes on
// with what these left when they have gone, until stop is called.
func (rt *Runtime) watch() (stop func()) {
	alone := aloneOf(rt.store.Store)
	if alone == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := follow.Watch{Hub: rt.host.Hub(), Awake: rt.host.Awake, Alone: alone, Settle: func(ctx context.Context, sid string) {
		ses, err := rt.Find(ctx, sid)
		if err != nil {
			return // its agent is not known here: it waits to be opened
		}
		if h, err := ses.Head(ctx); err == nil && (h.Open || h.Queued > 0) && !h.Suspended() {
			_ = ses.Wake(ctx) // who follows it hears of a journal that fails
		}
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() { cancel(); <-done }
}
