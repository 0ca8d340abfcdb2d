// Package supervisor is the host's own and no part of the public API: it may change in any release.
//
// It says what a failure becomes: strategies are values, and a
// failure of a child is one Failure that its parent turns into a HALT
// (docs/spec/design.md §4).
//
// Invariants:
//   - the reason of a failure, its stack and the child it hit always reach the
//     parent: protoactor gives them to a strategy alone, so ours pass them on;
//   - nothing escalates past a session. A child of a turn is stopped, never
//     restarted; a session is restarted from the journal within a budget, then
//     stopped and reported;
//   - a stack goes to the log, never into a record or a message to a user.
package supervisor

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/clip"
)

// Failure tells a parent that a child failed. Panic is what it panicked with, and For what that
// is to the parent: nil for a defect of the child itself.
type Failure struct {
	Who   *actor.PID
	Panic any
	Stack []byte
	For   any
	// Stopped reports whether the child is gone; otherwise it is being restarted, or goes on.
	Stopped bool
}

// Crash is the panic of foreign code, carried from the goroutine it happened on
// to the actor that answers for it: the actor panics with it, so that one path
// leads from every crash to the strategy.
type Crash struct {
	Panic any
	Stack []byte
	For   any // what the crash is to the actor's parent, set by the actor
}

// Breach is what an actor panics with whose work met a bound: one path leads from every breach
// to the strategy, the one of crashes.
type Breach struct {
	For  any // what the breach is to the actor's parent
	Text string
}

// Error returns the text of the breach.
func (b *Breach) Error() string { return b.Text }

// Error makes a Crash readable in protoactor's own log lines, without the stack.
func (c *Crash) Error() string { return Detail(c.Panic) }

// Guard runs f and reports its panic. A runtime.Goexit in f is a crash too: it
// would otherwise leave a turn without an answer. report runs before the goroutine
// ends, also then, when nothing behind the call of Guard does.
func Guard(f func(), report func(*Crash)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		switch p := recover().(type) {
		case nil:
			report(&Crash{Panic: "the goroutine ended with runtime.Goexit", Stack: debug.Stack()})
		case *Crash: // passed on from another goroutine
			report(p)
		default:
			report(&Crash{Panic: p, Stack: debug.Stack()})
		}
	}()
	f()
	returned = true
}

// maxDetailBytes bounds what of a panic's text goes into a record.
const maxDetailBytes = 200

// Detail is the text of a panic for records and users: its type and message,
// bounded, without a stack.
func Detail(p any) string {
	if c, ok := p.(*Crash); ok {
		p = c.Panic
	}
	var s string
	switch p := p.(type) {
	case error:
		s = p.Error()
	case string:
		s = p
	default:
		s = fmt.Sprintf("%v", p)
	}
	return "panic: " + clip.Short(s, maxDetailBytes)
}

// A Part is what a failure is (Crash.For) that concerns a part of an actor's state. The actor goes
// on, and begins that part anew when it gets the Failure.
type Part interface {
	// Part names the part.
	Part() string
}

// OfTurn is the strategy of a session over its children: stop the child and tell the session; or,
// when only a part of the child's state has failed, tell the child, and let it go on.
type OfTurn struct{}

// HandleFailure implements actor.SupervisorStrategy.
func (OfTurn) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	f := failureOf(child, reason, true)
	if _, ok := f.For.(Part); ok {
		f.Stopped = false
		sys.Root.Send(child, f)
		sup.ResumeChildren(child)
		return
	}
	sup.StopChildren(child)
	report(sys, sup, f)
}

// OfSessions is the strategy of the root over the sessions: restart from the
// journal, at most Restarts times within Within, then stop.
type OfSessions struct {
	Restarts int           // 0 is 3
	Within   time.Duration // 0 is a minute
}

// HandleFailure implements actor.SupervisorStrategy.
func (s OfSessions) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, _ any) {
	restarts, within := s.Restarts, s.Within
	if restarts == 0 {
		restarts = 3
	}
	if within == 0 {
		within = time.Minute
	}
	rs.Fail()
	stop := rs.NumberOfFailures(within) > restarts
	if stop {
		rs.Reset()
		sup.StopChildren(child)
	} else {
		sup.RestartChildren(child)
	}
	report(sys, sup, failureOf(child, reason, stop))
}

func failureOf(child *actor.PID, reason any, stopped bool) *Failure {
	f := &Failure{Who: child, Panic: reason, Stopped: stopped}
	switch r := reason.(type) {
	case *Crash:
		f.Panic, f.Stack, f.For = r.Panic, r.Stack, r.For
	case *Breach:
		f.For = r.For
	default:
		// The strategy runs on the failing child's goroutine or its parent's; this
		// stack still shows where the report came from when the panic had no Crash.
		f.Stack = debug.Stack()
	}
	return f
}

// report sends the failure to the supervising actor. Supervisor does not expose
// its PID, but every supervisor is an actor's context.
func report(sys *actor.ActorSystem, sup actor.Supervisor, f *Failure) {
	if c, ok := sup.(interface{ Self() *actor.PID }); ok {
		sys.Root.Send(c.Self(), f)
	}
}
