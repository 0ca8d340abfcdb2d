package main

import (
	"context"
	"iter"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// cancelWait is how long a cancelled run may take to end before it is left behind;
// the next start settles it then.
const cancelWait = 5 * time.Second

// follow shows a run until it has ended and gives its outcome. When ctx ends, the
// run is cancelled and followed on to its end: the cancel and the HALT are records
// like all others.
func follow(ctx context.Context, run *stile.Run, show func(stile.Update) error) (stile.Outcome, error) {
	return followFrom(ctx, run, run.Events, show)
}

// followFrom is follow of what events gives of the run.
func followFrom(ctx context.Context, run *stile.Run, events func(context.Context) iter.Seq2[stile.Update, error], show func(stile.Update) error) (stile.Outcome, error) {
	watch, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(cancelWait, func() { stop(ctx.Err()) })
		// It fails when the run has ended meanwhile, which is as good.
		_ = run.Cancel(watch, "interrupt")
	})()
	for u, err := range events(watch) {
		if err == nil {
			err = show(u)
		}
		if err != nil {
			return stile.Outcome{}, err
		}
	}
	return run.Decision(watch)
}

// updateJSON is an update as a line of JSON. The end of a run has its answer beside the
// record, as the value that it is.
func updateJSON(buf []byte, u stile.Update) ([]byte, error) {
	buf, err := stile.AppendUpdate(buf, u)
	if u.Record != nil && err == nil {
		if end, ok := u.Record.Body.(*messages.RunEnd); ok && end.Output != "" {
			buf = append(append(buf[:len(buf)-1], `,"output":`+end.Output...), '}')
		}
	}
	return append(buf, '\n'), err
}

// shower returns what shows updates: JSON lines, or the printer.
func (a *app) shower(asJSON bool) func(stile.Update) error {
	if !asJSON {
		return a.printer("").update
	}
	var buf []byte
	return func(u stile.Update) (err error) {
		if buf, err = updateJSON(buf[:0], u); err == nil {
			_, err = a.out.Write(buf)
		}
		return err
	}
}

// watcher returns what shows the updates of a run that is under way: on a terminal that
// can, growing text and a table of actions in place (live); done ends that.
func (a *app) watcher(asJSON bool) (show func(stile.Update) error, done func() error) {
	if asJSON || a.size == nil || !a.outTerminal || a.env("TERM") == "dumb" {
		return a.shower(asJSON), func() error { return nil }
	}
	l := newLive(a.out, a.colour(), a.size, time.Now)
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		l.run(stop)
	}()
	return l.update, func() error {
		close(stop)
		<-over
		return l.end()
	}
}

// conclude gives a run's exit status: an interrupt that ended it counts as one.
func conclude(ctx context.Context, d stile.Outcome, err error) error {
	if err != nil {
		return err
	}
	if ctx.Err() != nil && d.Reason == messages.ErrCancelled {
		return exitInterrupted
	}
	return statusOf(d.Decision)
}
