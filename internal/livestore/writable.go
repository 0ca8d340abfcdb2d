package livestore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/journal"
)

// metaProbe is the meta key of a value that says nothing: that it can be written does.
const metaProbe = "probe"

// ProbePause is the least time between two attempts to write to a journal that failed.
const ProbePause = 5 * time.Second

// Writable reports whether the journal takes what sessions append: nil, or the failure of
// the last commit, ERR_JOURNAL. While commits succeed it writes nothing, and looks whether
// the file is in its place.
// After one that failed there may be no further commit, so that asking is what finds out
// that the disk has room again: the journal is opened anew and one small value is
// written, at most every ProbePause and until that succeeds.
func (w *Store) Writable(ctx context.Context, writer *groupcommit.Writer, now time.Time) error {
	failed := w.failed.Load()
	if failed == nil {
		g, ok := w.Store.(interface{ Stands() error })
		if !ok {
			return nil
		}
		err := g.Stands()
		if err != nil {
			w.note([]error{err})
		}
		return err
	}
	p := &w.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || now.Sub(p.at) >= ProbePause {
		p.at = now
		if err := writer.Reopen(ctx); err != nil {
			return err
		}
		if err := w.PutMeta(ctx, metaProbe, nil); err != nil {
			return err
		}
		w.failed.CompareAndSwap(failed, nil) // unless a commit has failed since
	}
	if failed = w.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// probe is the latest attempt to write to a journal that failed.
type probe struct {
	mu sync.Mutex
	at time.Time
}

// appending keeps how commits went last, for Writable: what a full disk or a server that is
// gone refuses, not what a fence does.
type appending struct {
	failed atomic.Pointer[error]
	probe  probe
}

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
