package scripted

import (
	"context"
	"iter"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Stream yields the line that answers req. It starts no goroutine, and a timer only for a
// delay, so it runs in a testing/synctest bubble and costs little when the script has no
// delays.
func (s *Script) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return llm.Bound(func(yield func(llm.Chunk, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return
		}
		r, err := s.choose(&req)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		play(ctx, r, yield)
	}, req.MaxReplyBytes)
}

func play(ctx context.Context, r *reply, yield func(llm.Chunk, error) bool) {
	w := waiter{start: time.Now()}
	defer w.stop()

	cancelled := false
	for i := range r.pieces {
		p := &r.pieces[i]
		if !cancelled && !w.until(ctx, p.atMS) {
			cancelled = true
		}
		if cancelled && !r.drain {
			break
		}
		if len(p.text) > 0 && !yield(llm.Chunk{Text: p.text}, nil) {
			return
		}
	}
	cancelled = cancelled || ctx.Err() != nil
	last := llm.Chunk{Usage: r.usage, CostMicroUSD: r.cost, Finish: r.finish}
	switch {
	case cancelled:
		last.Finish = messages.FinishCancelled
		yield(last, nil)
	case r.failure != nil:
		if (r.usage != messages.Usage{}) || r.cost != 0 {
			if !yield(last, nil) {
				return
			}
		}
		yield(llm.Chunk{}, llm.Fail(*r.failure, "the script says so"))
	default:
		yield(last, nil)
	}
}

// waiter waits for points in time counted from start, with one timer for all.
type waiter struct {
	start time.Time
	timer *time.Timer
}

// until waits for start + ms, and reports whether ctx has not ended before.
func (w *waiter) until(ctx context.Context, ms int64) bool {
	if ctx.Err() != nil {
		return false
	}
	if ms == 0 {
		return true
	}
	d := time.Until(w.start.Add(time.Duration(ms) * time.Millisecond))
	if d <= 0 {
		return true
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
