package load

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// reopenPause is the least time between two attempts to open a failed journal anew.
const reopenPause = time.Second

// reopen opens the journal anew after an I/O failure: an activation that begins then
// reads its head from what is on disk, and nothing of what failed is tried again. It
// returns the failure that stands.
func (l *Loader) reopen(ctx context.Context) error {
	w := l.Writer
	if w.Err() == nil {
		return nil
	}
	l.reopening.Lock()
	defer l.reopening.Unlock()
	failed := w.Err()
	now := l.Now()
	if failed == nil || now.Sub(l.reopened) < reopenPause {
		return failed
	}
	l.reopened = now
	if err := w.Reopen(ctx); err != nil {
		l.Log.Error("the journal cannot be opened anew", zap.Error(err), zap.NamedError("failure", failed))
		return failed
	}
	l.Log.Warn("the journal was opened anew", zap.NamedError("failure", failed))
	return nil
}
