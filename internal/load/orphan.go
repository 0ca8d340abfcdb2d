package load

import (
	"context"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// orphaned returns which runs of a session are to be cancelled, and by whom, because they are for
// an action that has ended, or for a fetch of a feed by a process that is gone; "" for any other.
// The host that ended the action died before it could cancel the child's run.
// What the parent has on disk is what counts. It has the action's start in front of the
// child's first record, and it is asked when a child is woken that has something open,
// which is rare.
func (l *Loader) orphaned(ctx context.Context, head *journal.Head, state *turn.State) (by string, runs []int64) {
	open := driver.UnawaitedRuns(state)
	if len(open) == 0 {
		return "", nil
	}
	link, err := journal.Parent(ctx, l.Store, head.Inc)
	if link == nil && err == nil {
		return "", nil
	}
	if err == nil {
		if _, ok := driver.FeedOf(link); ok {
			return driver.Unawaited(link), open
		}
		if !driver.HasChildRun(state) {
			return "", nil
		}
	}
	var parent turn.State
	if err == nil {
		var inc messages.Incarnation
		if err = inc.UnmarshalText([]byte(link.Incarnation)); err == nil {
			_, parent, err = State(ctx, l.Store, inc)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Error("whether a child session is waited for cannot be read", zap.String("SID", head.SID), zap.Error(err))
		}
		return "", nil
	}
	if !driver.Orphaned(link, &parent) {
		return "", nil
	}
	return driver.Unawaited(link), []int64{driver.ChildRun}
}
