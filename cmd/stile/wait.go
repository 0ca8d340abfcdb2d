package main

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// Pauses between attempts to open the journal: the first, doubled up to the last.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// quietFor is how long a first attempt may take before the log says that the host waits.
	quietFor = 2 * time.Second
	// waitWord is how often the log says that the host still waits.
	waitWord = 30 * time.Second
	// moreTime is how long a service manager is asked to wait for the next such word.
	moreTime = "EXTEND_TIMEOUT_USEC=90000000"
)

// waitFor makes attempts at something that needs the database until one succeeds, fails for a reason that is
// not transient, or ctx ends. It says so in the log at the beginning, from time to time and at the end, and
// calls word with each line but the last. An attempt calls answered when the database has answered it: it
// may take its time from then on.
func waitFor[T any](ctx context.Context, log *zap.Logger, word func(), transient func(error) bool, open func(ctx context.Context, answered func()) (T, error)) (T, error) {
	type outcome struct {
		it  T
		err error
	}
	done, answers := make(chan outcome, 1), make(chan struct{}, 1)
	attempt := func() {
		it, err := open(ctx, func() {
			select {
			case answers <- struct{}{}:
			default: // it has said so
			}
		})
		done <- outcome{it, err}
	}
	began, waits := time.Now(), false
	var last error
	due := began.Add(quietFor)
	next := time.NewTimer(quietFor)
	defer next.Stop()
	tell := func() {
		log.Warn("waiting for the database of the journal", zap.Duration("since", time.Since(began)), zap.Error(last))
		word()
		waits, due = true, time.Now().Add(waitWord)
		next.Reset(waitWord)
	}
	pause := firstRetry
	var again <-chan time.Time
	go attempt()
	for {
		select {
		case <-next.C:
			tell()
		case <-answers:
			next.Stop()
		case <-again:
			again = nil
			go attempt()
		case <-ctx.Done():
			if again == nil { // what an attempt opens has to be closed
				o := <-done
				return o.it, o.err
			}
			var none T
			return none, ctx.Err()
		case o := <-done:
			if o.err == nil || !transient(o.err) || ctx.Err() != nil {
				if waits && o.err == nil {
					log.Info("the database of the journal answers", zap.Duration("after", time.Since(began)))
				}
				return o.it, o.err
			}
			select {
			case <-answers: // of the attempt that has failed
			default:
			}
			if last = o.err; !waits {
				tell()
			} else {
				next.Reset(time.Until(due))
			}
			again = time.After(pause)
			pause = min(2*pause, lastRetry)
		}
	}
}
