package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/livestore"
	"github.com/seed14be6753/stile/internal/wake"
	"github.com/seed14be6753/stile/journal"
)

// Boot configures recovery at the start: how a runtime continues the sessions that the
// previous process left open. Recovery covers the sessions of Config.Agents; every other
// session waits until it is opened (docs/decisions/011).
type Boot struct {
	// Off disables recovery: every session waits until it is opened, also a suspended
	// session whose approval expires.
	Off bool
	// Concurrency bounds how many sessions are loaded and settled at once; 0 is 16.
	Concurrency int
	// PerSecond bounds how many sessions are started in a second; 0 is 50. Each may continue
	// a turn, which calls its model.
	PerSecond int
}

func (b *Boot) perSecond() int {
	if b.PerSecond <= 0 {
		return wake.DefaultPerSecond
	}
	return b.PerSecond
}

// BootReport counts what the boot scan did.
type BootReport = wake.Report

// Booted waits until the boot scan is done and returns its counts: sessions with open work,
// sessions that run again or have ended, and sessions that wait to be opened because
// Config.Agents does not have their agent. Without Config.Agents there is no scan. The error
// is the journal's, or ctx's.
func (rt *Runtime) Booted(ctx context.Context) (BootReport, error) {
	return rt.host.Waker().Report(ctx)
}

// Status is the state of a session in one word.
type Status string

// The statuses of sessions.
const (
	StatusIdle    Status = "idle"    // nothing is open
	StatusRunning Status = "running" // a run is in flight
	// StatusSuspended: the run in flight waits for an approval.
	StatusSuspended Status = "suspended"
	// StatusInterrupted: a run or an input is open, and no process works on it. It continues
	// when the session is opened, or when a runtime with its agent starts.
	StatusInterrupted Status = "interrupted"
	StatusClosed      Status = "closed"
	StatusRetired     Status = "retired" // another incarnation uses its name now
)

// Status returns the state of a listed session. The archive of a runtime knows what runs in
// that runtime, and whether other runtimes have the journal open. An archive that was opened
// by itself reports StatusRunning when a runtime has the journal open and has written to the
// session since that runtime started.
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
	if a.owned != nil {
		return a.owned(ctx, h.SID)
	}
	if a.awake != nil {
		if a.awake(h.SID) || a.alone == nil {
			return a.awake(h.SID), nil
		}
		alone, err := a.alone()
		return !alone, err
	}
	return livestore.Touched(ctx, a.store, h)
}

// aloneOf returns the function by which a store reports whether no other runtime has it
// open; nil for a store that does not track this.
func aloneOf(store journal.Store) func() (bool, error) {
	if s, ok := store.(interface{ Alone() (bool, error) }); ok {
		return s.Alone
	}
	return nil
}

// watch passes on to local subscribers what other runtimes write, and continues the open
// sessions of runtimes that have gone, until stop is called.
func (rt *Runtime) watch() (stop func()) {
	alone := aloneOf(rt.store.Store)
	if rt.member != nil {
		alone = func() (bool, error) { return false, nil }
	}
	if alone == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := follow.Watch{Hub: rt.host.Hub(), Awake: rt.host.Awake, Alone: alone, Settle: func(ctx context.Context, sid string) {
		ses, err := rt.Find(ctx, sid)
		if err != nil {
			return // its agent is not registered here: the session waits to be opened
		}
		if h, err := ses.Head(ctx); err == nil && (h.Open || h.Queued > 0) && !h.Suspended() {
			_ = ses.Wake(ctx) // subscribers of the session get the error of a journal that fails
		}
	}}
	if rt.member != nil {
		w.Elsewhere = rt.elsewhere
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() { cancel(); <-done }
}
