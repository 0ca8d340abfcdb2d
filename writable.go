package stile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed14be6753/stile/journal"
)

// metaProbe is the meta key of a value that says nothing: that it can be written does.
const metaProbe = "probe"

// ProbePause is the least time between two attempts to write to a journal that failed.
const ProbePause = 5 * time.Second

// Writable tells whether the journal takes what sessions append: nil, or the failure of
// the last commit, ERR_JOURNAL. While commits succeed it costs nothing and writes nothing.
// After one that failed nobody may come any more to make another, so that asking is what
// finds out that the disk has room again: the journal is opened anew and one small value
// is written, at most every ProbePause and until that succeeds.
func (rt *Runtime) Writable(ctx context.Context) error {
	failed := rt.watched.failed.Load()
	if failed == nil {
		return nil
	}
	p := &rt.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := rt.cfg.Now(); p.at.IsZero() || now.Sub(p.at) >= ProbePause {
		p.at = now
		if err := rt.writer.Reopen(ctx); err != nil {
			return closedError(err)
		}
		if err := rt.watched.PutMeta(ctx, metaProbe, nil); err != nil {
			return closedError(err)
		}
		rt.watched.failed.CompareAndSwap(failed, nil) // unless a commit has failed since
	}
	if failed = rt.watched.failed.Load(); failed != nil {
		return closedError(*failed)
	}
	return nil
}

// probe is when somebody tried last whether a journal that failed takes writes.
type probe struct {
	mu sync.Mutex
	at time.Time
}

// appending keeps how commits went last, for Writable: what a full disk or a server that is
// gone refuses, not what a fence does.
type appending struct{ failed atomic.Pointer[error] }

func (a *appending) note(errs []error) {
	for i := range errs {
		switch reason := journal.ReasonOf(errs[i]); {
		case errs[i] == nil:
			if a.failed.Load() != nil {
				a.failed.Store(nil)
			}
		case reason == journal.ReasonIO, reason == journal.ReasonUnavailable:
			a.failed.Store(&errs[i])
		}
	}
}
