package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// status is an exit status. As an error it says that a command did its work and
// has printed what came of it.
type status int

// The exit statuses; the root help documents them.
const (
	exitOK          status = 0   // done; a run or envelope that ended DONE, an envelope that ended CONTINUE
	exitFailure     status = 1   // it could not be done
	exitUsage       status = 2   // flags, files, settings, names
	exitHalt        status = 3   // HALT
	exitDifference  status = 4   // verify or replay found one
	exitConform     status = 5   // a conformance vector failed or could not be run; of sim: an invariant did not hold
	exitAbort       status = 6   // ABORT
	exitSuspended   status = 7   // the run waits for approval
	exitUnsettled   status = 8   // serve ended with turns in flight; the next start goes on with them
	exitBelow       status = 9   // eval: a threshold does not hold, or attempts were not run; of bench: a threshold does not hold
	exitInterrupted status = 130 // as shells have it for SIGINT
)

const exitHelp = `Exit status:
  0    done: the decision was DONE (exec: DONE or CONTINUE)
  1    it could not be done; of tour: a session ended otherwise than expected
  2    usage or configuration: flags, files, manifests, keys, names of sessions
  3    the decision was HALT
  4    verify, replay or sessions diff found a difference
  5    a conformance vector failed or could not be run; of sim: an invariant did not hold
  6    the decision was ABORT
  7    the run waits for approval; stile approvals answers
  8    serve ended with turns in flight: the next start goes on with them
  9    a threshold of eval or bench does not hold, or attempts of eval were not run
  130  interrupted`

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// statusOf is the exit status of a decision.
func statusOf(d stile.Decision) error {
	switch d {
	case stile.Halt:
		return exitHalt
	case stile.Abort:
		return exitAbort
	}
	return nil
}

// report prints what went wrong, one line a mistake, and gives the exit status.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	var at status
	var wrong []error
	for _, e := range leaves(err) {
		if s, ok := errors.AsType[status](e); ok {
			at = s
			continue
		}
		wrong = append(wrong, e)
	}
	if len(wrong) == 0 {
		return int(at)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(a.err, "stile: interrupted")
		return int(exitInterrupted)
	}
	for _, e := range wrong {
		fmt.Fprintf(a.err, "stile: %s\n", harmless(e.Error()))
	}
	if !a.ran {
		fmt.Fprintf(a.err, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return int(exitUsage)
	}
	at = exitUsage
	for _, e := range wrong {
		if !usage(e) {
			at = exitFailure
		}
	}
	return int(at)
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// usage tells the caller's mistakes from failures. A session that is not there is
// a name that was mistyped.
func usage(err error) bool {
	var e *messages.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case messages.ErrConfig, messages.ErrInvalid, messages.ErrConflict, messages.ErrUserdataSchema:
		return true
	case messages.ErrNotFound:
		return e.Reason != stile.ApprovalUnknown // as any answer to an approval that is refused
	case messages.ErrJournal:
		return journal.IsNotFound(err)
	}
	return false
}
