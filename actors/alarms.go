package actors

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

// suspended says that a session waits until a time.
func (h *Host) suspended(until time.Time) {
	if next := h.alarms.next.Load(); next != 0 && next <= until.UnixNano() {
		return
	}
	select {
	case h.alarms.look <- struct{}{}:
	default: // it is going to look anyway
	}
}

// alarmClock is the one timer.
func (h *Host) alarmClock() {
	defer close(h.alarms.done)
	if h.cfg.Agent == nil || !h.cfg.Alone {
		return
	}
	ctx, cancel := h.untilClosing()
	defer cancel()
	pace := pacer{every: time.Second / time.Duration(h.cfg.Boot.PerSecond), now: h.cfg.Now}
	seen := int64(0) // everything that expired until then was woken, or cannot be
	for {
		heads, err := h.cfg.Store.Wakes(ctx, seen, h.cfg.Boot.Page)
		now := h.cfg.Now().UnixNano()
		due := int64(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.log.Error("the suspended sessions cannot be listed", zap.Error(err))
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
			h.expire(ctx, &heads[i])
		}
		if due == 0 && len(heads) > 0 {
			continue // the page was full of what is over
		}
		if !h.sleepUntil(ctx, due) {
			return
		}
	}
}

// sleepUntil waits for a time, 0 being none, or until the host reports that another
// session was suspended. It reports whether to go on.
func (h *Host) sleepUntil(ctx context.Context, due int64) bool {
	h.alarms.next.Store(due)
	defer h.alarms.next.Store(0)
	var rings <-chan time.Time
	if due != 0 {
		t := time.NewTimer(time.Duration(due - h.cfg.Now().UnixNano()))
		defer t.Stop()
		rings = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-rings:
	case <-h.alarms.look:
	}
	return true
}

// expire wakes a session, which looks at its questions.
func (h *Host) expire(ctx context.Context, head *journal.Head) {
	agent, err := h.cfg.Agent(ctx, head)
	if err == nil && agent == nil {
		h.log.Warn("an approval has expired, and its session waits to be opened: its agent is not known here", zap.String("SID", head.SID))
		return
	}
	var key messages.SessionKey
	if err == nil {
		key, err = messages.ParseSID(head.SID)
	}
	if err == nil {
		_, err = h.ask(ctx, &request{key: key, agent: agent, op: opExpire})
	}
	if err != nil && ctx.Err() == nil {
		h.log.Error("a session whose approval has expired cannot be woken", zap.String("SID", head.SID), zap.Error(err))
	}
}
