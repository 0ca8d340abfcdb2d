package wake

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// alarms wakes suspended sessions whose questions expire (docs/spec/design.md §7). The store
// keeps the index, and there is one timer for all of them: a suspended session that
// sleeps costs nothing here.
type alarms struct {
	next atomic.Int64  // when the timer rings, in Unix nanoseconds; 0 when it does not
	look chan struct{} // capacity 1: something may expire before that
	done chan struct{}
}

func (a *alarms) init() {
	a.look, a.done = make(chan struct{}, 1), make(chan struct{})
}

// Suspended notes that a session waits until a time.
func (w *Waker) Suspended(until time.Time) {
	if next := w.alarms.next.Load(); next != 0 && next <= until.UnixNano() {
		return
	}
	select {
	case w.alarms.look <- struct{}{}:
	default: // it is going to look anyway
	}
}

// alarmClock is the one timer.
func (w *Waker) alarmClock() {
	defer close(w.alarms.done)
	if w.Agent == nil || !w.Alone {
		return
	}
	ctx := w.ctx
	pace := pacer{every: time.Second / time.Duration(w.Boot.PerSecond), now: w.Now}
	seen := int64(0) // everything that expired until then was woken, or cannot be
	for {
		heads, err := w.Store.Wakes(ctx, seen, w.Boot.Page)
		now := w.Now().UnixNano()
		due := int64(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Log.Error("the suspended sessions cannot be listed", zap.Error(err))
			due = now + int64(time.Minute)
		}
		for i := range heads {
			if heads[i].Wake > now {
				due = heads[i].Wake
				break
			}
			seen = heads[i].Wake
			if !pace.wait(ctx) {
				return
			}
			w.expire(ctx, &heads[i])
		}
		if due == 0 && len(heads) > 0 {
			continue // the page was full of what is over
		}
		if !w.sleepUntil(ctx, due) {
			return
		}
	}
}

// sleepUntil waits for a time, 0 being none, or until Suspended reports another
// session. It reports whether to go on.
func (w *Waker) sleepUntil(ctx context.Context, due int64) bool {
	w.alarms.next.Store(due)
	defer w.alarms.next.Store(0)
	var rings <-chan time.Time
	if due != 0 {
		t := time.NewTimer(time.Duration(due - w.Now().UnixNano()))
		defer t.Stop()
		rings = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-rings:
	case <-w.alarms.look:
	}
	return true
}

// expire wakes a session, which looks at its questions.
func (w *Waker) expire(ctx context.Context, head *journal.Head) {
	agent, err := w.Agent(ctx, head)
	if err == nil && agent == nil {
		w.Log.Warn("an approval has expired, and its session waits to be opened: its agent is not known here", zap.String("SID", head.SID))
		return
	}
	var key messages.SessionKey
	if err == nil {
		key, err = messages.ParseSID(head.SID)
	}
	if err == nil {
		err = w.Expire(ctx, key, agent)
	}
	if err != nil && ctx.Err() == nil && !elsewhere(err) {
		w.Log.Error("a session whose approval has expired cannot be woken", zap.String("SID", head.SID), zap.Error(err))
	}
}
