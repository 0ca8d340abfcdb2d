// Package wake asks for sessions that no client asks for: those that a dead process left open,
// those whose questions expire, and child sessions whose action is gone.
//
// Invariants:
//   - a session is asked for only where no other process runs the sessions of the store, and
//     where its agent is known here;
//   - no more sessions begin in a second than Boot allows, and none goes on while the budget of
//     bytes is used up;
//   - a session that waits costs nothing here: the store keeps the index of times, and one timer
//     rings for all.
//
// It settles nothing itself: a session that is woken settles what it finds.
package wake

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Config is what a Waker needs of its host.
type Config struct {
	Store  journal.Store
	Intake *intake.Intake
	Log    *zap.Logger
	Now    func() time.Time
	// Agent finds the agent of a session; nil means that this process does not know it.
	Agent func(context.Context, *journal.Head) (*compiled.Agent, error)
	// Alone reports that no other process runs the sessions of the store.
	Alone bool
	Boot  Boot
	// What is asked of a session, which is awake then: Open to settle what is open, Expire to
	// look at its questions, Cancel to end what is open.
	Open, Expire func(ctx context.Context, key messages.SessionKey, agent *compiled.Agent) error
	// Run is one run of it, or 0 for what is in flight.
	Cancel func(ctx context.Context, key messages.SessionKey, agent *compiled.Agent, run int64, by string) error
	// CancelAt has another host cancel the run of a child session that it runs (run 0: what is in
	// flight); nil where hosts do not forward. An error with lease.ReasonElsewhere says that the host
	// did nothing, or does not answer.
	CancelAt func(ctx context.Context, owner lease.Host, run messages.ChildLink) error
}

// The defaults of Boot; DefaultPerSecond is for others too who take up sessions.
const (
	defaultConcurrency = 16
	DefaultPerSecond   = 50
	defaultPage        = 256
)

// Boot says how a host that starts takes up what dead processes left open
// (docs/spec/design.md §7): runs that are open and inputs that wait. The zero value takes up nothing.
type Boot struct {
	On bool
	// Concurrency bounds the sessions that are being loaded and settled at once, and
	// PerSecond how many begin in a second: every one may go on with a turn, and
	// asks a model then. 0 means the defaults.
	Concurrency int
	PerSecond   int
	// Page is how many heads are held at once; 0 means the default.
	Page int
}

// Report counts what a scan did so far.
type Report struct {
	Found   int64 // sessions with something open
	Settled int64 // they run again, or have ended
	NoAgent int64 // this host does not know their agent: they wait to be opened
	Failed  int64 // they could not be loaded; the log says why
}

// Waker wakes the sessions of a host. It is safe for concurrent use.
type Waker struct {
	Config
	ctx    context.Context // until Stop
	cancel context.CancelFunc
	scan   scan
	alarms alarms
}

// New makes a waker, which does nothing before Start.
func New(cfg Config) *Waker {
	w := &Waker{Config: cfg}
	b := &w.Boot
	if cfg.Agent == nil || !cfg.Alone {
		b.On = false
	}
	if b.Concurrency <= 0 {
		b.Concurrency = defaultConcurrency
	}
	if b.PerSecond <= 0 {
		b.PerSecond = DefaultPerSecond
	}
	if b.Page <= 0 {
		b.Page = defaultPage
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.scan.done = make(chan struct{})
	w.alarms.init()
	return w
}

// Start begins the boot scan and the clock of alarms, once.
func (w *Waker) Start() {
	go w.boot()
	go w.alarmClock()
}

// Stop wakes no session from now on. It does not wait.
func (w *Waker) Stop() { w.cancel() }

// Wait returns when nothing of the waker runs, after Stop.
func (w *Waker) Wait() {
	<-w.scan.done
	<-w.alarms.done
}
